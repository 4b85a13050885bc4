"""Algorithms by faults: what becomes of each, and what it costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from paceline.algorithms.registry import ALGORITHMS
from paceline.chaos.injections import Injection, chosen
from paceline.chaos.killed import Mortals
from paceline.chaos.limits import Hang
from paceline.chaos.trial import Trial, simulated, with_workers
from paceline.errors import DataError, SettingError, SiteError
from paceline.reading import shown

Outcome = Literal["goes on", "waits", "ends", "hang", "wrong", "–"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
WAITS = 1.25
"""Times its undisturbed time from which on a run that makes all its rounds counts as waiting."""
PATIENCE = 20.0
"""Times its undisturbed time after which a run that has not made all its rounds hangs."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What one fault did to one algorithm."""

    algorithm: str
    fault: str
    outcome: Outcome
    message: str = ""
    """What was said, where it did not make all its rounds."""
    accuracy: float | None = None
    """Of the last row, less that of the undisturbed run; None where there is none to compare."""
    time: float | None = None
    """Virtual seconds over those of the undisturbed run; None where it did not make all its rounds."""
    struck: bool = True
    """Whether the run took another course than the undisturbed one, or something was really killed."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """All cells, algorithm by algorithm."""

    seed: int
    settings: tuple[str, ...]
    """What a user has added to the laboratory's own."""
    cells: tuple[Cell, ...]

    def counts(self) -> dict[str, int]:
        """How often each outcome came up."""
        found = Counter(cell.outcome for cell in self.cells)
        return {outcome: found[outcome] for outcome in OUTCOMES if found[outcome]}

    @property
    def bad(self) -> list[Cell]:
        """Cells that nobody may accept."""
        return [cell for cell in self.cells if cell.outcome in ("hang", "wrong")]

    def plain(self) -> dict[str, Any]:
        """Return the table as plain values, as JSON has it."""
        return {
            "seed": self.seed,
            "settings": list(self.settings),
            "outcomes": self.counts(),
            "cells": [asdict(cell) for cell in self.cells],
        }


def from_plain(words: Any) -> Table:
    """A table that was written to JSON."""
    try:
        cells = tuple(_cell(cell) for cell in words["cells"])
        return Table(seed=int(words["seed"]), settings=tuple(map(str, words["settings"])), cells=cells)
    except (TypeError, KeyError, ValueError, OverflowError) as problem:
        raise DataError(f"this is no table of `paceline chaos --json`: {problem}") from None


def _cell(words: Mapping[str, Any]) -> Cell:
    cell = Cell(**words)
    texts, numbers = (cell.algorithm, cell.fault, cell.message), (cell.accuracy, cell.time)
    plain = all(isinstance(text, str) for text in texts) and isinstance(cell.struck, bool)
    if cell.outcome not in OUTCOMES or not plain or not all(isinstance(n, float | int | None) for n in numbers):
        raise ValueError(f"{shown(words)} is no cell")
    return cell


def experiment(
    names: Sequence[str] = (),
    faults: Sequence[str] = (),
    *,
    seed: int = 0,
    settings: Sequence[str] = (),
    on_cell: Callable[[Cell], None] = lambda cell: None,
) -> Table:
    """Every algorithm, or those named, with every fault, or those named."""
    injections = chosen(faults)
    cells: list[Cell] = []
    with Mortals() as mortals:
        for name in names or ALGORITHMS:
            bench = Bench(name, seed, settings, mortals)
            for injection in injections:
                cells.append(bench.cell(injection))
                on_cell(cells[-1])
    return Table(seed=seed, settings=tuple(settings), cells=tuple(cells))


class Bench:
    """One algorithm, its undisturbed runs, and what is done to it."""

    def __init__(self, name: str, seed: int, settings: Sequence[str], mortals: Mortals) -> None:
        self._name = name
        self._seed = seed
        self._settings = settings
        self._mortals = mortals
        self._plain = self._undisturbed(simulated(name, seed, settings))
        self._local: Trial | None = None

    def cell(self, injection: Injection) -> Cell:
        """Inject one fault into a run, and compare what comes of it with the undisturbed one."""
        words = injection.words(self._plain.traits, self._plain.time)
        if words is None:
            return self._made(injection, outcome="–")
        try:
            if injection.way == "killed":
                return self._killed(injection)
            if injection.way == "worker":
                return self._with_dead_worker(injection)
            return self._simulated(injection, words)
        except SettingError as problem:  # refused before it began
            return self._made(injection, outcome="ends", message=str(problem).splitlines()[0])
        except Hang as hang:
            return self._made(injection, outcome="hang", message=str(hang))

    def _simulated(self, injection: Injection, words: str) -> Cell:
        limit = PATIENCE * self._plain.time
        trial = simulated(self._name, self._seed, [*self._settings, words], limit)
        time = trial.time / self._plain.time if trial.end == "done" else None
        return self._judged(injection, trial, self._plain, time, trial.rows != self._plain.rows)

    def _with_dead_worker(self, injection: Injection) -> Cell:
        """Its time is the wall clock's, which says more about the machine than about the algorithm: not compared."""
        if self._local is None:
            self._local = self._undisturbed(with_workers(self._name, self._seed, self._settings, kill=False))
        trial = with_workers(self._name, self._seed, self._settings, kill=True)
        return self._judged(injection, trial, self._local, None, trial.struck)

    def _killed(self, injection: Injection) -> Cell:
        found = self._mortals.killed(self._name, self._seed, self._settings)
        if not found.same:
            outcome: Outcome = "hang" if found.hangs else "wrong"
            return self._made(injection, outcome=outcome, message=found.message)
        return self._made(injection, outcome="goes on", accuracy=0.0, time=1.0, struck=found.kills > 0)

    def _judged(self, injection: Injection, trial: Trial, plain: Trial, time: float | None, struck: bool) -> Cell:
        difference = trial.accuracy - plain.accuracy
        accuracy = None if math.isnan(difference) else round(difference, 4)
        outcome: Outcome = "goes on" if trial.end == "done" else trial.end
        if trial.end == "done" and time is not None and time > WAITS:
            outcome = "waits"
        rounded = None if time is None else round(time, 3)
        return self._made(
            injection, outcome=outcome, message=trial.message, accuracy=accuracy, time=rounded, struck=struck
        )

    def _made(self, injection: Injection, **figures: Any) -> Cell:
        return Cell(algorithm=self._name, fault=injection.name, **figures)

    def _undisturbed(self, trial: Trial) -> Trial:
        if trial.end != "done":
            raise SiteError(f"{self._name} does not even run undisturbed: {trial.message}")
        return trial


def by_algorithm(table: Table) -> Mapping[str, Mapping[str, Cell]]:
    """The cells by algorithm and fault."""
    found: dict[str, dict[str, Cell]] = {}
    for cell in table.cells:
        found.setdefault(cell.algorithm, {})[cell.fault] = cell
    return found
