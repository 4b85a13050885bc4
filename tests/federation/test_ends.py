"""Whatever ends the courier, and however long nobody answers: whoever waits gets an answer."""

import errno
import os
import queue
import threading
import time
from types import SimpleNamespace

import pytest
from flwr.proto.node_pb2 import NodeInfo

from paceline.clock import WallClock
from paceline.errors import SiteError
from paceline.federation.config import Limits
from paceline.federation.courier import LATE, Courier, Letter
from paceline.federation.members import Members
from paceline.federation.nodes import Nodes
from paceline.worlds.local.hosts import Scene
from tests.federation.memory import MemoryGrid, until
from tests.federation.test_faults import THREE
from tests.federation.test_worlds import played

ASKED = {"do": "bring", "client": 0, "wanted": 0, "nodes": [], "results": []}


class Silent:
    """A grid that knows one node, which never answers; ``pull`` is what asking for replies does."""

    def __init__(self, pull=lambda: []):
        self.pull, self.left = pull, 0

    def get_nodes(self):
        return [NodeInfo(node_id=100, public_key=b"")]

    def push_messages(self, messages):
        return ["m" for _ in messages]

    def pull_messages(self, message_ids):
        return self.pull()


def nodes_of(grid, tmp_path, seconds, **more):
    """Nodes of which client 0 is there."""
    clock = WallClock()
    scene, members = Scene(clock, {}, 1, tmp_path, print), Members(tmp_path / "clients.json")
    nodes = Nodes(grid, "run", Limits(seconds=seconds), scene, members, **more)
    nodes._node[0] = 100
    nodes._courier.start()
    return nodes, clock


def failing(problem):
    def fail(*_):
        raise problem

    return fail


@pytest.mark.parametrize("problem", [RuntimeError("a bug"), SystemExit(1)])
def test_when_the_courier_ends_whoever_waits_is_told(problem, tmp_path):
    nodes, clock = nodes_of(Silent(failing(problem)), tmp_path, 1e6)
    contact = nodes.of(0)
    for _ in range(2):  # who waits already, and who comes later
        with pytest.raises(SiteError, match=f"{type(problem).__name__}: "):
            contact.ask_now(ASKED, ())
    answers = queue.SimpleQueue()
    nodes.ask(0, ASKED, (), answers.put)
    assert answers.get(timeout=60) is None
    _, act = clock.next(None)
    with pytest.raises(SiteError, match=type(problem).__name__):
        act()
    nodes.stop()


def test_a_run_whose_courier_ends_fails_and_says_why(tmp_path):
    """Also where its clients score their own models, outside of the run's time."""
    grid = MemoryGrid(tmp_path, 3)
    pull = grid.pull_messages
    grid.pull_messages = lambda numbers: (
        failing(RuntimeError("a bug"))() if any("'score'" in str(words) for _, words in grid.sent) else pull(numbers)
    )
    with pytest.raises(AssertionError, match="RuntimeError: a bug"):
        played(grid, "fedavg", [*THREE, "every=1", "personal=true"], tmp_path / "run")


def test_a_superlink_that_neither_answers_nor_hangs_up_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("paceline.federation.courier.PARTING", 0.01)
    for_ever = threading.Event()
    nodes, _ = nodes_of(Silent(for_ever.wait), tmp_path, 0.05)
    assert nodes.of(0).ask_now(ASKED, ()) is None
    nodes.stop()
    for_ever.set()


def test_what_cannot_be_written_down_ends_the_run_and_not_only_a_thread(tmp_path):
    """A full disk is no outage of the SuperLink; the run can be gone on with."""
    grid = MemoryGrid(tmp_path, 1)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    nodes, clock = nodes_of(grid, tmp_path / "own", 1e6, on_trip=failing(full))
    with pytest.raises(OSError, match="No space left"):
        nodes.of(0).ask_now(ASKED, ())
    _, act = clock.next(None)
    with pytest.raises(OSError, match="No space left"):
        act()
    nodes.stop()
    grid.stop()


def gone(code):
    return SimpleNamespace(
        has_error=lambda: True, error=SimpleNamespace(code=code, reason="the message is not there")
    )


def test_a_node_that_is_slow_is_not_taken_for_a_superlink_that_is_away(tmp_path):
    """Flower says that a message that is too old is not there; then there is no time to send it again."""

    def pull():
        begun = time.monotonic()  # not before the letter's: then it is too late when this comes back
        until(lambda: time.monotonic() > begun + 0.2)
        return [gone(3)]

    nodes, _ = nodes_of(Silent(pull), tmp_path, 0.1)
    answers = queue.SimpleQueue()
    nodes.ask(0, ASKED, (), answers.put)
    assert answers.get(timeout=60).words["why"] == "no answer within 0.1 s"
    nodes.stop()


def test_a_letter_is_answered_once(tmp_path):
    """Late, it may come all the same."""
    given, came = [], threading.Event()

    def pull():
        came.wait(60)
        return [gone(0)]

    courier = Courier(Silent(pull), 1, lambda there: None, given.append)
    letter = Letter(100, {}, (), 0.05, lambda letter, reply: given.append(reply.code))
    courier.start()
    courier.send(letter)
    until(lambda: given)
    came.set()
    courier.stop()
    assert given == [LATE]
