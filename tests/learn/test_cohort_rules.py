"""The default trainer's rules: how many clients share a cohort, what is refused, whose data is whose."""

import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from paceline.errors import SettingError
from paceline.learn.cohort import rules
from paceline.learn.cohort.cutting import even
from paceline.learn.cohort.rules import CACHE_BYTES, LARGEST
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.job import Shards, TrainJob
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space

COUNTS, MOSTS, MULTIPLES = st.integers(1, 2000), st.integers(0, 600), st.integers(1, 16)


def dense(inputs=4, outputs=2, dtype=torch.float32):
    return Space("dense", lambda: nn.Sequential(nn.Linear(inputs, outputs)), (inputs,), dtype)


def convolution(groups=1):
    return Space(
        "convolution",
        lambda: nn.Sequential(nn.Conv2d(2, 2, 3, groups=groups), nn.Flatten(), nn.Linear(8, 2)),
        (2, 4, 4),
    )


def make_jobs(space, count, sizes=None, recipe=None):
    sizes = sizes or [2] * count
    total = sum(sizes)
    shards = Shards(
        torch.arange(float(total)).reshape(-1, *[1] * len(space.shape)).expand(total, *space.shape) / total,
        torch.arange(total) % 2,
        np.arange(total),
        np.concatenate([[0], np.cumsum(sizes)]),
    )
    start = space.initial(0)
    recipe = recipe or LocalSGD(batch=2)
    return [TrainJob(space, start, recipe, 0.1, shards, k, k + 1) for k in range(count)]


class Watching(CohortTrainer):
    """The trainer, remembering which clients shared a cohort."""

    def _train_cohort(self, program, jobs, drawn, stream):
        self.seen = [*getattr(self, "seen", []), [job.client for job in jobs]]
        return super()._train_cohort(program, jobs, drawn, stream)


def cohorts(space, count, sizes=None, recipe=None, **settings):
    trainer = Watching(**{"threads": 1} | settings)
    trainer.train(make_jobs(space, count, sizes, recipe))
    return trainer.seen


# -- even parts ---------------------------------------------------------------------------------------------------


@given(COUNTS, MOSTS, MULTIPLES)
def test_parts_are_small_enough_and_as_few_as_promised(count, most, multiple):
    """The number of parts is the least multiple that keeps each part within bounds (fewer, when too few remain)."""
    size = even(count, most, multiple)
    limit = max(1, most)
    assert 1 <= size <= limit
    wanted = next(n for n in range(multiple, count + 2 * multiple, multiple) if n * limit >= count)
    parts = -(-count // size)
    assert parts <= wanted
    assert size == 1 or -(-count // (size - 1)) > wanted, "no smaller size would do with so few parts"


@given(COUNTS, MOSTS)
def test_one_thread_cuts_into_the_fewest_parts(count, most):
    size = even(count, most, 1)
    assert -(-count // size) == -(-count // max(1, most))


@given(st.integers(1, 50), st.integers(1, 40), MULTIPLES)
def test_what_divides_evenly_is_divided_evenly(share, most, multiple):
    count = share * multiple
    size = even(count, most, multiple)
    assert size <= min(share, most)
    if share <= most:
        assert size == share


# -- sizes --------------------------------------------------------------------------------------------------------


def test_convolutions_run_one_client_at_a_time_on_a_cpu():
    assert sorted(cohorts(convolution(), 5)) == [[0], [1], [2], [3], [4]]


def test_small_dense_networks_run_all_together():
    assert cohorts(dense(), 7) == [list(range(7))]


def test_dense_cohorts_stay_in_the_cache():
    """A network of a quarter of the cache goes four at a time; in double precision two."""
    inputs = CACHE_BYTES // 4 // 4 // 8 - 1
    space = dense(inputs, 8)
    assert space.size * 4 * 4 == CACHE_BYTES
    assert [len(part) for part in cohorts(space, 8)] == [4, 4]
    assert [len(part) for part in cohorts(dense(inputs, 8, torch.float64), 8)] == [2, 2, 2, 2]


def test_a_network_larger_than_the_cache_goes_alone(monkeypatch):
    monkeypatch.setattr(rules, "CACHE_BYTES", 16)
    assert [len(part) for part in cohorts(dense(), 3)] == [1, 1, 1]


def test_no_cohort_outgrows_the_largest():
    assert [len(part) for part in cohorts(dense(), LARGEST + 2)] == [LARGEST // 2 + 1] * 2


def test_each_thread_gets_its_part():
    """Ten clients on four threads: parts of three, three, three and one."""
    assert sorted(len(part) for part in cohorts(dense(), 10, threads=4)) == [1, 3, 3, 3]


@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_a_given_size_is_kept(size):
    lengths = sorted((len(part) for part in cohorts(dense(), 5, cohort=size)), reverse=True)
    assert lengths == [size] * (5 // size) + [5 % size] * (5 % size > 0)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_go_alone_on_a_cpu_whatever_is_asked(groups):
    assert [len(part) for part in cohorts(convolution(groups=groups), 3, cohort=3)] == [1, 1, 1]


def test_clients_of_similar_length_share_a_cohort():
    """Steps are 1, 4, 2, 4, 3 in cohorts of two: longest first, ties in their order."""
    assert cohorts(dense(), 5, sizes=[2, 8, 3, 7, 6], cohort=2) == [[1, 3], [4, 2], [0]]


def test_results_come_back_in_the_order_asked():
    space = dense()
    jobs = make_jobs(space, 5, [2, 8, 3, 7, 6])
    together = CohortTrainer().train(jobs)
    for job, trained in zip(jobs, together, strict=True):
        (alone,) = CohortTrainer().train([job])
        torch.testing.assert_close(trained.value, alone.value)
        torch.testing.assert_close(trained.loss, alone.loss)


def test_the_rules_never_ask_the_clock():
    """Equal work is cut the same way every time; bits depend on it."""
    assert cohorts(dense(), 30, threads=2) == cohorts(dense(), 30, threads=2)


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, -3])
def test_a_cohort_of_nobody_is_refused(size):
    with pytest.raises(SettingError, match=rf"executor\.cohort is {size}; it must be 1 or more"):
        CohortTrainer(cohort=size)


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_device_that_is_not_there_is_refused(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingError, match=rf"executor\.device is '{device}'.*use executor\.device=cpu"):
        CohortTrainer(device)


def test_threads_are_all_cores_unless_said(monkeypatch):
    monkeypatch.delenv("PACELINE_THREADS", raising=False)
    assert CohortTrainer().threads == (os.cpu_count() or 1)
    monkeypatch.setenv("PACELINE_THREADS", "3")
    assert CohortTrainer().threads == 3
    assert CohortTrainer(threads=1).threads == 1, "a setting is stronger than the environment"


# -- data ---------------------------------------------------------------------------------------------------------


def test_data_is_converted_once():
    space, trainer = dense(), CohortTrainer()
    shards = make_jobs(space, 1)[0].shards
    raw = Shards((shards.x * 2).to(torch.uint8), shards.y, shards.indices, shards.offsets)
    first, again = trainer._data(raw.x, raw.y, space.dtype)[0], trainer._data(raw.x, raw.y, space.dtype)[0]
    assert first is again
    assert first.dtype == torch.float32


def test_two_precisions_of_one_data_set():
    trainer, shards = CohortTrainer(), make_jobs(dense(), 1)[0].shards
    for dtype in (torch.float32, torch.float64, torch.float32):
        assert trainer._data(shards.x, shards.y, dtype)[0].dtype == dtype


def test_data_sets_that_come_and_go():
    """Each data set is dropped before the next is made, so that Python may use its address again."""
    space, trainer = dense(), CohortTrainer()
    seen = []
    for k in range(20):
        x = torch.full((2, 4), k, dtype=torch.uint8)
        shards = Shards(x, torch.zeros(2, dtype=torch.int64), np.arange(2), np.array([0, 2]))
        seen.append(trainer._data(shards.x, shards.y, space.dtype)[0][0, 0].item())
        del x, shards
    assert seen == list(range(20))
