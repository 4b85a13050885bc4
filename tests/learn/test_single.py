"""One client's convolutions on a CPU: surplus channels, and places in pairs, change nothing but speed."""

import platform

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from paceline.learn.allocation import keep_freed_memory
from paceline.learn.programs import single
from paceline.learn.programs.convolution import Convolution
from paceline.learn.programs.program import Batch, LayerProgram
from paceline.learn.programs.reading import compile_program
from paceline.learn.space import Space


def chain(*middle, channels=6, padding=0, bias=True):
    return nn.Sequential(
        nn.Conv2d(2, channels, 3, padding=padding, bias=bias),
        *middle,
        nn.Conv2d(channels, 3, 3),
        nn.Flatten(),
        nn.LazyLinear(4),
    )


def space_of(network):
    network(torch.zeros(1, 2, 12, 12))  # lazy layers take their shape
    return Space("a network", lambda: network, (2, 12, 12))


CHAINS = {
    "relu": lambda: chain(nn.ReLU()),
    "pooled": lambda: chain(nn.ReLU(), nn.MaxPool2d(2)),
    "nothing between": lambda: chain(channels=5, padding=1),
    "without bias": lambda: chain(nn.MaxPool2d(2), nn.ReLU(), channels=7, bias=False),
}
OTHERS = {
    "normalised": lambda: chain(nn.GroupNorm(2, 6)),  # a group would have other members
    "tanh": lambda: chain(nn.Tanh()),
    "few": lambda: chain(nn.ReLU(), channels=4),
    "many": lambda: chain(nn.ReLU(), channels=9),
    "read by a dense layer": lambda: nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)),
    "groups": lambda: nn.Sequential(nn.Conv2d(2, 6, 3), nn.Conv2d(6, 6, 3, groups=2), nn.Flatten(), nn.LazyLinear(4)),
}


def first_surplus(program):
    layer = program.nodes[0].layer
    assert isinstance(layer, Convolution)
    return layer._shape.surplus(program.space.slots[0].shape[0])


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", [*CHAINS, *OTHERS])
def test_gradients_are_autograd_s_whatever_is_added(name, wide, monkeypatch):
    monkeypatch.setattr(single, "wide_vectors", lambda: wide)
    torch.manual_seed(3)
    space = space_of({**CHAINS, **OTHERS}[name]())
    program = compile_program(space)
    assert isinstance(program, LayerProgram)
    assert (first_surplus(program) > 0) == (name in CHAINS)
    x, y = torch.randn(7, 2, 12, 12), torch.arange(7) % 4
    flat = space.initial(1)

    params, grads = program.pack([flat]), program.pack([flat])
    loss = program.gradients(params, grads, Batch(x, y, torch.full((1, 7), 1 / 7)), "cross-entropy")
    leaf = flat.clone().requires_grad_()
    true_loss = F.cross_entropy(torch.func.functional_call(space.module, space.unflatten(leaf), (x,)), y)
    (true,) = torch.autograd.grad(true_loss, leaf)
    torch.testing.assert_close(loss[0], true_loss.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(program.unpack(grads)[0], true, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
@pytest.mark.parametrize("inputs", [1, 3])
@pytest.mark.parametrize("width", [8, 9])
def test_places_in_pairs_are_the_places(inputs, padding, stride, width, monkeypatch):
    torch.manual_seed(4)
    shape = single.Shape((stride, 1), padding, (1, 1), 1, widened=False)
    x, w, b = torch.randn(2, inputs, 6, width), torch.randn(5, 3, 3, inputs), torch.randn(5)
    found = []
    for wide in (False, True):
        monkeypatch.setattr(single, "wide_vectors", lambda wide=wide: wide)
        form = single.formed(shape, w, b, x)
        assert form.paired == (wide and width == 8)
        out = single.convolve(shape, form)
        assert out.is_contiguous(memory_format=torch.channels_last)
        found.append((out, *single.derivatives(shape, form, w, out.sin(), True)))
    for plain, paired in zip(*found, strict=True):
        torch.testing.assert_close(paired, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "shape",
    [
        single.Shape((1, 2), (0, 0), (1, 1), 1, False),
        single.Shape((1, 1), (0, 0), (1, 2), 1, False),
        single.Shape((1, 1), (0, 0), (1, 1), 3, False),
    ],
    ids=["stride", "dilation", "groups"],
)
def test_no_pairs_where_a_window_moves_otherwise(shape, monkeypatch):
    monkeypatch.setattr(single, "wide_vectors", lambda: True)
    x = torch.zeros(1, 3, 8, 8)
    assert single.Shape((1, 1), (0, 0), (1, 1), 1, False).pairs(x, 6, 3)
    assert not shape.pairs(x, 6, 3)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_freed_memory_is_kept_where_the_c_library_can_be_told():
    assert keep_freed_memory()
