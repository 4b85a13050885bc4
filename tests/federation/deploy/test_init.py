"""``paceline deploy init``: what it makes, who may read it, what it refuses."""

import contextlib
import ipaddress
import os
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import tomllib
import warnings

import pytest

from paceline.runs.settings import make_settings
from tests.federation.deploy.processes import until

x509 = pytest.importorskip("cryptography.x509")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from paceline.cli.main import main


@pytest.fixture
def init(tmp_path, capsys):
    """The command as a user types it: its status, and what it says on both outputs."""

    def run(*words):
        try:
            main(["deploy", "init", *words])
        except SystemExit as ended:
            status = ended.code
        return status, " ".join("".join(capsys.readouterr()).split())

    return run


@pytest.fixture
def made(init, tmp_path):
    folder = tmp_path / "fed"
    status, told = init(
        str(folder), "--node", "north", "--node", "south", "--host", "fl.example.org", "--host", "::2"
    )
    assert status == 0 and "fl.example.org:18443" in told and "north, south" in told
    return folder


def test_private_keys_are_nobody_elses_and_everything_is_there(made):
    modes = {str(path.relative_to(made)): stat.S_IMODE(path.stat().st_mode) for path in made.rglob("*")}
    private = {name for name, mode in modes.items() if mode == 0o600}
    assert private == {"ca.key", "server.key", "nodes/north/key", "nodes/south/key"}
    for name in private:
        assert b"PRIVATE KEY" in (made / name).read_bytes()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    others = {"README.md", "ca.pem", "server.pem", "server.toml", "nginx.conf", "paceline-server.service"}
    node = {"key.pub", "ca.pem", "node.toml", "paceline-node.service", "supervise.sh"}
    shown = {name for name in modes if (made / name).is_file()} - private
    assert shown == others | {f"nodes/{name}/{file}" for name in ("north", "south") for file in node}


def test_the_certificate_names_the_hosts_and_loopback_and_is_signed(made):
    server = x509.load_pem_x509_certificate((made / "server.pem").read_bytes())
    authority = x509.load_pem_x509_certificate((made / "ca.pem").read_bytes())
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fl.example.org", "localhost"]
    addresses = [str(one) for one in names.get_values_for_type(x509.IPAddress)]
    assert addresses == ["::2", "127.0.0.1", "::1"]
    assert (made / "nodes/south/ca.pem").read_bytes() == (made / "ca.pem").read_bytes()
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(made / "server.pem", made / "server.key")


def test_nodes_have_keys_of_their_own_as_flower_wants_them(made):
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

    seen = set()
    for name in ("north", "south"):
        private = load_ssh_private_key((made / f"nodes/{name}/key").read_bytes(), None)
        public = load_ssh_public_key((made / f"nodes/{name}/key.pub").read_bytes())
        assert private.curve.name == "secp384r1" and private.public_key() == public
        seen.add(public.public_numbers())
    assert len(seen) == 2


def test_configuration_is_toml_that_names_files_that_are_there(made):
    server = tomllib.loads((made / "server.toml").read_text())
    assert server["federation"] == {"name": "paceline", "nodes": 2, "state": "state"}
    link = server["superlink"]
    assert ipaddress.ip_address(link["address"].partition(":")[0]).is_loopback
    for name in (link["authority"], link["certificate"], link["key"], *link["keys"]):
        assert (made / name).is_file()
    make_settings(server["run"]["algorithm"], server["run"]["settings"])
    assert set(server) == {"federation", "superlink", "run", "limits"}
    for client, name in enumerate(("north", "south")):
        node = tomllib.loads((made / f"nodes/{name}/node.toml").read_text())["node"]
        assert (node["client"], node["port"], node["superlink"]) == (client, 18101 + client, "fl.example.org:18443")
        assert (made / "nodes" / name / node["authority"]).is_file() and (
            made / "nodes" / name / node["key"]
        ).is_file()


def test_the_readme_has_its_own_names_in_it(made):
    text = (made / "README.md").read_text()
    assert "$" not in text and "https://fl.example.org:18443/v1/control/" in text
    assert "DNS:fl.example.org,IP:::2,DNS:localhost" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--node", "a/b"], "--node is 'a/b'"),
        (["--node", ".."], "--node is '..'"),
        (["--node", "-x"], "--node is '-x'"),
        (["--node", ""], "--node is ''"),
        (["--node", "a", "--node", "A"], "'A' is named twice"),
        (["--nodes", "0"], "0 nodes; wanted 1 to 1000"),
        (["--nodes", "2", "--node", "a"], "leave one out"),
        (["--host", "fl.example.org:8000"], "without a port"),
        (["--host", 'a"; return 200'], "--host is"),
        (["--host", "1.2.3"], "--host is '1.2.3'"),
        (["--host", "fe80::1%eth0"], "--host is"),
    ],
)
def test_a_refusal_leaves_nothing_behind(init, tmp_path, words, said):
    status, told = init(str(tmp_path / "new" / "fed"), *words)
    assert status == 1 and said in told
    assert not any(tmp_path.iterdir())


def test_nothing_is_written_over(init, made, tmp_path):
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    for place, said in ((made, "is not empty"), (made / "ca.pem", "is a file")):
        status, told = init(str(place))
        assert status == 1 and said in told
    link = tmp_path / "link"
    link.symlink_to(made)
    assert init(str(link))[0] == 1
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"fed", "link"}


def test_what_fails_half_way_leaves_nothing_behind(init, tmp_path, monkeypatch):
    from paceline.federation.deploy import making

    def full(path, data, mode):
        if path.name == "server.pem":
            raise OSError(28, "No space left on device")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)

    monkeypatch.setattr(making, "_write", full)
    status, told = init(str(tmp_path / "fed"))
    assert status == 1 and "No space left on device" in told
    assert not any(tmp_path.iterdir())


def test_without_flower_the_error_says_what_to_install(init, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "paceline.federation.deploy.certificates", raising=False)
    monkeypatch.delitem(sys.modules, "paceline.federation.deploy.readme", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    status, told = init(str(tmp_path / "fed"))
    assert status == 1 and "install the extra `flower`; see docs/install.md" in told
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(not shutil.which("sh"), reason="needs a shell")
def test_the_supervisor_starts_a_node_again_until_it_is_ended_itself(made, tmp_path):
    """Each start leaves a line; the third stays, and must go with its supervisor."""
    program = tmp_path / "bin/paceline"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/starts\n[ $(wc -l < {tmp_path}/starts) -lt 3 ] && exit 1\n'
        f"echo $$ > {tmp_path}/pid.part; mv {tmp_path}/pid.part {tmp_path}/pid; exec sleep 600\n"
    )
    program.chmod(0o755)
    script = made / "nodes/north/supervise.sh"
    script.write_text(script.read_text().replace("sleep 15", "sleep 0.01"))
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    with subprocess.Popen(
        ["sh", script], env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    ) as shell:
        try:
            until((tmp_path / "pid").exists, lambda: "a third start")
            shell.terminate()
            assert shell.wait(60) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    assert (tmp_path / "starts").read_text().splitlines() == ["join node.toml"] * 3
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
