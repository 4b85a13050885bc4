"""The contract of worlds on nodes of a federation, over a transport in memory: the same words, errors and losses."""

import pytest

from paceline.runs.driver import drive, make_executor
from paceline.runs.local import make_local_run
from paceline.runs.making import make_run
from paceline.runs.replay import ALONE, replay
from paceline.runs.settings import make_settings
from tests.federation.memory import MemoryGrid
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


def test_it_ends_as_the_simulation_does(tmp_path):
    words = [*SMALL, "rounds=2", "clients=3"]
    run = played(MemoryGrid(tmp_path, 3), "fedavg", words, tmp_path / "run")
    simulated = make_run(
        make_settings("fedavg", [*words, "executor.cohort=1", "executor.threads=1"]), keep_model=True
    )
    drive([simulated], make_executor(ALONE))
    assert run.final.keys() == simulated.final.keys()
    assert all(run.final[name].equal(simulated.final[name]) for name in run.final)
