"""PSFL's training structure: how many sequences abreast, how many clients in each (Zhou et al., INFOCOM 2025).

Wider structures have shorter rounds and need more of them. The paper bounds both, and the best structure makes the
product of the two bounds least (PS-7). Only numpy is needed here, so that the answer comes at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.algorithms.seen_times import SeenTimes
from paceline.bounds import LONGEST, SHORTEST
from paceline.errors import SettingError

Array = NDArray[np.float64]
RoundsBy = Literal["bound", "simulation"]
"""Where a round's seconds come from when structures are compared: Theorem 2's bound, or rounds with times seen."""

GRID = 2048
"""Points of the logarithmic grid on which the minima are found before they are polished."""
SHOWN = 5
"""How many of the best integer structures are kept as alternatives, besides FedAvg and sequential FL."""
MOST = 10**9
"""Participants beyond which a number is a slip."""
TIED = 1e-12
"""Costs that differ by less than this, relatively, differ by rounding only."""


class Alternative(NamedTuple):
    """An integer structure and what it costs relative to the best one."""

    S: int
    """Clients in each sequence."""
    W: int
    """Sequences abreast."""
    cost: float
    """Time to the same accuracy, as a multiple of the best structure's."""
    seconds: float
    """Mean seconds of one round."""


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
    simulated: bool
    """Whether seconds of rounds are simulated with times that were seen; else every client is taken to have the same
    mean time (PS-E5), which promises wide structures too short rounds."""
    rounds_by: RoundsBy
    """What the structure was chosen by."""
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
    *,
    participants: int,
    time_mean: float,
    time_std: float,
    ratio: float,
    population: int | None = None,
    times: SeenTimes | None = None,
    rounds_by: RoundsBy = "bound",
) -> Structure:
    """The structure that reaches a given accuracy soonest (PS-7, PS-8, PS-E3, PS-E4).

    By the bounds on rounds and on their time; or by the bound on rounds and simulated rounds, for which ``times``
    must be known. The real-valued width and length are always the bounds'.
    """
    _check(participants, time_mean, time_std, ratio, population)
    _require(
        rounds_by == "bound" or times is not None,
        "rounds_by is simulation but no times were seen of clients; give measured times, or choose by the bound",
    )
    cost = _Cost(time_mean, time_std, ratio)
    width = _best_width(cost, participants)
    seen = times if rounds_by == "simulation" else None
    alternatives = tuple(
        Alternative(S, W, times_best, _seconds(S, W, time_mean, time_std, times))
        for S, W, times_best in _integer_structures(cost, participants, seen)
    )
    S, W, _, seconds = alternatives[0]
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
        expected_round_seconds=seconds,
        simulated=times is not None,
        rounds_by=rounds_by,
        bounds=(shortest, shortest + time_std * math.sqrt(2 * S * math.log(W))),
        alternatives=alternatives,
    )


def _seconds(S: int, W: int, mean: float, std: float, times: SeenTimes | None) -> float:
    return expected_round_seconds(S, W, mean, std) if times is None else times.round_seconds(S, W)


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
    """Mean seconds of a round of W sequences of S clients that all have the same mean time: S·t̄ + κ·√S·m_W.

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
        return self.of_rounds(W) * seconds

    def of_rounds(self, W: Array) -> Array:
        """The factor by which rounds grow with the width; times a round's seconds for each of S clients, the cost."""
        factor: Array = self._per_width + self._fixed / W
        return factor

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


def _integer_structures(cost: _Cost, participants: int, seen: SeenTimes | None) -> list[tuple[int, int, float]]:
    """The best pairs S, W = ⌊N0/S⌋ (PS-E4) with their relative costs, FedAvg and sequential FL among them.

    Of all S that leave the same W the largest costs least, so 2√N0 pairs are enough.
    """
    small = np.arange(1, math.isqrt(participants) + 1)
    W = np.union1d(small, participants // small).astype(np.float64)
    S = participants // W
    if seen is None:
        seconds, costs = cost.round_seconds(S, W), cost(S, W)
    else:
        pairs = zip(S.astype(int).tolist(), W.astype(int).tolist(), strict=True)
        seconds = np.array([seen.round_seconds(s, w) for s, w in pairs])
        costs = cost.of_rounds(W) * seconds / S
    order = _order(costs, seconds)
    least = costs[order[0]]
    kept = [k for place, k in enumerate(order.tolist()) if place < SHOWN or S[k] == 1 or W[k] == 1]
    return [(int(S[k]), int(W[k]), max(1.0, float(costs[k] / least))) for k in kept]


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
        SHORTEST <= time_mean < LONGEST,
        f"time_mean is {time_mean:g}; the mean seconds of a visit must be above 0 (at least {SHORTEST:g}), and below"
        f" {LONGEST:g}",
    )
    _require(
        0 <= time_std < LONGEST,
        f"time_std is {time_std:g}; the spread in seconds must be at least 0, and below {LONGEST:g}",
    )
    _require(ratio >= 0, f"ratio is {ratio:g}; alpha/beta must be a number of at least 0 (it may be inf)")


def _require(holds: bool, complaint: str) -> None:
    if not holds:
        raise SettingError(complaint)
