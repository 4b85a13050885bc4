"""A parameter space: the flat layout of an architecture, read and written without loss."""

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from paceline.errors import ModelError
from paceline.learn.dropout import AddressedDropout
from paceline.learn.space import Space


def network():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(12, 5, bias=False))


def space(dtype=torch.float64):
    return Space("net", network, (2, 4, 4), dtype)


def test_slots_follow_named_parameters_without_gaps():
    made = space()
    named = list(network().named_parameters())
    assert [slot.name for slot in made.slots] == [name for name, _ in named]
    assert [slot.shape for slot in made.slots] == [tuple(p.shape) for _, p in named]
    borders = [0]
    for _, parameter in named:
        borders.append(borders[-1] + parameter.numel())
    assert [(slot.start, slot.stop) for slot in made.slots] == list(pairwise(borders))
    assert made.size == borders[-1] == 2 * 3 * 9 + 3 + 12 * 5


@given(st.integers(1, 4))
@settings(max_examples=10)
def test_reading_and_writing_are_inverse(clients):
    made = space()
    flat_CP = torch.arange(float(clients * made.size), dtype=torch.float64).reshape(clients, -1)
    assert torch.equal(made.flatten(made.unflatten(flat_CP[0])), flat_CP[0])
    parts = made.split(flat_CP)
    assert [part.shape for part in parts] == [(clients, *slot.shape) for slot in made.slots]
    assert torch.equal(torch.stack(made.join(parts)), flat_CP)
    for part, named in zip(parts, made.unflatten(flat_CP[-1]).values(), strict=True):
        assert torch.equal(part[-1], named)


def test_unflatten_gives_views():
    made = space()
    flat = torch.zeros(made.size, dtype=torch.float64)
    made.unflatten(flat)["0.bias"].fill_(1.0)
    assert flat.sum() == 3


def test_flatten_detaches_and_converts():
    made = space(torch.float32)
    flat = made.flatten({name: p.double() for name, p in network().named_parameters()})
    assert flat.dtype == torch.float32
    assert not flat.requires_grad


def test_initial_models_are_reproducible_and_the_factory_s_own():
    made = space(torch.float32)
    torch.manual_seed(5)
    expected = torch.cat([p.detach().reshape(-1) for p in network().parameters()])
    assert torch.equal(made.initial(5), expected)
    assert not torch.equal(made.initial(5), made.initial(6))
    assert not torch.equal(made.initial(2**64 - 1), made.initial(0)), "a 64-bit address is a seed, too"


def test_threads_do_not_draw_from_each_other_s_seeds():
    # Without turns, about half of such calls began with other weights.
    made = space(torch.float32)
    expected = [made.initial(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(made.initial, [*range(8)] * 50))
    assert all(torch.equal(flat, expected[k % 8]) for k, flat in enumerate(found))


def test_initial_models_leave_the_global_generator_alone():
    made = space()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    made.initial(7)
    space()
    assert torch.equal(torch.rand(3), expected)


def test_bytes_on_the_wire_are_four_a_parameter():
    assert space(torch.float64).nbytes == space(torch.float32).nbytes == 4 * (57 + 60)


def test_flops_of_a_forward_pass():
    """2 x 2 outputs of 3 channels, 18 products each and a bias; then 12 x 5 products without one."""
    assert space().flops == 2 * 2 * 3 * (2 * 18 + 1) + 5 * 2 * 12


class Odd(nn.Module):
    """A layer with parameters of its own that nobody can count."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.gain


def test_unknown_flops_are_nan_and_never_zero():
    assert math.isnan(Space("odd", Odd, (3,)).flops)


def test_dropout_is_addressed():
    kinds = [type(module) for module in space().module]
    assert AddressedDropout in kinds
    assert nn.Dropout not in kinds


def test_the_template_has_the_space_s_precision():
    assert {p.dtype for p in space(torch.float64).module.parameters()} == {torch.float64}
    assert space(torch.float64).initial(0).dtype == torch.float64


def test_what_cannot_be_averaged_is_refused():
    with pytest.raises(ModelError, match="BatchNorm"):
        Space("bad", lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), (3,))


def test_two_spaces_of_one_architecture_are_two():
    """Models are averaged within a space, which is an object, not a name."""
    assert space() != space()


def test_description():
    assert space().describe() == "net: 117 parameters, input 2x4x4"
    assert space().features() == 32
