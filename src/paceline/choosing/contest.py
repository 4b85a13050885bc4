"""The comparison itself: rates tuned on seeds of their own, equal gaps between evaluations, time to an accuracy.

Runs are those of a laboratory for reproductions: learned together, kept one by one, never done twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

from paceline.choosing.cells import Cell, Method, cells
from paceline.errors import DataError
from paceline.papers.crossings import Arrivals, arrivals, smooth_crossing
from paceline.papers.trials import Finished, Laboratory, Trial
from paceline.reading import shown
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import ExecutorSettings, make_settings
from paceline.runs.until import Until
from paceline.statistics import ratio_interval

TARGET = 0.93
OVER = 3
"""Evaluations in a row whose mean must reach it."""
TUNING = (100, 101)
"""Seeds that rates are chosen with, and nothing else."""
HALVES = (-2, -1, 0)
"""The first grid of rates, in half decades: 0.1, 0.316 and 1. It grows until the best lies inside."""
LIMITS = (-6, 2)
"""Beyond which it does not grow."""
HORIZON, MOST_VISITS = 200, 4000
"""Times the seconds of a round of FedAvg, and visits, after which a run is given up."""
DRY = 30
"""Rounds of a dry run that tells how long they are."""
BASE = "fedavg"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What one method came to in one federation."""

    method: str
    rate: float
    seconds: dict[int, float]
    """To the target, by seed, of those that arrived."""
    tried: int
    visits: float | None
    """On average, of those that arrived."""

    @property
    def complete(self) -> bool:
        """Whether all seeds arrived."""
        return len(self.seconds) == self.tried > 0

    @property
    def mean(self) -> float:
        """Mean seconds to the target; infinite where a seed did not arrive."""
        return math.fsum(self.seconds.values()) / self.tried if self.complete else math.inf

    def over(self, other: Entry) -> tuple[float, float, float]:
        """Its time over another's: the geometric mean over pairs with the same seed, and its 95 % interval."""
        both = sorted(set(self.seconds) & set(other.seconds))
        found = ratio_interval([self.seconds[seed] for seed in both], [other.seconds[seed] for seed in both])
        return found.value, found.low, found.high


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One federation, and what became of all methods in it."""

    cell: Cell
    entries: tuple[Entry, ...]

    @property
    def ranked(self) -> list[Entry]:
        """The methods of which all seeds arrived, the fastest first."""
        return sorted((one for one in self.entries if one.complete), key=lambda one: one.mean)

    @property
    def base(self) -> Entry:
        """FedAvg, by which all are measured."""
        return next(one for one in self.entries if one.method == BASE)


@dataclass(frozen=True, kw_only=True)
class Table:
    """All federations."""

    seeds: int
    minutes: float
    hardware: str
    outcomes: tuple[Outcome, ...]

    def plain(self) -> dict[str, Any]:
        """Return the table as plain values, as JSON has it."""
        told = [asdict(one) for one in self.outcomes]
        return {"seeds": self.seeds, "minutes": self.minutes, "hardware": self.hardware, "outcomes": told}


def from_plain(words: Any) -> Table:
    """A table that was written to JSON."""
    try:
        outcomes = tuple(
            Outcome(cell=_cell(one["cell"]), entries=_entries(one["entries"])) for one in words["outcomes"]
        )
        minutes, hardware = float(words["minutes"]), str(words["hardware"])
        return Table(seeds=int(words["seeds"]), minutes=minutes, hardware=hardware, outcomes=outcomes)
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as problem:
        raise DataError(f"this is no table of `paceline choose --json`: {problem}") from None


def _cell(words: Mapping[str, Any]) -> Cell:
    if not all(isinstance(word, str) for word in words.values()):
        raise ValueError(f"{shown(dict(words))} is no federation")
    return Cell(**words)


def _entries(words: Any) -> tuple[Entry, ...]:
    """Those of one federation, FedAvg's among them: the others are told in its time."""
    found = tuple(_entry(entry) for entry in words)
    if not any(one.method == BASE for one in found):
        raise ValueError(f"a federation has no entry of {BASE}")
    return found


def _entry(words: Mapping[str, Any]) -> Entry:
    seconds = {int(seed): float(value) for seed, value in words["seconds"].items()}
    visits = None if words["visits"] is None else float(words["visits"])
    return Entry(
        method=str(words["method"]), rate=float(words["rate"]), seconds=seconds, tried=int(words["tried"]),
        visits=visits,
    )  # fmt: skip


def compete(laboratory: Laboratory, seeds: int, wanted: Iterable[Cell] = ()) -> Table:
    """Tune every method in every federation, then run all of them with the seeds that are reported."""
    chosen = list(wanted) or list(cells())
    rates = _tuned(laboratory, chosen)
    trials = {
        (cell, one.name): [_trial(cell, one, rates[cell, one.name], seed) for seed in range(seeds)]
        for cell in chosen
        for one in cell.methods
    }
    runs = iter(laboratory.carry_out([trial for some in trials.values() for trial in some]))
    found = {key: _summed(key[1], [next(runs) for _ in some]) for key, some in trials.items()}
    calls = laboratory.calls()
    return Table(
        seeds=seeds,
        minutes=round(sum(call.seconds for call in calls) / 60, 1),
        hardware=calls[-1].hardware if calls else "",
        outcomes=tuple(
            Outcome(cell=cell, entries=tuple(found[cell, one.name] for one in cell.methods)) for cell in chosen
        ),
    )


def _summed(method: str, runs: Sequence[Finished]) -> Entry:
    reached = arrivals(runs, _crossing)
    done = [float(one.columns["visits"][-1]) for one in runs if one.trial.seed in reached.seconds]
    return Entry(
        method=method,
        rate=runs[0].trial.rate,
        seconds={seed: round(value, 4) for seed, value in reached.seconds.items()},
        tried=reached.tried,
        visits=round(sum(done) / len(done), 1) if done else None,
    )


_crossing = partial(smooth_crossing, level=TARGET, over=OVER)


def rate(half: int) -> float:
    """Return the learning rate 10^(half/2), rounded to three digits."""
    return float(f"{10 ** (half / 2):.3g}")


def _tuned(laboratory: Laboratory, chosen: Sequence[Cell]) -> dict[tuple[Cell, str], float]:
    """The best rate of every method in every federation, by the tuning seeds."""
    grids = {(cell, one): list(HALVES) for cell in chosen for one in cell.methods}
    while True:
        trials = {
            (cell, one, half): [_trial(cell, one, rate(half), seed) for seed in TUNING]
            for (cell, one), grid in grids.items()
            for half in grid
        }
        runs = iter(laboratory.carry_out([trial for some in trials.values() for trial in some]))
        found = {key: arrivals([next(runs) for _ in some], _crossing) for key, some in trials.items()}
        best = {
            (cell, one): min(grid, key=lambda half, key=(cell, one): _slowness(found[*key, half]))  # type: ignore[misc]
            for (cell, one), grid in grids.items()
        }
        grown = {key: _grown(grid, best[key]) for key, grid in grids.items()}
        if grown == grids:
            return {(cell, one.name): rate(half) for (cell, one), half in best.items()}
        grids = grown


def _grown(grid: list[int], best: int) -> list[int]:
    """The grid with one more rate beyond an end that was best, as far as it may grow."""
    more = {best - 1, best + 1} if best in (grid[0], grid[-1]) else set[int]()
    return sorted({*grid, *(half for half in more if LIMITS[0] <= half <= LIMITS[1])})


def _slowness(found: Arrivals) -> tuple[int, float]:
    """How many seeds did not arrive, then how long the others took on average."""
    times = found.seconds.values()
    return found.tried - len(times), math.fsum(times) / len(times) if times else math.inf


def _trial(cell: Cell, method: Method, lr: float, seed: int) -> Trial:
    """One run, evaluated about once in the time of a round of FedAvg."""
    base = pace(cell, next(one for one in cell.methods if one.name == BASE))
    own = base if method.structured else pace(cell, method)
    words = (*cell.words, *method.words, "rounds=100000", f"every={max(1, round(base / own))}")
    until = Until(accuracy=TARGET, time=round(HORIZON * base, 6), visits=MOST_VISITS, over=OVER)
    return Trial(case=cell.name, method=method.name, rate=lr, seed=seed, overrides=words, until=until)


@cache
def pace(cell: Cell, method: Method) -> float:
    """Seconds of one of its rounds, from a dry run."""
    settings = make_settings(method.name, [*cell.words, *method.words, f"rounds={DRY}", "every=1", "seed=100"])
    run = make_run(settings, dry=True, keep_spans=False)
    drive([run], make_executor(ExecutorSettings(device="cpu", threads=1)))
    if run.failure is not None:
        raise run.failure
    return float(run.rows[-1]["time"]) / DRY
