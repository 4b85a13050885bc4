"""Means over seeds and ratios of paired seeds, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Interval(NamedTuple):
    """A value and the ends of its 95 % interval; one seed gives no interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.low):
            return _shown(self.value)
        return f"{_shown(self.value)} ({_shown(self.low)} to {_shown(self.high)})"


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


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """The mean and its confidence interval by Student's t."""
    middle = float(np.asarray(values, float).mean()) if len(values) else math.nan
    if len(values) < 2:
        return Interval(middle, math.nan, math.nan)
    half = float(half_width(values, level))
    return Interval(middle, middle - half, middle + half)


def ratio_interval(above: Sequence[float], below: Sequence[float], level: float = 0.95) -> Interval:
    """The geometric mean of the ratios of pairs (the same seed in both), by Student's t on their logarithms."""
    logs = [math.log(a / b) for a, b in zip(above, below, strict=True)]
    return Interval(*(math.exp(end) for end in mean_interval(logs, level)))
