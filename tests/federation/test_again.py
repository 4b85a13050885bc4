"""A server that was killed is started again at once; a run that has not ended is not replayed."""

import json
import subprocess
import sys

import pytest
import typer
from rich.console import Console

from paceline.cli.serve import followed
from paceline.errors import DataError, SettingError
from paceline.federation import serving
from paceline.federation.conducting import make
from paceline.federation.config import RunConfig, read_node, read_server
from paceline.federation.joining import join
from paceline.federation.trying import write_federation
from paceline.ledger.lock import Lock, started
from paceline.runs.performing import Hosting, perform
from paceline.runs.replay import replay
from paceline.worlds.local.checks import Checks
from tests.contract.test_resume_locally import WORDS
from tests.federation.memory import MemoryGrid

HOLDS = """
import pathlib, sys, time
from paceline.ledger.lock import Lock

with Lock(pathlib.Path(sys.argv[1])):
    print(1, flush=True)
    time.sleep(600)
"""


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.fixture
def server(tmp_path):
    """The file of a server whose run was interrupted."""
    words = [word for word in WORDS if not word.startswith("clients=")]
    file, _ = write_federation(tmp_path / "all", RunConfig(out=str(tmp_path / "out"), settings=words), 3)
    grid = MemoryGrid(tmp_path / "nodes", 3)
    with pytest.raises(KeyboardInterrupt):
        perform(make(read_server(file)), interrupt, None, Hosting(grid.hosts(), 60.0, Checks()))
    grid.stop()
    return file


@pytest.fixture
def left(server):
    """The server application of a server that was killed, which still writes."""
    config = read_server(server)
    config.state.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(config.out)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        holder = {"pid": process.pid, "started": started(process.pid)}
        (config.state / "server-0.json").write_text(json.dumps(holder))
        yield process
        process.kill()


def test_a_server_that_was_killed_is_started_again_at_once(server, left, monkeypatch):
    served, done = serving.Server(server, print), []
    monkeypatch.setattr(served, "start", lambda: done.append("start"))
    monkeypatch.setattr(served, "follow", lambda tend: done.append("follow"))
    served.run()
    assert done == ["start", "follow"] and left.poll() is not None


def test_of_two_servers_of_one_federation_one_is_refused_and_disturbs_nothing(server, left):
    with Lock(read_server(server).state), pytest.raises(SettingError, match="is being written by process"):
        serving.Server(server, print).run()
    assert left.poll() is None


def test_of_two_nodes_with_one_directory_one_is_refused(server):
    """They would train and answer the same tasks into the same files."""
    node = server.parent / "node0.toml"
    directory = read_node(node).directory
    directory.mkdir(parents=True)
    with Lock(directory), pytest.raises(SettingError, match="is being written by process"):
        join(node, print)


def test_a_run_that_has_not_ended_is_not_replayed(server):
    with pytest.raises(DataError, match="holds an unfinished run; finish it"):
        replay(read_server(server).out)


def test_json_of_a_run_that_was_interrupted_is_printed_too(server, capsys):
    with pytest.raises(typer.Exit):
        followed(interrupt, read_server(server).out, "paceline serve", Console(stderr=True), json=True)
    assert json.loads(capsys.readouterr().out)["status"] == "interrupted"
