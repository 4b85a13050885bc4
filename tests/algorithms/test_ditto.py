"""Ditto: personal models between their own optimum and the global one."""

from itertools import pairwise

import numpy as np
import pytest

from paceline.algorithms.ditto import Ditto
from paceline.errors import SettingError
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.recipe import LocalSGD
from tests.algorithms.test_gossip import personal
from tests.algorithms.test_pfedavg import LOCAL, SIZE, quadratics, world_of
from tests.worlds.worlds import SPACE, FixedLinks, follow, quadratic_world, spans

FULL = {"batch": 6, "loss": "squared"}


@pytest.mark.parametrize(("words", "said"), [({"participants": 37}, "1 to 36"), ({"rounds": 0}, "rounds")])
def test_impossible_settings_are_refused(words, said):
    with pytest.raises(SettingError, match=said):
        Ditto(**words).check(36)


@pytest.mark.parametrize("pull", [0.1, 0.5, 3.0])
def test_personal_models_end_between_their_own_optimum_and_the_global_one(pull):
    """With F_k = |v - c_k|^2/2 the global model goes to the mean of the c_k, v_k to (c_k + lambda w)/(1 + lambda)."""
    problem = quadratics(5, sigma2=0.0)
    algorithm = Ditto(
        rounds=120,
        participants=5,
        local=LocalSGD(lr=0.2, steps=2, **FULL),
        personal=LocalSGD(lr=0.2, steps=3, prox=pull, **FULL),
    )
    found = personal(algorithm, quadratic_world(problem))[-1]
    centre = problem.centre.mean(axis=0)
    assert np.allclose(found, (problem.centre + pull * centre) / (1 + pull), rtol=0, atol=1e-9)


def test_without_a_pull_everybody_trains_alone():
    problem = quadratics(4, sigma2=0.0)
    recipe = LocalSGD(lr=0.1, steps=2, **FULL)
    found = personal(Ditto(rounds=3, participants=4, local=recipe, personal=recipe), quadratic_world(problem))
    world = quadratic_world(problem)

    async def alone():
        models = [world.initial_model()] * 4
        for _ in range(3):
            models = [await world.train(client, model, recipe) for client, model in enumerate(models)]
        return models

    models = world.loop.run_until_complete(alone())
    Executor(CohortTrainer()).run(models)
    assert np.allclose(found[-1], [model.value.numpy() for model in models], rtol=0, atol=1e-12)


def test_the_anchor_is_the_model_that_was_received():
    """After one round v = w - rate (w - c), since v and the anchor w are both the initial model: no pull yet. After
    two rounds the pull is towards the first average, not towards what this client made of it."""
    problem, rate, pull = quadratics(3, sigma2=0.0), 0.1, 2.0
    one = LocalSGD(lr=rate, steps=1, **FULL)
    algorithm = Ditto(rounds=2, participants=3, local=one, personal=LocalSGD(lr=rate, steps=1, prox=pull, **FULL))
    world = quadratic_world(problem)
    start = world.initial_model()
    Executor(CohortTrainer()).run([start])
    first, second = personal(algorithm, world)
    v = start.value.numpy() - rate * (start.value.numpy() - problem.centre)
    w = v.mean(axis=0)  # local training is the same step here
    assert np.allclose(first, v, rtol=0, atol=1e-12)
    assert np.allclose(second, v - rate * (v - problem.centre + pull * (v - w)), rtol=0, atol=1e-12)


def test_who_was_not_drawn_keeps_its_model():
    problem = quadratics(6)
    found = personal(Ditto(rounds=4, participants=2, local=LOCAL, personal=LOCAL), quadratic_world(problem))
    for before, after in pairwise(found):
        assert sum((before[client] != after[client]).any() for client in range(6)) == 2


def test_each_round_draws_its_clients():
    """Of 210 fours a round draws one: that eight rounds draw at most two has a chance below 1e-9; seeded."""
    world = world_of([1.0] * 10)
    follow(world, Ditto(rounds=8, participants=4, local=LOCAL, personal=LOCAL))
    drawn = {}
    for round, site in spans(world, "round", "site", kinds=("train",)):
        drawn.setdefault(round, set()).add(site)
    assert {len(some) for some in drawn.values()} == {4} and len(set(map(frozenset, drawn.values()))) > 2


def test_the_server_adds_what_arrives():
    """As FedAvg's: 2 FLOPs for every number of each of the 4 models."""
    world = world_of([1.0] * 10, FixedLinks(0.5))
    follow(world, Ditto(rounds=3, participants=4, local=LOCAL, personal=LOCAL))
    assert spans(world, "site", "round", "flops", kinds=("work",)) == [(-1, r, 2 * 4 * SPACE.size) for r in range(3)]


def test_a_visit_is_two_trainings_and_two_transfers():
    world = world_of([1.0] * 10, FixedLinks(0.5))
    times = follow(world, Ditto(rounds=3, participants=4, local=LOCAL, personal=LOCAL))
    assert times == [3.0, 6.0, 9.0]
    assert len(spans(world, "site", kinds=("train",))) == 3 * 4 * 2
    assert world.ledger.bytes == 3 * 4 * 2 * SIZE
