"""What codecs refuse: settings, vectors and masks that cannot be; and numbers and places as bytes."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from paceline.errors import WireError
from paceline.learn.codecs.base import check_precision
from paceline.learn.space import Space

PLACES = 1 << 32
"""How many places an index of 4 bytes tells apart."""

# -- settings: any value may come, since they are also read from descriptions --------------------------------------


def whole_number(name: str, value: object, low: int, high: int) -> None:
    """Refuse all but an integer of this range."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        wanted = f"{low}" if low == high else f"a whole number from {low} to {high}"
        raise WireError(f"{name} is {shown(value)}; wanted {wanted}")


def share_of_all(name: str, value: object) -> None:
    """Refuse all but a number above 0 and at most 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
        raise WireError(f"{name} is {shown(value)}; wanted a number above 0 and at most 1")


def words(name: str, value: object) -> tuple[str, ...]:
    """A sequence of words as a tuple (JSON has lists)."""
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise WireError(f"{name} is {shown(value)}; wanted a list of names")
    return tuple(value)


def shown(value: object) -> str:
    """A value as an error shows it, however long it is."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no integers of more than 4300 digits
        return f"too long a value ({type(value).__name__})"


# -- vectors and masks ---------------------------------------------------------------------------------------------


def vector(space: Space, x: Tensor, what: str = "the vector") -> Tensor:
    """The same (P,) numbers, once the wire can carry them."""
    check_precision(space)
    if x.shape != (space.size,) or x.dtype != space.dtype:
        raise WireError(
            f"{what} is {tuple(x.shape)} of {x.dtype}; wanted ({space.size},) of {space.dtype} for {space.name}"
        )
    return finite(x.detach(), what)


def finite(x: Tensor, what: str) -> Tensor:
    """The same numbers, without NaN or infinity."""
    if wrong := int((~torch.isfinite(x)).sum()):
        raise WireError(f"{what} has {wrong} of {x.numel()} numbers that are NaN or infinite; wanted finite numbers")
    return x


def known(context: Sequence[Tensor], what: str) -> Tensor:
    """The first of the tensors that both ends know."""
    if not context:
        raise WireError(f"no tensor came that both ends know; wanted {what}")
    return context[0]


def ones(space: Space, mask: Tensor, what: str = "the mask") -> Tensor:
    """(P,) bool: where a mask of ones and zeros is 1."""
    if mask.shape != (space.size,):
        raise WireError(f"{what} is {tuple(mask.shape)}; wanted ({space.size},) for {space.name}")
    active = mask != 0
    if wrong := int((active & (mask != 1)).sum()):
        raise WireError(f"{what} has {wrong} numbers that are neither 0 nor 1; wanted ones and zeros")
    return active


# -- bytes ---------------------------------------------------------------------------------------------------------


def numbers_to_bytes(x: Tensor) -> bytes:
    """Write a vector in 4 bytes for each number."""
    return x.cpu().numpy().astype("<f4").tobytes()


def numbers_from(data: memoryview) -> Tensor:
    """Finite numbers of 4 bytes each; a sender of others is refused, as ``encode`` would have done."""
    return finite(torch.from_numpy(np.frombuffer(data, "<f4").astype(np.float32)), "the message")


def places_to_bytes(place: Tensor, count: int) -> bytes:
    """Indices below ``count`` in 4 bytes each."""
    if count > PLACES:
        raise WireError(f"there are {count} places; wanted {PLACES} at most, for indices of 4 bytes")
    return place.cpu().numpy().astype("<u4").tobytes()


def places_from(data: memoryview, count: int) -> Tensor:
    """Indices of 4 bytes each, if they are below ``count`` and each is above the one before."""
    place = np.frombuffer(data, "<u4").astype(np.int64)
    if place.size and (highest := int(place.max())) >= count:
        raise WireError(f"the message has an index {highest}; wanted indices below {count}")
    if (wrong := np.flatnonzero(np.diff(place) <= 0)).size:
        before, after = place[wrong[0]], place[wrong[0] + 1]
        raise WireError(f"the message has the index {after} after {before}; wanted each above the one before")
    return torch.from_numpy(place)
