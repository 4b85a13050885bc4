"""Several algorithms and seeds in one process: what ``paceline run`` and ``paceline compare`` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.algorithms.registry import algorithm_named
from paceline.config import Tree
from paceline.errors import SettingError
from paceline.learn.executor import Statistics
from paceline.worlds.driver import drive, make_executor
from paceline.worlds.run import Row, Run
from paceline.worlds.settings import Settings, make_settings
from paceline.worlds.until import Until


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A comparison, ready to run."""

    settings: tuple[Settings, ...]
    until: Until = field(default_factory=Until)
    dry: bool = False
    out: Path | None = None
    keep_spans: bool = True


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The runs of a comparison, ended."""

    runs: tuple[Run, ...]
    statistics: Statistics

    @property
    def failures(self) -> list[Run]:
        """Runs that did not end well."""
        return [run for run in self.runs if run.failure is not None]


def plan(
    names: Sequence[str],
    *,
    overrides: Sequence[str] = (),
    file: Tree | None = None,
    seeds: int = 1,
    until: Until | None = None,
    dry: bool = False,
    out: Path | None = None,
    keep_spans: bool = True,
) -> Experiment:
    """Every algorithm with every seed; all settings are checked before anything starts."""
    if seeds < 1:
        raise SettingError(f"--seeds is {seeds}; it must be 1 or more")
    if len(set(names)) < len(names):
        raise SettingError(f"an algorithm is named twice in {' '.join(names)}; name each once")
    until = until or Until()
    if dry and until.learned:
        raise SettingError("a dry run learns nothing, so it cannot stop at an accuracy; use --until time=SECONDS")
    if held := max(algorithm_named(name).public for name in names):
        # One of them needs data at its server: all then learn from the same rest.
        file = {"public": held, **(file or {})}
    first = [make_settings(name, overrides, file) for name in names]
    settings = tuple(replace(one, seed=one.seed + k) for one in first for k in range(seeds))
    return Experiment(settings=settings, until=until, dry=dry, out=out, keep_spans=keep_spans)


def perform(experiment: Experiment, on_row: Callable[[Run, Row], None] | None = None) -> Outcome:
    """Run all of it together."""
    executor = make_executor(experiment.settings[0].executor)
    several = len(experiment.settings) > 1
    runs = []
    for settings in experiment.settings:
        directory = experiment.out
        if directory is not None and several:
            directory = directory / f"{settings.name}-seed{settings.seed}"
        runs.append(
            Run(
                settings,
                until=experiment.until,
                dry=experiment.dry,
                directory=directory,
                keep_spans=experiment.keep_spans,
                on_row=on_row,
            )
        )
    for run in runs if not experiment.dry else ():
        for space in run.problem.spaces:
            executor.trainer.prepare(space)
    # Everything is checked: only now are directories made.
    for run in runs:
        run.start()
    drive(runs, executor)
    return Outcome(runs=tuple(runs), statistics=executor.statistics)
