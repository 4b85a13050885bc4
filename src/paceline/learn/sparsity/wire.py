"""What a sparse model costs: bytes on the wire, and operations.

Shapes: C clients, L masked layers. ``counts_CL`` are active weights by layer (``layout.counts``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from paceline.errors import CostError, SettingError
from paceline.learn.flops import forward_flops
from paceline.learn.space import Slot, Space
from paceline.learn.sparsity.layout import maskable, sizes, sparsity

NUMBER = 4
"""Bytes of a number on the wire, and of an index, whatever precision the simulation computes in."""

Accounting = Literal["full", "weights"]


def wire_bytes(
    space: Space,
    counts_CL: Tensor,
    slots: Sequence[Slot] | None = None,
    *,
    changed: bool | Tensor = True,
    accounting: Accounting = "full",
) -> Tensor:
    """(C,) float64: bytes of each client's model on the wire.

    ``full``: 4 for each parameter that is not masked out, and the mask where it ``changed`` (a bool, or one for each
    client) since the receiver saw it. ``weights`` is DA-DPFL's own: 4(1-s)P, as if every parameter could be masked,
    and no mask.
    """
    slots = _given(space, slots)
    if accounting == "weights":
        return NUMBER * (1 - sparsity(counts_CL, slots)) * space.size
    if accounting != "full":
        raise SettingError(f"accounting is {accounting!r}; want 'full' or 'weights' (as DA-DPFL counts)")
    active_C = counts_CL.sum(dim=-1)
    always = space.size - sum(sizes(slots))
    told_C = torch.as_tensor(changed, device=counts_CL.device).double()
    return NUMBER * (active_C + always).double() + told_C * mask_bytes(counts_CL, slots)


def mask_bytes(counts_CL: Tensor, slots: Sequence[Slot]) -> Tensor:
    """(C,) float64: bytes of a mask, as a bit for each weight or as a list of indices, whichever is smaller."""
    bitmap = -(-sum(sizes(slots)) // 8)
    return (NUMBER * counts_CL.sum(dim=-1)).clamp(max=bitmap).double()


def sparse_flops(space: Space, counts_CL: Tensor, slots: Sequence[Slot] | None = None) -> Tensor:
    """(C,) float64: operations of one sample's forward pass; a layer costs in proportion to its active weights.

    As in ``flops.training_flops`` a layer's bias goes with its weights.
    """
    slots = _given(space, slots)
    rest, layer_L = _layer_flops(space, tuple(slots))
    density_CL = counts_CL.double() / torch.tensor(sizes(slots), dtype=torch.float64, device=counts_CL.device)
    cost_C = torch.full(counts_CL.shape[:-1], rest, dtype=torch.float64, device=counts_CL.device)
    for layer, density_C in zip(layer_L, density_CL.unbind(dim=-1), strict=True):
        cost_C += layer * density_C
    return cost_C


@lru_cache(maxsize=16)
def _layer_flops(space: Space, slots: tuple[Slot, ...]) -> tuple[float, tuple[float, ...]]:
    """Operations of what is never masked, and of each masked layer when dense."""
    flops = forward_flops(space.module, space.shape)
    names = [slot.name.removesuffix("weight").removesuffix(".") for slot in slots]
    if unknown := [name for name in names if name not in flops]:
        raise CostError(f"cannot count the operations of {', '.join(unknown)}: no such layer in {space.name}")
    return sum(cost for name, cost in flops.items() if name not in names), tuple(flops[name] for name in names)


def _given(space: Space, slots: Sequence[Slot] | None) -> Sequence[Slot]:
    return maskable(space) if slots is None else slots
