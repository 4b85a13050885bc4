"""A real SuperLink with TLS and three registered keys: one of them claims a client that is away, in vain."""

import sys
from pathlib import Path

import pytest

from paceline.federation.flower import home
from paceline.federation.processes import Child, Children, environment
from paceline.federation.serving import Server
from paceline.federation.trying import free_ports
from paceline.runs.replay import replay

pytestmark = [pytest.mark.federation, pytest.mark.timeout(1800)]


def changed(file, *pairs):
    text = file.read_text()
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    file.write_text(text)


@pytest.fixture
def made(tmp_path):
    """Nodes ``one`` and ``two`` are clients 0 and 1; ``three`` is registered too, and says it is client 1."""
    from paceline.cli.main import main

    folder, ports = tmp_path / "fed", free_ports(4)
    with pytest.raises(SystemExit) as ended:
        main(["deploy", "init", str(folder), *["--node", "one", "--node", "two", "--node", "three"]])
    assert ended.value.code == 0
    server, address = folder / "server.toml", f"127.0.0.1:{ports[0]}"
    changed(server, ("nodes = 3", "nodes = 2"), ('"127.0.0.1:18000"', f'"{address}"'), ("clients=3", "clients=2"))
    changed(server, ("rounds=5", "rounds=2"))
    for place, name in enumerate(("one", "two", "three")):
        node = folder / "nodes" / name / "node.toml"
        text = [
            f'superlink = "{address}"' if line.startswith("superlink") else line
            for line in node.read_text().splitlines()
        ]
        node.write_text("\n".join(text))
        changed(node, (f"port = {18101 + place}", f"port = {ports[1 + place]}"))
    changed(folder / "nodes/three/node.toml", ("client = 2", "client = 1"))
    return folder


def joined(folder, name):
    file = folder / "nodes" / name / "node.toml"
    words = [sys.executable, "-m", "paceline", "join", str(file)]
    return Child(name, words, file.parent / "join.log", environment(home(file.parent / "state")))


@pytest.mark.parametrize("anew", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_registered_key_gets_no_other_client_and_its_own_again_under_another_number(anew, made):
    said, nodes = [], Children()
    server = Server(made / "server.toml", said.append)

    def tend():
        nodes.tend()
        if len(nodes.all) == 2 and any("is refused as a client" in line for line in said):
            nodes.add(joined(made, "two"))

    try:
        nodes.add(joined(made, "one"))
        nodes.add(joined(made, "three"))
        server.run(tend)
        assert replay(made / "runs/first").equal
        (refused,) = {line.partition("refused")[2] for line in said if "is refused" in line}
        assert "it says it is client 1, and has the key of client 2" in refused
        if anew:
            again(made, server, nodes)
    finally:
        nodes.stop()
    places = {name: made / "nodes" / name / "state" for name in ("one", "two", "three")}
    trained = {name for name, place in places.items() if any(place.glob("runs/*/devices/*/*"))}
    assert trained == {"one", "two"}


def again(made, server, nodes):
    """Every key is registered anew, with another number."""
    before = _numbers(server)
    for file in Path(server.config.state).glob("superlink.db*"):
        file.unlink()
    changed(made / "server.toml", ("runs/first", "runs/second"))
    second = Server(made / "server.toml", print)
    second.run(nodes.tend)
    assert replay(made / "runs/second").equal and not before & _numbers(second)


def _numbers(server):
    """All numbers that the SuperLink has given."""
    import sqlite3

    with sqlite3.connect(server.config.state / "superlink.db") as database:
        return {number for (number,) in database.execute("SELECT node_id FROM node")}
