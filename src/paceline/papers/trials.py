"""Many training runs for one table or figure: learned together, kept one by one, never done twice.

Every trial has a directory of its own under ``--out``. A trial that is complete there is read, not run again, so a
reproduction that was interrupted goes on where it stopped, and can be spread over several calls.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from paceline.errors import SettingError
from paceline.papers.result import Request
from paceline.worlds.driver import drive, make_executor
from paceline.worlds.run import Row, Run, describe
from paceline.worlds.settings import Settings, make_settings
from paceline.worlds.until import Until

Column = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run: a method in a case, with a rate and a seed."""

    case: str
    """What distinguishes its experiment from others of the figure: a directory's name."""
    method: str
    rate: float
    seed: int
    overrides: tuple[str, ...]
    """Settings as --set takes them."""
    until: Until

    @property
    def name(self) -> str:
        """Its directory below the reproduction's."""
        return f"{self.case}/{self.method}-lr{self.rate:g}-seed{self.seed}"

    def settings(self) -> Settings:
        """All settings of the run."""
        return make_settings(self.method, [*self.overrides, f"local.lr={self.rate}", f"seed={self.seed}"])


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A trial's outcome."""

    trial: Trial
    status: str
    """``done``, or why it ended."""
    reached: float | None
    """Virtual seconds to the target; None if it was not reached."""
    rounds: float | None
    """Rounds to the target."""
    time: Column
    accuracy: Column
    loss: Column
    notes: tuple[dict[str, Any], ...]

    def at(self, time: float, figure: Column) -> float:
        """A curve's value at a virtual time, between measurements by a straight line."""
        return float(np.interp(time, self.time, figure)) if len(self.time) else float("nan")

    @property
    def structure(self) -> tuple[int, int] | None:
        """(W, S) if the run chose one."""
        figures = [note["figures"] for note in self.notes if "W" in note.get("figures", {})]
        return (figures[0]["W"], figures[0]["S"]) if figures else None


@dataclass(eq=False)
class Laboratory:
    """Where the trials of one reproduction are carried out and kept: ``with Laboratory(request) as laboratory``."""

    request: Request
    _temporary: TemporaryDirectory[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.request.out is None:
            self._temporary = TemporaryDirectory(prefix="paceline-")
            self.root = Path(self._temporary.name)
        else:
            self.root = self.request.out / "trials"
        self.console = Console(stderr=True, quiet=self.request.quiet, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *_: object) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def carry_out(self, trials: Sequence[Trial]) -> list[Finished]:
        """Run what is missing, all of it together; then read everything."""
        names = [trial.name for trial in trials]
        assert len(set(names)) == len(names), "two trials would share a directory"
        missing = [trial for trial in trials if not _complete(self.root / trial.name, trial)]
        if missing:
            self.console.print(f"{len(missing)} runs to do, {len(trials) - len(missing)} done before")
            self._run(missing)
        return [_read(self.root / trial.name, trial) for trial in trials]

    def _run(self, trials: Sequence[Trial]) -> None:
        runs = []
        for trial in trials:
            directory = self.root / trial.name
            if directory.exists():  # begun and cut off: it holds no result
                shutil.rmtree(directory)
            runs.append(
                Run(trial.settings(), until=trial.until, directory=directory, keep_spans=False, on_row=self._say)
            )
        executor = make_executor(runs[0].settings.executor)
        for run in runs:
            executor.trainer.prepare(run.problem.space)
        self._left = {id(run) for run in runs}
        drive(runs, executor)
        for run in runs:
            if isinstance(run.failure, BaseException) and "Diverged" not in type(run.failure).__name__:
                raise run.failure
        s = executor.statistics
        self.console.print(f"{s.visits:,} visits in {s.waves:,} waves, {s.mean_wave:.0f} on average")

    def _say(self, run: Run, row: Row) -> None:
        """A line when a run reaches its target."""
        accuracy = row.get("accuracy")
        met = run.until.accuracy is not None and accuracy is not None and accuracy >= run.until.accuracy
        if met and id(run) in self._left:
            self._left.discard(id(run))
            assert run.directory is not None
            where = run.directory.relative_to(self.root)
            self.console.print(f"{where}: {accuracy:.4f} at t={row['time']:.0f} s, round {row['round']}")


def _complete(directory: Path, trial: Trial) -> bool:
    """Whether a trial's result is there; one of other settings is refused, lest results be mixed up."""
    summary, settings = directory / "summary.json", directory / "settings.json"
    if not summary.exists():
        return False
    if json.loads(summary.read_text(encoding="utf-8")).get("status") == "interrupted":
        return False
    kept = json.loads(settings.read_text(encoding="utf-8"))
    kept.pop("versions", None)
    wanted = json.loads(json.dumps(describe(trial.settings())))
    # Where it was computed does not change what was learned.
    if {**kept, "executor": None} != {**wanted, "executor": None}:
        raise SettingError(f"{directory} holds a run with other settings; choose another --out, or move it away")
    return True


def _read(directory: Path, trial: Trial) -> Finished:
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]

    def column(name: str) -> Column:
        return np.array([np.nan if row.get(name) is None else row[name] for row in rows], float)

    return Finished(
        trial=trial,
        status=summary["status"],
        reached=(summary.get("target") or {}).get("time"),
        rounds=(summary.get("target") or {}).get("rounds"),
        time=column("time"),
        accuracy=column("accuracy"),
        loss=column("loss"),
        notes=tuple(summary.get("notes", ())),
    )
