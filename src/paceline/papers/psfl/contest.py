"""PSFL (Zhou et al., INFOCOM 2025): is the structure that the warm-up chooses the best one?

Every structure is trained at its own best rate. Rates are quarter decades, searched for with seeds of their own; each
optimum lies inside its grid, which grows until it does. The seeds that are reported then run at that rate and its two
neighbours. All runs are evaluated at about the same virtual times, and go on until the mean of several evaluations
has reached the target, so that lucky ones can be told from others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.papers.crossings import OVER, smooth_crossing
from paceline.papers.psfl.contest_tables import contest_rows, draw_contest
from paceline.papers.psfl.structures import setting
from paceline.papers.result import Reproduction, Request
from paceline.papers.trials import Finished, Laboratory, Trial, computed
from paceline.runs.until import Until

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


@dataclass(frozen=True, kw_only=True)
class Arena:
    """Where structures are compared."""

    overrides: tuple[str, ...]
    target: float
    horizon: float
    interval: float
    """Virtual seconds between evaluations, as nearly as whole rounds allow."""
    middles: Mapping[int, int]
    """Lengths S, each with the middle of its first grid in quarter decades: -4 is a rate of 0.1."""

    def every(self, S: int) -> int:
        """Rounds between evaluations."""
        return max(1, round(self.interval / ROUND_SECONDS[S]))

    def trial(self, S: int, quarter: int, seed: int) -> Trial:
        """One run of a given structure."""
        structure = (f"psfl.length={S}", f"psfl.width={PARTICIPANTS // S}")
        return self._trial(f"length-{S}", structure, S, quarter, seed)

    def automatic(self, quarter: int, seed: int) -> Trial:
        """One run that chooses its structure."""
        return self._trial("automatic", (f"psfl.participants={PARTICIPANTS}",), USUAL, quarter, seed)

    def _trial(self, case: str, words: tuple[str, ...], S: int, quarter: int, seed: int) -> Trial:
        return Trial(
            case=case,
            method="psfl",
            rate=rate(quarter),
            seed=seed,
            overrides=(*self.overrides, *words, "rounds=1000000", f"every={self.every(S)}"),
            until=Until(accuracy=self.target, time=self.horizon, over=OVER),
        )


def rate(quarter: int) -> float:
    """10^(quarter/4), to three digits."""
    return float(f"{10 ** (quarter / 4):.3g}")


def arena(request: Request) -> Arena:
    """Digits on two cores, or CIFAR-10 as in the paper; targets are those of Table I's trained half."""
    same = setting(request)
    small = request.scale == "small"
    return Arena(
        overrides=same.overrides,
        target=same.target,
        horizon=same.horizon,
        interval=14.0 if small else 50.0,
        middles={1: -2, 2: -2, 4: -2} if small else {1: -4, 2: -4, 3: -5, 4: -5, 5: -5, 10: -6, 20: -7},
    )


@dataclass(frozen=True)
class Contestant:
    """One structure: where its rate was searched, and what it did there."""

    S: int
    grid: tuple[int, ...]
    """Quarter decades tried."""
    best: int
    tried: Mapping[int, tuple[Finished, ...]]
    """The tuning seeds by quarter."""
    reported: Mapping[int, tuple[Finished, ...]]
    """The reporting seeds by quarter: the best and its neighbours."""

    @property
    def W(self) -> int:
        """Sequences abreast."""
        return PARTICIPANTS // self.S

    @property
    def inside(self) -> bool:
        """Whether the best rate has tried neighbours on both sides."""
        return self.grid[0] < self.best < self.grid[-1]


def contest(request: Request) -> Reproduction:
    """Every structure, then the runs that choose for themselves."""
    here = arena(request)
    with Laboratory(request) as laboratory:
        found = compete(laboratory, here, [*here.middles], request.seeds)
        chosen = choose(laboratory, here, found, request.seeds)
        calls = laboratory.calls()
    rows = contest_rows(found, chosen, here.target)
    return computed(calls, rows=rows, note=_note(here), figure=lambda: draw_contest(found, chosen, here.target))


def compete(laboratory: Laboratory, here: Arena, lengths: Sequence[int], seeds: int) -> list[Contestant]:
    """Tune every structure, then run the seeds that are reported."""
    tuned = tune(laboratory, here, lengths)
    trials = [
        here.trial(one.S, quarter, seed)
        for one in tuned
        for quarter in (one.best - 1, one.best, one.best + 1)
        for seed in range(seeds)
    ]
    done = {finished.trial.name: finished for finished in laboratory.carry_out(trials)}
    return [
        Contestant(
            one.S,
            one.grid,
            one.best,
            one.tried,
            {
                quarter: tuple(done[here.trial(one.S, quarter, seed).name] for seed in range(seeds))
                for quarter in (one.best - 1, one.best, one.best + 1)
            },
        )
        for one in tuned
    ]


def tune(laboratory: Laboratory, here: Arena, lengths: Sequence[int]) -> list[Contestant]:
    """Every structure's best rate by the tuning seeds; a grid whose end is best grows beyond it."""
    grids = {S: (*range(here.middles[S] - REACH, here.middles[S] + REACH + 1),) for S in lengths}
    while True:
        trials = [here.trial(S, q, seed) for S, grid in grids.items() for q in grid for seed in TUNING]
        done = {finished.trial.name: finished for finished in laboratory.carry_out(trials)}
        found = [_tuned(here, S, grid, done) for S, grid in grids.items()]
        open_ended = [one for one in found if not one.inside and len(one.grid) < WIDEST]
        if not open_ended:
            return found
        grids |= {one.S: _extended(one) for one in open_ended}


def _tuned(here: Arena, S: int, grid: tuple[int, ...], done: Mapping[str, Finished]) -> Contestant:
    tried = {q: tuple(done[here.trial(S, q, seed).name] for seed in TUNING) for q in grid}
    best = min(grid, key=lambda q: _slowness(tried[q], here.target))
    return Contestant(S, grid, best, tried, {})


def _slowness(runs: Sequence[Finished], target: float) -> tuple[int, float]:
    """How many seeds did not arrive, then how long the others took on average."""
    times = [crossing.time for one in runs if (crossing := smooth_crossing(one, target)) is not None]
    return len(runs) - len(times), math.fsum(times) / len(times) if times else math.inf


def _extended(one: Contestant) -> tuple[int, ...]:
    if one.best == one.grid[0]:
        return (one.grid[0] - 1, *one.grid)
    return (*one.grid, one.grid[-1] + 1)


def choose(laboratory: Laboratory, here: Arena, found: Sequence[Contestant], seeds: int) -> list[Finished]:
    """Runs that choose their structure by a warm-up, at the best rate of the usual choice."""
    quarter = next(one.best for one in found if one.S == USUAL)
    return laboratory.carry_out([here.automatic(quarter, seed) for seed in range(seeds)])


def _note(here: Arena) -> str:
    return (
        f"Virtual seconds to {here.target:.0%} test accuracy, mean and 95 % interval over seeds (Student's t; ratios"
        " on the logarithms of pairs with the same seed: the same split, fleet and initial model). Rates are quarter"
        f" decades, chosen with seeds {', '.join(map(str, TUNING))}, which are not reported. Evaluated about every"
        f" {here.interval:g} s; 'smoothed' is where the mean of {OVER} evaluations in a row, taken at the middle of"
        " them, crosses the target, 'first' the first evaluation that does. The bound is PS-7's objective with what"
        f" each seed's warm-up estimated, W = ⌊{PARTICIPANTS}/S⌋; structures are trained without a warm-up, automatic"
        " runs with it.\n" + " ".join(here.overrides)
    )
