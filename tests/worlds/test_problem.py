"""What is learned: splits, personal test sets, the work of a visit."""

import numpy as np
import pytest
import torch

from paceline.errors import PartitionError, SettingError
from paceline.learn.executor import Executor
from paceline.learn.graph import Model
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import ReferenceTrainer, evaluate_one
from paceline.worlds.problem import build_problem


def digits(**changes):
    given = {"dataset": "digits", "partition": "pathological:2", "clients": 10, "model": "logistic", "seed": 0}
    return build_problem(**given | changes)


def test_personal_models_are_scored_on_their_own_labels():
    problem = digits()
    labels = problem.test[1].numpy()
    models = [Model(problem.space, problem.space.initial(k)) for k in range(10)]
    measure = problem.measure(models)
    Executor(ReferenceTrainer()).run([], [measure])
    own = []
    for client, model in enumerate(models):
        rows = problem.personal_rows[client]
        trained_on = set(problem.shards().y.numpy()[problem.shards().rows(client)])
        assert set(labels[rows.numpy()]) <= trained_on
        own.append(evaluate_one(_job(problem, model, rows)).accuracy)
    assert measure.result.accuracy == pytest.approx(np.mean(own))


def _job(problem, model, rows):
    from paceline.learn.job import EvalJob

    return EvalJob(problem.space, model.value, *problem.test, rows)


def test_a_personal_model_for_every_client_or_none():
    problem = digits()
    with pytest.raises(SettingError, match="3 personal models for 10 clients"):
        problem.measure([problem.initial_model(0)] * 3)


def test_two_seeds_share_space_and_tensors_so_that_they_can_be_batched():
    first, second = digits(seed=0), digits(seed=1)
    assert first.space is second.space
    assert first.shards().x is second.shards().x
    assert not np.array_equal(first.shards().indices, second.shards().indices)
    assert not torch.equal(first.initial_model(0).value, second.initial_model(1).value)


def test_the_work_of_a_visit_is_three_forward_passes_a_sample():
    """Logistic regression on 64 features: 2*64*10 multiply-adds and 10 biases."""
    problem = digits(clients=5, partition="iid")
    local = LocalSGD(epochs=2, batch=7)
    assert problem.flops(0, local) == 3 * (2 * 64 * 10 + 10) * 2 * problem.samples(0)


def test_more_clients_than_samples_is_refused():
    with pytest.raises(PartitionError):
        digits(clients=5000, partition="iid")
