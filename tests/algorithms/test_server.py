"""Server rules against their formulas, three rounds long (Reddi et al. 2021, Algorithm 2; FedAvgM)."""

import numpy as np
import pytest
import torch

from paceline.algorithms.server import ServerRule
from paceline.errors import SettingError
from paceline.learn.executor import Executor
from paceline.learn.graph import Model
from paceline.learn.models import build
from paceline.learn.reference import ReferenceTrainer
from paceline.learn.space import Space

SPACE = Space("logistic", lambda: build("logistic", (3,), 2), (3,), torch.float64)
RNG = np.random.default_rng(4)
START = RNG.normal(size=SPACE.size)
ROUNDS = [(RNG.normal(size=(3, SPACE.size)), [5, 1, 10]) for _ in range(3)]


def as_model(values):
    return Model(SPACE, torch.from_numpy(values))


def after_three_rounds(rule):
    server, model = rule.start(), as_model(START)
    for ends, samples in ROUNDS:
        model = server.step(model, [as_model(end) for end in ends], samples)
    Executor(ReferenceTrainer()).run([model])
    return model.value.numpy()


def by_formula(step):
    x, memory = START, {}
    for ends, _ in ROUNDS:
        x = step(x, ends.mean(axis=0) - x, memory)
    return x


def momentum(x, move, memory):
    memory["v"] = 0.9 * memory.get("v", 0.0) + move
    return x + memory["v"]


def adaptive(squares):
    def step(x, move, memory):
        memory["m"] = 0.9 * memory.get("m", 0.0) + 0.1 * move
        memory["v"] = squares(memory.get("v", 1e-6), move**2)
        return x + 0.05 * memory["m"] / (np.sqrt(memory["v"]) + 1e-3)

    return step


STEPS = {
    "average": lambda x, move, memory: x + move,
    "momentum": momentum,
    "adam": adaptive(lambda v, d: 0.99 * v + 0.01 * d),
    "yogi": adaptive(lambda v, d: v - 0.01 * d * np.sign(v - d)),
    "adagrad": adaptive(lambda v, d: v + d),
}


@pytest.mark.parametrize("rule", STEPS)
def test_rules_are_their_formulas(rule):
    lr = 0.05 if rule in ("adam", "yogi", "adagrad") else None
    assert after_three_rounds(ServerRule(rule=rule, lr=lr)) == pytest.approx(by_formula(STEPS[rule]), abs=1e-12)


def test_a_rate_below_one_goes_part_of_the_way():
    assert after_three_rounds(ServerRule(lr=0.25)) == pytest.approx(
        by_formula(lambda x, move, memory: x + 0.25 * move), abs=1e-12
    )


def test_weights_by_samples():
    server = ServerRule(weights="samples").start()
    ends, samples = ROUNDS[0]
    model = server.step(as_model(START), [as_model(end) for end in ends], samples)
    Executor(ReferenceTrainer()).run([model])
    assert model.value.numpy() == pytest.approx(np.average(ends, axis=0, weights=samples), abs=1e-12)


def test_if_nothing_arrives_the_model_stays():
    model = as_model(START)
    assert ServerRule(rule="adam").start().step(model, [], []) is model


@pytest.mark.parametrize("wrong", [{"lr": 0.0}, {"tau": 0.0}, {"momentum": 1.0}, {"beta2": -0.1}])
def test_impossible_rules_are_refused(wrong):
    with pytest.raises(SettingError, match="server"):
        ServerRule(**wrong)
