"""Codecs of masks: a bit for each weight, a list of the active ones, or nothing where the receiver knows it.

A mask is a vector of ones and zeros over all parameters, with ones wherever nothing can be masked: only the weights
of ``maskable`` layers are told. N is how many weights these have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from paceline.errors import WireError
from paceline.learn.codecs.base import framed, payload_of
from paceline.learn.codecs.checks import known, ones, places_from, places_to_bytes, vector, whole_number, words
from paceline.learn.space import Slot, Space
from paceline.learn.sparsity.layout import maskable, sizes
from paceline.learn.sparsity.wire import NUMBER


@dataclass(frozen=True)
class Bitmap:
    """A mask as one bit for each weight that can be masked."""

    code: ClassVar[int] = 3
    leave_out: tuple[str, ...] = ()
    """Names of layers that are never masked though they could be, as they stand in ``Slot.name``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "leave_out", words("leave_out", self.leave_out))

    def size(self, space: Space) -> int:
        """Return the whole bytes that one bit for each weight takes."""
        return -(-_weights(space, self.leave_out) // 8)

    def through(self, x: Tensor, *context: Tensor) -> Tensor:
        """Return the mask itself: nothing is lost on the way."""
        return (x != 0).to(x.dtype)

    def encode(self, space: Space, x: Tensor, *context: Tensor) -> bytes:
        """The bits in order, the first is the lowest of the first byte."""
        active_N = _told(space, x, self.leave_out)
        return framed(self, space, np.packbits(active_N.cpu().numpy(), bitorder="little").tobytes())

    def decode(self, space: Space, data: bytes, *context: Tensor) -> Tensor:
        """The bits in their places, and ones elsewhere."""
        count = _weights(space, self.leave_out)
        bits = np.unpackbits(np.frombuffer(payload_of(self, space, data), np.uint8), bitorder="little")
        if bits[count:].any():
            raise WireError(f"the message has ones behind the last of {count} weights; wanted zeros")
        return _mask_of(space, torch.from_numpy(bits[:count]), self.leave_out)


@dataclass(frozen=True)
class Indices:
    """A mask as the indices of its ones among the weights that can be masked, in 4 bytes each."""

    code: ClassVar[int] = 4
    active: int
    """Ones among the weights that can be masked; other parameters do not count."""
    leave_out: tuple[str, ...] = ()
    """As for ``Bitmap``."""

    def __post_init__(self) -> None:
        whole_number("active", self.active, 0, 1 << 62)
        object.__setattr__(self, "leave_out", words("leave_out", self.leave_out))

    def size(self, space: Space) -> int:
        """4 bytes for each of the active."""
        return NUMBER * self.active

    def through(self, x: Tensor, *context: Tensor) -> Tensor:
        """Return the mask itself: nothing is lost on the way."""
        return (x != 0).to(x.dtype)

    def encode(self, space: Space, x: Tensor, *context: Tensor) -> bytes:
        """The indices from the lowest to the highest."""
        active_N = _told(space, x, self.leave_out)
        place = active_N.nonzero()[:, 0]
        if len(place) != self.active:
            raise WireError(f"the mask has {len(place)} ones among {len(active_N)} weights; wanted {self.active}")
        return framed(self, space, places_to_bytes(place, len(active_N)))

    def decode(self, space: Space, data: bytes, *context: Tensor) -> Tensor:
        """Ones in these places, and where nothing can be masked."""
        active_N = torch.zeros(_weights(space, self.leave_out), dtype=torch.uint8)
        active_N[places_from(payload_of(self, space, data), len(active_N))] = 1
        return _mask_of(space, active_N, self.leave_out)


@dataclass(frozen=True)
class Nothing:
    """What the receiver knows already, such as a mask that has not changed: a header alone."""

    code: ClassVar[int] = 5

    def size(self, space: Space) -> int:
        """Charge nothing: the receiver has the mask already."""
        return 0

    def through(self, x: Tensor, *context: Tensor) -> Tensor:
        """Return the mask that the receiver knows."""
        return known(context, "what the receiver knows")

    def encode(self, space: Space, x: Tensor, *context: Tensor) -> bytes:
        """A header, if what is known is what should be told."""
        if not torch.equal(vector(space, x), self._known(space, context).to(x.device)):
            raise WireError("the receiver knows another vector than this; wanted the same, or send it")
        return framed(self, space, b"")

    def decode(self, space: Space, data: bytes, *context: Tensor) -> Tensor:
        """What is known, where it is."""
        payload_of(self, space, data)
        return self._known(space, context)

    def _known(self, space: Space, context: tuple[Tensor, ...]) -> Tensor:
        return vector(space, known(context, "what the receiver knows"), "what the receiver knows")


def mask_codec(space: Space, active: int, slots: Sequence[Slot] | None = None) -> Bitmap | Indices:
    """The smaller way to tell a mask with so many ones in these slots: ``sparsity.mask_bytes`` is its size."""
    every = maskable(space)
    chosen = set(every if slots is None else slots)
    if stray := chosen.difference(every):
        raise WireError(f"{', '.join(sorted(s.name for s in stray))} cannot be masked in {space.name}")
    whole_number("active", active, 0, sum(sizes(tuple(chosen))))
    bitmap = Bitmap(tuple(slot.name for slot in every if slot not in chosen))
    indices = Indices(active, bitmap.leave_out)
    return indices if indices.size(space) < bitmap.size(space) else bitmap


# -- where weights lie ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _slots(space: Space, leave_out: tuple[str, ...]) -> tuple[Slot, ...]:
    every = maskable(space)
    if stray := set(leave_out).difference(slot.name for slot in every):
        raise WireError(f"leave_out names {', '.join(sorted(stray))}, which nothing masks in {space.name}")
    return tuple(slot for slot in every if slot.name not in leave_out)


def _weights(space: Space, leave_out: tuple[str, ...]) -> int:
    return sum(sizes(_slots(space, leave_out)))


def _told(space: Space, mask: Tensor, leave_out: tuple[str, ...]) -> Tensor:
    """(N,) bool: the mask where it must be told, if it is 1 elsewhere."""
    active_P = ones(space, vector(space, mask, "the mask"))
    slots = _slots(space, leave_out)
    active_N = torch.cat([active_P[:0], *(active_P[slot.start : slot.stop] for slot in slots)])
    if wrong := int((~active_P).sum() - (~active_N).sum()):
        raise WireError(f"the mask has {wrong} zeros on parameters that are never masked; wanted ones there")
    return active_N


def _mask_of(space: Space, active_N: Tensor, leave_out: tuple[str, ...]) -> Tensor:
    mask_P, at = torch.ones(space.size, dtype=space.dtype), 0
    for slot in _slots(space, leave_out):
        stop = at + slot.stop - slot.start
        mask_P[slot.start : slot.stop], at = active_N[at:stop], stop
    return mask_P
