"""Every draw has an address: the same bits one by one, as a vector and as a tensor; and the draws look random.

Statistical tests are seeded; each compares one statistic with its exact law at a false-alarm rate of 1e-6.
"""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.seeds import (
    MASK64,
    address,
    exponential,
    mix,
    mix_array,
    normal,
    normal_below,
    stream,
    subsets,
    uniform,
    uniform_array,
)

KEYS = st.integers(0, MASK64)
SEEDS = st.integers(-(2**70), 2**70)
PARTS = st.integers(-(2**63), 2**63 - 1)
UNSIGNED = st.integers(0, MASK64)
PATHS = st.lists(st.one_of(st.integers(-10, 10), st.text(max_size=3)), max_size=3)

DRAWS = 20_000
LIMIT = NormalDist().inv_cdf(1 - 1e-6 / 2)
"""A standard normal passes this with probability 1e-6."""


def assert_mean(values, mean, deviation):
    """The mean of many independent values with this law; its own deviation is deviation / sqrt(n)."""
    assert abs(np.mean(values) - mean) < LIMIT * deviation / math.sqrt(len(values))


# -- addresses ------------------------------------------------------------------------------------------------


@given(SEEDS, PATHS)
def test_a_stream_is_reproducible(seed, path):
    first, again = stream(seed, *path), stream(seed, *path)
    assert first is not again
    assert np.array_equal(first.integers(0, MASK64, 8, np.uint64), again.integers(0, MASK64, 8, np.uint64))


@given(SEEDS, PATHS, SEEDS, PATHS)
def test_different_addresses_differ(seed, path, other_seed, other_path):
    same = (seed, *path) == (other_seed, *other_path)
    assert (address(seed, *path) == address(other_seed, *other_path)) is same
    drawn = [
        stream(*a).integers(0, MASK64, 4, np.uint64).tolist() for a in ((seed, *path), (other_seed, *other_path))
    ]
    assert (drawn[0] == drawn[1]) is same


def test_the_parts_of_a_path_have_borders_and_types():
    paths = [("a", "b"), ("ab",), ("a, b",), ("a', 'b",), (1,), ("1",), (1, 1), (11,), (), ("",)]
    assert len({address(0, *path) for path in paths}) == len(paths)


def test_addresses_fill_64_bits():
    """Each bit of 4,096 addresses is fair: 64 binomial tests, together a false-alarm rate below 64e-6."""
    keys = np.array([address(0, "bit", k) for k in range(4096)], np.uint64)
    for bit in range(64):
        assert_mean((keys >> np.uint64(bit)) & np.uint64(1), 0.5, 0.5)


def test_a_numpy_integer_is_the_same_address():
    assert address(0, "train", np.int64(1)) == address(0, "train", 1)
    assert stream(0, np.int32(5)).random() == stream(0, 5).random()


def test_a_numpy_seed_is_the_same_seed():
    assert address(np.int64(3), "x") == address(3, "x")


# -- the random function ----------------------------------------------------------------------------------------


@given(KEYS, st.lists(UNSIGNED, min_size=1, max_size=20))
def test_scalar_and_array_agree_to_the_bit(key, parts):
    expected = [mix(key, part) for part in parts]
    assert mix_array(key, np.array(parts, np.uint64)).tolist() == expected
    assert uniform_array(key, np.array(parts, np.uint64)).tolist() == [uniform(key, part) for part in parts]


@given(KEYS, st.lists(PARTS, min_size=1, max_size=20))
def test_negative_parts_agree_too(key, parts):
    assert mix_array(key, np.array(parts, np.int64)).tolist() == [mix(key, part) for part in parts]


@given(st.lists(st.tuples(KEYS, UNSIGNED), min_size=1, max_size=20))
def test_arrays_of_keys(pairs):
    keys, parts = (np.array(column, np.uint64) for column in zip(*pairs, strict=True))
    assert mix_array(keys, parts).tolist() == [mix(*pair) for pair in pairs]


@given(KEYS, PARTS, PARTS)
def test_several_parts_are_taken_one_after_the_other(key, first, second):
    assert mix(key, first, second) == mix(mix(key, first), second)
    nested = mix_array(mix_array(key, np.array([first])), np.array([second]))
    assert nested.tolist() == [mix(key, first, second)]


@given(KEYS, st.integers(-(2**200), 2**200))
def test_parts_count_modulo_64_bits_and_the_result_has_64(key, part):
    assert mix(key, part) == mix(key, part & MASK64)
    assert 0 <= mix(key, part) <= MASK64


@given(KEYS, KEYS, UNSIGNED)
def test_mixing_one_part_is_a_bijection_of_keys(key, other, part):
    """No two keys collapse: add, xor-shift and odd multiplication can all be undone."""
    assert (mix(key, part) == mix(other, part)) is (key == other)


def test_the_order_of_parts_matters():
    assert mix(0, 1, 2) != mix(0, 2, 1)


def test_the_constants_are_those_of_splitmix64():
    """The first outputs of splitmix64 from state 0 are published; state after k steps is k times the increment."""
    assert mix(0, 0) == 0xE220A8397B1DCDAF
    assert mix(0, 1) == 0x6E789E6AA1B965F4
    assert mix(0, 2) == 0x06C45D188009454F


# -- laws -------------------------------------------------------------------------------------------------------


@given(KEYS, UNSIGNED)
def test_uniform_is_inside_the_interval(key, part):
    assert 0.0 < uniform(key, part) < 1.0


def test_uniform_at_the_lower_end():
    """Without parts the key itself is the random number, so the ends can be asked for."""
    assert uniform(0) == 2.0**-53


def test_uniform_at_the_upper_end():
    assert uniform(MASK64) < 1.0
    assert math.isfinite(normal(MASK64))


def test_uniform_moments():
    u = uniform_array(address(1, "uniform"), np.arange(DRAWS))
    assert_mean(u, 1 / 2, math.sqrt(1 / 12))
    assert_mean((u - 0.5) ** 2, 1 / 12, math.sqrt(1 / 80 - 1 / 144))


def test_neighbouring_parts_are_uncorrelated():
    """Products of independent centred uniforms have mean 0 and deviation 1/12."""
    for lag in (1, 2, 256):
        u = uniform_array(address(2, "lag"), np.arange(DRAWS)) - 0.5
        assert_mean(u[lag:] * u[:-lag], 0.0, 1 / 12)


def test_neighbouring_keys_are_uncorrelated():
    first, second = (uniform_array(key, np.arange(DRAWS)) - 0.5 for key in (1000, 1001))
    assert_mean(first * second, 0.0, 1 / 12)


def test_normal_moments():
    key = address(3, "normal")
    z = np.array([normal(key, k) for k in range(DRAWS)])
    assert_mean(z, 0.0, 1.0)
    assert_mean(z**2, 1.0, math.sqrt(2))
    assert_mean(z**3, 0.0, math.sqrt(15))


def test_exponential_moments():
    """E(x-1)^2 = 1 and E(x-1)^4 = 9, so the squared distance has deviation sqrt(8)."""
    key = address(4, "exponential")
    x = np.array([exponential(key, k) for k in range(DRAWS)])
    assert x.min() > 0
    assert_mean(x, 1.0, 1.0)
    assert_mean((x - 1) ** 2, 1.0, math.sqrt(8))


@given(KEYS, UNSIGNED)
def test_a_normal_draw_in_one_step_has_the_same_bits(key, part):
    assert normal_below(key, part) == normal(key, part)


@given(KEYS, UNSIGNED)
def test_the_laws_are_quantiles_of_one_uniform(key, part):
    u = uniform(key, part)
    assert NormalDist().cdf(normal(key, part)) == pytest.approx(u, abs=1e-9)
    assert math.exp(-exponential(key, part)) == pytest.approx(u, rel=1e-9)


@given(st.integers(0, 2**32), st.integers(1, 300), st.data())
def test_subsets_are_what_as_many_choices_draw(seed, size, data):
    count, times, before = (data.draw(st.integers(*ends)) for ends in ((1, size), (1, 6), (0, 1)))
    one, many = stream(seed), stream(seed)
    for rng in (one, many):
        rng.integers(7, size=before)  # after an odd number of small draws, half of one is left over
    chosen = [sorted(one.choice(size, count, replace=False).tolist()) for _ in range(times)]
    assert subsets(many, size, count, times).tolist() == chosen
    assert one.bit_generator.state == many.bit_generator.state


@pytest.mark.parametrize(("size", "count"), [(10_000, 9_000), (10_001, 200), (10_001, 201), (600_000, 3)])
def test_subsets_of_many(size, count):
    one, many = stream(1), stream(1)
    chosen = [sorted(one.choice(size, count, replace=False).tolist()) for _ in range(3)]
    assert subsets(many, size, count, 3).tolist() == chosen
    assert one.bit_generator.state == many.bit_generator.state
