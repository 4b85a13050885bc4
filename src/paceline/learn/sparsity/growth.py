"""Moving a mask without changing how sparse it is: RigL (DA-11), and DisPFL's growth at random.

Shapes: C clients, P parameters, N weights of one layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from paceline.errors import SettingError
from paceline.learn.space import Slot
from paceline.learn.sparsity.choosing import anywhere, greatest, least
from paceline.learn.sparsity.layout import counts

Grow = Callable[[Tensor, Tensor], Iterator[Tensor]]
"""Masks and how many by layer, to where weights grow, layer by layer."""


def cosine_fraction(initial: float, t: int, rounds: int) -> float:
    """α_t = (α_0/2)(1 + cos(πt/T)): the share of active weights that round t moves (DA-11, DA-E7)."""
    if not 0 <= initial <= 1:
        raise SettingError(f"the initial share of moved weights is {initial}; want a number from 0 to 1, as 0.3")
    if not 0 <= t <= rounds or rounds < 1:
        raise SettingError(f"round {t} of {rounds}: want a round from 0 to the last, which is 1 or more")
    return initial / 2 * (1 + math.cos(math.pi * t / rounds))


def rigl(
    weights_CP: Tensor, masks_CP: Tensor, gradients_CP: Tensor, slots: Sequence[Slot], fraction: float | Tensor
) -> Tensor:
    """(C, P) new masks: per layer drop ⌈α·nnz⌉ least |weights|, then grow as many zeros of greatest |gradient|.

    What was just dropped may grow again. The number of active weights of a layer stays; of equal numbers the lowest
    index goes first, both ways. ``fraction`` is α_t, one for all or one (C,) for each. A position that is new in the
    mask has no weight yet: it is 0, or the neighbours' after the next average.
    """
    coarse_CP = _coarse(gradients_CP, slots)
    return _move(weights_CP, masks_CP, slots, fraction, lambda masks, n: greatest(coarse_CP, masks, slots, n))


def _coarse(gradients_CP: Tensor, slots: Sequence[Slot]) -> Tensor:
    """Magnitudes in steps of about 2^-16 of a layer's largest (2^-30 in double precision).

    Many gradients are 0 but for rounding (a pixel that is always dark), and whether one of them is the larger must
    not decide what grows: it would depend on how learning was batched.
    """
    bits = 30 if gradients_CP.dtype is torch.float64 else 16
    coarse_CP = gradients_CP.abs()
    for slot in slots:
        layer_CN = coarse_CP[:, slot.start : slot.stop]
        top_C1 = layer_CN.amax(dim=1, keepdim=True)
        step_C1 = torch.ldexp(torch.ones_like(top_C1), torch.frexp(top_C1).exponent - bits)
        layer_CN.div_(step_C1).round_()
    return coarse_CP


def random_growth(
    weights_CP: Tensor, masks_CP: Tensor, key_C: Tensor, slots: Sequence[Slot], fraction: float | Tensor
) -> Tensor:
    """(C, P) new masks: drop as RigL does, grow at random places drawn at each client's int64 key (one a round)."""
    return _move(weights_CP, masks_CP, slots, fraction, lambda masks, n: anywhere(key_C, masks, slots, n))


def _move(
    weights_CP: Tensor, masks_CP: Tensor, slots: Sequence[Slot], fraction: float | Tensor, grow: Grow
) -> Tensor:
    moved_CP = masks_CP.clone()
    share = torch.as_tensor(fraction, dtype=torch.float64, device=masks_CP.device)
    active_CL = counts(masks_CP, slots)
    count_CL = _ceil(share.reshape(-1, 1) * active_CL).clamp(max=active_CL)
    for slot, dropped in zip(slots, least(weights_CP, masks_CP, slots, count_CL), strict=True):
        moved_CP[:, slot.start : slot.stop].sub_(dropped.to(moved_CP.dtype))
    for slot, grown in zip(slots, grow(moved_CP, count_CL), strict=True):
        moved_CP[:, slot.start : slot.stop].add_(grown)
    return moved_CP


def _ceil(x: Tensor) -> Tensor:
    """⌈x⌉, where a rounding error above a whole number (0.1 * 30) is not one more."""
    return (x * (1 - 1e-12)).ceil().to(torch.int64)
