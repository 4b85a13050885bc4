"""PSFL's training structure: how many sequences abreast, how many clients in each (Zhou et al., INFOCOM 2025).

Wider structures have shorter rounds and need more of them. The paper bounds both, and the best structure makes the
product of the two bounds least (PS-7). Only numpy is needed here, so that the answer comes at once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError, SettingError
from paceline.system.tables import read_table

Array = NDArray[np.float64]

GRID = 2048
"""Points of the logarithmic grid on which the minima are found before they are polished."""
SHOWN = 5
"""How many of the best integer structures are kept as alternatives, besides FedAvg and sequential FL."""
MOST, LONGEST = 10**9, 1e12
"""Participants and seconds beyond which a number is a slip."""
TIED = 1e-12
"""Costs that differ by less than this, relatively, differ by rounding only."""


class Alternative(NamedTuple):
    """An integer structure and what it costs relative to the best one."""

    S: int
    """Clients in each sequence."""
    W: int
    """Sequences abreast."""
    cost: float
    """Time to the same accuracy by the bound, as a multiple of the best structure's."""


@dataclass(frozen=True, kw_only=True)
class Structure:
    """The best training structure for a number of participants, and how much better it is than others."""

    participants: int
    """Clients that may take part in one round, Ñ."""
    time_mean: float
    """t̄, mean seconds of one client visit."""
    time_std: float
    """κ, standard deviation of one client's seconds from round to round."""
    ratio: float
    """α/β of the bound: what a sequence more costs in rounds (PS-4)."""
    width: float
    """W* of the continuous problem (PS-7)."""
    length: float
    """S* = participants / W* (PS-8)."""
    W: int
    """Sequences abreast."""
    S: int
    """Clients in each sequence."""
    expected_round_seconds: float
    """Mean seconds of one round of the integer structure."""
    bounds: tuple[float, float]
    """Theorem 2 (PS-5) for one round of the integer structure: no shorter, no longer on average."""
    alternatives: tuple[Alternative, ...]
    """The few best integer structures, best first; FedAvg (S = 1) and sequential FL (W = 1) always among them."""


def bound_ratio(sigma2: float, heterogeneity: float, c0: float = 0.1) -> float:
    """α/β of Theorem 1 from the gradient noise σ² and the heterogeneity B (PS-4, PS-E1).

    Without noise the ratio is infinite: a wider structure then needs proportionally more rounds.
    """
    _require(0 < c0 < 0.2, f"c0 is {c0:g}; Theorem 1 holds for 0 < c0 < 0.2 only, so choose c0 inside, such as 0.1")
    for name, value in (("sigma2", sigma2), ("heterogeneity", heterogeneity)):
        _require(0 <= value < math.inf, f"{name} is {value:g}; it must be a finite number of at least 0")
    _require(
        sigma2 > 0 or heterogeneity > 0,
        "sigma2 and heterogeneity are both 0: with neither noise nor heterogeneity every structure needs the same"
        " rounds, so there is nothing to weigh; give one of them a value above 0",
    )
    if sigma2 == 0:
        return math.inf
    return ((1 + c0) * (heterogeneity / sigma2) + c0 * (1 + 2 * c0)) / (1 - 2 * c0**2)


def choose_structure(
    *, participants: int, time_mean: float, time_std: float, ratio: float, population: int | None = None
) -> Structure:
    """The structure that reaches a given accuracy soonest by the bounds (PS-7, PS-8, PS-E3, PS-E4)."""
    _check(participants, time_mean, time_std, ratio, population)
    cost = _Cost(time_mean, time_std, ratio)
    width = _best_width(cost, participants)
    alternatives = _integer_structures(cost, participants)
    S, W, _ = alternatives[0]
    shortest = S * time_mean
    return Structure(
        participants=participants,
        time_mean=time_mean,
        time_std=time_std,
        ratio=ratio,
        width=width,
        length=participants / width,
        W=W,
        S=S,
        expected_round_seconds=expected_round_seconds(S, W, time_mean, time_std),
        bounds=(shortest, shortest + time_std * math.sqrt(2 * S * math.log(W))),
        alternatives=alternatives,
    )


class Bounded(NamedTuple):
    """What the bounds say of one structure."""

    rounds: float
    """Rounds to an accuracy, up to a factor that all structures of one fleet share (PS-6)."""
    seconds: float
    """Theorem 2's upper bound of a round (PS-5)."""

    @property
    def time(self) -> float:
        """Their product, PS-7's objective, up to the same factor."""
        return self.rounds * self.seconds


def bounded(best: Structure, S: int) -> Bounded:
    """The bounds for sequences of S clients, where the best structure is known: W = ⌊Ñ/S⌋."""
    cost = _Cost(best.time_mean, best.time_std, best.ratio)
    length, width = np.array(float(S)), np.array(float(best.participants // S))
    seconds = float(cost.round_seconds(length, width))
    return Bounded(float(cost(length, width)) / seconds, seconds)


def expected_round_seconds(S: int, W: int, time_mean: float, time_std: float) -> float:
    """Mean seconds of a round of W sequences of S clients: S·t̄ + κ·√S·m_W.

    Time-partition sampling takes one client of each speed group into every sequence, so all sequences have the same
    mean S·t̄ and what is left is each client's own spread κ from round to round (PS-E5). A sequence's time is then
    nearly normal with standard deviation κ·√S, and the round lasts as long as the slowest of W of them. Because
    0 <= m_W <= √(2 ln W), the result lies within the bounds of Theorem 2 (PS-5).
    """
    return S * time_mean + time_std * math.sqrt(S) * expected_maximum(W)


@lru_cache(maxsize=1024)
def expected_maximum(count: int) -> float:
    """m_W: the mean of the largest of this many independent standard normal draws."""
    _require(count >= 1, f"count is {count}; the largest of how many draws is wanted: 1 or more")
    if count == 1:
        return 0.0
    # The trapezoidal rule is exact to rounding here: the density of the maximum is smooth and dies out at both ends.
    step = 0.01
    x = np.arange(-10.0, 14.0, step)
    # Of the two tails the smaller one is computed, so that no digits are lost in 1 - tail.
    tail = np.array([0.5 * math.erfc(abs(v) / math.sqrt(2)) for v in x.tolist()])
    log_below = np.where(x > 0, np.log1p(-tail), np.log(tail))
    density = count * np.exp(-0.5 * x**2 + (count - 1) * log_below) / math.sqrt(2 * math.pi)
    return float(step * np.sum(x * density))


def measured_times(path: str | Path) -> tuple[float, float, int]:
    """Mean t̄, spread κ and number of devices from a CSV file with the columns device and seconds.

    t̄ is the mean of the devices' means; κ² is the mean of the devices' own variances (Eq. 26, PS-10), so what
    devices differ by among themselves is no part of it. A device with one row has no variance to give.
    """
    rows: dict[str, list[float]] = defaultdict(list)
    for row in read_table(path, ("device", "seconds")):
        rows[row.text("device")].append(row.number("seconds", positive=True))
    variances = [float(np.var(seconds, ddof=1)) for seconds in rows.values() if len(seconds) > 1]
    if not rows:
        raise DataError(f"{path} has no rows; wanted measured times, one row a visit, with columns device,seconds")
    if not variances:
        raise DataError(
            f"{path} has {len(rows)} devices with one row each; a device's spread from round to round takes at least"
            " two rows of the same device, so measure again or give the mean and the spread yourself"
        )
    means = [float(np.mean(seconds)) for seconds in rows.values()]
    return float(np.mean(means)), math.sqrt(float(np.mean(variances))), len(rows)


def explain(structure: Structure) -> str:
    """Why this structure, in three plain sentences."""
    participants, ratio = structure.participants, structure.ratio
    rounds = "in proportion to W" if math.isinf(ratio) else f"as {ratio:.3g}*W + 1"
    return (
        f"With alpha/beta = {ratio:.3g} the rounds needed grow {rounds}, while a round of S clients in a row takes"
        f" {structure.time_mean:.3g} s * S and some waiting for the slowest of W sequences. With {participants}"
        f" clients a round the two balance at W = {structure.width:.2f} and S = {structure.length:.2f}, in whole"
        f" clients W = {structure.W} and S = {structure.S}. To the same accuracy, by the bounds, {_ends(structure)}."
    )


def _ends(structure: Structure) -> str:
    """Where FedAvg and sequential FL stand."""
    cost = {(S, W): cost for S, W, cost in structure.alternatives}
    told = []
    for name, S, W in (("FedAvg", 1, structure.participants), ("sequential FL", structure.participants, 1)):
        if (S, W) == (structure.S, structure.W):
            told.append(f"{name} (W = {W}, S = {S}) is the best structure")
        else:
            told.append(f"{name} (W = {W}, S = {S}) takes {cost[S, W]:.2f} times as long")
    return " and ".join(told)


class _Cost:
    """PS-7's objective per participant, scaled so that it stays finite for every ratio.

    α and β of Eq. 17 are divided by N0, the clients that really take part. An integer structure has N0 = S·W, which
    may be less than Ñ, so rounds times round time is (ratio·W + 1)/(S·W) · (S·t̄ + κ√(2·S·ln W)). With Ñ in the
    place of S·W leaving clients out would cost nothing, and the pairs of PS-E4 would not come out.
    """

    def __init__(self, time_mean: float, time_std: float, ratio: float) -> None:
        self._mean = time_mean
        self._std = time_std
        self._per_width = 1.0 if math.isinf(ratio) else ratio / (1 + ratio)
        self._fixed = 1 / (1 + ratio)

    def __call__(self, S: Array, W: Array) -> Array:
        seconds: Array = self._mean + self._std * np.sqrt(2 * np.log(W) / S)
        return (self._per_width + self._fixed / W) * seconds

    def round_seconds(self, S: Array, W: Array) -> Array:
        """Theorem 2's upper bound of one round."""
        seconds: Array = S * self._mean + self._std * np.sqrt(2 * S * np.log(W))
        return seconds


def _best_width(cost: _Cost, participants: int) -> float:
    """The global minimum over 1 <= W <= N0.

    W = 1 is always a local minimum and the derivative has an infinite slope there (PS-E3), so nothing may start from
    one point: every minimum of a logarithmic grid is polished and the end points compete.
    """
    if participants == 1:
        return 1.0

    def at(x: Array) -> Array:
        W = np.exp(x)
        return cost(participants / W, W)

    grid = np.linspace(0.0, math.log(participants), GRID)
    values = at(grid)
    inner = 1 + np.flatnonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:]))
    polished = _golden_section(at, grid[inner - 1], grid[inner + 1])
    widths = np.concatenate([[1.0, float(participants)], np.clip(np.exp(polished), 1.0, participants)])
    lengths = participants / widths
    return float(widths[_order(cost(lengths, widths), cost.round_seconds(lengths, widths))[0]])


def _golden_section(f: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """The minimum within each bracket, all brackets at once."""
    shrink = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - shrink * (high - low), low + shrink * (high - low)
        down = f(left) <= f(right)
        low, high = np.where(down, low, left), np.where(down, right, high)
    return (low + high) / 2


def _integer_structures(cost: _Cost, participants: int) -> tuple[Alternative, ...]:
    """The best pairs of W = ⌊N0/S⌋ (PS-E4), with FedAvg and sequential FL among them.

    Of all S that leave the same W the largest costs least, so 2√N0 pairs are enough.
    """
    small = np.arange(1, math.isqrt(participants) + 1)
    W = np.union1d(small, participants // small).astype(np.float64)
    S = participants // W
    costs = cost(S, W)
    order = _order(costs, cost.round_seconds(S, W))
    least = costs[order[0]]
    kept = [k for place, k in enumerate(order.tolist()) if place < SHOWN or S[k] == 1 or W[k] == 1]
    return tuple(Alternative(int(S[k]), int(W[k]), max(1.0, float(costs[k] / least))) for k in kept)


def _order(costs: Array, seconds: Array) -> NDArray[np.intp]:
    """Places by cost; those that cost the same but for rounding, by the time of a round."""
    rank = np.floor((costs / costs.min() - 1) / TIED)
    return np.lexsort((seconds, rank))


def _check(participants: int, time_mean: float, time_std: float, ratio: float, population: int | None) -> None:
    _require(1 <= participants <= MOST, f"participants is {participants}; a round has from 1 to {MOST:,} clients")
    _require(
        population is None or participants <= population,
        f"{participants} participants a round out of a population of {population}; no client can take part twice in"
        " a round, so lower the participants or raise the population",
    )
    _require(
        0 < time_mean < LONGEST,
        f"time_mean is {time_mean:g}; the mean seconds of a visit must be above 0, and below {LONGEST:g}",
    )
    _require(
        0 <= time_std < LONGEST,
        f"time_std is {time_std:g}; the spread in seconds must be at least 0, and below {LONGEST:g}",
    )
    _require(ratio >= 0, f"ratio is {ratio:g}; alpha/beta must be a number of at least 0 (it may be inf)")


def _require(holds: bool, complaint: str) -> None:
    if not holds:
        raise SettingError(complaint)
