"""When a curve reaches a level: the first measurement that does, and the first that does on average.

A first crossing favours noisy curves, since one lucky measurement is enough. The mean of several measurements in a
row, taken at the middle of them, forgives less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from paceline.papers.trials import Column, Finished
from paceline.statistics import Interval, mean_interval

OVER = 5
"""Measurements in a row that are averaged."""


EARLY = (
    f"not judged: some were there before {OVER} scores could be averaged, so that their smoothed times are too long"
)


class Crossing(NamedTuple):
    """Where a level was reached; between measurements by a straight line where the curve was smoothed."""

    time: float
    """Virtual seconds."""
    round: float


def first_crossing(one: Finished, level: float) -> Crossing | None:
    """The first measurement at or above the level."""
    above = np.flatnonzero(one.accuracy >= level)
    if not len(above):
        return None
    return Crossing(float(one.time[above[0]]), float(one.columns["round"][above[0]]))


def smooth_crossing(one: Finished, level: float, over: int = OVER) -> Crossing | None:
    """Where the mean of ``over`` measurements in a row crosses the level."""
    if len(one.accuracy) < over:
        return None
    columns, weights = (one.accuracy, one.time, one.columns["round"]), np.full(over, 1 / over)
    accuracy, time, rounds = (np.convolve(column, weights, "valid") for column in columns)
    above = np.flatnonzero(accuracy >= level)
    if not len(above):
        return None
    k = int(above[0])
    if k == 0:
        return Crossing(float(time[0]), float(rounds[0]))
    share = (level - accuracy[k - 1]) / (accuracy[k] - accuracy[k - 1])
    return Crossing(*(float(c[k - 1] + share * (c[k] - c[k - 1])) for c in (time, rounds)))


def timed(one: Finished, clock: Column, measure: str = "accuracy") -> Finished:
    """The same run where round r ends at ``clock[r - 1]``, judged by one of its measures."""
    rounds = one.columns["round"].astype(int)
    return replace(one, time=clock[rounds - 1], accuracy=one.columns[measure])


def spacing(one: Finished) -> float:
    """Mean virtual seconds between measurements, the start included."""
    return float(one.time[-1] / len(one.time)) if len(one.time) else 0.0


def thinned(one: Finished, interval: float) -> Finished:
    """The first measurement at or after each multiple of an interval, but for rounding: who is measured more often
    than others would otherwise have more chances to be lucky."""
    turns = np.floor(one.time / interval + 1e-9)
    kept = np.flatnonzero(np.diff(turns, prepend=0.0) > 0)
    columns = {name: column[kept] for name, column in one.columns.items()}
    return replace(one, time=one.time[kept], accuracy=one.accuracy[kept], loss=one.loss[kept], columns=columns)


def evenly_spaced(runs: Mapping[str, Sequence[Finished]]) -> tuple[dict[str, list[Finished]], float]:
    """The same runs measured at intervals that are alike: those of whoever is measured least often."""
    interval = max(spacing(one) for those in runs.values() for one in those)
    return {name: [thinned(one, interval) for one in those] for name, those in runs.items()}, interval


def stopped_at(one: Finished) -> Crossing | None:
    """Where a run that ends at its target did."""
    return None if one.reached is None else Crossing(one.reached, np.nan if one.rounds is None else one.rounds)


@dataclass(frozen=True)
class Arrivals:
    """Where the seeds of one kind of run reached a level."""

    crossings: dict[int, Crossing]
    """By seed, of those that arrived."""
    tried: int
    early: int = 0
    """How many were there before the mean of several measurements could be taken: their times are too long."""

    @property
    def complete(self) -> bool:
        """Whether every seed arrived."""
        return len(self.crossings) == self.tried > 0

    @property
    def seconds(self) -> dict[int, float]:
        """The virtual seconds to the target, by seed."""
        return {seed: one.time for seed, one in self.crossings.items()}

    @property
    def rounds(self) -> dict[int, float]:
        """The rounds to the target, by seed."""
        return {seed: one.round for seed, one in self.crossings.items()}

    @property
    def mean(self) -> Interval:
        """The mean of the seconds over seeds, with its interval."""
        return mean_interval([*self.seconds.values()])


WAYS: dict[str, Callable[[Finished, float], Crossing | None]] = {
    "smoothed": smooth_crossing,
    "first": first_crossing,
}
"""Both ways to cross a level, by the words that rows use."""


def arrived(runs: Sequence[Finished], target: float, way: str = "smoothed") -> Arrivals:
    """Where these runs reached a target, in one of the ways."""
    found = arrivals(runs, lambda one: WAYS[way](one, target))
    first = [one.accuracy[:OVER] for one in runs if len(one.accuracy) >= OVER]
    early = sum(bool(np.mean(those) >= target) for those in first) if way == "smoothed" else 0
    return replace(found, early=early)


def arrivals(runs: Sequence[Finished], way: Callable[[Finished], Crossing | None] = stopped_at) -> Arrivals:
    """Collect where these runs arrived, by seed."""
    return Arrivals({one.trial.seed: found for one in runs if (found := way(one)) is not None}, len(runs))
