"""DPSGD: clients that average with their neighbours, without a server."""

import numpy as np
import pytest

from paceline.algorithms.dpsgd import DPSGD
from paceline.errors import SettingError
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.recipe import LocalSGD
from paceline.system.availability import parse_availability
from paceline.topology import make_mixing, parse_graph
from tests.algorithms.test_pfedavg import LOCAL, SIZE, outcome, quadratics, world_of
from tests.worlds.worlds import FixedLinks, follow, quadratic_world, spans


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"topology": "torus:3x3"}, "9 nodes for 36 clients"),
        ({"weights": "even"}, "known"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_impossible_settings_are_refused(overrides, said):
    with pytest.raises(SettingError, match=said):
        DPSGD(**overrides).check(36)


def test_two_rounds_on_a_ring_are_the_matrix_formula():
    """X(t+1) = (X(t) - rate * gradients) W with full batches on quadratics, whose gradients are known."""
    problem, rate = quadratics(7, sigma2=0.0), 0.3
    found = outcome(DPSGD(rounds=2, local=LocalSGD(lr=rate, batch=6, steps=1, loss="squared")), problem)
    w = make_mixing(parse_graph("ring:7"), "metropolis").matrix
    world = quadratic_world(problem)
    start = world.initial_model()
    Executor(CohortTrainer()).run([start])
    x = np.tile(start.value.numpy(), (7, 1))
    for average, _ in found:
        x = w @ (x - rate * (x - problem.centre))
        assert np.allclose(average, x.mean(axis=0), rtol=0, atol=1e-12)


def test_nobody_is_busier_than_its_neighbours_make_it():
    world = world_of([1.0] * 12, FixedLinks(0.1))
    follow(world, DPSGD(rounds=3, local=LOCAL))
    totals = world.ledger.totals()
    assert totals.bytes == 3 * 2 * 12 * SIZE and totals.busiest_bytes == 3 * 4 * SIZE
    assert all(site >= 0 for (site,) in spans(world, "site"))


def test_who_has_gone_for_good_is_left_out():
    """Of 8 clients, each visit is the last with 2 %: 30 rounds without a loss have a chance of 0.8 %; seeded."""
    world = world_of([1.0] * 8, availability=parse_availability("dropout:0.02,forever", seed=4, size=8))
    times = follow(world, DPSGD(rounds=30, local=LOCAL))
    gone = [note.text for note in world.chronicle.events if "has failed" in note.text]
    assert len(times) == 30 and gone and gone[0].startswith("client ")
