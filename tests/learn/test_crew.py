"""Cohorts that others compute: the same bits whoever computes what, and whoever is lost on the way."""

import pickle

import cloudpickle
import numpy as np
import pytest
import torch
from tests.contract.test_places import SMALL

from paceline.algorithms.registry import ALGORITHMS
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.crew.hand import Hand
from paceline.learn.crew.parcel import Vectors, unpacked
from paceline.learn.crew.trainer import CrewTrainer
from paceline.learn.executor import Executor
from paceline.runs.driver import drive
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings


class Bench:
    """A crew in this process: all goes through pickles, answers come in any order, every so many are lost."""

    gpu_memory = 0.0

    def __init__(self, size, seed=0, lost=0):
        self._hands = [self._new() for _ in range(size)]
        self._shared, self._flying = {}, []
        self._rng, self._lost, self._tickets = np.random.default_rng(seed), lost, 0
        self.losses = 0

    def _new(self):
        return Hand("cpu", pickle.loads)

    def share(self, name, thing):
        assert name not in self._shared
        self._shared[name] = cloudpickle.dumps(thing)

    def hand_out(self, parcel):
        if len(self._flying) >= 2 * len(self._hands):
            return None
        self._tickets += 1
        self._flying.append((self._tickets, pickle.dumps(parcel)))
        return self._tickets

    def next(self):
        ticket, parcel = self._flying.pop(int(self._rng.integers(len(self._flying))))
        who = int(self._rng.integers(len(self._hands)))
        if self._lost and ticket % self._lost == 0:
            self.losses += 1
            self._hands[who] = self._new()
            return ticket, None
        return ticket, pickle.loads(pickle.dumps(self._hands[who].compute(pickle.loads(parcel), self._shared)))

    def close(self):
        self._hands = []


def learned(name, trainer, *words):
    run = make_run(make_settings(name, [*SMALL, *words]))
    run.keeps_model = True
    drive([run], Executor(trainer))
    assert run.failure is None, run.failure
    return run.rows, run.final


def assert_same(one, other):
    assert one[0] == other[0] and one[1].keys() == other[1].keys()
    assert all(torch.equal(one[1][name], other[1][name]) for name in one[1])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_learns_the_same_with_a_crew(name):
    crew = Bench(2, seed=1, lost=3)
    assert_same(learned(name, CohortTrainer("cpu", None, 2)), learned(name, CrewTrainer(crew, None, 2)))
    assert crew.losses


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("words", [("model=mlp:32",), ("model=mlp:17,5",), ("executor.dtype=float64",)])
def test_how_many_there_are_changes_nothing(size, words):
    trainer = CrewTrainer(Bench(size, seed=size), None, 2)
    assert_same(learned("psfl", CohortTrainer("cpu", None, 2), *words), learned("psfl", trainer, *words))
    trainer.close()


def test_vectors_that_are_shared_travel_once():
    one, other = torch.ones(3), torch.zeros(3)
    vectors = Vectors.of([one, other, one])
    assert len(vectors.distinct) == 2
    made = vectors.tensors()
    assert made[0] is made[2] and torch.equal(made[1], other)


def test_what_comes_back_has_memory_of_its_own():
    stored = np.ones(4, np.float32)
    stored.setflags(write=False)
    (trained,) = unpacked("train", ([stored], [np.float32(0.5)]))
    trained.value.add_(1.0)
    assert stored.sum() == 4 and float(trained.loss) == 0.5
