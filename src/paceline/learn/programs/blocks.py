"""Where a client's numbers begin in memory, on a CPU: the same bits whoever shares the cohort.

Tensors of a cohort hold one block a client, one behind the other. Two things that torch does on a CPU depend on where
a block lies, and so on who is beside. A matrix product (MKL's) adds in another order where a matrix does not begin at
a multiple of ``BLOCK`` bytes. An activation such as the sigmoid is computed by another function in the last numbers
of a tensor, those that fill no whole vectors. So blocks are made to begin where the first does, and no tensor ends
within a vector. For usual widths that is so already, and nothing is done. A layer of a single unit is a third thing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.learn.space import Space

BLOCK = 16
"""Bytes; MKL's products were found to depend on the remainder by it, and on nothing beyond."""
VECTORS = 128
"""Bytes of the two vectors that torch computes at a time, where they are longest (AVX-512)."""
FINE = 4
"""Sizes in each doubling of ``rounded_rows``."""


def aligned_rows(space: Space, rows: int) -> int:
    """The least number of rows, at least so many, with which every activation of a client fills whole blocks.

    >>> from paceline.runs.problem import make_space
    >>> [aligned_rows(make_space(f"mlp:{n}", (64,), 10, "float32"), 10) for n in (64, 63)]
    [10, 12]
    """
    unit = max(1, BLOCK // torch.empty(0, dtype=space.dtype).element_size())
    widths = {width for slot in space.slots if len(slot.shape) == 2 for width in slot.shape}
    step = max((unit // gcd(unit, width) for width in widths), default=1)
    return -(-rows // step) * step


def rounded_rows(rows: int) -> int:
    """One of few sizes, at most a quarter larger: those who have similar numbers of rows can share a cohort.

    All are multiples of four, so of whole blocks whatever the widths.

    >>> [rounded_rows(n) for n in (1, 5, 16, 17, 33, 65)]
    [4, 8, 16, 20, 40, 80]
    """
    step = max(4, (1 << max(0, rows - 1).bit_length()) // 2 // FINE)
    return -(-rows // step) * step


def own_blocks(part: Tensor) -> Tensor:
    """A copy of (C, ...) in which every client's matrix begins at a whole block, on a CPU."""
    unit, size = max(1, BLOCK // part.element_size()), part[0].numel()
    if part.is_cuda or part.dim() < 3 or size % unit == 0:
        return part.clone(memory_format=torch.contiguous_format)
    held = part.new_empty(len(part), -(-size // unit) * unit)
    return held[:, :size].view(part.shape).copy_(part)


def empty_blocks(like: Tensor) -> Tensor:
    """New memory for numbers of the same shape, with the same distance between clients."""
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)


def narrow(right: Tensor) -> bool:
    """Whether a product with these matrices has a single column, on a CPU: of one client torch makes another one."""
    return right.shape[2] == 1 and not right.is_cuda


def product(left: Tensor, right: Tensor) -> Tensor:
    """The batched product of (C, M, K) and (C, K, N)."""
    if narrow(right):
        return (left * right.transpose(1, 2)).sum(dim=2, keepdim=True)
    return torch.bmm(left, right)


def without_tail(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A function of single numbers, with none of them beyond the last whole vectors, on a CPU.

    Images need no care: on a CPU a network that has them goes one client at a time.
    """
    lacking = -x.numel() % (VECTORS // x.element_size())
    if x.is_cuda or x.dim() != 2 or not lacking:
        return function(x)
    return function(F.pad(x.reshape(-1), (0, lacking)))[: x.numel()].view_as(x)
