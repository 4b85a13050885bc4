"""Whole numbers times a scale, in a few bits each.

A number is its magnitude and, in the highest of its bits, its sign: so the range is symmetric, every pattern of bits
is a number, and -0 stays -0, as the formulas that round have it. Bits are in order, from the lowest of a byte.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.errors import WireError
from paceline.learn.codecs.checks import finite, numbers_from, numbers_to_bytes
from paceline.learn.sparsity.wire import NUMBER

Codes = NDArray[np.uint16]


class Parts(NamedTuple):
    """A vector that was rounded."""

    whole_P: Tensor
    """Whole numbers, in the vector's own dtype."""
    scale: Tensor
    """What they are multiplied with, for all of them."""

    def joined(self) -> Tensor:
        """The vector: a single product, so it has the same bits everywhere."""
        return self.whole_P * self.scale


def highest(bits: int) -> int:
    """The largest magnitude beside a sign."""
    return (1 << (bits - 1)) - 1


def packed_size(count: int, bits: int) -> int:
    """Bytes of so many numbers and their scale."""
    return -(-count * bits // 8) + NUMBER


def parts_to_bytes(parts: Parts, bits: int) -> bytes:
    """The scale, then all whole numbers."""
    finite(parts.scale, "the scale of the rounded vector")
    finite(parts.joined(), "the rounded vector")
    whole = parts.whole_P.cpu().numpy()
    sign = np.signbit(whole).astype(np.uint16) << (bits - 1)
    return numbers_to_bytes(parts.scale) + pack(np.abs(whole).astype(np.uint16) | sign, bits)


def parts_from(data: memoryview, count: int, bits: int) -> Parts:
    """So many whole numbers and their scale, from as many bytes as ``packed_size`` says."""
    scale = numbers_from(data[:NUMBER])
    if not 0 < float(scale) < math.inf:
        raise WireError(f"the message's scale is {float(scale)}; wanted one above 0")
    codes = unpack(data[NUMBER:], count, bits)
    size = (codes & highest(bits)).astype(np.float32)
    parts = Parts(torch.from_numpy(np.where(codes >> (bits - 1), -size, size)), scale)
    finite(parts.joined(), "the message")
    return parts


# Eight numbers of b bits are b bytes: so all eighths are shifted alike, and packed at once.


def pack(codes: Codes, bits: int) -> bytes:
    """Numbers below 2^bits, without gaps between them; zeros fill the last byte."""
    eights = np.zeros((-(-codes.size // 8), 8), np.uint32)
    eights.reshape(-1)[: codes.size] = codes
    packed = np.zeros((len(eights), bits), np.uint8)
    for k in range(8):
        first, shift = divmod(k * bits, 8)
        for byte in _touched(k, bits):
            packed[:, byte] |= (eights[:, k] << shift >> 8 * (byte - first)).astype(np.uint8)
    return packed.tobytes()[: -(-codes.size * bits // 8)]


def unpack(data: memoryview, count: int, bits: int) -> Codes:
    """The inverse of ``pack``; the bits behind the last number must be 0."""
    packed = np.zeros((-(-count // 8), bits), np.uint8)
    packed.reshape(-1)[: len(data)] = np.frombuffer(data, np.uint8)
    codes = np.zeros((len(packed), 8), np.uint32)
    for k in range(8):
        first, shift = divmod(k * bits, 8)
        for byte in _touched(k, bits):
            codes[:, k] |= packed[:, byte].astype(np.uint32) << 8 * (byte - first) >> shift
    every = (codes & ((1 << bits) - 1)).astype(np.uint16).reshape(-1)
    if every[count:].any():
        raise WireError(f"the message has ones behind the last of {count} numbers of {bits} bits; wanted zeros")
    return every[:count]


def _touched(k: int, bits: int) -> range:
    """The bytes in which the k-th of eight numbers lies."""
    return range(k * bits // 8, (k * bits + bits - 1) // 8 + 1)
