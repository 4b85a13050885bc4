"""How dense each layer starts (DA-DPFL's initialisation), and random masks with exactly these counts.

Shapes: C clients, P parameters, L masked layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from paceline.errors import SettingError
from paceline.learn.hashing import mix, signed
from paceline.learn.space import Slot, Space
from paceline.learn.sparsity.choosing import anywhere
from paceline.learn.sparsity.layout import sizes

Spread = Literal["erk", "uniform"]


def erk(shapes: Sequence[tuple[int, ...]], density: float) -> list[float]:
    """Erdős-Rényi-Kernel densities: ε·Σdims/Πdims, at most 1, with the ε at which the whole has this density."""
    _check(density)
    weights = [math.prod(shape) for shape in shapes]
    raw = [sum(shape) / math.prod(shape) for shape in shapes]
    free, budget = list(range(len(shapes))), density * sum(weights)
    while free:
        epsilon = budget / sum(raw[i] * weights[i] for i in free)
        full = [i for i in free if raw[i] * epsilon > 1]
        if not full:
            break
        # A layer that would exceed 1 is dense; what it leaves over raises ε for the others.
        budget -= sum(weights[i] for i in full)
        free = [i for i in free if i not in full]
    return [raw[i] * epsilon if i in free else 1.0 for i in range(len(shapes))]


def layer_counts(slots: Sequence[Slot], density: float, spread: Spread = "erk") -> list[int]:
    """How many weights each layer keeps; together the nearest whole number to density times all of them.

    No layer is left without a weight.
    """
    _check(density)
    if spread not in ("erk", "uniform"):
        raise SettingError(f"spread is {spread!r}; want 'erk' or 'uniform'")
    total, largest = round(density * sum(sizes(slots))), sizes(slots)
    if total < len(slots):
        raise SettingError(
            f"density {density} leaves {total} of {sum(largest)} weights to {len(slots)} layers; "
            f"want one each at least: raise it to {len(slots) / sum(largest):.3g} or more"
        )
    shares = erk([slot.shape for slot in slots], density) if spread == "erk" else [density] * len(slots)
    return _whole([share * size for share, size in zip(shares, largest, strict=True)], largest, total)


def random_masks(
    space: Space,
    slots: Sequence[Slot],
    kept: Sequence[int],
    key: int,
    clients: Sequence[int],
    device: str | torch.device = "cpu",
) -> Tensor:
    """(C, P) masks with ``kept[l]`` ones in layer l, at random places.

    Client k's mask is a function of (key, k) alone, whoever shares the batch.
    """
    like = torch.empty(space.size, dtype=space.dtype, device=device)
    return masks_like(like, slots, kept, key, clients)


def masks_like(
    like_P: Tensor, slots: Sequence[Slot], kept: Sequence[int], key: int, clients: Sequence[int]
) -> Tensor:
    """The same for vectors like this one."""
    device = like_P.device
    key_C = mix(torch.tensor(signed(key), device=device), torch.tensor(list(clients), device=device))
    masks_CP = torch.ones(len(clients), like_P.numel(), dtype=like_P.dtype, device=device)
    for slot in slots:
        masks_CP[:, slot.start : slot.stop] = 0
    count_CL = torch.tensor(list(kept), device=device).expand(len(clients), -1)
    for slot, chosen in zip(slots, anywhere(key_C, masks_CP, slots, count_CL), strict=True):
        masks_CP[:, slot.start : slot.stop] = chosen
    return masks_CP


def _check(density: float) -> None:
    if not 0 < density <= 1:
        raise SettingError(f"density is {density}; want a share of weights above 0 and at most 1")


def _whole(ideal: Sequence[float], largest: Sequence[int], total: int) -> list[int]:
    """Whole numbers near the ideal ones, from 1 to the largest, with exactly this total; ties to the first layer."""
    found = [min(max(math.floor(x), 1), size) for x, size in zip(ideal, largest, strict=True)]
    while (missing := total - sum(found)) != 0:
        step = 1 if missing > 0 else -1
        able = [i for i, n in enumerate(found) if (n < largest[i] if step > 0 else n > 1)]
        most = max(able, key=lambda i: step * (ideal[i] - found[i]))
        found[most] += step
    return found
