"""What is learned: splits, personal test sets, the work of a visit."""

import hashlib
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import PartitionError, SettingError
from paceline.learn.executor import Executor
from paceline.learn.graph import Model
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import ReferenceTrainer, evaluate_one
from paceline.runs.making import make_run
from paceline.runs.problem import build_problem, public_count, public_rows
from paceline.runs.settings import make_settings
from paceline.worlds.problem import MOST_KEPT


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


# -- samples that the server holds --------------------------------------------------------------------------------


def digest(problem):
    found = hashlib.blake2b(digest_size=8)
    rows = [problem.shards().indices, problem.shards().offsets, *(row.numpy() for row in problem.personal_rows)]
    for numbers in rows:
        found.update(numbers.astype("<i8").tobytes())
    return found.hexdigest()


@pytest.mark.parametrize(
    ("partition", "wanted"),
    [
        ("iid", "d7c3d74e9858b6c5"),
        ("exdir:2,10", "3588ca7b8dc9c94e"),
        ("dirichlet:0.3", "011ee8e1f3f35c04"),
        ("pathological:2", "1fb2b5348be49f18"),
        ("dominant:0.3", "35f6dac838f371f4"),
        ("powerlaw:1.5", "625828c6c1d4b013"),
    ],
)
def test_without_public_samples_partitions_are_what_they_always_were(partition, wanted):
    """Digests from before there were public samples."""
    given = {"partition": partition, "clients": 20, "seed": 7}
    assert digest(digits(**given)) == wanted
    assert digest(digits(**given, public=0.0)) == wanted


@pytest.mark.parametrize("partition", ["iid", "exdir:2,10", "dirichlet:0.3", "pathological:2", "dominant:0.3"])
def test_clients_split_what_the_server_does_not_hold(partition):
    problem = digits(partition=partition, public=0.1)
    whole = digits(partition=partition)
    rows = public_rows(problem.shards().y.numpy(), problem.public_size, 0)
    x, y = problem.public_data()
    assert torch.equal(x, problem.shards().x[rows])
    assert torch.equal(y, problem.shards().y[rows])
    samples = len(problem.shards().y)
    assert len(y) == problem.public_size == samples // 10
    assert sorted([*rows, *problem.shards().indices]) == list(range(samples))
    assert problem.shards().x is whole.shards().x
    assert problem.shards().y is whole.shards().y


@given(st.integers(1, 99), st.integers(0, 10**6))
def test_public_samples_hold_every_class_in_its_share(percent, seed):
    labels = np.repeat(np.arange(4), [400, 200, 100, 7])
    held = public_count(percent / 100, len(labels))
    assert held == percent * len(labels) // 100
    rows = public_rows(labels, held, seed)
    assert len(set(rows.tolist())) == held
    counts = np.bincount(labels[rows], minlength=4)
    assert np.abs(counts - held * np.bincount(labels) / len(labels)).max() <= 2


def test_the_seed_says_which_samples_are_public_and_runs_share_them():
    first, again, other = (
        digits(public=0.1),
        digits(public=0.1, partition="iid", clients=5),
        digits(public=0.1, seed=1),
    )
    assert first.public_data()[0] is again.public_data()[0]
    assert not torch.equal(first.public_data()[0], other.public_data()[0])


def test_personal_tests_and_work_follow_the_clients_own_samples():
    problem = digits(public=0.3)
    labels = problem.test[1].numpy()
    for client in range(10):
        own = problem.shards().y.numpy()[problem.shards().rows(client)]
        assert set(labels[problem.personal_rows[client].numpy()]) <= set(own)
        assert problem.samples(client) == len(own)
    assert sum(problem.samples(k) for k in range(10)) == len(problem.shards().y) - problem.public_size


def test_public_samples_that_are_not_there_say_what_to_set():
    with pytest.raises(SettingError, match=r"--set public=0\.05"):
        digits().public_data()
    assert digits().public_size == 0
    with pytest.raises(SettingError, match="less than 1 of 1"):
        digits(public=1e-6)
    for bad in ("-0.1", "1", "nan"):
        with pytest.raises(SettingError, match=r"public is .*; it must be 0 or more, and below 1"):
            make_settings("fedavg", [f"public={bad}"])


@pytest.mark.parametrize("dataset", ["digits", "cifar10"])
def test_a_dry_run_knows_how_many_samples_are_public(dataset, monkeypatch, tmp_path):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path))
    problem = digits(dataset=dataset, model="auto", public=0.05, dry=True)
    assert problem.public_size == {"digits": digits(public=0.05).public_size, "cifar10": 2500}[dataset]
    if dataset == "cifar10":
        assert problem.samples(0) == 47_500 // 10
    with pytest.raises(SettingError, match="a dry run reads no data"):
        problem.public_data()


def test_more_clients_than_what_is_left_can_still_be_tried_dry():
    problem = digits(clients=1400, partition="iid", public=0.5, dry=True)
    assert problem.samples(0) == 1
    with pytest.raises(PartitionError):
        digits(clients=1400, partition="iid", public=0.5)


def test_a_run_hands_its_public_samples_to_the_algorithm():
    words = ["clients=30", "public=0.05"]
    run, dry = make_run(make_settings("fedavg", words)), make_run(make_settings("fedavg", words), dry=True)
    x, y = run.world.public.data()
    assert len(x) == len(y) == run.world.public.size == dry.world.public.size > 50
    with pytest.raises(SettingError, match="a dry run reads no data"):
        dry.world.public.data()
    with pytest.raises(SettingError, match=r"--set public=0\.05"):
        make_run(make_settings("fedavg", ["clients=30"])).world.public.data()


@pytest.mark.parametrize("dry", [True, False])
def test_recipes_that_are_new_in_every_round_are_let_go(dry):
    problem = digits()
    if dry:
        problem.partition, problem.nominal = None, 20
    first = weakref.ref(recipe := LocalSGD(epochs=1))
    assert problem.flops(0, recipe) == 3 * (2 * 64 * 10 + 10) * problem.samples(0)
    for k in range(MOST_KEPT):
        recipe = LocalSGD(epochs=2 + k % 2)
        assert problem.flops(0, recipe) == (2 + k % 2) * 3 * (2 * 64 * 10 + 10) * problem.samples(0)
    assert first() is None
