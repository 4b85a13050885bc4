"""Every random draw has an address; this file is the only maker of generators.

Two faces of one idea:

- ``stream(seed, *path)`` is a NumPy generator for draws made once in a while (who is chosen, a partition);
- ``address(seed, *path)`` is a 64-bit key, and ``mix`` makes from it a random *function* of integers, for draws
  made millions of times (the jitter of one visit). It has no state, so it can be evaluated in any order, one by
  one or as a vector, here or on a GPU (``learn/hashing.py``), and always gives the same bits.
"""

from __future__ import annotations

import hashlib
import math
import operator
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

MASK64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
MUL1 = 0xBF58476D1CE4E5B9
MUL2 = 0x94D049BB133111EB
_ONE, _27, _30, _31, _GOLDEN, _MUL1, _MUL2 = (np.uint64(n) for n in (1, 27, 30, 31, GOLDEN, MUL1, MUL2))
ONE_BY_ONE = 10_000
"""Where more than this are drawn from, NumPy's ``choice`` of more than a fiftieth is no longer Floyd's."""
MOST_MARKS = 1 << 20
"""How many numbers ``subsets`` marks as taken or not at once."""

_inverse_normal = NormalDist().inv_cdf

Address = int | str


def address(seed: int, *path: Address) -> int:
    """The 64-bit key of a path such as ``(seed, "jitter", client)``."""
    return int.from_bytes(_digest(seed, path)[:8], "little")


def stream(seed: int, *path: Address) -> np.random.Generator:
    """The generator that lives at this path; asking twice gives two generators with the same draws."""
    return np.random.Generator(np.random.PCG64(int.from_bytes(_digest(seed, path), "little")))


def _digest(seed: int, path: tuple[Address, ...]) -> bytes:
    # repr keeps 1 and "1" apart and puts a boundary between the parts; a NumPy integer is the integer it holds.
    parts = [part if isinstance(part, str) else operator.index(part) for part in (seed, *path)]
    return hashlib.blake2b(repr(tuple(parts)).encode(), digest_size=16).digest()


def mix(key: int, *parts: int) -> int:
    """A 64-bit hash of a key and integers (splitmix64's finaliser, once per part)."""
    for part in parts:
        key = (key + (part + 1) * GOLDEN) & MASK64
        key = ((key ^ (key >> 30)) * MUL1) & MASK64
        key = ((key ^ (key >> 27)) * MUL2) & MASK64
        key ^= key >> 31
    return key


def mix_array(key: int | NDArray[np.uint64], part: NDArray[np.integer]) -> NDArray[np.uint64]:
    """``mix`` with one part, over arrays: the same bits as the scalar form."""
    with np.errstate(over="ignore"):
        z: NDArray[np.uint64] = np.asarray(key, np.uint64) + (part.astype(np.uint64) + _ONE) * _GOLDEN
        z = (z ^ (z >> _30)) * _MUL1
        z = (z ^ (z >> _27)) * _MUL2
        mixed: NDArray[np.uint64] = z ^ (z >> _31)
    return mixed


def uniform(key: int, *parts: int) -> float:
    """A draw from the open interval (0, 1) at this address."""
    return ((mix(key, *parts) >> 12) + 0.5) * 2.0**-52


def uniform_array(key: int | NDArray[np.uint64], part: NDArray[np.integer]) -> NDArray[np.float64]:
    """``uniform`` over an array of parts."""
    return ((mix_array(key, part) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def normal(key: int, *parts: int) -> float:
    """A standard normal draw at this address."""
    return _inverse_normal(uniform(key, *parts))


def normal_below(key: int, part: int) -> float:
    """``normal(key, part)`` with the steps of ``mix`` in place, since every visit of a simulation draws one."""
    key = (key + (part + 1) * GOLDEN) & MASK64
    key = ((key ^ (key >> 30)) * MUL1) & MASK64
    key = ((key ^ (key >> 27)) * MUL2) & MASK64
    return _inverse_normal((((key ^ (key >> 31)) >> 12) + 0.5) * 2.0**-52)


def exponential(key: int, *parts: int) -> float:
    """A draw from Exp(1) at this address."""
    return -math.log(uniform(key, *parts))


def subsets(rng: np.random.Generator, size: int, count: int, times: int) -> NDArray[np.int64]:
    """(times, count) numbers below ``size``, each row sorted: as many calls of ``choice`` without replacement.

    The draws are those of ``rng.choice(size, count, replace=False)``, which takes long for a few numbers: Floyd's
    method, where a number that was drawn already makes way for the highest of its step, and then a shuffle.
    """
    if size > ONE_BY_ONE and count > size // 50:  # there NumPy goes another way
        return np.array([np.sort(rng.choice(size, count, replace=False)) for _ in range(times)])
    steps = range(size - count, size)
    bounds = np.array([*range(size - count + 1, size + 1), *range(count, 1, -1)])  # of the steps, and of the shuffle
    found = []
    for first in range(0, times, rows := max(1, MOST_MARKS // size)):
        each = np.arange(min(rows, times - first))
        drawn = rng.integers(np.broadcast_to(bounds, (len(each), len(bounds))))
        taken = np.zeros((len(each), size), dtype=bool)
        for place, highest in enumerate(steps):
            new = drawn[:, place]
            taken[each, np.where(taken[each, new], highest, new)] = True
        found.append(np.nonzero(taken)[1].reshape(-1, count))
    return np.concatenate(found)
