"""Codecs that round: DFedAvgM's quantiser and BEER's, as whole numbers of a few bits and one scale.

``parts`` has both; ``through`` joins them and ``encode`` writes them, so they cannot differ. In double precision the
scale is not rounded to 4 bytes: ``through`` is then the formula as it stands, and ``encode`` refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from paceline.learn.codecs.base import framed, payload_of
from paceline.learn.codecs.checks import vector, whole_number
from paceline.learn.codecs.packing import Parts, highest, packed_size, parts_from, parts_to_bytes
from paceline.learn.hashing import mix, uniform
from paceline.learn.space import Space


@dataclass(frozen=True)
class Rounded:
    """Multiples of a step of which the largest number has 2^(bits-1) - 1 (DFedAvgM, Sun et al. 2022).

    With a key numbers are rounded up with the probability that makes the mean right, else to the nearest. All are
    held in the range. At random that matters: the last whole number and a draw near 1 may round to the next.
    To the nearest it changes nothing, since the quotient x/step is wrong by far less than a half.
    ``through`` also takes rows of several vectors (the draws are then the same for each), with the same bits.
    """

    code: ClassVar[int] = 7
    bits: int
    key: int | None = None
    """Address of the draws; who decodes need not know it."""

    def __post_init__(self) -> None:
        whole_number("bits", self.bits, 2, 16)
        if self.key is not None:
            whole_number("key", self.key, -(2**63), 2**63 - 1)

    def size(self, space: Space) -> int:
        """All bits, and 4 bytes for the step."""
        return packed_size(space.size, self.bits)

    def parts(self, x: Tensor) -> Parts:
        """How many steps each number has, and the step."""
        most = highest(self.bits)
        step: Tensor = (x.abs().amax(dim=-1, keepdim=True) / most).clamp(min=torch.finfo(x.dtype).tiny)
        steps = x / step
        whole = steps.round_() if self.key is None else steps.add_(draws(self.key, x)).floor_()
        return Parts(whole.clamp_(-most, most), step)

    def through(self, x: Tensor, *context: Tensor) -> Tensor:
        """Every number as a multiple of the step."""
        return self.parts(x).joined()

    def encode(self, space: Space, x: Tensor, *context: Tensor) -> bytes:
        """The step, then the multiples. Refused where a product of both overflows: near the largest float32."""
        return framed(self, space, parts_to_bytes(self.parts(vector(space, x)), self.bits))

    def decode(self, space: Space, data: bytes, *context: Tensor) -> Tensor:
        """Every number as a multiple of the step."""
        return parts_from(payload_of(self, space, data), space.size, self.bits).joined()


@dataclass(frozen=True)
class Gsgd:
    """sign(x) floor(s |x|/|x|_2 + u) |x|_2 / (s tau) with s = 2^(bits-1) and u uniform (BEER, Zhao et al. 2022).

    Random rounding alone may be longer than x by far; tau = 1 + min(d/s^2, sqrt(d)/s) makes it a contraction.

    The formula may give s itself, where one number is nearly all of the norm, and that does not fit: beside a sign
    ``bits`` bits reach s - 1. So whole numbers are held at s - 1, which takes up to a step off numbers of more than
    (1 - 1/s) of the norm. Where the norm underflows (in single precision, if all numbers are below some 1e-23) it
    takes off nearly everything; where it overflows (above some 1e19) ``encode`` refuses.
    """

    code: ClassVar[int] = 8
    bits: int
    key: int
    """Address of the draws; who decodes need not know it."""

    def __post_init__(self) -> None:
        whole_number("bits", self.bits, 2, 16)
        whole_number("key", self.key, -(2**63), 2**63 - 1)

    def size(self, space: Space) -> int:
        """All bits, and 4 bytes for the scale."""
        return packed_size(space.size, self.bits)

    def parts(self, x_P: Tensor) -> Parts:
        """The whole numbers with their signs, and |x|_2 / (s tau)."""
        levels, count = 2.0 ** (self.bits - 1), x_P.numel()
        damping = 1.0 + min(count / levels**2, count**0.5 / levels)
        norm = x_P.norm().clamp(min=torch.finfo(x_P.dtype).tiny)
        whole_P = (x_P.abs() / norm).mul_(levels).add_(draws(self.key, x_P)).floor_().clamp_(max=highest(self.bits))
        return Parts(whole_P.mul_(x_P.sign()), norm / (levels * damping))

    def through(self, x: Tensor, *context: Tensor) -> Tensor:
        """Every number as a multiple of the scale."""
        return self.parts(x).joined()

    def encode(self, space: Space, x: Tensor, *context: Tensor) -> bytes:
        """The scale, then the whole numbers."""
        return framed(self, space, parts_to_bytes(self.parts(vector(space, x)), self.bits))

    def decode(self, space: Space, data: bytes, *context: Tensor) -> Tensor:
        """Every number as a multiple of the scale."""
        return parts_from(payload_of(self, space, data), space.size, self.bits).joined()


def draws(key: int, like: Tensor) -> Tensor:
    """Numbers from (0, 1) at an address, one for every place of the last dimension."""
    place = torch.arange(like.shape[-1], device=like.device)
    return uniform(mix(torch.tensor(key, device=like.device), place))
