"""``personal=true``: one model for all is scored on every client's own test rows, as personal models are (3.4)."""

import numpy as np
import pytest
import torch

from paceline.algorithms.registry import ALGORITHMS
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.worlds.problem import Problem

WORDS = ["clients=10", "rounds=3", "partition=pathological:2,equal", "local.epochs=1", "every=3"]


def scored(monkeypatch, name, *words, participants=True):
    """The run, and what was given to be scored last."""
    words = [*([f"{name}.participants=4"] if participants else []), *words]
    given, measure = [], Problem.measure
    monkeypatch.setattr(Problem, "measure", lambda self, model: given.append(model) or measure(self, model))
    run = make_run(make_settings(name, [*WORDS, *words]))
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


OWN = [name for name in ALGORITHMS if not make_settings(name).algorithm.traits(100).servers]


@pytest.mark.parametrize("name", OWN)
def test_without_a_server_every_client_is_scored_by_its_own_model(monkeypatch, name):
    """Clients' models differ; a mean of them is nobody's."""
    _, models = scored(monkeypatch, name, "personal=true", participants=False)
    assert len(models) == 10
    assert len({model.value.numpy().tobytes() for model in models}) > 1


def test_dpsgd_is_judged_by_the_mean_only_where_one_model_is_asked_for(monkeypatch):
    _, own = scored(monkeypatch, "dpsgd", "personal=true", participants=False)
    _, mean = scored(monkeypatch, "dpsgd", participants=False)
    assert torch.allclose(torch.stack([model.value for model in own]).mean(0), mean.value, atol=1e-6)


def test_clients_of_p_fedavg_have_their_servers_models(monkeypatch):
    words = "p-fedavg.topology=ring:3", "p-fedavg.participants=3"
    _, own = scored(monkeypatch, "p-fedavg", "personal=true", *words)
    _, mean = scored(monkeypatch, "p-fedavg", *words)
    values = [model.value for model in own]
    assert all(torch.equal(values[client], values[client % 3]) for client in range(10))
    assert not torch.equal(values[0], values[1])
    assert torch.allclose(torch.stack(values[:3]).mean(0), mean.value, atol=1e-6)


def test_a_client_that_has_gone_is_scored_by_the_last_model_that_it_had(monkeypatch):
    away = "fleet.availability=dropout:0.4,forever"
    run, models = scored(monkeypatch, "dpsgd", "personal=true", away, "rounds=6", participants=False)
    assert len(models) == 10 > run.rows[-1]["clients"]
