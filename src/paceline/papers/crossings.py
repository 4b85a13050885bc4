"""When a curve reaches a level: the first measurement that does, and the first that does on average.

A first crossing favours noisy curves, since one lucky measurement is enough. The mean of several measurements in a
row, taken at the middle of them, forgives less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paceline.papers.trials import Column, Finished

OVER = 5
"""Measurements in a row that are averaged."""


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
    accuracy, time, rounds = (_means(column, over) for column in (one.accuracy, one.time, one.columns["round"]))
    above = np.flatnonzero(accuracy >= level)
    if not len(above):
        return None
    k = int(above[0])
    if k == 0:
        return Crossing(float(time[0]), float(rounds[0]))
    share = (level - accuracy[k - 1]) / (accuracy[k] - accuracy[k - 1])
    return Crossing(*(float(c[k - 1] + share * (c[k] - c[k - 1])) for c in (time, rounds)))


def _means(column: Column, over: int) -> Column:
    return np.convolve(column, np.full(over, 1 / over), "valid")
