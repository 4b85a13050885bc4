"""The contract of worlds on nodes of a federation, over a transport in memory: the same words, errors and losses."""

import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.federation.folding import Folding, make_ask
from paceline.federation.members import Members
from paceline.runs.driver import drive, make_executor
from paceline.runs.local import make_local_run
from paceline.runs.making import make_run
from paceline.runs.replay import ALONE, replay
from paceline.runs.settings import make_settings
from tests.contract.test_resume_locally import WORDS
from tests.federation.memory import MemoryGrid, MemoryNode
from tests.worlds.test_replay import RUNS, SMALL


def played(grid, name, words, directory, limits=None, **more):
    settings = make_settings(name, [*SMALL, *words])
    run = make_local_run(settings, workers=1, directory=directory, make_hosts=grid.hosts(limits), **more)
    drive([run], make_executor(ALONE))
    assert run.failure is None, run.failure
    return run


@pytest.mark.parametrize("name", RUNS)
def test_a_run_on_a_federation_is_repeated_to_the_last_bit(name, tmp_path):
    clients = make_settings(name, [*SMALL, *RUNS[name]]).clients
    run = played(MemoryGrid(tmp_path, clients), name, RUNS[name], tmp_path / "run")
    found = replay(tmp_path / "run")
    assert found.equal and found.max_difference == 0.0 and found.acts_elsewhere == 0
    assert found.rounds == run.world.progress


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in RUNS])
def test_every_other_algorithm_runs_on_a_federation_too(name, tmp_path):
    settings = make_settings(name, WORDS)
    run = make_local_run(
        settings, workers=1, directory=tmp_path / "run", make_hosts=MemoryGrid(tmp_path, settings.clients).hosts()
    )
    drive([run], make_executor(ALONE))
    assert run.failure is None, run.failure
    found = replay(tmp_path / "run")
    assert found.acts_elsewhere == found.weights_lost == 0
    assert found.max_difference <= (1e-5 if name == "feddf" else 0.0)  # distillation has threads of its own


def test_it_ends_as_the_simulation_does(tmp_path):
    words = [*SMALL, "rounds=2", "clients=3"]
    run = played(MemoryGrid(tmp_path, 3), "fedavg", words, tmp_path / "run")
    simulated = make_run(
        make_settings("fedavg", [*words, "executor.cohort=1", "executor.threads=1"]), keep_model=True
    )
    drive([simulated], make_executor(ALONE))
    assert run.final.keys() == simulated.final.keys()
    assert all(run.final[name].equal(simulated.final[name]) for name in run.final)


def tasks(grid):
    return [[ask["words"]["do"] for ask in words["asks"]] for _, words in grid.sent if words["do"] == "tasks"]


def test_a_visit_is_one_trip_once_it_is_known_what_follows_it(tmp_path):
    grid = MemoryGrid(tmp_path, 5)
    played(grid, "fedavg", ["rounds=3"], tmp_path / "run")
    first, later = [["receive", "visit"], ["send"]], ["receive", "visit", "send"]
    assert sorted(tasks(grid)) == sorted([*(5 * first), *(10 * [later])])


def test_a_wrong_guess_changes_nothing(tmp_path, monkeypatch):
    guess = Folding.guess
    monkeypatch.setattr(Folding, "guess", lambda *words: _wrong(guess(*words)))
    grid = MemoryGrid(tmp_path, 5)
    played(grid, "fedavg", ["rounds=3"], tmp_path / "run")
    assert tasks(grid).count(["send"]) == 15 and replay(tmp_path / "run").equal


def _wrong(ask):
    if ask is None:
        return None
    return make_ask({**ask.words, "nodes": [{"held": "nothing"}]}, ())


def test_a_node_cannot_take_another_ones_place(tmp_path):
    """Where nodes have keys, one that is started anew has the number that it had."""
    grid = MemoryGrid(tmp_path, 3)
    grid.nodes[201] = MemoryNode(1, tmp_path / "other")
    grid.away.add(201)
    shown = grid.get_node_ids

    def late():
        if len(tasks(grid)) > 3:
            grid.away.discard(201)
        return shown()

    grid.get_node_ids = late
    settings = make_settings("fedavg", [*SMALL, "clients=3", "rounds=6"])
    members = Members(tmp_path / "clients.json", signed=True)
    run = make_local_run(settings, workers=1, make_hosts=grid.hosts(members=members))
    drive([run], make_executor(ALONE))
    assert run.failure is None and run.world.ledger.visits == 18
    assert {number for number, words in grid.sent if words["do"] == "tasks"} == {100, 101, 102}
