"""Codecs that carry numbers as they are: all of them, those under a mask, or the largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from paceline.errors import WireError
from paceline.learn.codecs.base import framed, payload_of
from paceline.learn.codecs.checks import (
    known,
    numbers_from,
    numbers_to_bytes,
    ones,
    places_from,
    places_to_bytes,
    share_of_all,
    vector,
    whole_number,
)
from paceline.learn.space import Space
from paceline.learn.sparsity.wire import NUMBER


@dataclass(frozen=True)
class Dense:
    """Every number in 4 bytes."""

    code: ClassVar[int] = 1
    number: int = NUMBER
    """Bytes of a number, whatever precision a simulation computes in."""

    def __post_init__(self) -> None:
        whole_number("number", self.number, NUMBER, NUMBER)

    def size(self, space: Space) -> int:
        """4 bytes a parameter: ``Space.nbytes``."""
        return self.number * space.size

    def through(self, x: Tensor, *context: Tensor) -> Tensor:
        """Return the vector itself: nothing is lost on the way."""
        return x

    def encode(self, space: Space, x: Tensor, *context: Tensor) -> bytes:
        """Write all numbers of the vector in their order."""
        return framed(self, space, numbers_to_bytes(vector(space, x)))

    def decode(self, space: Space, data: bytes, *context: Tensor) -> Tensor:
        """Read all numbers of a vector in their order."""
        return numbers_from(payload_of(self, space, data))


@dataclass(frozen=True)
class Masked:
    """The numbers where a mask that both ends know is 1, in 4 bytes each; the others arrive as 0."""

    code: ClassVar[int] = 2
    active: int
    """Ones of the mask over all parameters, those that are never masked among them."""

    def __post_init__(self) -> None:
        whole_number("active", self.active, 0, 1 << 62)

    def size(self, space: Space) -> int:
        """4 bytes for each of the active."""
        return NUMBER * self.active

    def through(self, x: Tensor, *context: Tensor) -> Tensor:
        """The vector under the mask, with 0 elsewhere: a product would leave some -0 there."""
        return torch.where(known(context, "the mask") != 0, x, 0)

    def encode(self, space: Space, x: Tensor, *context: Tensor) -> bytes:
        """The active numbers in order."""
        active = self._active(space, context)
        return framed(self, space, numbers_to_bytes(vector(space, x)[active.to(x.device)]))

    def decode(self, space: Space, data: bytes, *context: Tensor) -> Tensor:
        """The active numbers in their places."""
        active = self._active(space, context).cpu()
        x_P = torch.zeros(space.size, dtype=space.dtype)
        x_P[active] = numbers_from(payload_of(self, space, data))
        return x_P

    def _active(self, space: Space, context: tuple[Tensor, ...]) -> Tensor:
        active = ones(space, known(context, "the mask"))
        if (came := int(active.sum())) != self.active:
            raise WireError(f"the mask has {came} ones over all parameters; wanted {self.active}")
        return active


@dataclass(frozen=True)
class Top:
    """The largest numbers by magnitude, each with its place; the others arrive as 0. 8 bytes for each that is kept.

    Of equals those are kept that ``torch.topk`` chooses on the vector's device. The message has them in the order of
    their places. ``through`` also takes rows of several vectors, and gives each the same bits.
    """

    code: ClassVar[int] = 6
    share: float
    """Of all numbers that are kept; one at least."""

    def __post_init__(self) -> None:
        share_of_all("share", self.share)

    def kept(self, size: int) -> int:
        """How many of so many numbers."""
        return max(1, round(self.share * size))

    def size(self, space: Space) -> int:
        """A number and an index for each that is kept."""
        return 2 * NUMBER * self.kept(space.size)

    def through(self, x: Tensor, *context: Tensor) -> Tensor:
        """The largest numbers, and 0 elsewhere."""
        place = self._places(x)
        return torch.zeros_like(x).scatter_(-1, place, x.gather(-1, place))

    def encode(self, space: Space, x: Tensor, *context: Tensor) -> bytes:
        """All places, then all numbers."""
        x_P = vector(space, x)
        place_K = self._places(x_P).sort().values
        return framed(self, space, places_to_bytes(place_K, space.size) + numbers_to_bytes(x_P[place_K]))

    def decode(self, space: Space, data: bytes, *context: Tensor) -> Tensor:
        """The largest numbers in their places."""
        payload, half = payload_of(self, space, data), NUMBER * self.kept(space.size)
        x_P = torch.zeros(space.size, dtype=space.dtype)
        x_P[places_from(payload[:half], space.size)] = numbers_from(payload[half:])
        return x_P

    def _places(self, x: Tensor) -> Tensor:
        return x.abs().topk(self.kept(x.shape[-1]), dim=-1).indices
