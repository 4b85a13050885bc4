"""What a server makes of updates, through the deferred graph, and what it is charged for it."""

import functools

import numpy as np
import pytest
import torch

from paceline import config
from paceline.algorithms.aggregate import Aggregation, distillation_flops, distilled
from paceline.errors import SettingError
from paceline.learn.aggregation import Screening
from paceline.learn.distillation import Distillation, distil
from paceline.learn.executor import Executor
from paceline.learn.graph import Ghost, Model
from paceline.learn.models import build
from paceline.learn.reference import ReferenceTrainer
from paceline.learn.space import Space
from paceline.seeds import stream

RULES = ["mean", "median", "trimmed", "krum", "screen", "distil"]


def make_space(name):
    return Space(name, functools.partial(build, name, (3,), 2), (3,), torch.float64)


SPACE = make_space("logistic")  # 3 inputs, 2 outputs: 8 numbers, 2 * (2 * 3 + 1) = 14 FLOPs a sample


class FakeWorld:
    """The part of a world that an aggregation asks."""

    def __init__(self, public=None, size=0, round=3):
        self._public, self._size, self.round = public, size, round

    @property
    def public(self):
        return self

    def data(self):
        if self._public is None:
            raise SettingError("no public data")
        return self._public

    @property
    def size(self):
        return self._size if self._public is None else len(self._public[0])

    def stream(self, *path):
        return stream(7, *path)


def separable(count=60):
    """Public samples whose class is the sign of their first feature."""
    x = torch.from_numpy(stream(1, "public").normal(size=(count, 3)))
    return x, (x[:, 0] > 0).long()


GOOD = np.array([-1.0, 0, 0, 1, 0, 0, 0, 0])
"""A step towards telling the classes apart: weights of class 0, then of class 1, then biases."""


def deferred(values, space=SPACE):
    """Updates as a server has them: differences of models."""
    start = Model(space, torch.full((space.size,), 0.5, dtype=torch.float64))
    return [Model(space, torch.from_numpy(np.asarray(v) + 0.5)) - start for v in values]


def centre_of(aggregation, values, world=None, space=SPACE, **told):
    model = Model(space, torch.zeros(space.size, dtype=torch.float64))
    centre = aggregation.centre(world or FakeWorld(separable()), model, deferred(values, space), **told)
    assert centre.value is None and centre.space is space
    Executor(ReferenceTrainer()).run([centre])
    return centre.value.numpy()


def around(count, seed=0, spread=0.1):
    return GOOD + spread * stream(seed, "around").normal(size=(count, SPACE.size))


def test_rules_reach_their_formulas():
    values = around(10)
    ordered = np.sort(values, axis=0)
    expected = {
        "mean": values.mean(axis=0),
        "median": np.median(values, axis=0),
        "trimmed": ordered[3:7].mean(axis=0),
    }
    for rule, want in expected.items():
        np.testing.assert_allclose(centre_of(Aggregation(rule=rule, trim=0.3), values), want, rtol=1e-10, atol=1e-12)
    apart = ((values[:, None] - values[None]) ** 2).sum(axis=2)
    score = np.sort(apart, axis=1)[:, 1:7].sum(axis=1)  # n - f - 2 = 6 neighbours; the first is itself
    best = np.argsort(score)
    krum = Aggregation(rule="krum", hostile=0.2)
    np.testing.assert_allclose(centre_of(krum, values), values[best[0]], rtol=1e-10, atol=1e-12)
    multi = Aggregation(rule="krum", hostile=0.2, picks=99)
    np.testing.assert_allclose(centre_of(multi, values), values[best[:8]].mean(axis=0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_a_single_update_is_its_own_middle(rule):
    np.testing.assert_allclose(centre_of(Aggregation(rule=rule), [GOOD]), GOOD, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_no_update_is_an_error(rule):
    with pytest.raises(SettingError, match="no updates"):
        Aggregation(rule=rule).centre(FakeWorld(separable()), Model(SPACE, SPACE.initial(0)), [])


def test_screening_leaves_out_and_tells_whom():
    values = around(8)
    values[2], values[5] = -GOOD, 30 * GOOD
    told = []
    found = centre_of(Aggregation(rule="screen"), values, on_rejected=told.append)
    assert told == [[2, 5]]
    np.testing.assert_allclose(found, np.delete(values, [2, 5], axis=0).mean(axis=0), rtol=1e-10, atol=1e-12)
    centre_of(Aggregation(rule="screen"), around(8), on_rejected=told.append)
    assert told[1] == []


def test_all_rejected_is_no_move():
    told = []
    assert centre_of(Aggregation(rule="screen"), [-GOOD], on_rejected=told.append).tolist() == [0] * SPACE.size
    assert not centre_of(Aggregation(rule="screen"), [-GOOD, -2 * GOOD], on_rejected=told.append).any()
    assert told == [[0], [0, 1]]


def test_distillation_moves_the_model_to_the_student():
    """Not with a linear model: there the mean of the outputs is the output of the mean already."""
    space, world = make_space("mlp:4"), FakeWorld(separable())
    values = stream(0, "teachers").normal(size=(4, space.size))
    aggregation = Aggregation(rule="distil", distillation=Distillation(steps=30, batch=16, lr=0.02))
    found = centre_of(aggregation, values, world, space)
    key = int(world.stream("distillation", 3).integers(1 << 63))
    teachers = [(space, torch.from_numpy(value)) for value in values]
    start = torch.from_numpy(values.mean(axis=0))
    student = distil(aggregation.distillation, space, start, teachers, world.public.data()[0], key)
    np.testing.assert_allclose(found, student, rtol=1e-6, atol=1e-9)
    assert np.abs(found - values.mean(axis=0)).max() > 0.1
    assert centre_of(aggregation, values, world, space).tolist() == found.tolist()
    later = centre_of(aggregation, values, FakeWorld(separable(), round=4), space)
    assert later.tolist() != found.tolist(), "other rounds draw other batches"


def test_labels_are_not_read_by_distillation():
    x, y = separable()
    rule = Aggregation(rule="distil", distillation=Distillation(steps=5))
    both = [centre_of(rule, around(3), FakeWorld((x, labels))).tolist() for labels in (y, 1 - y)]
    assert both[0] == both[1]
    with pytest.raises(SettingError, match="probabilities of classes"):
        centre_of(rule, around(3), FakeWorld((x, y.double())))


def test_students_and_teachers_of_three_architectures():
    spaces = [SPACE, make_space("mlp:4"), make_space("mlp:5,3")]
    world, rule = FakeWorld(separable()), Distillation(steps=10, batch=20)
    teachers = [Model(space, space.initial(k)) for k, space in enumerate(spaces)]
    students = [distilled(world, Model(space, space.initial(9)), teachers, rule) for space in spaces]
    Executor(ReferenceTrainer()).run(students)
    assert [len(student.value) for student in students] == [space.size for space in spaces]
    assert all(not torch.equal(s.value, s.space.initial(9)) for s in students)
    # Ten batches of 20 samples: all teachers forward, the student three times forward.
    each = SPACE.flops + spaces[1].flops + spaces[2].flops + 3 * spaces[1].flops
    assert distillation_flops(world, spaces[1], spaces, rule) == 200 * each
    with pytest.raises(SettingError, match="no teachers"):
        distilled(world, students[0], [], rule)


def test_flops_by_hand():
    """A forward pass is 14 FLOPs, the model 8 numbers; 60 public samples, 5 updates."""
    world, model = FakeWorld(separable()), Model(SPACE, SPACE.initial(0))
    assert SPACE.flops == 14

    def flops(rule, count=5, **options):
        return Aggregation(rule=rule, **options).flops(world, model, count)

    assert [flops(rule) for rule in ("mean", "median", "trimmed")] == [2 * 8 * 5] * 3
    assert flops("krum") == 3 * 8 * 10
    assert flops("screen") == (1 + 5) * 60 * 14
    assert flops("screen", 1) == (1 + 1 + 1) * 60 * 14, "the model, the candidate and its reverse"
    # Batches of 32 out of 60 are 32 and 28: seven steps see 60 + 60 + 60 + 32 samples.
    distillation = Distillation(steps=7, batch=32)
    assert flops("distil", distillation=distillation) == 212 * (5 * 14 + 3 * 14)
    assert flops("distil", 1, distillation=distillation) == 2 * 8, "one teacher is the student"


@pytest.mark.parametrize("rule", RULES)
def test_a_dry_run_passes_and_is_charged(rule):
    """No data can be read; sizes are known."""
    dry, wet = FakeWorld(size=60), FakeWorld(separable())
    ghost = Ghost(SPACE)
    aggregation = Aggregation(rule=rule)
    centre = aggregation.centre(dry, ghost, [ghost - ghost] * 3)
    assert isinstance(centre, Ghost)
    assert isinstance(ghost + centre * 0.5, Ghost)
    assert aggregation.flops(dry, ghost, 3) == aggregation.flops(wet, Model(SPACE, SPACE.initial(0)), 3) > 0
    assert isinstance(distilled(dry, ghost, [ghost], Distillation()), Ghost)


@pytest.mark.parametrize("rule", ["screen", "distil"])
def test_without_public_data_there_is_an_error_before_any_work(rule):
    aggregation, model = Aggregation(rule=rule), Model(SPACE, SPACE.initial(0))
    with pytest.raises(SettingError, match="public"):
        aggregation.flops(FakeWorld(), model, 2)
    with pytest.raises(SettingError, match="public"):
        aggregation.centre(FakeWorld(), model, deferred(around(2)))


@pytest.mark.parametrize(
    "bad",
    [{"rule": "best"}, {"trim": 0.5}, {"trim": -0.1}, {"hostile": 0.5}, {"hostile": float("nan")}, {"picks": 0}],
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(SettingError, match=f"aggregation.{next(iter(bad))} is"):
        Aggregation(**bad)


def test_settings_are_a_group():
    tree = {"rule": "screen", "screening": {"longest": 3}, "distillation": {"steps": 10, "lr": 0.01}}
    assert config.apply(Aggregation(), tree) == Aggregation(
        rule="screen", screening=Screening(longest=3.0), distillation=Distillation(steps=10, lr=0.01)
    )
