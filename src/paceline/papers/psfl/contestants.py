"""PSFL (Zhou et al., INFOCOM 2025): every structure at its own best rate, and runs that choose for themselves.

Rates are quarter decades, searched for with seeds of their own; each optimum lies inside its grid, which grows until
it does. The seeds that are reported then run at that rate and its two neighbours. All runs are evaluated at about the
same virtual times, and go on until the mean of several evaluations has reached the target, so that lucky ones can be
told from others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.papers.crossings import OVER, arrivals, smooth_crossing
from paceline.papers.grid import Scene
from paceline.papers.psfl.scenes import structured
from paceline.papers.result import Request
from paceline.papers.trials import Finished, Laboratory, Trial

PARTICIPANTS = 20
TUNING = (100, 101)
"""Seeds that rates are chosen with, and nothing else."""
REACH = 2
"""Rates on either side of the middle of a grid at first."""
WIDEST = 9
"""Rates of a grid that is not extended any more."""
ROUND_SECONDS = {1: 6.0, 2: 7.4, 3: 9.8, 4: 12.3, 5: 14.7, 10: 26.9, 20: 49.7}
"""Mean seconds of a round by length, of 20 participants with the discrete law: dry runs of three seeds."""
USUAL = 2
"""The length that warm-ups chose before; automatic runs train at its rate."""

Quarters = Mapping[int, tuple[Finished, ...]]
"""Runs by rate, in quarter decades: -4 is a rate of 0.1."""


@dataclass(frozen=True, kw_only=True)
class Arena:
    """The scene in which structures are compared, and how often they are scored."""

    scene: Scene
    interval: float
    """Virtual seconds between evaluations, as nearly as whole rounds allow."""
    middles: Mapping[int, int]
    """Lengths S, each with the middle of its first grid in quarter decades."""

    @property
    def target(self) -> float:
        """The accuracy that is aimed at."""
        return self.scene.until.accuracy or math.nan

    def trial(self, S: int, quarter: int, seed: int) -> Trial:
        """One run of a given structure."""
        words = (f"psfl.length={S}", f"psfl.width={PARTICIPANTS // S}", self._every(S))
        return self.scene.trial(f"length-{S}", "psfl", seed, *words, rate=rate(quarter))

    def automatic(self, quarter: int, seed: int) -> Trial:
        """One run that chooses its structure."""
        words = (f"psfl.participants={PARTICIPANTS}", self._every(USUAL))
        return self.scene.trial("automatic", "psfl", seed, *words, rate=rate(quarter))

    def _every(self, S: int) -> str:
        return f"every={max(1, round(self.interval / ROUND_SECONDS[S]))}"

    def run(
        self, laboratory: Laboratory, quarters: Mapping[int, Iterable[int]], seeds: Sequence[int]
    ) -> dict[int, Quarters]:
        """Runs of several lengths, each at some rates, with all seeds."""
        wanted = {S: {q: [self.trial(S, q, seed) for seed in seeds] for q in grid} for S, grid in quarters.items()}
        runs = iter(laboratory.carry_out([one for grid in wanted.values() for some in grid.values() for one in some]))
        return {S: {q: tuple(next(runs) for _ in some) for q, some in grid.items()} for S, grid in wanted.items()}


def rate(quarter: int) -> float:
    """Return the learning rate 10^(quarter/4), rounded to three digits."""
    return float(f"{10 ** (quarter / 4):.3g}")


def arena(request: Request) -> Arena:
    """Digits on two cores, or CIFAR-10 as in the paper; targets are those of Table I's trained half."""
    scene, small = structured(request), request.scale == "small"
    return Arena(
        scene=replace(scene, until=replace(scene.until, over=OVER)),
        interval=14.0 if small else 50.0,
        middles={1: -2, 2: -2, 4: -2} if small else {1: -4, 2: -4, 3: -5, 4: -5, 5: -5, 10: -6, 20: -7},
    )


@dataclass(frozen=True)
class Contestant:
    """One structure: where its rate was searched, and what it did there."""

    S: int
    best: int
    """The quarter decade that tuning chose."""
    tried: Quarters
    """With the tuning seeds."""
    reported: Quarters
    """With the reporting seeds: the best and its neighbours."""

    @property
    def W(self) -> int:
        """How many sequences ride abreast."""
        return PARTICIPANTS // self.S

    @property
    def name(self) -> str:
        """The structure's name in the rows of the table."""
        return f"S={self.S}, W={self.W}"

    @property
    def grid(self) -> tuple[int, ...]:
        """The learning rates that were tried, as quarters of a decade."""
        return tuple(self.tried)

    @property
    def inside(self) -> bool:
        """Whether the best rate has tried neighbours on both sides."""
        return self.grid[0] < self.best < self.grid[-1]


def compete(laboratory: Laboratory, here: Arena, lengths: Sequence[int], seeds: int) -> list[Contestant]:
    """Tune every structure, then run the seeds that are reported."""
    tuned = tune(laboratory, here, lengths)
    near = {one.S: range(one.best - 1, one.best + 2) for one in tuned}
    reported = here.run(laboratory, near, range(seeds))
    return [replace(one, reported=reported[one.S]) for one in tuned]


def tune(laboratory: Laboratory, here: Arena, lengths: Sequence[int]) -> list[Contestant]:
    """Every structure's best rate by the tuning seeds; a grid whose end is best grows beyond it."""
    grids = {S: [*range(here.middles[S] - REACH, here.middles[S] + REACH + 1)] for S in lengths}
    while True:
        tried = here.run(laboratory, grids, TUNING)
        best = {S: min(runs, key=lambda q: _slowness(runs[q], here.target)) for S, runs in tried.items()}
        found = [Contestant(S, best[S], runs, {}) for S, runs in tried.items()]
        open_ended = [one for one in found if not one.inside and len(one.grid) < WIDEST]
        if not open_ended:
            return found
        grids |= {one.S: sorted({one.best - 1, *one.grid, one.best + 1}) for one in open_ended}


def _slowness(runs: Sequence[Finished], target: float) -> tuple[int, float]:
    """How many seeds did not arrive, then how long the others took on average."""
    found = arrivals(runs, lambda one: smooth_crossing(one, target))
    times = found.seconds.values()
    return found.tried - len(times), math.fsum(times) / len(times) if times else math.inf


def choose(laboratory: Laboratory, here: Arena, found: Sequence[Contestant], seeds: int) -> list[Finished]:
    """Runs that choose their structure by a warm-up, at the best rate of the usual choice."""
    quarter = next(one.best for one in found if one.S == USUAL)
    return laboratory.carry_out([here.automatic(quarter, seed) for seed in range(seeds)])
