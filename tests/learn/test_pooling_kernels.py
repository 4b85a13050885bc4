"""The pooling kernels against torch's own max pooling and ReLU, bit by bit, and where they are used.

They run on a CUDA device or, with TRITON_INTERPRET=1, in Triton's interpreter (that of Triton 3.6 wants numpy below
2.4).
"""

import os
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from paceline.learn.kernels import pooling
from paceline.learn.models import build
from paceline.learn.programs.layers import Add, Flatten, MaxPool, Rectifier, Winners
from paceline.learn.programs.program import Batch, Node
from paceline.learn.programs.reading import _merged, layer_program
from paceline.learn.space import Space

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED or not torch.cuda.is_available() else "cuda"
runs_kernels = pytest.mark.skipif(
    pooling.triton is None or not (INTERPRETED or torch.cuda.is_available()),
    reason="the kernels need Triton, and a CUDA device or TRITON_INTERPRET=1",
)
# The interpreter's own way with numpy.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")
# Images, channels, sides, kernel: ragged tiles, windows that do not cover the image, and single numbers.
CASES = {
    "whole windows": (6, 64, (8, 6), (2, 2)),
    "an odd image": (5, 6, (9, 7), (2, 2)),
    "odd in one direction": (3, 20, (6, 7), (2, 2)),
    "lopsided windows": (3, 3, (10, 8), (3, 2)),
    "rows": (2, 5, (4, 7), (1, 3)),
    "one window": (3, 16, (5, 5), (3, 3)),
    "one channel": (70, 1, (8, 8), (2, 2)),
    "several blocks of channels": (2, 130, (4, 5), (2, 2)),
    "single numbers": (2, 4, (3, 3), (1, 1)),
}


@pytest.fixture
def kernels_everywhere(monkeypatch):
    monkeypatch.setattr(pooling, "usable", lambda *_: True)


def make_pool(kernel, rectified):
    return MaxPool(kernel, kernel, (0, 0), (1, 1), False, rectified)


def last(x):
    return x.contiguous(memory_format=torch.channels_last)


def make_case(name, strange=False):
    """Whole numbers from -6 to 2: ties, zeros, and windows without a positive number."""
    count, channels, (high, wide), kernel = CASES[name]
    generator = torch.Generator().manual_seed(3)
    x = torch.randint(-6, 3, (count, channels, high, wide), generator=generator).float()
    if strange:
        kinds = torch.tensor([float("nan"), float("inf"), float("-inf"), -0.0])
        chosen = kinds[torch.randint(0, 4, x.shape, generator=generator)]
        x = torch.where(torch.rand(x.shape, generator=generator) < 0.4, chosen, x)
    g = torch.randn(count, channels, high // kernel[0], wide // kernel[1], generator=generator)
    return last(x.to(DEVICE)), last(g.to(DEVICE)), kernel


def expected(x, g, kernel, rectified):
    """Torch on the CPU, whose rules for windows of equals and of infinities are the ones kept."""
    leaf = x.detach().cpu().requires_grad_()
    out = F.max_pool2d(leaf.relu() if rectified else leaf, kernel)
    return out.detach().to(DEVICE), torch.autograd.grad(out, leaf, g.cpu())[0].to(DEVICE)


def run(x, g, kernel, rectified):
    layer = make_pool(kernel, rectified)
    out, saved = layer.forward(None, x)
    (gx,) = layer.backward(None, saved, g, True)
    return out, gx, saved


def equal(ours, theirs):
    return torch.equal(ours.isnan(), theirs.isnan()) and torch.equal(ours.nan_to_num(7.0), theirs.nan_to_num(7.0))


@runs_kernels
@pytest.mark.parametrize("rectified", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_kernels_are_torchs_pooling_exactly(name, rectified, kernels_everywhere):
    x, g, kernel = make_case(name)
    out, gx, saved = run(x, g, kernel, rectified)
    assert isinstance(saved, Winners)
    for ours, theirs in zip((out, gx), expected(x, g, kernel, rectified), strict=True):
        assert ours.shape == theirs.shape
        assert ours.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(ours, theirs)


@runs_kernels
@pytest.mark.parametrize("rectified", [False, True])
@pytest.mark.parametrize("name", ["whole windows", "lopsided windows"])
def test_strange_numbers_go_the_way_of_torch(name, rectified, kernels_everywhere):
    """What is no number comes out, so that divergence is noticed, and gets the gradient."""
    x, g, kernel = make_case(name, strange=True)
    assert x.isnan().any() and (x == float("inf")).any()
    out, gx, _ = run(x, g, kernel, rectified)
    wanted, gx_wanted = expected(x, g, kernel, rectified)
    assert wanted.isnan().any() and not wanted.isnan().all()
    assert equal(out, wanted)
    assert torch.equal(gx, gx_wanted)


@runs_kernels
def test_a_gradient_in_any_memory_format(kernels_everywhere):
    """Flattening hands back a gradient that is not channels-last."""
    x, g, kernel = make_case("an odd image")
    assert torch.equal(run(x, g.contiguous(), kernel, True)[1], run(x, g, kernel, True)[1])


@runs_kernels
def test_same_bits_in_any_cohort(kernels_everywhere):
    x, g, kernel = make_case("whole windows")
    out, gx, _ = run(x, g, kernel, True)
    part, gx_part, _ = run(x[:4], g[:4], kernel, True)
    assert torch.equal(part, out[:4]) and torch.equal(gx_part, gx[:4])


@runs_kernels
@pytest.mark.skipif(DEVICE != "cuda", reason="needs a CUDA device with 40 GB")
@pytest.mark.gpu
def test_offsets_beyond_32_bits():
    if torch.cuda.mem_get_info()[0] < 40 * 2**30:
        pytest.skip("too little memory")
    x = torch.zeros(1 + 2**31 // (64 * 64 * 128), 64, 64, 128, device=DEVICE).permute(0, 3, 1, 2)
    x[-1, 5, 63, 62] = 3.0
    out, gx, saved = run(x, torch.ones(len(x), 128, 32, 32, device=DEVICE), (2, 2), True)
    assert isinstance(saved, Winners)
    assert float(out.sum()) == 3.0 and float(out[-1, 5, 31, 31]) == 3.0
    assert float(gx.sum()) == 1.0 and float(gx[-1, 5, 63, 62]) == 1.0


@runs_kernels
def test_a_whole_program_with_kernels_and_without(monkeypatch):
    space = Space("lenet", lambda: build("lenet", (1, 28, 28), 10), (1, 28, 28))
    program = layer_program(space)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(6, 1, 28, 28, generator=generator).to(DEVICE)
    y, even = torch.arange(6, device=DEVICE), torch.full((2, 3), 1 / 3, device=DEVICE)
    params = program.pack([space.initial(k).to(DEVICE) for k in range(2)])
    found = []
    usable = pooling.usable

    def channels_last(x, *_):
        return x.is_contiguous(memory_format=torch.channels_last)

    for choose in (channels_last if INTERPRETED else usable, lambda *_: False):
        monkeypatch.setattr(pooling, "usable", choose)
        grads = [torch.empty_like(p) for p in params]
        with torch.no_grad():
            loss_C = program.gradients(params, grads, Batch(x, y, even), "cross_entropy")
        found.append([loss_C, *grads])
    # Not by the bit: a layer after the pooling may choose otherwise for another memory format.
    for ours, theirs in zip(*found, strict=True):
        assert float((ours - theirs).abs().max()) <= 1e-5 * float(theirs.abs().max())


@pytest.mark.parametrize("rectified", [False, True])
def test_torchs_own_path(rectified, monkeypatch):
    """No kernel takes part, so this runs everywhere; also for windows that overlap."""
    monkeypatch.setattr(pooling, "usable", lambda *_: False)
    x, g, kernel = make_case("lopsided windows")
    for ours, theirs in zip(run(x, g, kernel, rectified), expected(x, g, kernel, rectified), strict=False):
        assert torch.equal(ours, theirs)
    layer = MaxPool((3, 3), (2, 2), (1, 1), (1, 1), True, rectified)
    leaf = x.clone().requires_grad_()
    wanted = F.max_pool2d(leaf.relu() if rectified else leaf, 3, 2, 1, ceil_mode=True)
    out, saved = layer.forward(None, x)
    assert torch.equal(out, wanted)
    g = torch.ones_like(out)
    assert torch.equal(layer.backward(None, saved, g, True)[0], torch.autograd.grad(wanted, leaf, g)[0])


def test_what_the_kernels_leave_alone(monkeypatch):
    """Each condition by itself; the device is pretended, for there may be none."""

    class OnCuda(torch.Tensor):
        is_cuda = True

    monkeypatch.setattr(pooling, "triton", object())
    monkeypatch.setattr(pooling, "works", lambda device: True)
    x = last(torch.zeros(4, 3, 8, 8)).as_subclass(OnCuda)
    plain = ((2, 2), (2, 2), (0, 0), (1, 1), False)
    assert pooling.usable(x, *plain)
    assert not pooling.usable(last(torch.zeros(4, 3, 8, 8)), *plain)
    assert not pooling.usable(x.double(), *plain)
    assert not pooling.usable(x[0], *plain)
    assert not pooling.usable(x[:0], *plain)
    assert not pooling.usable(x.contiguous(), *plain)
    assert not pooling.usable(x, (2, 2), (2, 1), (0, 0), (1, 1), False)
    assert not pooling.usable(x, (2, 2), (2, 2), (0, 1), (1, 1), False)
    assert not pooling.usable(x, (2, 2), (2, 2), (0, 0), (2, 1), False)
    assert not pooling.usable(x, (2, 2), (2, 2), (0, 0), (1, 1), True)
    assert not pooling.usable(x, (9, 2), (9, 2), (0, 0), (1, 1), False)
    monkeypatch.setattr(pooling, "MOST_TAPS", 3)
    assert not pooling.usable(x, *plain)
    monkeypatch.setattr(pooling, "MOST_TAPS", 4)
    # Memory that is not there: only shape and strides are looked at.
    many = torch.empty(2**25, 8, 8, 1, device="meta").permute(0, 3, 1, 2).as_subclass(OnCuda)
    assert not pooling.usable(many, *plain)
    large = torch.empty(1, 2**14, 2**14, 8, device="meta").permute(0, 3, 1, 2).as_subclass(OnCuda)
    assert not pooling.usable(large, *plain)
    monkeypatch.setattr(pooling, "works", lambda device: False)
    assert not pooling.usable(x, *plain)


# -- which nodes become one ---------------------------------------------------------------------------------------


POOL = make_pool((2, 2), False)
BOTH = replace(POOL, rectified=True)


def chain(*layers):
    return [Node(layer, (k,), True) for k, layer in enumerate(layers)]


def test_a_pool_and_its_rectifier_become_one():
    nodes = chain(Flatten(), POOL, Rectifier(), POOL, Flatten(), Rectifier())
    assert _merged(nodes) == chain(Flatten(), BOTH, POOL, Flatten(), Rectifier())


def test_later_nodes_read_what_they_read_before():
    nodes = [*chain(POOL, Rectifier(), Flatten()), Node(Add(), (2, 3), True), Node(Rectifier(), (4,), True)]
    assert _merged(nodes) == [*chain(BOTH, Flatten()), Node(Add(rectified=True), (1, 2), True)]


def test_a_pool_that_someone_else_reads_stays():
    nodes = [*chain(POOL, Rectifier()), Node(Add(), (1, 2), True)]
    assert _merged(nodes) == nodes


def test_a_rectifier_of_something_else_stays():
    nodes = [
        Node(Flatten(), (0,), True),
        Node(POOL, (0,), True),
        Node(Rectifier(), (1,), True),
        Node(Add(), (2, 3), True),
    ]
    assert _merged(nodes) == nodes


@pytest.mark.parametrize("name", ["cnn-psfl", "lenet"])
def test_models_have_no_rectifier_beside_a_pool(name):
    shape = (3, 32, 32) if name == "cnn-psfl" else (1, 28, 28)
    program = layer_program(Space(name, lambda: build(name, shape, 10), shape))
    kinds = [node.layer for node in program.nodes]
    assert sum(isinstance(layer, MaxPool) for layer in kinds) == 2
    assert all(layer.rectified for layer in kinds if isinstance(layer, MaxPool))


def test_a_module_that_pools_first_is_merged_too():
    parts = (nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 3))
    program = layer_program(Space("pools first", lambda: nn.Sequential(*parts), (1, 8, 8)))
    assert len(program.nodes) == 4
