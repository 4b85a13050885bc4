"""A slower way than the usual one is told, once in a process, whatever the reason; and TorchScript has one door."""

import threading
import warnings
from pathlib import Path

import pytest
import torch
from tests.contract.test_trainers import Branching, make_jobs, make_shards, make_space
from torch import nn

import paceline
from paceline.errors import SlowerWay
from paceline.learn import notices, torchscript
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.kernels import convolution as kernels
from paceline.learn.programs import single
from paceline.learn.programs.reading import compile_program
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space


@pytest.fixture
def told(monkeypatch):
    """What is told in a process that has told nothing yet."""
    monkeypatch.setattr(notices, "_told", set())
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", SlowerWay)
        yield lambda: [str(one.message) for one in given if issubclass(one.category, SlowerWay)]


def branching():
    return Space("mine", lambda: Branching(6, 3), (6,), torch.float64)


def test_a_text_is_told_once_also_by_many_threads(told):
    threads = [threading.Thread(target=notices.tell_slower, args=("slow",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    notices.tell_slower("slow too")
    assert told() == ["slow", "slow too"]


def test_a_module_of_unknown_layers_is_told_once(told):
    for _ in range(2):
        compile_program(branching())
    (text,) = told()
    assert text.startswith("model 'mine' runs through torch.func.vmap, which is slower: no batched form is known of ")
    assert "sin" in text


def test_a_module_that_is_not_what_it_seems_is_told(told):
    class Held(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = nn.Sequential(nn.Linear(6, 3))
            self.inside[0].forward = lambda x: 2 * nn.functional.linear(x, *self.inside[0].parameters())

        def forward(self, x):
            return self.inside(x)

    compile_program(Space("held", Held, (6,), torch.float64))
    (text,) = told()
    assert text.startswith("model 'held' runs through torch.func.vmap, which is slower: ")


def test_a_network_of_known_layers_tells_nothing(told):
    space = make_space("mlp:16", (1, 5, 5), 4)
    trainer = CohortTrainer(threads=1)
    for _ in range(5):
        trainer.train(make_jobs(space, make_shards((1, 5, 5), 4, torch.float64), LocalSGD(batch=8)))
    assert told() == []


def test_training_goes_on_without_torchscript_and_says_so_once(told, monkeypatch):
    space = make_space("mlp:16", (1, 5, 5), 4)
    jobs = make_jobs(space, make_shards((1, 5, 5), 4, torch.float64), LocalSGD(batch=8))
    expected = CohortTrainer(threads=1).train(jobs)

    def gone(*given, **named):
        raise RuntimeError("TorchScript is gone\nfor good")

    monkeypatch.setattr(torch.jit, "trace", gone)
    trainer = CohortTrainer(threads=1)
    found = [trainer.train(jobs) for _ in range(5)]
    assert all(torch.equal(a.value, b.value) for one in found for a, b in zip(one, expected, strict=True))
    assert told() == [
        "training of 'mlp:16' on the CPU runs step by step in Python, which is slower:"
        " TorchScript cannot trace it (TorchScript is gone)"
    ]


def test_a_module_through_vmap_is_not_told_twice(told):
    """TorchScript could not take it either, which nobody need be told."""
    trainer, jobs = CohortTrainer(threads=1), None
    for _ in range(5):
        jobs = jobs or make_jobs(branching(), make_shards((6,), 3, torch.float64), LocalSGD(batch=8))
        trainer.train(jobs)
    assert len(told()) == 1 and "vmap" in told()[0]


def test_convolutions_go_on_without_torchscript_and_say_so_once(told, monkeypatch):
    def gone(text):
        raise AttributeError

    single.convolution_derivatives.cache_clear()
    usual = single.convolution_derivatives()
    g, x, w = torch.randn(2, 3, 4, 4), torch.randn(2, 1, 6, 6), torch.randn(3, 1, 3, 3)
    shape = ((1, 1), (0, 0), (1, 1), 1)
    monkeypatch.setattr(torch.jit, "CompilationUnit", gone)
    try:
        single.convolution_derivatives.cache_clear()
        plain = single.convolution_derivatives()
        for form, derivative in usual.items():
            pairs = zip(derivative(g, x, w, *shape), plain[form](g, x, w, *shape), strict=True)
            assert all(torch.equal(one, other) for one, other in pairs)
        (text,) = told()
        assert "derivative of a convolution" in text and text.endswith("(AttributeError)")
    finally:
        single.convolution_derivatives.cache_clear()


@pytest.mark.parametrize(
    ("triton", "capability", "reason"),
    [
        (None, (9, 0), "Triton is not installed"),
        (object(), (7, 5), "8.0 or more"),
        (object(), (9, 0), "cannot compile"),
    ],
)
def test_kernels_that_cannot_run_are_told_once(told, monkeypatch, triton, capability, reason):
    monkeypatch.setattr(kernels, "triton", triton)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    kernels.works.cache_clear()
    try:
        assert not any(kernels.works(torch.device("cuda:0")) for _ in range(3))
        (text,) = told()
        assert text.startswith("convolutions, pooling and masks on cuda:0") and reason in text
    finally:
        kernels.works.cache_clear()


def test_torchscript_has_one_door():
    source = Path(paceline.__file__).parent
    users = [
        file
        for file in source.rglob("*.py")
        if "torch.jit" in file.read_text() or "torch import jit" in file.read_text()
    ]
    assert users == [Path(torchscript.__file__)]
