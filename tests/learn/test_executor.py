"""The executor: what runs together, what it counts, and whose fault a divergence is."""

import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor, Statistics
from paceline.learn.graph import Model, Visit, mean
from paceline.learn.job import Score, Shards, Trained
from paceline.learn.promises import Measure
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import ReferenceTrainer
from paceline.learn.space import Space
from paceline.seeds import stream

TRAINERS = {"reference": ReferenceTrainer, "cohort": CohortTrainer}


def make_space(name="linear"):
    return Space(name, lambda: nn.Linear(2, 2), (2,), torch.float64)


def make_shards(clients=4, each=5, seed=0):
    rng = stream(seed, "executor")
    count = clients * each
    x = torch.from_numpy(rng.normal(size=(count, 2)))
    y = torch.from_numpy(rng.integers(0, 2, count))
    return Shards(x, y, np.arange(count), np.arange(clients + 1) * each)


SPACE, SHARDS, RECIPE = make_space(), make_shards(), LocalSGD(batch=5)


class Recorder:
    """A trainer that moves a model by its rate and remembers every call."""

    device = torch.device("cpu")

    def __init__(self):
        self.trained, self.evaluated = [], []

    def train(self, jobs):
        self.trained.append(jobs)
        return [Trained(job.start + job.lr, torch.tensor(float(job.client))) for job in jobs]

    def evaluate(self, jobs):
        self.evaluated.append(jobs)
        return [Score(float(job.value.mean()), float(job.value.sum()), 10) for job in jobs]


def value(number, space=SPACE):
    return Model(space, torch.full((space.size,), float(number), dtype=space.dtype))


def visit(start, client=0, *, recipe=RECIPE, lr=0.1, shards=SHARDS, owner="A", round=0, time=0.0, **extras):
    operation = Visit("train", shards, client, recipe, lr, client + 7, tuple(extras), owner, round, time)
    return Model(start.space, None, operation, (start, *extras.values()))


def test_what_nobody_needs_any_more_is_freed_at_once():
    """A round's trained models are gone when the next round trains; a hundred rounds may be computed in one call."""

    class Watcher(Recorder):
        alive = ()

        def train(self, jobs):
            self.alive = [reference() is not None for reference in references]
            return super().train(jobs)

    first = [visit(value(0), k) for k in range(3)]
    middle = mean(first)
    second = visit(middle, 3)
    references = [weakref.ref(model) for model in (*first, middle)]
    waiting = [*first, middle, second]
    del first, middle
    waiting.reverse()
    trainer = Watcher()
    Executor(trainer).run(waiting.pop() for _ in range(5))
    assert second.value is not None
    assert trainer.alive == [False, False, False, True]
    assert references[3]() is None


# -- waves --------------------------------------------------------------------------------------------------------


def test_owners_and_rates_share_a_call():
    trainer = Recorder()
    recipes = [LocalSGD(batch=5, lr=0.1), LocalSGD(batch=5, lr=0.7, schedule="inverse:3")]
    models = [
        visit(value(k), k, recipe=recipe, lr=recipe.lr, owner=owner)
        for k, (recipe, owner) in enumerate(zip(recipes, "AB", strict=True))
    ]
    Executor(trainer).run(models)
    (call,) = trainer.trained
    assert sorted(job.lr for job in call) == [0.1, 0.7]
    assert [model.value[0].item() for model in models] == [0.1, 1.7]


@pytest.mark.parametrize(
    "other",
    [
        {"recipe": LocalSGD(batch=6)},
        {"recipe": LocalSGD(batch=5, momentum=0.9)},
        {"shards": make_shards(seed=1)},
        {"mask": value(1)},
        {"correction": value(0)},
        {"start": value(1, make_space("another"))},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_differs_in_more_than_the_rate_does_not(other):
    trainer = Recorder()
    models = [visit(value(0)), visit(**{"start": value(0), "client": 1} | other)]
    Executor(trainer).run(models)
    assert sorted(len(call) for call in trainer.trained) == [1, 1]
    assert all(model.value is not None for model in models)


def test_chains_of_different_lengths_run_side_by_side():
    """Chains of 3 and 5 visits: three waves of two, then two of one."""
    ends = []
    for client, length in enumerate((3, 5)):
        model = value(0)
        for _ in range(length):
            model = visit(model, client)
        ends.append(model)
    executor = Executor(Recorder())
    executor.run(ends)
    assert [len(call) for call in executor.trainer.trained] == [2, 2, 2, 1, 1]
    assert executor.statistics == Statistics(waves=5, visits=8, widest=2)
    assert executor.statistics.mean_wave == 8 / 5
    assert [end.value[0].item() for end in ends] == pytest.approx([0.3, 0.5])


def test_a_synchronous_round_is_one_wave():
    model = value(0)
    for _ in range(3):
        model = mean([visit(model, client) for client in range(4)])
    trainer = Recorder()
    Executor(trainer).run([model])
    assert [len(call) for call in trainer.trained] == [4, 4, 4]
    assert [sorted(job.client for job in call) for call in trainer.trained] == [[0, 1, 2, 3]] * 3


def test_only_what_is_wanted_is_computed_and_only_once():
    shared = visit(value(0))
    wanted, unwanted = visit(shared, 1), visit(shared, 2)
    executor = Executor(Recorder())
    executor.run([wanted, wanted, shared])
    assert unwanted.value is None
    assert executor.statistics.visits == 2
    executor.run([wanted])
    assert executor.statistics.visits == 2, "a value is not computed again"
    executor.run([unwanted])
    assert executor.statistics.visits == 3


def test_statistics_of_nothing():
    executor = Executor(Recorder())
    assert executor.run([]) == {}
    assert executor.run([value(1)]) == {}
    assert executor.statistics == Statistics()
    assert executor.statistics.mean_wave == 0.0


def test_extras_reach_their_jobs_by_name():
    trainer = Recorder()
    model = visit(value(1), anchor=visit(value(2)), mask=value(3))
    Executor(trainer).run([model])
    job = trainer.trained[-1][0]
    assert (job.start[0], job.anchor[0], job.mask[0]) == (1, 2.1, 3)
    assert job.correction is None
    assert (job.client, job.key, job.size) == (0, 7, 5)


def test_a_visit_keeps_its_loss():
    model = visit(value(0), client=3)
    Executor(Recorder()).run([model])
    assert model.figure.item() == 3.0


def test_values_are_freed_while_the_graph_is_computed():
    """Along a chain of 50 visits nobody holds the middle: at no call are more than a few values alive."""
    alive = weakref.WeakSet()

    class Counting(Recorder):
        most = 0

        def train(self, jobs):
            self.most = max(self.most, sum(model.value is not None for model in alive))
            return [Trained(job.start + 1.0, torch.zeros(())) for job in jobs]

    model = value(0)
    for _ in range(50):
        model = visit(model)
        alive.add(model)
    trainer = Counting()
    Executor(trainer).run([model])
    assert model.value[0] == 50
    assert trainer.most <= 2
    assert len(alive) == 1


# -- the real trainers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRAINERS)
def test_one_step_of_the_squared_loss_has_a_closed_form(name):
    """w - lr (w x + b - y) x', averaged over the client's five samples."""
    targets = Shards(SHARDS.x, F.one_hot(SHARDS.y, 2).double(), SHARDS.indices, SHARDS.offsets)
    start = Model(SPACE, SPACE.initial(3))
    model = visit(start, 1, recipe=LocalSGD(batch=5, loss="squared"), lr=0.5, shards=targets)
    Executor(TRAINERS[name]()).run([model])
    x, y = targets.x[5:10].numpy(), targets.y[5:10].numpy()
    w, b = start.value[:4].numpy().reshape(2, 2), start.value[4:].numpy()
    residual = x @ w.T + b - y
    expected = np.concatenate([(w - 0.5 * residual.T @ x / 5).ravel(), b - 0.5 * residual.mean(axis=0)])
    np.testing.assert_allclose(model.value.numpy(), expected, rtol=1e-12)
    assert model.figure.item() == pytest.approx(0.5 * (residual**2).sum() / 5, rel=1e-12)


@pytest.mark.parametrize("name", TRAINERS)
def test_divergence_is_its_owner_s_alone(name):
    """Owner B's rate is absurd; the wave is shared, and A must not notice."""
    recipe = LocalSGD(batch=2, steps=6, loss="squared")
    targets = Shards(SHARDS.x, F.one_hot(SHARDS.y, 2).double(), SHARDS.indices, SHARDS.offsets)
    start = Model(SPACE, SPACE.initial(0))
    common = {"recipe": recipe, "shards": targets}
    alone = [visit(start, client, **common) for client in range(2)]
    fine = [visit(start, client, **common) for client in range(2)]
    wild = visit(visit(start, 2, owner="B", lr=1e60, round=4, time=12.5, **common), 3, owner="B", round=5, **common)
    executor = Executor(TRAINERS[name]())
    problems = executor.run([*fine, wild])
    assert executor.statistics.widest == 3, "they did share a wave"
    assert list(problems) == ["B"]
    assert str(problems["B"]).startswith("training diverged to NaN or infinity at client 2, round 5, t=12.5 s")
    assert "lr=1e+60, batch=2, clip=None" in str(problems["B"])
    assert "hint: lower local.lr" in str(problems["B"])
    assert not torch.isfinite(wild.value).all()
    assert Executor(TRAINERS[name]()).run(alone) == {}
    for together, apart in zip(fine, alone, strict=True):
        assert torch.isfinite(together.value).all()
        torch.testing.assert_close(together.value, apart.value, rtol=1e-12, atol=1e-12)


def test_large_is_not_infinite():
    """The sum of a model may overflow though the model is finite: that is no divergence."""
    huge = torch.finfo(torch.float64).max

    class Huge(Recorder):
        def train(self, jobs):
            return [Trained(torch.full_like(job.start, huge), torch.zeros(())) for job in jobs]

    assert Executor(Huge()).run([visit(value(0))]) == {}


def test_each_run_reports_its_own_divergences():
    class Broken(Recorder):
        def train(self, jobs):
            return [Trained(job.start * torch.nan, torch.zeros(())) for job in jobs]

    executor = Executor(Broken())
    assert list(executor.run([visit(value(0), owner="A")])) == ["A"]
    assert list(executor.run([visit(value(0), owner="B")])) == ["B"]


def test_shards_that_share_features_but_not_labels():
    flipped = Shards(SHARDS.x, 1 - SHARDS.y, SHARDS.indices, SHARDS.offsets)
    start = Model(SPACE, SPACE.initial(0))
    pairs = [[visit(start, 0), visit(start, 1, shards=flipped)] for _ in range(2)]
    for trainer, models in zip(TRAINERS.values(), pairs, strict=True):
        Executor(trainer()).run(models)
    for want, have in zip(*pairs, strict=True):
        torch.testing.assert_close(have.value, want.value, rtol=1e-12, atol=1e-12)


# -- measures -----------------------------------------------------------------------------------------------------


def score(model, x, y):
    """Accuracy and cross-entropy in NumPy."""
    w, b = model[:4].reshape(2, 2), model[4:]
    z = x @ w.T + b
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return (z.argmax(axis=1) == y).mean(), -np.log(p[np.arange(len(y)), y]).mean()


@pytest.mark.parametrize("name", TRAINERS)
def test_a_measure_of_one_model(name):
    model = Model(SPACE, SPACE.initial(1))
    measure = Measure([model], SHARDS.x, SHARDS.y)
    Executor(TRAINERS[name]()).run([], [measure])
    accuracy, loss = score(model.value.numpy(), SHARDS.x.numpy(), SHARDS.y.numpy())
    assert measure.result.accuracy == pytest.approx(accuracy, rel=1e-12)
    assert measure.result.loss == pytest.approx(loss, rel=1e-9)
    assert measure.result.samples == len(SHARDS.y)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_measure_of_many_models_each_on_rows_of_its_own(name):
    """The mean is over models, not samples: every client counts the same."""
    models = [Model(SPACE, SPACE.initial(k)) for k in range(3)]
    rows = [torch.tensor([0, 1]), torch.arange(2, 12), torch.tensor([19])]
    measure = Measure(models, SHARDS.x, SHARDS.y, rows)
    x, y = SHARDS.x.numpy(), SHARDS.y.numpy()
    pairs = [(model.value.numpy(), own.numpy()) for model, own in zip(models, rows, strict=True)]
    expected = np.mean([score(model, x[own], y[own]) for model, own in pairs], axis=0)
    Executor(TRAINERS[name]()).run([], [measure])
    assert [measure.result.accuracy, measure.result.loss] == pytest.approx(expected, rel=1e-9)
    assert measure.result.samples == 13
    assert measure.models == ()


def test_measures_wait_for_training_and_share_a_call():
    trainer = Recorder()
    x, y = SHARDS.x, SHARDS.y
    first = Measure([visit(value(1), owner="A")], x, y)
    second = Measure([visit(value(2), owner="B"), value(4)], x, y)
    Executor(trainer).run([], [first, second])
    assert [len(call) for call in trainer.evaluated] == [3]
    assert first.result == Score(pytest.approx(1.1), pytest.approx(6.6), 10)
    assert second.result == Score(pytest.approx((2.1 + 4) / 2), pytest.approx(6 * (2.1 + 4) / 2), 20)


def test_a_settled_measure_is_left_alone():
    trainer = Recorder()
    measure = Measure([value(1)], SHARDS.x, SHARDS.y)
    measure.settle(Score(0.25, 2.0, 3))
    Executor(trainer).run([], [measure])
    assert trainer.evaluated == []
    assert measure.result == Score(0.25, 2.0, 3)


def test_test_sets_and_spaces_are_kept_apart():
    trainer = Recorder()
    measures = [
        Measure([value(1)], SHARDS.x, SHARDS.y),
        Measure([value(1)], SHARDS.x.clone(), SHARDS.y),
        Measure([value(1, make_space("another"))], SHARDS.x, SHARDS.y),
    ]
    Executor(trainer).run([], measures)
    assert [len(call) for call in trainer.evaluated] == [1, 1, 1]


def test_measures_that_share_features_but_not_labels():
    model = Model(SPACE, SPACE.initial(1))
    rows = [torch.arange(20)]
    right, wrong = Measure([model], SHARDS.x, SHARDS.y, rows), Measure([model], SHARDS.x, 1 - SHARDS.y, rows)
    Executor(CohortTrainer()).run([], [right, wrong])
    assert right.result.accuracy == pytest.approx(1 - wrong.result.accuracy)


def test_the_loss_of_real_targets_has_no_accuracy():
    model = Model(SPACE, SPACE.initial(1))
    y = torch.zeros(20, 2, dtype=torch.float64)
    measure = Measure([model], SHARDS.x, y)
    Executor(CohortTrainer()).run([], [measure])
    assert np.isnan(measure.result.accuracy)
    out = SHARDS.x @ model.value[:4].reshape(2, 2).T + model.value[4:]
    assert measure.result.loss == pytest.approx(0.5 * out.square().sum(dim=1).mean().item(), rel=1e-9)
