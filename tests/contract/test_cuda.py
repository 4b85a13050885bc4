"""The same contract on a CUDA device, with its captured graphs; run by hand where there is one."""

import pytest
import torch

from paceline.errors import SlowerWay
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.recipe import LocalSGD
from tests.contract.test_batching import NAMES, run_alone, scores, timeline
from tests.contract.test_trainers import (
    EXTRAS,
    MODELS,
    OPTIONS,
    compare,
    compare_probes,
    make_jobs,
    make_shards,
    make_space,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(autouse=True)
def exact_products():
    """Without TF32, so that float32 keeps its precision; float64 is not touched by it."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize("cohort", [None, 3])
@pytest.mark.parametrize("option", OPTIONS)
def test_recipe_options_on_cuda(option, cohort):
    space = make_space("mlp:16", (1, 5, 5), 4)
    recipe = LocalSGD(batch=8, lr=0.1, **OPTIONS[option])
    trainer = CohortTrainer("cuda", cohort)
    for visits in (1, 2):  # the second time replays what the first captured
        jobs = make_jobs(space, make_shards((1, 5, 5), 4, torch.float64), recipe, visits=visits)
        compare_on_cpu(jobs, trainer, 1e-11)


@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_on_cuda(extra):
    space = make_space("mlp:16", (1, 5, 5), 4)
    recipe = LocalSGD(batch=8, lr=0.1, prox=0.2, momentum=0.5, weight_decay=0.01, epochs=2)
    jobs = make_jobs(space, make_shards((1, 5, 5), 4, torch.float64), recipe, extra=extra)
    compare_on_cpu(jobs, CohortTrainer("cuda"), 1e-11)


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
@pytest.mark.parametrize("name", MODELS)
def test_models_on_cuda(name, augment):
    shape, classes, batch = MODELS[name]
    if augment == "crop-flip" and len(shape) != 3:
        pytest.skip("only images are cropped")
    space = make_space(name, shape, classes)
    shards = make_shards(shape, classes, torch.float64, sizes=(batch, batch - 1, 2))
    recipe = LocalSGD(batch=batch, lr=0.01, steps=2, augment=augment)
    compare_on_cpu(make_jobs(space, shards, recipe), CohortTrainer("cuda"), 1e-9)


@pytest.mark.parametrize("name", ["lenet", "cnn-psfl", "resnet18"])
def test_float32_on_cuda(name):
    shape, classes, batch = MODELS[name]
    space = make_space(name, shape, classes, torch.float32)
    shards = make_shards(shape, classes, torch.float32, sizes=(batch, batch + 3, 2))
    jobs = make_jobs(space, shards, LocalSGD(batch=batch, lr=0.05, steps=3, momentum=0.9))
    compare_on_cpu(jobs, CohortTrainer("cuda"), 1e-3 if name == "resnet18" else 1e-4)  # rounding grows with depth


@pytest.mark.parametrize("name", ["mlp:16", "cnn-psfl", "cnn-ham"])
def test_probes_on_cuda(name):
    shape, classes, batch = MODELS[name]
    space = make_space(name, shape, classes)
    shards = make_shards(shape, classes, torch.float64, sizes=(batch, 30, 1))
    compare_probes(make_jobs(space, shards, LocalSGD()), CohortTrainer("cuda"), 1e-9)


@pytest.mark.parametrize("extra", [None, "mask"])
def test_streams_change_nothing(extra, monkeypatch):
    """Clients side by side get the bits that they get one after the other, also when graphs are used again."""
    shape, classes, batch = MODELS["resnet18"]
    space = make_space("resnet18", shape, classes, torch.float32)
    shards = make_shards(shape, classes, torch.float32, sizes=(batch, batch + 3, 2, 2 * batch, batch))
    recipe = LocalSGD(batch=batch, lr=0.05, steps=6, momentum=0.9, weight_decay=1e-3)
    jobs = make_jobs(space, shards, recipe, extra=extra, visits=3)
    found = {}
    for count in (1, 4):
        monkeypatch.setattr("paceline.learn.cohort.trainer.streams_of", lambda _, count=count: count)
        trainer = CohortTrainer("cuda", cohort=1)
        found[count] = [[one.value.cpu() for one in trainer.train(jobs)] for _ in range(3)]
    for count, again in [(1, one) for one in found[1][1:]] + [(4, one) for one in found[4]]:
        apart = max(float((have - want).abs().max()) for have, want in zip(again, found[1][0], strict=True))
        assert apart == 0.0, f"with {count} streams, weights differ by up to {apart:.3g}"


def compare_on_cpu(jobs, trainer, tolerance):
    class Home:
        def train(self, some):
            done = trainer.train(some)
            return [type(one)(one.value.cpu(), one.loss.cpu()) for one in done]

    compare(jobs, Home(), tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_an_algorithm_on_cuda(name):
    """Whatever an algorithm does with models, masks and sums, the device does not show in its result."""
    want = run_alone(name, "executor.name=reference", "executor.dtype=float64")
    run = run_alone(name, "executor.device=cuda", "executor.dtype=float64")
    assert timeline(run) == timeline(want)
    assert scores(run) == pytest.approx(scores(want), rel=1e-9)


@pytest.fixture
def little_memory():
    """Room on the device for 600 MB."""
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(600e6 / whole)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def test_a_cohort_that_does_not_fit_is_halved(little_memory):
    """64 clients of 5 MB each, with gradients and a captured copy of both, do not fit at once."""
    space = make_space("mlp:1600", (1, 28, 28), 10, torch.float32)
    shards = make_shards((1, 28, 28), 10, torch.float32, sizes=(8,) * 64)
    jobs = make_jobs(space, shards, LocalSGD(batch=8, lr=0.05, steps=2, momentum=0.9))
    trainer = CohortTrainer("cuda", 64)
    with pytest.warns(SlowerWay, match="ran out of device memory"):
        compare_on_cpu(jobs, trainer, 1e-4)
    assert max(trainer._shrinking._most.values()) < 64


def test_a_limit_is_kept_on_cuda():
    space = make_space("mlp:1600", (1, 28, 28), 10, torch.float32)
    shards = make_shards((1, 28, 28), 10, torch.float32, sizes=(8,) * 64)
    jobs = make_jobs(space, shards, LocalSGD(batch=8, lr=0.05, steps=2))
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        compare_on_cpu(jobs, CohortTrainer("cuda", limit=1e9), 1e-4)
        assert torch.cuda.max_memory_reserved() <= 1e9
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
