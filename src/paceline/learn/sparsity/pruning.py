"""When and how much DA-DPFL prunes: the PQ index, SAP (DA-10), detection scores and votes (DA-8), rounds (DA-9).

Shapes: C clients (K when they vote), P parameters, L masked layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from paceline.bounds import bounded, check_bounds
from paceline.errors import SettingError
from paceline.learn.space import Slot
from paceline.learn.sparsity.choosing import least
from paceline.learn.sparsity.layout import counts, row_sums, sizes


@dataclass(frozen=True, kw_only=True)
class Sap:
    """Sparsity-informed adaptive pruning (Diao et al., ICLR 2023), with its own defaults (DA-E3, DA-E4)."""

    p: float = bounded(0.5, above=0, most=100)
    q: float = bounded(1.0, above=0, most=100)
    eta: float = bounded(0.0, least=0)
    """η_c: greater keeps fewer weights."""
    gamma: float = bounded(1.0, least=0)
    """Share of what could go that does go."""
    beta: float = bounded(0.9, least=0, most=1)
    """Largest share of a layer that goes at once."""

    def __post_init__(self) -> None:
        check_bounds(self, "sap.")
        if not self.p < self.q:
            raise SettingError(f"PQ index with p={self.p}, q={self.q}; want 0 < p < q, as p=0.5, q=1 (DA-E4)")


# -- how much -----------------------------------------------------------------------------------------------------


def pq_index(weights_CP: Tensor, masks_CP: Tensor, slots: Sequence[Slot], rule: Sap | None = None) -> Tensor:
    """(C, L) float64: I = 1 - d^(1/q-1/p) ‖w‖_p/‖w‖_q over each layer's d active weights; 0 if all of them are 0."""
    rule = rule or Sap()
    return 1 - _ratio(weights_CP, masks_CP, counts(masks_CP, slots), slots, rule)


def prune(
    weights_CP: Tensor, masks_CP: Tensor, slots: Sequence[Slot], rule: Sap | None = None, target: float | None = None
) -> Tensor:
    """(C, P) new masks without the smallest |weights| of each layer, of equal ones the lowest index first (DA-10).

    Every client given is pruned: whose turn it is (t in 𝒯, s_k < s*) the caller decides. With a ``target`` no client
    goes beyond this share of zeros; layers then lose in proportion. A layer keeps one weight at least.
    """
    rule, active_CL = rule or Sap(), counts(masks_CP, slots)
    lost_CL = losses(_ratio(weights_CP, masks_CP, active_CL, slots, rule), active_CL, rule)
    if target is not None:
        lost_CL = _limited(lost_CL, active_CL, sum(sizes(slots)), target)
    pruned_CP = masks_CP.clone()
    for slot, chosen in zip(slots, least(weights_CP, masks_CP, slots, lost_CL), strict=True):
        pruned_CP[:, slot.start : slot.stop].sub_(chosen.to(pruned_CP.dtype))
    return pruned_CP


def losses(ratio_CL: Tensor, active_CL: Tensor, rule: Sap) -> Tensor:
    """(C, L) int64: ⌊d·min(γ(1-r/d), β)⌋ with r/d = (1+η)^(-q/(q-p)) (1-I)^(pq/(q-p)), and 1-I the ratio."""
    apart = rule.q - rule.p
    kept_CL = (1 + rule.eta) ** (-rule.q / apart) * _power(ratio_CL, rule.p * rule.q / apart)
    share_CL = (rule.gamma * (1 - kept_CL)).clamp(min=0.0, max=rule.beta)
    # A rounding error below a whole number is not one less.
    lost_CL = (active_CL * (share_CL + 1e-12)).floor().to(torch.int64)
    return torch.minimum(lost_CL, (active_CL - 1).clamp(min=0))


def _ratio(weights_CP: Tensor, masks_CP: Tensor, active_CL: Tensor, slots: Sequence[Slot], rule: Sap) -> Tensor:
    """(C, L): 1 - I = (mean |w|^p)^(1/p) / (mean |w|^q)^(1/q); the powers of d are in the means."""
    means = []
    for exponent in (rule.p, rule.q):
        sums = [_power_sum(weights_CP, masks_CP, slot, exponent) for slot in slots]
        means.append(_power(torch.stack(sums, dim=1) / active_CL.clamp(min=1), 1 / exponent))
    return torch.where(means[1] > 0, means[0] / means[1], 1.0).clamp(max=1.0)


def _power_sum(weights_CP: Tensor, masks_CP: Tensor, slot: Slot, exponent: float) -> Tensor:
    def piece(columns: slice) -> Tensor:
        return _power((weights_CP[:, columns] * masks_CP[:, columns]).double().abs_(), exponent)

    return row_sums(piece, weights_CP, slot.start, slot.stop)


def _power(x: Tensor, exponent: float) -> Tensor:
    """x^exponent for x >= 0, exponent > 0, from products and square roots, which IEEE 754 defines to the last bit.

    ``torch.pow`` computes a number in one of two ways, depending on where a thread's share of the tensor begins.
    """
    whole, rest = divmod(exponent, 1.0)
    result = None
    square, left = x, int(whole)
    while left:
        if left & 1:
            result = square if result is None else result * square
        left >>= 1
        square = square * square if left else square
    root = x
    while rest:
        root, (bit, rest) = root.sqrt(), divmod(2 * rest, 1.0)
        if bit:
            result = root if result is None else result * root
    assert result is not None
    return result


def _limited(lost_CL: Tensor, active_CL: Tensor, total: int, target: float) -> Tensor:
    """Losses in the same proportion that bring no client beyond the first number of zeros at the target."""
    if not 0 <= target < 1:
        raise SettingError(f"target sparsity is {target}; want a share of zeros from 0 to below 1, as 0.8")
    most = math.ceil(target * total * (1 - 1e-12)) - total + active_CL.sum(dim=1, keepdim=True)
    upto_CL = lost_CL.cumsum(dim=1)
    all_C1 = upto_CL[:, -1:].clamp(min=1)
    # Rounding the running total keeps the whole exact, and no layer loses more than it would have.
    upto_CL = upto_CL * torch.minimum(most.clamp(min=0), all_C1) // all_C1
    return upto_CL.diff(dim=1, prepend=torch.zeros_like(all_C1))


# -- when ---------------------------------------------------------------------------------------------------------


def detection(
    weights_CP: Tensor, start: Tensor, slots: Sequence[Slot], norm: Literal["tensors", "global"] = "tensors"
) -> Tensor:
    """(C,) float64: how far the models have gone from the start, (P,) or one for each (C, P).

    ``tensors`` is the sum of the norms over all parameter tensors, as in the reference code, for which thresholds of
    0.01 to 0.03 were tuned (DA-E6); ``global`` is the squared norm of Eq. 4. ``slots`` are all of the space's.
    """
    if norm not in ("tensors", "global"):
        raise SettingError(f"detection norm is {norm!r}; want 'tensors' (the reference code's) or 'global' (Eq. 4)")

    def piece(columns: slice) -> Tensor:
        return (weights_CP[:, columns].double() - start[..., columns].double()).square_()

    total_C = torch.zeros(weights_CP.shape[0], dtype=torch.float64, device=weights_CP.device)
    for slot in slots:
        square_C = row_sums(piece, weights_CP, slot.start, slot.stop)
        total_C += square_C.sqrt() if norm == "tensors" else square_C
    return total_C


def votes(now_K: Tensor, before_K: Tensor, first_K: Tensor, threshold: float) -> Tensor:
    """(K,) bool: who finds that learning has settled, |Δ^t - Δ^(t-1)|/Δ^1 < δ_pr; for rounds t >= 2 (DA-8)."""
    return (now_K - before_K).abs() < threshold * first_K.abs()


def agreed(votes_K: Tensor, share: float) -> bool:
    """Whether at least this share votes for pruning (DA-E1)."""
    return int(votes_K.sum()) / len(votes_K) >= share


def first_pruning(rounds: Iterable[Tensor], share: float) -> int | None:
    """t*: the first of the rounds 1, 2, ... in which at least this share votes for it; None if in none."""
    return next((t for t, votes_K in enumerate(rounds, 1) if agreed(votes_K, share)), None)


def pruning_times(first: int, rounds: int, *, delay: float = 0.0, scale: float = 1.3) -> list[int]:
    """t_p < T: sums of the gaps ⌈(t*+b)/c^(τ-1)⌉, τ = 1, 2, ... (DA-9, Eq. 6), with b the delay and c the scale."""
    if first < 1 or not delay >= 0 or not scale > 0:
        raise SettingError(
            f"pruning from t*={first} with b={delay}, c={scale}; want t* of 1 or more, b of 0 or more, c above 0"
        )
    times: list[int] = []
    at, gap = 0, first + delay
    while (at := at + max(1, math.ceil(gap * (1 - 1e-12)))) < rounds:
        times.append(at)
        gap /= scale
    return times


def pruning_rounds(first: int, rounds: int, *, delay: float = 0.0, scale: float = 1.3) -> list[int]:
    """The rounds that prune: t_p + 1, since what round t* decides can be done from the next round on (DA-E5)."""
    return [t + 1 for t in pruning_times(first, rounds, delay=delay, scale=scale)]
