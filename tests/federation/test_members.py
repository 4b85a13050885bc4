"""A client is whoever has its key, from the first time: while it is away, after a restart, with another number."""

import json
import logging
import threading

import pytest

from paceline.clock import WallClock
from paceline.errors import SettingError, WireError
from paceline.federation.config import Federation, Limits, ServerConfig, SuperLink
from paceline.federation.members import Members, members_of
from paceline.federation.nodes import Nodes
from paceline.runs.driver import drive, make_executor
from paceline.runs.local import make_local_run
from paceline.runs.recorder import describe
from paceline.runs.replay import ALONE
from paceline.runs.settings import make_settings
from paceline.worlds.local.hosts import Scene
from tests.federation.memory import MemoryGrid, MemoryNode
from tests.worlds.test_replay import SMALL


class Refusals(logging.Handler):
    """What is said of nodes that are refused."""

    def __init__(self):
        super().__init__()
        self.said, self.came = [], threading.Event()

    def emit(self, record):
        if "is refused as a client" in record.getMessage():
            self.said.append(record.getMessage())
            self.came.set()


@pytest.fixture
def refusals():
    handler, log = Refusals(), logging.getLogger("paceline.federation.nodes")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


@pytest.mark.parametrize("signed", [True, False])
def test_nobody_trains_in_the_place_of_a_client_that_is_away(signed, tmp_path, refusals):
    grid = MemoryGrid(tmp_path, 3)
    grid.nodes[201], grid.keys[201] = MemoryNode(1, tmp_path / "other"), b"another key"
    grid.away.add(201)
    grid.live(201)
    shown = grid.get_node_ids

    def fault(number, frame):
        """The client leaves with its second task, and another claims its number."""
        if number != 101 or frame.words["do"] != "tasks" or len(asked) == 2:
            return None
        asked.append(number)
        if len(asked) < 2:
            return None
        grid.away ^= {101, 201}
        return True

    def back():
        """It is back when that was refused."""
        grid.away -= {101} if refusals.said else set()
        return shown()

    asked, grid.fault, grid.get_node_ids = [], fault, back
    members = Members(tmp_path / "clients.json", signed=signed)
    words = [*SMALL, "clients=3", "rounds=4", "absence=wait"]
    run = make_local_run(make_settings("fedavg", words), workers=1, make_hosts=grid.hosts(members=members))
    drive([run], make_executor(ALONE))
    assert run.failure is None and run.world.ledger.visits >= 12
    assert {number for number, words in grid.sent if words["do"] == "tasks"} == {100, 101, 102}
    assert "node 201 is refused as a client: it says it is client 1, which has another key" in refusals.said[0]


def test_a_claim_is_refused_after_a_restart_of_the_server_too(tmp_path):
    path = tmp_path / "clients.json"
    assert Members(path, signed=True).admit(b"its key", {"client": 1}, 3) == 1
    again = Members(path, signed=True)
    with pytest.raises(WireError, match=f"is client 1, which has another key; .* into {path}"):
        again.admit(b"another key", {"client": 1}, 3)
    with pytest.raises(WireError, match="is client 2, and has the key of client 1"):
        again.admit(b"its key", {"client": 2}, 3)
    again.admit(b"its key", {"client": 1, "secret": "is not asked for"}, 3)
    with pytest.raises(WireError, match="is client 0, and nothing proves that"):
        again.admit(b"", {"client": 0, "secret": "x"}, 3)
    path.write_text("{}")
    assert Members(path, signed=True).admit(b"another key", {"client": 1}, 3) == 1


def nodes_of(members, tmp_path):
    clock = WallClock()
    scene = Scene(
        clock, describe(make_settings("fedavg", ["clients=3"])), 3, tmp_path / "run", lambda client, there: None
    )
    return Nodes(MemoryGrid(tmp_path, 3), "run", Limits(), scene, members)


def test_a_node_that_is_registered_anew_with_its_key_is_let_in(tmp_path):
    """Flower gives it another number, and the old one may still count as there."""
    from paceline.federation.courier import Letter
    from paceline.worlds.local.frames import Frame

    nodes = nodes_of(Members(tmp_path / "clients.json", signed=True), tmp_path)
    hello = [Letter(number, {}, (), 1.0, lambda letter, reply: None) for number in (101, 555, 666)]
    nodes._look({101: b"its key", 555: b"its key", 666: b"another key"})
    for letter, now in zip(hello, (101, 555, 555), strict=True):
        nodes._greeted(letter, Frame({"client": 1}))
        assert nodes._node == {1: now}


def written(tmp_path, count):
    from paceline.federation.deploy.certificates import make_node_keys

    for name in range(count):
        (tmp_path / f"{name}.pub").write_bytes(make_node_keys(str(name)).public)


def federation(tmp_path, keys, nodes, *, insecure=False):
    link = SuperLink(keys=[str(tmp_path / f"{name}.pub") for name in keys], insecure=insecure)
    return ServerConfig(federation=Federation(nodes=nodes, state=str(tmp_path)), superlink=link)


def test_keys_in_the_servers_file_belong_to_clients_in_their_order(tmp_path):
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    written(tmp_path, 3)
    one = public_key_to_bytes(load_ssh_public_key((tmp_path / "1.pub").read_bytes()))
    members = members_of(federation(tmp_path, [0, 1, 2], 2))
    for client in (0, 2):  # nobody has come yet
        with pytest.raises(WireError, match="the key of client 1"):
            members.admit(one, {"client": client}, 3)
    with pytest.raises(WireError, match="keys of the server's file"):
        members.admit(b"another", {"client": 1}, 3)
    members.admit(one, {"client": 1}, 3)
    assert not (tmp_path / "clients.json").exists()
    members_of(federation(tmp_path, [], 2)).admit(one, {"client": 0}, 3)
    assert json.loads((tmp_path / "clients.json").read_text()).keys() == {"0"}


@pytest.mark.parametrize(("keys", "said"), [([0], "1 entries and 1 keys"), ([0, 1, 1], "3 entries and 2 keys")])
def test_every_client_has_a_key_of_its_own(keys, said, tmp_path):
    written(tmp_path, 2)
    with pytest.raises(SettingError, match=f"{said}, but nodes is 2"):
        members_of(federation(tmp_path, keys, 2))
    members_of(federation(tmp_path, keys, 2, insecure=True))
    (tmp_path / "0.pub").write_text("ssh-rsa AAAA")
    with pytest.raises(SettingError, match=r"0\.pub is not a public key"):
        members_of(federation(tmp_path, [0, 1], 2))
