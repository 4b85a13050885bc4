"""Means over seeds and ratios of paired seeds, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

TELLING = 6
"""So many seeds that all tie are enough to tell a sign: the other one would come so in 1 of 32 cases, both ways."""

ROUNDING = 1e-12
"""What is so small beside an interval's width is an error of rounding, and told as 0."""


class Interval(NamedTuple):
    """A value and the ends of its 95 % interval; one seed gives no interval."""

    value: float
    low: float
    high: float
    tied: int = 0
    """How many seeds gave this very value, where all of two or more did. Student's t then has no width, which says
    nothing of how certain the value is."""

    def __neg__(self) -> Interval:
        return Interval(0.0 - self.value, 0.0 - self.high, 0.0 - self.low, self.tied)

    @property
    def tells(self) -> bool:
        """Whether its ends say how certain the value is."""
        return not math.isnan(self.low) and (not self.tied or self.tied >= TELLING)

    def __str__(self) -> str:
        if math.isnan(self.low):
            return _shown(self.value)
        if self.tied:
            return f"{_shown(self.value)} (in all {self.tied} seeds)"
        rounding = ROUNDING * (self.high - self.low)
        value, low, high = (_shown(0.0 if abs(one) < rounding else one) for one in self[:3])
        return f"{value} ({low} to {high})"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def standard_error(values: ArrayLike) -> float:
    """Of the mean of independent draws; 0 for draws that are all alike, NaN for a single one."""
    found = np.asarray(values, float)
    return float(found.std(ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else math.nan


def half_width(values: ArrayLike, level: float = 0.95) -> NDArray[np.float64]:
    """Half of the confidence interval of the mean over the first axis, by Student's t; two values or more."""
    from scipy.special import stdtrit

    found = np.asarray(values, float)
    quantile = float(stdtrit(len(found) - 1, 0.5 + level / 2))
    return np.asarray(quantile * found.std(axis=0, ddof=1) / math.sqrt(len(found)))


def mean_interval(
    values: Sequence[float], level: float = 0.95, within: tuple[float, float] = (-math.inf, math.inf)
) -> Interval:
    """The mean and its confidence interval by Student's t, which does not leave the range that values can have."""
    middle = float(np.asarray(values, float).mean()) if len(values) else math.nan
    if len(values) < 2:
        return Interval(middle, math.nan, math.nan)
    if min(values) == max(values):
        return Interval(middle, middle, middle, len(values))
    half = float(half_width(values, level))
    return Interval(middle, max(middle - half, within[0]), min(middle + half, within[1]))


def ratio_interval(above: Sequence[float], below: Sequence[float], level: float = 0.95) -> Interval:
    """The geometric mean of the ratios of pairs (the same seed in both), by Student's t on their logarithms."""
    logs = [math.log(a / b) for a, b in zip(above, below, strict=True)]
    found = mean_interval(logs, level)
    return Interval(math.exp(found.value), math.exp(found.low), math.exp(found.high), found.tied)
