"""Each method at its own best rate: searched for on quarter decades, with seeds that are not reported.

A grid begins with a few rates around a guess and grows beyond the end that is best, until the best rate has tried
neighbours on both sides, or the grid is as wide as it may become, which is then said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from paceline.papers.claims import late
from paceline.papers.crossings import arrived
from paceline.papers.trials import Finished, Laboratory, Trial

TUNING = (100, 101)
"""Seeds that rates are chosen with, and nothing else."""
REACH = 2
"""Rates on either side of the middle of a grid at first."""
WIDEST = 9
"""Rates of a grid that is not extended any more."""
EDGE = "the best rate is an end of the grid"

K = TypeVar("K")
Quarters = Mapping[int, tuple[Finished, ...]]
"""Runs by rate, in quarter decades: -4 is a rate of 0.1."""
Make = Callable[[K, int, int], Trial]
"""A trial of something that is tuned, at a quarter decade, with a seed."""


def rate(quarter: int) -> float:
    """Return the learning rate 10^(quarter/4), rounded to three digits."""
    return float(f"{10 ** (quarter / 4):.3g}")


@dataclass(frozen=True)
class Tuned:
    """Where the best rate of something was searched, and found."""

    best: int
    """The quarter decade that was chosen."""
    tried: Quarters
    """With the tuning seeds."""

    @property
    def rate(self) -> float:
        """The learning rate that was chosen."""
        return rate(self.best)

    @property
    def grid(self) -> tuple[int, ...]:
        """The learning rates that were tried, as quarters of a decade."""
        return tuple(self.tried)

    @property
    def inside(self) -> bool:
        """Whether the best rate has tried neighbours on both sides."""
        return self.grid[0] < self.best < self.grid[-1]

    @property
    def told(self) -> str:
        """Where it was searched, for a note."""
        ends = f"of {len(self.grid)} quarter decades from {rate(self.grid[0]):g} to {rate(self.grid[-1]):g}"
        return f"{ends}, chosen with seeds {', '.join(map(str, TUNING))}{'' if self.inside else f'; {EDGE}'}"


def carry_out(
    laboratory: Laboratory, make: Make[K], quarters: Mapping[K, Iterable[int]], seeds: Sequence[int]
) -> dict[K, Quarters]:
    """Runs of several things, each at some rates, with all seeds."""
    wanted = {key: {q: [make(key, q, seed) for seed in seeds] for q in grid} for key, grid in quarters.items()}
    runs = iter(laboratory.carry_out([one for grid in wanted.values() for some in grid.values() for one in some]))
    return {key: {q: tuple(next(runs) for _ in some) for q, some in grid.items()} for key, grid in wanted.items()}


def tune(
    laboratory: Laboratory,
    make: Make[K],
    middles: Mapping[K, int],
    badness: Callable[[K, Sequence[Finished]], tuple[float, float]],
    reach: int | None = None,
) -> dict[K, Tuned]:
    """The rate of each thing whose runs with the tuning seeds are least bad; a grid whose end is best grows."""
    near = REACH if reach is None else reach
    grids = {key: [*range(middle - near, middle + near + 1)] for key, middle in middles.items()}
    while True:
        found = {}
        for key, tried in carry_out(laboratory, make, grids, TUNING).items():
            scores = {q: badness(key, runs) for q, runs in tried.items()}
            found[key] = Tuned(min(scores, key=lambda q: scores[q]), tried)
        open_ended = {key: one for key, one in found.items() if not one.inside and len(one.grid) < WIDEST}
        if not open_ended:
            return found
        grids |= {key: sorted({one.best - 1, *one.grid, one.best + 1}) for key, one in open_ended.items()}


def slowness(runs: Sequence[Finished], target: float) -> tuple[float, float]:
    """How many seeds did not arrive at the target, then how long the others took on average, smoothed.

    Where nobody arrived, how little was learned, so that a grid grows towards better rates all the same.
    """
    found = arrived(runs, target)
    times = found.seconds.values()
    learned = math.fsum(late(one.accuracy) for one in runs) / len(runs)
    return found.tried - len(times), math.fsum(times) / len(times) if times else -learned
