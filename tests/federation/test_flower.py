"""A real SuperLink and three real SuperNodes on loopback: the same bits as the simulation of the same seed."""

import pytest

from paceline.ledger.weights import read_weights
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.replay import ALONE, replay
from paceline.runs.settings import make_settings
from tests.federation.real import Real

pytestmark = pytest.mark.federation
GIVEN = {
    "fedavg": ["rounds=2"],
    "psfl": ["rounds=1", "psfl.width=1", "psfl.length=3", "psfl.sampler=uniform"],
}
TIMED = {
    "apfl": ["rounds=6", "every=3"],
    "fedbuff": ["rounds=3", "fedbuff.buffer=2", "fedbuff.concurrency=3"],
    "p-fedavg": ["rounds=2", "p-fedavg.topology=ring:3", "p-fedavg.participants=1"],
    "da-dpfl": ["rounds=2", "da-dpfl.pruning.threshold=1000", "da-dpfl.neighbours.degree=2"],
    "psfl": ["rounds=1", "psfl.participants=3", "psfl.warmup.rounds=2"],
}


def same_as_simulated(directory, name, words):
    run = make_run(make_settings(name, ["clients=3", "partition=iid", *words]), keep_model=True)
    drive([run], make_executor(ALONE))
    weights = read_weights(directory)
    return weights.keys() == run.final.keys() and all(weights[key].equal(run.final[key]) for key in weights)


@pytest.mark.timeout(360)
def test_a_real_federation_ends_as_the_simulation_does(tmp_path):
    with Real(tmp_path) as real:
        for name, words in GIVEN.items():
            out = real.run(name, words, name)
            assert replay(out).equal
            assert same_as_simulated(out, name, words)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_real_federations_whose_course_is_a_matter_of_time_are_repeated(tmp_path):
    with Real(tmp_path) as real:
        for name, words in TIMED.items():
            assert replay(real.run(name, words, name)).equal, name
