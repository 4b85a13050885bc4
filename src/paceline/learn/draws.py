"""What a visit draws at random, all of it addressed by the visit's key: batches and augmentation.

Shapes: C clients, S steps, B batch, N samples of one client (padded), H height, W width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.learn.noise import integers, mix
from paceline.learn.recipe import LocalSGD

# Sub-addresses below a visit's key. They are large so that no step or epoch number meets them.
_BATCHES, _DROPOUT, _CROP_Y, _CROP_X, _FLIP = (1 << 40) + 1, (1 << 40) + 2, (1 << 40) + 3, (1 << 40) + 4, (1 << 40) + 5
PAD = 4


@dataclass(frozen=True)
class Batches:
    """Which samples each step of each client sees."""

    index_CSB: Tensor
    """Positions in the client's own list of samples."""
    real_CSB: Tensor
    """True where the batch holds a sample, False where it is padding (short last batches, fewer steps)."""
    steps_C: list[int]


def draw_batches(key_C: Tensor, sizes: list[int], recipe: LocalSGD) -> Batches:
    """Batches without replacement within each epoch; an epoch's last batch may be short.

    A client's order in an epoch is the sort order of random keys at (visit, epoch, sample): it depends on
    nothing but the client's own key and size, so any grouping of clients draws the same.
    """
    device = key_C.device
    steps = [recipe.steps_for(n) for n in sizes]
    per_epoch = [-(-n // recipe.batch) for n in sizes]
    size_C1 = torch.tensor(sizes, device=device)[:, None]
    per_epoch_C1 = torch.tensor(per_epoch, device=device)[:, None]
    epochs = max(-(-s // e) for s, e in zip(steps, per_epoch, strict=True))

    order_CEN = _orders(mix(key_C, _BATCHES), size_C1, epochs, max(sizes))
    step_1S = torch.arange(max(steps), device=device)[None, :]
    epoch_CS = step_1S // per_epoch_C1
    place_CSB = ((step_1S % per_epoch_C1) * recipe.batch)[:, :, None] + torch.arange(recipe.batch, device=device)
    running_CS = step_1S < torch.tensor(steps, device=device)[:, None]
    real_CSB = (place_CSB < size_C1[:, :, None]) & running_CS[:, :, None]
    where = torch.where(real_CSB, epoch_CS[:, :, None] * order_CEN.shape[2] + place_CSB, 0)
    index_CSB = order_CEN.flatten(1).gather(1, where.flatten(1)).view_as(where)
    return Batches(index_CSB, real_CSB, steps)


def _orders(key_C: Tensor, size_C1: Tensor, epochs: int, longest: int) -> Tensor:
    """(C, E, N): a random order of each client's samples for each epoch; padding sorts to the end."""
    epoch_1E = torch.arange(epochs, device=key_C.device)[None, :]
    sample_N = torch.arange(longest, device=key_C.device)
    keys_CEN = mix(mix(key_C[:, None], epoch_1E)[:, :, None], sample_N)
    keys_CEN = keys_CEN.masked_fill(sample_N >= size_C1[:, :, None], torch.iinfo(torch.int64).max)
    return keys_CEN.argsort(dim=2, stable=True)


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
