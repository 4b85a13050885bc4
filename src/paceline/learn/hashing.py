"""The random function of ``seeds.mix`` over tensors: same bits on CPU and GPU, in any grouping.

Keys are int64 tensors that hold the 64 bits of ``seeds.address``; torch has no unsigned arithmetic, but
multiplication and addition wrap in the same way and only the shifts need care.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paceline.seeds import GOLDEN, MASK64, MUL1, MUL2


def signed(key: int) -> int:
    """The int64 with the bits of an unsigned 64-bit key."""
    return key - (1 << 64) if key >> 63 else key


_GOLDEN, _MUL1, _MUL2 = signed(GOLDEN), signed(MUL1), signed(MUL2)


def mix(key: Tensor, part: Tensor | int) -> Tensor:
    """``seeds.mix`` with one part, elementwise over broadcast int64 tensors."""
    offset = (part + 1) * _GOLDEN if isinstance(part, Tensor) else signed(((part + 1) * GOLDEN) & MASK64)
    z = key + offset
    z = (z ^ _shift(z, 30)) * _MUL1
    z = (z ^ _shift(z, 27)) * _MUL2
    return z ^ _shift(z, 31)


def _shift(z: Tensor, bits: int) -> Tensor:
    return (z >> bits) & (MASK64 >> bits)  # >> is arithmetic on int64: drop the copied sign bits


def uniform(key: Tensor) -> Tensor:
    """A float32 in the open interval (0, 1) from each key; 23 bits and a half, so exactly representable."""
    return (_shift(key, 41).to(torch.float32) + 0.5) * 2.0**-23


def fine_uniform(key: Tensor) -> Tensor:
    """A float64 in the open interval (0, 1) from each key, with 52 bits, as ``seeds.uniform`` draws it."""
    return (_shift(key, 12).to(torch.float64) + 0.5) * 2.0**-52


def integers(key: Tensor, high: int) -> Tensor:
    """An integer of [0, high) from each key (bias below high/2^63)."""
    return _shift(key, 1) % high
