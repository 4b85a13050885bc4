"""The random function over tensors: the bits of ``seeds.mix``, and draws made from them."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from paceline import seeds
from paceline.learn.hashing import integers, mix, signed, uniform

KEYS = st.integers(0, seeds.MASK64)
PARTS = st.integers(-(2**63), 2**63 - 1)


def tensor(keys):
    return torch.tensor([signed(key) for key in keys])


def unsigned(values):
    return [value & seeds.MASK64 for value in values.tolist()]


@given(KEYS)
def test_signed_keeps_the_bits(key):
    assert -(2**63) <= signed(key) < 2**63
    assert signed(key) & seeds.MASK64 == key


@given(st.lists(st.tuples(KEYS, PARTS), min_size=1, max_size=20))
def test_tensor_scalar_and_array_agree_to_the_bit(pairs):
    keys, parts = zip(*pairs, strict=True)
    expected = [seeds.mix(*pair) for pair in pairs]
    assert unsigned(mix(tensor(keys), torch.tensor(parts))) == expected
    assert seeds.mix_array(np.array(keys, np.uint64), np.array(parts, np.int64)).tolist() == expected


@given(st.lists(KEYS, min_size=1, max_size=20), st.integers(-(2**80), 2**80))
def test_one_part_for_all_keys(keys, part):
    """A plain number may be larger than a tensor could hold."""
    assert unsigned(mix(tensor(keys), part)) == [seeds.mix(key, part) for key in keys]


@given(st.lists(KEYS, min_size=1, max_size=5), st.lists(PARTS, min_size=1, max_size=5))
def test_keys_and_parts_broadcast(keys, parts):
    mixed = mix(tensor(keys)[:, None], torch.tensor(parts))
    assert mixed.shape == (len(keys), len(parts))
    for key, row in zip(keys, mixed, strict=True):
        assert unsigned(row) == [seeds.mix(key, part) for part in parts]


@given(KEYS, st.integers(1, 2**40))
def test_integers_are_below_the_bound(key, high):
    """63 bits, as unsigned, modulo the bound."""
    assert integers(tensor([key]), high).item() == (key >> 1) % high


@given(KEYS)
def test_uniform_is_the_upper_24_bits_in_the_middle_of_their_cell(key):
    """Half of a unit in the last place is what rounding to float32 may move it."""
    u = uniform(tensor([key]))
    assert u.dtype == torch.float32
    assert 0.0 < u.item() <= 1.0
    assert abs(u.item() - ((key >> 40) + 0.5) * 2.0**-24) <= 2.0**-25


def test_uniform_at_the_upper_end():
    assert uniform(torch.tensor([-1])).item() < 1.0


def test_integers_are_even():
    """Chi-square over nine values, the nine offsets of a crop; false-alarm rate 1e-6."""
    draws = 9 * 2000
    keys = mix(torch.tensor([signed(seeds.address(0, "integers"))]), torch.arange(draws))
    counts = torch.bincount(integers(keys, 9), minlength=9).numpy()
    expected = draws / 9
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 8)


def test_uniform_is_even():
    """Chi-square over 16 cells; false-alarm rate 1e-6."""
    draws = 16 * 2000
    u = uniform(mix(torch.tensor([signed(seeds.address(0, "uniform"))]), torch.arange(draws)))
    counts = torch.bincount((u * 16).long(), minlength=16).numpy()
    expected = draws / 16
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 15)
