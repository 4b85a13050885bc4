"""``personal=true``: one model for all is scored on every client's own test rows, as personal models are (3.4)."""

import numpy as np
import pytest
import torch

from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.worlds.problem import Problem

WORDS = ["clients=10", "rounds=3", "partition=pathological:2,equal", "local.epochs=1", "every=3"]


def scored(monkeypatch, name, *words):
    """The run, and what was given to be scored last."""
    given, measure = [], Problem.measure
    monkeypatch.setattr(Problem, "measure", lambda self, model: given.append(model) or measure(self, model))
    run = make_run(make_settings(name, [*WORDS, f"{name}.participants=4", *words]))
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None, run.failure
    return run, given[-1]


@pytest.mark.parametrize("name", ["fedavg", "feddst"])
def test_one_model_is_scored_on_each_clients_own_rows(monkeypatch, name):
    """The mean over clients of the accuracy on rows in the client's own shares of labels, by hand."""
    run, models = scored(monkeypatch, name, "personal=true")
    assert len(models) == 10 and len({id(model) for model in models}) == 1
    problem, (x, y) = run.problem, run.problem.test
    space, labels = problem.space, problem.shards().y.numpy()
    network = space.module.eval()
    right = torch.func.functional_call(network, space.unflatten(models[0].value), (x.to(space.dtype),)).argmax(1) == y
    accuracies = []
    for client, rows in enumerate(problem.personal_rows):
        begin, end = problem.partition.offsets[client : client + 2]
        own = labels[problem.partition.indices[begin:end]]
        assert set(y[rows].tolist()) == set(own.tolist())
        accuracies.append(float(right[rows].double().mean()))
    assert run.rows[-1]["accuracy"] == pytest.approx(np.mean(accuracies), abs=1e-6)
    assert run.rows[-1]["accuracy"] != pytest.approx(float(right.double().mean()), abs=1e-3)


def test_otherwise_it_is_scored_on_all_rows(monkeypatch):
    run, model = scored(monkeypatch, "fedavg")
    x, y = run.problem.test
    space = run.problem.space
    weights = space.unflatten(model.value)
    right = torch.func.functional_call(space.module.eval(), weights, (x.to(space.dtype),)).argmax(1) == y
    assert run.rows[-1]["accuracy"] == pytest.approx(float(right.double().mean()), abs=1e-6)
