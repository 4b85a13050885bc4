"""Mishaps are sent again, or is a drop-out; a task counts once, and a run that was cut off goes on."""

import gc

import pytest

from paceline.errors import SettingError
from paceline.federation.config import Limits
from paceline.federation.nodes import AGAIN
from paceline.runs.experiment import make_experiment
from paceline.runs.local import JOURNAL
from paceline.runs.performing import Hosting, perform, read_resumption
from paceline.runs.replay import replay
from paceline.worlds.local.checks import Checks
from paceline.worlds.local.holdings import Holdings
from paceline.worlds.local.journal import read_journal
from paceline.worlds.local.worker import Worker
from tests.contract.test_resume_locally import WORDS, cut_off, rows
from tests.federation.memory import MemoryGrid, MemoryNode
from tests.federation.test_worlds import played

THREE = ["clients=3", "rounds=3"]


def first_tasks(node, faults):
    """The first tasks of a node meet these faults, one after the other."""
    left = list(faults)
    return lambda number, frame: left.pop(0) if left and number == node and frame.words["do"] == "tasks" else None


def outcomes(directory):
    return [(entry.what, entry.site, entry.outcome) for entry in read_journal(directory / JOURNAL) if entry.outcome]


@pytest.fixture
def visits(monkeypatch):
    """How often devices really train."""
    found, visit = [], Worker._visit
    monkeypatch.setattr(Worker, "_visit", lambda *words: (found.append(words), visit(*words))[1])
    return found


def test_mishaps_on_the_way_are_sent_again_and_nobody_trains_twice(tmp_path, visits):
    grid = MemoryGrid(tmp_path, 3)
    grid.fault = first_tasks(101, AGAIN[:2])
    lost = [None, None]  # the reply of the third try, and of the one after, are lost when all was done
    grid.changed = lambda node, frame, content: (
        lost.pop() if node == 102 and lost and frame.words["do"] == "tasks" else content
    )
    run = played(grid, "fedavg", THREE, tmp_path / "run")
    assert run.world.ledger.visits == 9 == len(visits)
    assert outcomes(tmp_path / "run") == [] and replay(tmp_path / "run").equal


@pytest.mark.parametrize(("absence", "left"), [("skip", 8), ("wait", 9)])
def test_a_node_that_is_lost_drops_out_and_is_back(absence, left, tmp_path):
    grid = MemoryGrid(tmp_path, 3)
    grid.fault = first_tasks(101, [5])
    run = played(grid, "fedavg", [*THREE, f"absence={absence}"], tmp_path / "run")
    assert outcomes(tmp_path / "run")[0] == ("visit", 1, "lost")
    assert run.world.chronicle.counts["dropped_lost"] == {1: 1}
    assert "Flower's code 5: so it was arranged" in run.world.chronicle.events[0].text
    if absence == "wait":
        assert run.world.ledger.visits == left
    assert replay(tmp_path / "run").equal


def test_what_is_not_answered_in_time_is_lost(tmp_path):
    grid = MemoryGrid(tmp_path, 3)
    grid.fault = first_tasks(101, [True])
    run = played(grid, "fedavg", THREE, tmp_path / "run", Limits(seconds=1.0))
    assert outcomes(tmp_path / "run")[0] == ("visit", 1, "lost")
    assert "no answer within" in run.world.chronicle.events[0].text
    assert replay(tmp_path / "run").equal


def test_a_node_that_was_started_anew_with_another_number_goes_on_with_what_it_held(tmp_path):
    """It has the same state directory: what the old one was to do is said to the new one, and no visit is lost."""
    grid = MemoryGrid(tmp_path, 3)
    seen = []

    def fault(number, frame):
        if number == 101 and frame.words["do"] == "tasks" and len(seen) < 2:
            seen.append(number)
            if len(seen) == 2:  # dies with its second task; else two would write into one directory
                grid.dead.add(101)
                grid.nodes[201] = MemoryNode(1, tmp_path / "node1")
                grid.live(201)
                return True
        return None

    grid.fault = fault
    run = played(grid, "apfl", ["clients=3", "rounds=9", "every=3"], tmp_path / "run")
    (remark,) = run.world.chronicle.events
    assert "NI-E11" in remark.text and outcomes(tmp_path / "run") == []
    assert replay(tmp_path / "run").equal


def test_what_a_device_is_told_to_forget_it_forgets_though_a_message_is_lost(tmp_path, monkeypatch):
    """It holds no more than its last visit, whatever came between it and what it was told."""
    forgotten = Holdings.forgotten
    monkeypatch.setattr(Holdings, "forgotten", lambda *words: (gc.collect(), forgotten(*words))[1])
    grid = MemoryGrid(tmp_path, 3)
    grid.fault = first_tasks(101, [None, None, None, 5, None, 5])  # those with which it is told of the rounds before
    played(grid, "fedavg", ["clients=3", "rounds=6", "absence=wait"], tmp_path / "run")
    for k in range(3):
        held = sorted(path.name for path in (tmp_path / f"node{k}").rglob("*.model"))
        assert len(held) == 3, held


def test_the_superlink_may_be_away_for_a_while(tmp_path, monkeypatch):
    grid = MemoryGrid(tmp_path, 3)
    monkeypatch.setattr("paceline.federation.courier.REST", 0.01)
    pull, push, failed = grid.pull_messages, grid.push_messages, []

    def sometimes(act):
        def tried(argument):
            if len(failed) < 60 and len(grid.sent) > 4:
                failed.append(act)
                raise ConnectionError("refused")
            return act(argument)

        return tried

    grid.pull_messages, grid.push_messages = sometimes(pull), sometimes(push)
    run = played(grid, "fedavg", THREE, tmp_path / "run")
    assert len(failed) == 60 and run.world.ledger.visits == 9 and replay(tmp_path / "run").equal


@pytest.mark.parametrize("name", ["fedavg", "apfl", "da-dpfl", "psfl"])
def test_a_server_that_was_killed_goes_on_and_only_what_was_under_way_is_done_again(
    name, tmp_path, monkeypatch, visits
):
    experiment = make_experiment(
        [name], overrides=WORDS, out=tmp_path / "one", workers=1, federation=True, keep_models=True
    )
    grid = MemoryGrid(tmp_path / "nodes", experiment.settings[0].clients)
    hosting = Hosting(grid.hosts(), 60.0, Checks())
    copy = cut_off(
        monkeypatch, lambda: perform(experiment, None, None, hosting), tmp_path / "one", tmp_path / "two", 14
    )
    known = rows(copy)
    with pytest.raises(SettingError, match="paceline serve"):
        perform(experiment=read_resumption(copy).experiment, resumption=read_resumption(copy))
    resumption = read_resumption(copy)
    outcome = perform(resumption.experiment, None, resumption, hosting)
    assert outcome.failures == [] and rows(copy)[: len(known)] == known
    found = replay(copy)
    assert found.equal and found.acts_elsewhere == 0
    trained = [(frame.words["client"], frame.words["result"]) for _, _, frame in visits]
    assert len(set(trained)) == len(trained)
