"""How the server is started: at which address, with which words, and what it needs."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from paceline.errors import SettingError
from paceline.ui import serving


@pytest.fixture
def started(monkeypatch):
    """Lets the server be made and not run; what it would have served."""
    uvicorn = pytest.importorskip("uvicorn")
    made = []

    def run(self, sockets):
        made.append((self.config, sockets[0].getsockname()))
        sockets[0].close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    return made


def test_it_listens_at_this_machine_alone_and_says_where(started, root, capsys):
    serving.serve(root, "127.0.0.1", 0)
    (_, address), *_ = started
    assert address[0] == "127.0.0.1" and address[1] > 0
    said = capsys.readouterr().out
    assert said == f"paceline ui: http://127.0.0.1:{address[1]}/ shows the runs below {root}; Ctrl-C ends it\n"


def test_an_open_address_is_warned_of(started, root, capsys):
    serving.serve(root, "0.0.0.0", 0)
    said = capsys.readouterr().out
    assert said.startswith("warning: 0.0.0.0 can be reached from other machines, and there is no password")
    assert "ssh -L" in said and str(root) in said


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(root):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SettingError, match="choose another --port"):
        serving.serve(root, "127.0.0.1", taken.getsockname()[1])


def test_an_address_that_is_none_is_an_error(root):
    with pytest.raises(SettingError, match="cannot listen at"):
        serving.serve(root, "no.such.host.invalid", 0)


def test_a_directory_that_is_none_is_an_error(tmp_path):
    with pytest.raises(SettingError, match="no directory; name the one that your runs are in"):
        serving.serve(tmp_path / "nosuch", "127.0.0.1", 0)


def test_without_its_packages_it_says_how_to_install_them(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(SettingError, match=r"install the extra `ui`; see docs/install.md"):
        serving.serve(root, "127.0.0.1", 0)


HALF = {
    "a head": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "a form": b"POST /plan HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nsecret=",
    "nothing": b"",
}


@pytest.mark.parametrize("what", HALF)
def test_connections_that_ask_nothing_shut_nobody_out(root, what):
    command = [sys.executable, "-m", "paceline", "ui", str(root), "--port", "0"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        many = ExitStack()
        many.callback(server.send_signal, signal.SIGINT)  # at last, and whatever fails
        with many:
            port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
            for _ in range(99):
                half = many.enter_context(socket.create_connection(("127.0.0.1", port)))
                half.sendall(HALF[what])
            asked = http.client.HTTPConnection("127.0.0.1", port)
            asked.request("GET", "/")
            status = asked.getresponse().status
            asked.close()
        said = server.stderr.read()
    assert status == 200
    assert "Traceback" not in said
