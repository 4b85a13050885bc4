"""Every trainer must agree with ``learn/reference.py``: every recipe option, every model, any cohort size."""

import numpy as np
import pytest
import torch
from torch import nn

from paceline.learn.cohort.rules import Rules
from paceline.learn.cohort.scripted import scripts_of
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.hashing import signed
from paceline.learn.job import EvalJob, Shards, TrainJob
from paceline.learn.models import build
from paceline.learn.programs.reading import compile_program
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import ReferenceTrainer
from paceline.learn.space import Space
from paceline.seeds import address, stream

SIZES = (23, 7, 40, 12, 31, 1, 20)
"""Samples of the seven clients: ragged, one smaller than a batch, one a single sample."""

OPTIONS = {
    "plain": {},
    "steps": {"steps": 7},
    "two epochs": {"epochs": 2},
    "momentum": {"momentum": 0.9},
    "weight decay": {"weight_decay": 0.01},
    "momentum and decay": {"momentum": 0.9, "weight_decay": 0.01, "epochs": 2},
    "clip": {"clip": 0.5},
    "prox": {"prox": 0.3, "epochs": 2},
    "sam": {"sam": 0.05},
    "everything": {"momentum": 0.5, "weight_decay": 1e-3, "clip": 1.0, "prox": 0.1, "sam": 0.02, "epochs": 2},
}
EXTRAS = ("mask", "correction", "anchor", "rates")

MODELS = {
    "logistic": ((6,), 3, 8),
    "mlp:16": ((1, 5, 5), 4, 8),
    "mlp:512": ((1, 28, 28), 10, 8),
    "lenet": ((3, 32, 32), 10, 6),
    "cnn-psfl": ((3, 32, 32), 10, 5),
    "cnn-ham": ((3, 32, 32), 7, 5),
    "cnn1-pfedavg": ((1, 28, 28), 62, 4),
    "cnn2-pfedavg": ((3, 32, 32), 10, 4),
    "resnet18": ((3, 16, 16), 10, 3),
    "vgg11": ((3, 32, 32), 10, 3),
    "alexnet": ((3, 64, 64), 7, 3),
}


LONG = {"vgg11", "alexnet", "resnet18"}
"""Of layers that the others have too, and many of them."""
SLOW = pytest.mark.slow
DEEP = 5_000_000
"""Parameters beyond which a step takes seconds."""


class Branching(nn.Module):
    """A user's module that no layer rule knows: it goes through vmap."""

    def __init__(self, features, classes):
        super().__init__()
        self.inside = nn.Linear(features, 8)
        self.gain = nn.Parameter(torch.ones(8))
        self.drop = nn.Dropout(0.3)
        self.outside = nn.Linear(8, classes)

    def forward(self, x):
        h = torch.sin(self.inside(x)) * self.gain
        return self.outside(self.drop(h))


class Grouping(Rules):
    """Groups convolutions too, which a CPU never does: the form without kernels that a GPU falls back to."""

    def go_alone(self, program):
        return False


class GroupingTrainer(CohortTrainer):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.rules = Grouping(**vars(self.rules))


def make_space(name, shape, classes, dtype=torch.float64):
    return Space(name, lambda: build(name, shape, classes), shape, dtype)


def make_shards(shape, classes, dtype, sizes=SIZES):
    rng = stream(7, "contract", str(shape))
    count = sum(sizes)
    x = torch.from_numpy(rng.normal(size=(count, *shape))).to(dtype)
    y = torch.from_numpy(rng.integers(0, classes, count))
    order = rng.permutation(count).astype(np.int64)
    return Shards(x, y, order, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def make_jobs(space, shards, recipe, *, extra=None, visits=1):
    jobs = []
    for visit in range(visits):
        for client in range(len(shards)):
            rng = stream(3, "job", client, visit)
            vector = torch.from_numpy(rng.normal(size=space.size)).to(space.dtype)
            jobs.append(
                TrainJob(
                    space=space,
                    start=space.initial(client),
                    recipe=recipe,
                    lr=recipe.lr * (1 + client) / 4 if extra == "rates" else recipe.lr,
                    shards=shards,
                    client=client,
                    key=signed(address(5, "train", client, visit)),
                    mask=(vector > -0.5).to(space.dtype) if extra == "mask" else None,
                    correction=0.01 * vector if extra == "correction" else None,
                    anchor=0.1 * vector if extra == "anchor" else None,
                )
            )
    return jobs


def compare(jobs, trainer, tolerance, expected=None):
    """That a trainer's models and losses are the reference's, which may be given."""
    expected = ReferenceTrainer().train(jobs) if expected is None else expected
    got = trainer.train(jobs)
    for job, want, have in zip(jobs, expected, got, strict=True):
        moved = (want.value - job.start).norm()
        assert moved > 0
        assert (have.value - want.value).norm() <= tolerance * (1 + moved)
        assert abs(have.loss - want.loss) <= tolerance * (1 + abs(want.loss))


@pytest.mark.parametrize("cohort", [1, 3, 7, 64])
@pytest.mark.parametrize("option", OPTIONS)
def test_recipe_options_in_float64(option, cohort):
    space = make_space("mlp:16", (1, 5, 5), 4)
    recipe = LocalSGD(batch=8, lr=0.1, **OPTIONS[option])
    compare(
        make_jobs(space, make_shards((1, 5, 5), 4, torch.float64), recipe),
        CohortTrainer(cohort=cohort),
        1e-12,
    )


@pytest.mark.parametrize("cohort", [1, 3, 64])
@pytest.mark.parametrize("extra", EXTRAS)
def test_per_client_extras_in_float64(extra, cohort):
    space = make_space("mlp:16", (1, 5, 5), 4)
    recipe = LocalSGD(batch=8, lr=0.1, prox=0.2, momentum=0.5, weight_decay=0.01, epochs=2)
    shards = make_shards((1, 5, 5), 4, torch.float64)
    compare(make_jobs(space, shards, recipe, extra=extra), CohortTrainer(cohort=cohort), 1e-12)


@pytest.mark.parametrize("cohort", [1, 3])
@pytest.mark.parametrize("option", ["sam", "everything"])
def test_options_with_convolutions_and_dropout(option, cohort):
    space = make_space("cnn-ham", (3, 24, 24), 4)
    recipe = LocalSGD(batch=4, lr=0.02, **OPTIONS[option] | {"steps": 3, "epochs": None})
    shards = make_shards((3, 24, 24), 4, torch.float64, sizes=(5, 3, 4))
    compare(make_jobs(space, shards, recipe), GroupingTrainer(cohort=cohort), 1e-11)


@pytest.mark.parametrize(
    "name", [*sorted(MODELS.keys() - LONG), *(pytest.param(x, marks=SLOW) for x in sorted(LONG))]
)
def test_models_in_float64(name):
    """One client at a time, and two together: the program is compiled once for both, which takes longest."""
    shape, classes, batch = MODELS[name]
    space = make_space(name, shape, classes)
    shards = make_shards(shape, classes, torch.float64, sizes=(batch, batch - 1))
    jobs = make_jobs(space, shards, LocalSGD(batch=batch, lr=0.01, steps=1 if space.size > DEEP else 2))
    expected = ReferenceTrainer().train(jobs)
    for cohort in (1, 2):
        compare(jobs, GroupingTrainer(cohort=cohort), 1e-10, expected)


@pytest.mark.parametrize("name", ["mlp:512", "lenet", "cnn-psfl"])
def test_models_in_float32(name):
    """Stated tolerance: 1e-4 relative to the distance moved (plus one) after three steps."""
    shape, classes, batch = MODELS[name]
    space = make_space(name, shape, classes, torch.float32)
    shards = make_shards(shape, classes, torch.float32, sizes=(batch, batch + 3, 2))
    for cohort in (1, 3):
        recipe = LocalSGD(batch=batch, lr=0.05, steps=3, momentum=0.9)
        compare(make_jobs(space, shards, recipe), GroupingTrainer(cohort=cohort), 1e-4)


@pytest.mark.parametrize("cohort", [1, 3])
def test_augmentation_is_addressed(cohort):
    space = make_space("lenet", (3, 32, 32), 10)
    recipe = LocalSGD(batch=4, lr=0.05, steps=3, augment="crop-flip")
    shards = make_shards((3, 32, 32), 10, torch.float64, sizes=(9, 4, 6))
    compare(make_jobs(space, shards, recipe), GroupingTrainer(cohort=cohort), 1e-11)


@pytest.mark.parametrize("cohort", [1, 3, 64])
def test_threads_change_nothing(cohort):
    """Convolutions of several clients run in several threads, also through the module that vmap swaps tensors of."""
    recipe = LocalSGD(batch=4, lr=0.05, steps=3)
    space = make_space("lenet", (3, 32, 32), 10)
    shards = make_shards((3, 32, 32), 10, torch.float64, sizes=(9, 4, 6, 5))
    compare(make_jobs(space, shards, recipe), CohortTrainer(cohort=cohort, threads=2), 1e-11)
    space = Space("user", lambda: Branching(6, 3), (6,), torch.float64)
    jobs = make_jobs(space, make_shards((6,), 3, torch.float64), recipe)
    compare(jobs, CohortTrainer(cohort=cohort, threads=2), 1e-12)


@pytest.mark.parametrize("cohort", [1, 3, 64])
def test_a_user_module_goes_through_vmap(cohort):
    space = Space("user", lambda: Branching(6, 3), (6,), torch.float64)
    assert type(compile_program(space)).__name__ == "VmapProgram"
    recipe = LocalSGD(batch=8, lr=0.1, momentum=0.9, epochs=2)
    compare(make_jobs(space, make_shards((6,), 3, torch.float64), recipe), CohortTrainer(cohort=cohort), 1e-12)


@pytest.mark.parametrize("cohort", [1, 64])
def test_squared_loss(cohort):
    space = make_space("logistic", (6,), 3)
    shards = make_shards((6,), 3, torch.float64)
    targets = Shards(shards.x, torch.nn.functional.one_hot(shards.y, 3).double(), shards.indices, shards.offsets)
    recipe = LocalSGD(batch=8, lr=0.05, epochs=2, loss="squared")
    compare(make_jobs(space, targets, recipe), CohortTrainer(cohort=cohort), 1e-12)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["mlp:16", "lenet"])
def test_repeating_gives_the_same_bits(name, threads):
    shape, classes, _ = MODELS[name]
    space = make_space(name, shape, classes, torch.float32)
    jobs = make_jobs(space, make_shards(shape, classes, torch.float32), LocalSGD(batch=8, epochs=1))
    first, second = (CohortTrainer(threads=threads).train(jobs) for _ in range(2))
    assert all(torch.equal(a.value, b.value) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("option", OPTIONS)
def test_scripted_steps_have_the_bits_of_plain_ones(option):
    """A form is scripted when it has come up a few times; the first visits run plain, the last ones scripted."""
    space = make_space("mlp:16", (1, 5, 5), 4, torch.float32)
    jobs = make_jobs(space, make_shards((1, 5, 5), 4, torch.float32), LocalSGD(batch=8, **OPTIONS[option]))
    trainer = CohortTrainer(threads=1)
    runs = [trainer.train(jobs) for _ in range(6)]
    assert scripts_of(space).scripts, "nothing was scripted"
    for later in runs[1:]:
        assert all(torch.equal(a.value, b.value) for a, b in zip(runs[0], later, strict=True))
        assert all(torch.equal(a.loss, b.loss) for a, b in zip(runs[0], later, strict=True))


def test_a_rate_that_changes_is_not_baked_into_a_script():
    space = make_space("mlp:16", (1, 5, 5), 4)
    trainer = CohortTrainer(threads=1)
    for lr in (0.1, 0.1, 0.1, 0.02, 0.3):
        recipe = LocalSGD(batch=8, lr=lr, weight_decay=0.01)
        compare(make_jobs(space, make_shards((1, 5, 5), 4, torch.float64), recipe), trainer, 1e-12)


def test_inputs_are_not_written_to():
    space = make_space("mlp:16", (1, 5, 5), 4)
    jobs = make_jobs(space, make_shards((1, 5, 5), 4, torch.float64), LocalSGD(batch=8), extra="mask")
    before = [job.start.clone() for job in jobs]
    for trainer in (ReferenceTrainer(), CohortTrainer()):
        trainer.train(jobs)
        assert all(torch.equal(a, job.start) for a, job in zip(before, jobs, strict=True))


@pytest.mark.parametrize("name", ["mlp:16", "lenet"])
@pytest.mark.parametrize("personal", [False, True])
def test_evaluation(name, personal):
    shape, classes, _ = MODELS[name]
    space = make_space(name, shape, classes)
    shards = make_shards(shape, classes, torch.float64)
    jobs = []
    for client in range(len(shards)):
        rows = torch.from_numpy(shards.rows(client)) if personal else None
        jobs.append(EvalJob(space, space.initial(client), shards.x, shards.y, rows))
    expected, got = ReferenceTrainer().evaluate(jobs), CohortTrainer().evaluate(jobs)
    for want, have in zip(expected, got, strict=True):
        assert have.samples == want.samples
        assert have.accuracy == pytest.approx(want.accuracy, abs=1e-6)
        assert have.loss == pytest.approx(want.loss, rel=1e-9)


# -- probes: full gradients and their noise ------------------------------------------------------------------------


def compare_probes(jobs, trainer, tolerance):
    for want, have in zip(ReferenceTrainer().probe(jobs), trainer.probe(jobs), strict=True):
        assert (have.value.cpu() - want.value).norm() <= tolerance * want.value.norm()
        assert float(have.variance) == pytest.approx(float(want.variance), rel=100 * tolerance, abs=tolerance)


@pytest.mark.parametrize("cohort", [None, 1, 3, 64])
def test_probes_in_float64(cohort):
    space = make_space("mlp:16", (1, 5, 5), 4)
    shards = make_shards((1, 5, 5), 4, torch.float64)
    compare_probes(make_jobs(space, shards, LocalSGD()), CohortTrainer(cohort=cohort), 1e-12)


@pytest.mark.parametrize("name", ["logistic", "lenet", "cnn-ham", pytest.param("resnet18", marks=SLOW)])
def test_probes_of_models(name):
    shape, classes, _ = MODELS[name]
    space = make_space(name, shape, classes)
    shards = make_shards(shape, classes, torch.float64, sizes=(4, 1, 3) if space.size > DEEP else (9, 1, 3))
    compare_probes(make_jobs(space, shards, LocalSGD()), GroupingTrainer(cohort=2), 1e-10)


def test_probes_of_a_module_that_goes_through_vmap():
    space = Space("branching", lambda: Branching(6, 3), (6,), torch.float64)
    shards = make_shards((6,), 3, torch.float64)
    compare_probes(make_jobs(space, shards, LocalSGD()), CohortTrainer(), 1e-12)


def test_a_probe_is_the_full_gradient_and_its_noise_is_unbiased():
    """Against all samples' own gradients; the mean noise over 400 random partitions is within 4 standard errors.

    False alarms of the latter: about 1 in 10,000 seeds for each of the clients compared.
    """
    space = make_space("logistic", (6,), 3)
    shards = make_shards((6,), 3, torch.float64)
    start = space.initial(0)
    for client in (0, 1, 2, 5):
        jobs = [
            TrainJob(space, start, LocalSGD(), 0.1, shards, client, signed(address(9, client, k))) for k in range(400)
        ]
        probes = CohortTrainer().probe(jobs)
        rows = shards.rows(client)
        each = Shards(shards.x, shards.y, rows, np.arange(len(rows) + 1))  # every sample a client of its own
        alone = [TrainJob(space, start, LocalSGD(), 0.1, each, k, 0) for k in range(len(rows))]
        single = [one.value for one in ReferenceTrainer().probe(alone)]
        gradients = torch.stack(single)
        full = gradients.mean(dim=0)
        assert (probes[0].value - full).norm() <= 1e-12 * full.norm()
        noise = float((gradients - full).square().sum(dim=1).mean())
        drawn = np.array([float(p.variance) for p in probes])
        error = drawn.std(ddof=1) / np.sqrt(len(drawn))
        assert abs(drawn.mean() - noise) <= 4 * error + 1e-12


def test_probes_take_no_dropout_and_change_nothing():
    shape, classes, _ = MODELS["cnn-ham"]
    space = make_space("cnn-ham", shape, classes)
    shards = make_shards(shape, classes, torch.float64, sizes=(5, 6))
    jobs = make_jobs(space, shards, LocalSGD())
    before = [job.start.clone() for job in jobs]
    first, second = (CohortTrainer().probe(jobs) for _ in range(2))
    assert all(torch.equal(a.value, b.value) for a, b in zip(first, second, strict=True))
    assert all(torch.equal(job.start, kept) for job, kept in zip(jobs, before, strict=True))
