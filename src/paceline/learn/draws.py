"""What a visit draws at random, all of it addressed by the visit's key: batches and augmentation.

Shapes: C clients, S steps, B batch, N samples of one client (padded), H height, W width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from paceline.learn.hashing import integers, mix
from paceline.learn.recipe import LocalSGD
from paceline.seeds import mix_array

# Sub-addresses below a visit's key. They are large so that no step or epoch number meets them.
_BATCHES, _DROPOUT, _CROP_Y, _CROP_X, _FLIP = (
    (1 << 40) + 1,
    (1 << 40) + 2,
    (1 << 40) + 3,
    (1 << 40) + 4,
    (1 << 40) + 5,
)
PAD = 4
PARTS, LARGEST_PART = 8, 64
"""A probe cuts a client's samples into at least so many parts of at most so many samples."""


@dataclass(frozen=True)
class Batches:
    """Which samples each step of each client sees."""

    index_CSB: NDArray[np.int64]
    """Positions in the client's own list of samples."""
    real_CSB: NDArray[np.bool_]
    """True where the batch holds a sample, False where it is padding (short last batches, fewer steps)."""
    steps_C: list[int]


def draw_batches(keys: list[int], sizes: list[int], recipe: LocalSGD, rows: int | None = None) -> Batches:
    """Batches without replacement within each epoch; an epoch's last batch may be short.

    A client's order in an epoch is the sort order of random keys at (visit, epoch, sample): it depends on
    nothing but the client's own key and size, so any grouping of clients draws the same. ``rows`` may be more than
    the batch: the rest is padding.
    """
    assert min(sizes) > 0, "a client without samples has no batches"
    steps = [recipe.steps_for(n) for n in sizes]
    key_C, size_C, step_C = np.array(keys, np.int64), np.array(sizes), np.array(steps)
    index_CSB = np.zeros((len(sizes), max(steps), rows or recipe.batch), np.int64)
    real_CSB = np.zeros(index_CSB.shape, np.bool_)
    for some in _alike(sizes):
        part = _some_batches(key_C[some], size_C[some], step_C[some], recipe.batch)
        length, batch = part[0].shape[1:]
        index_CSB[some, :length, :batch], real_CSB[some, :length, :batch] = part
    return Batches(index_CSB, real_CSB, steps)


def _alike(sizes: list[int]) -> Sequence[slice | NDArray[np.int64]]:
    """Groups of clients within twice each other's size: those with few samples need many epochs of short orders, and
    would otherwise get as many of the longest."""
    if max(sizes) == min(sizes):
        return [slice(None)]
    power = np.ceil(np.log2(np.array(sizes))).astype(int)
    return [np.flatnonzero(power == level) for level in np.unique(power)]


def _some_batches(
    key_C: NDArray[np.int64], size_C: NDArray[np.int64], step_C: NDArray[np.int64], batch: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(C, S, B) positions and which of them are samples, for clients of similar size."""
    clients, longest = len(key_C), int(size_C.max())
    alike = size_C.min() == longest  # the usual case, and every visit by itself
    places = _common_places(longest, int(step_C[0]), batch) if alike else _places(size_C, step_C, batch)
    order_CN = _orders(key_C.view(np.uint64), size_C[:, None], places.epochs, longest).reshape(clients, -1)
    if alike:
        return order_CN[:, places.where_CSB[0]], places.real_CSB
    index = np.take_along_axis(order_CN, places.where_CSB.reshape(clients, -1), axis=1)
    return index.reshape(places.where_CSB.shape), places.real_CSB


class _Places(NamedTuple):
    """Where a client's batches are in its orders, one epoch's after the other's."""

    where_CSB: NDArray[np.int64]
    real_CSB: NDArray[np.bool_]
    epochs: int


def _places(size_C: NDArray[np.int64], step_C: NDArray[np.int64], batch: int) -> _Places:
    per_epoch_C = -(-size_C // batch)
    step_1S = np.arange(step_C.max())[None, :]
    epoch_CS, part_CS = np.divmod(step_1S, per_epoch_C[:, None])
    place_CSB = (part_CS * batch)[:, :, None] + np.arange(batch)
    running_CS = step_1S < step_C[:, None]
    real_CSB = (place_CSB < size_C[:, None, None]) & running_CS[:, :, None]
    where_CSB = np.where(real_CSB, epoch_CS[:, :, None] * int(size_C.max()) + place_CSB, 0)
    return _Places(where_CSB, real_CSB, int((-(-step_C // per_epoch_C)).max()))


@lru_cache(maxsize=256)
def _common_places(size: int, steps: int, batch: int) -> _Places:
    """The places of clients that have so many samples each, as of one."""
    return _places(np.array([size]), np.array([steps]), batch)


def draw_parts(keys: list[int], sizes: list[int], rows: int | None = None) -> Batches:
    """A random partition of each client's samples into parts of equal size (or one more), for a probe.

    Each part is padded to ``rows``, or to the largest.
    """
    parts = [_parts_of(n) for n in sizes]
    size_C1, parts_C1 = np.array(sizes)[:, None], np.array(parts)[:, None]
    order_CN = _orders(np.array(keys, np.int64).view(np.uint64), size_C1, 1, max(sizes))[:, 0]
    edge_CS = np.minimum(np.arange(max(parts) + 1)[None, :], parts_C1) * size_C1 // parts_C1
    begin_CS, end_CS = edge_CS[:, :-1], edge_CS[:, 1:]
    place_CSB = begin_CS[:, :, None] + np.arange(rows or (end_CS - begin_CS).max())
    real_CSB = place_CSB < end_CS[:, :, None]
    where = np.where(real_CSB, place_CSB, 0)
    index = np.take_along_axis(order_CN, where.reshape(len(sizes), -1), axis=1)
    return Batches(index.reshape(where.shape), real_CSB, parts)


def _parts_of(samples: int) -> int:
    return min(samples, max(PARTS, -(-samples // LARGEST_PART)))


def largest_part(samples: int) -> int:
    """The samples of the largest part of a client with so many."""
    return -(-samples // _parts_of(samples))


def _orders(key_C: NDArray[np.uint64], size_C1: NDArray[np.int64], epochs: int, longest: int) -> NDArray[np.int64]:
    """(C, E, N): a random order of each client's samples for each epoch; padding sorts to the end."""
    batches_C1 = mix_array(key_C, np.array(_BATCHES))[:, None]
    sample_N = np.arange(longest)
    keys_CEN = mix_array(mix_array(batches_C1, np.arange(epochs)[None, :])[:, :, None], sample_N)
    if size_C1.min() < longest:
        keys_CEN[np.broadcast_to(sample_N >= size_C1[:, :, None], keys_CEN.shape)] = np.iinfo(np.uint64).max
    order: NDArray[np.int64] = keys_CEN.argsort(axis=2)
    return order


def dropout_key(key_C: Tensor, step: int | Tensor) -> Tensor:
    """The key of the dropout masks of one step."""
    return mix(mix(key_C, _DROPOUT), step)


@dataclass(frozen=True)
class Crops:
    """Where to crop (offsets into the padded image) and whether to flip, per sample of a batch."""

    dy_CB: Tensor
    dx_CB: Tensor
    flip_CB: Tensor


def draw_crops(key_C: Tensor, step: int | Tensor, batch: int) -> Crops:
    """Crop and flip draws at (visit, step, place in the batch)."""
    place_B = torch.arange(batch, device=key_C.device)

    def draw(kind: int, high: int) -> Tensor:
        return integers(mix(mix(mix(key_C, kind), step)[:, None], place_B), high)

    return Crops(draw(_CROP_Y, 2 * PAD + 1), draw(_CROP_X, 2 * PAD + 1), draw(_FLIP, 2).bool())


def crop_and_flip(x: Tensor, crops: Crops) -> Tensor:
    """Apply the draws to a merged batch (C*B, channels, H, W): pad with zeros, cut H by W, maybe mirror."""
    count, channels, height, width = x.shape
    padded = F.pad(x, (PAD, PAD, PAD, PAD))
    rows = crops.dy_CB.reshape(-1, 1) + torch.arange(height, device=x.device)
    columns = torch.arange(width, device=x.device).expand(count, width)
    columns = torch.where(crops.flip_CB.reshape(-1, 1), width - 1 - columns, columns) + crops.dx_CB.reshape(-1, 1)
    sample = torch.arange(count, device=x.device).view(-1, 1, 1, 1)
    channel = torch.arange(channels, device=x.device).view(1, -1, 1, 1)
    return padded[sample, channel, rows[:, None, :, None], columns[:, None, None, :]]
