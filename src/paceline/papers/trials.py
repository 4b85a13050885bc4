"""Many training runs for one table or figure: learned together, kept one by one, never done twice.

Every trial has a directory of its own under ``--out``. A trial that is complete there is read, not run again, so a
reproduction that was interrupted goes on where it stopped, and can be spread over several calls.
"""

from __future__ import annotations

import json
import shutil
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from paceline.config import merge
from paceline.errors import Diverged, SettingError
from paceline.learn.executor import Statistics
from paceline.learn.job import Trainer
from paceline.papers.result import Reproduction, Request, hardware
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.recorder import Row as Metrics
from paceline.runs.recorder import describe
from paceline.runs.run import Run
from paceline.runs.settings import OWN, Settings, make_settings
from paceline.runs.until import Until

Column = NDArray[np.float64]
CALLS = "calls.jsonl"
TOTALS = ("rounds", "time", "busiest_bytes", "flops", "joules")


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
    """What a trial has come to: its status, and the rows it has kept."""

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
    columns: dict[str, Column]
    """Everything that was measured, by name."""
    notes: tuple[dict[str, Any], ...]
    totals: Mapping[str, float] = field(default_factory=dict)
    """What the whole run cost, as its summary has it; NaN where nobody defined it."""

    def at(self, time: float, figure: Column) -> float:
        """A curve's value at a virtual time, between measurements by a straight line; NaN outside of it."""
        nothing = float("nan")
        return float(np.interp(time, self.time, figure, nothing, nothing)) if len(self.time) else nothing

    @property
    def structure(self) -> tuple[int, int] | None:
        """(W, S) if the run chose one."""
        figures = [note["figures"] for note in self.notes if "W" in note.get("figures", {})]
        return (figures[0]["W"], figures[0]["S"]) if figures else None


@dataclass(frozen=True, kw_only=True)
class Call:
    """Trials that were carried out together."""

    runs: int
    visits: int
    waves: int
    seconds: float
    hardware: str

    def text(self) -> str:
        """A line for the log and for notes."""
        wave = self.visits / self.waves if self.waves else 0.0
        return (
            f"{self.runs} runs, {self.visits:,} visits in waves of {wave:.0f} on average,"
            f" {self.seconds / 60:.1f} minutes on {self.hardware}"
        )


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
        """Run what is missing, together where that pays; then read everything."""
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
                make_run(trial.settings(), until=trial.until, directory=directory, keep_spans=False, on_row=self._say)
            )
        executor = make_executor(runs[0].settings.executor)
        for run in runs:
            for space in run.problem.spaces:
                executor.trainer.prepare(space)
        self._left = {id(run) for run in runs}
        for group in groups(runs, executor.trainer):
            begin, before = clock.perf_counter(), replace(executor.statistics)
            try:
                drive(group, executor)
            finally:
                self._note_call(len(group), executor.statistics.since(before), clock.perf_counter() - begin)
        for run in runs:  # what could be done is done and kept
            if run.failure is not None and not isinstance(run.failure, Diverged):
                raise run.failure

    def _note_call(self, runs: int, done: Statistics, seconds: float) -> None:
        """What was computed where: results may come from several calls and machines."""
        call = Call(runs=runs, visits=done.visits, waves=done.waves, seconds=seconds, hardware=hardware(trained=True))
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / CALLS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(call)) + "\n")
        self.console.print(call.text())

    def calls(self) -> list[Call]:
        """All calls that made what is here."""
        path = self.root / CALLS
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [Call(**json.loads(line)) for line in lines]

    def _say(self, run: Run, row: Metrics) -> None:
        """A line when a run reaches its target; where there is none, when it has done all its rounds."""
        accuracy, target = row.get("accuracy"), run.until.accuracy
        last = row["round"] >= run.traits.rounds
        met = last if target is None else accuracy is not None and accuracy >= target
        if met and id(run) in self._left:
            self._left.discard(id(run))
            assert run.directory is not None
            where, score = run.directory.relative_to(self.root), "" if accuracy is None else f"{accuracy:.4f} at "
            time = row["time"]
            said = f"{time:.0f}" if time >= 1000 else f"{time:.4g}"
            self.console.print(f"{where}: {score}t={said} s, round {row['round']}")


def groups(runs: Sequence[Run], trainer: Trainer) -> list[list[Run]]:
    """Runs that are carried out together: all of them, but one at a time where one client fills the device.

    Nothing is gained by company there; memory is, and whatever ends is kept.
    """
    alone = [any(trainer.fills(space, run.traits.local.batch) for space in run.problem.spaces) for run in runs]
    together = [run for run, one in zip(runs, alone, strict=True) if not one]
    return [*([together] if together else []), *([run] for run, one in zip(runs, alone, strict=True) if one)]


def trained(experiment: Callable[[Request, Laboratory], Reproduction]) -> Callable[[Request], Reproduction]:
    """Give an experiment a laboratory; what it finds says on what, and for how long, the trials were computed."""

    @wraps(experiment)
    def reproduction(request: Request) -> Reproduction:
        with Laboratory(request) as laboratory:
            found, calls = experiment(request, laboratory), laboratory.calls()
        return replace(
            found,
            note="\n".join([found.note, *(f"computed: {call.text()}" for call in calls)]),
            seconds=sum(call.seconds for call in calls),
            hardware=", ".join({call.hardware: None for call in calls}),
        )

    return reproduction


def _complete(directory: Path, trial: Trial) -> bool:
    """Whether a trial's result is there; one of other settings is refused, lest results be mixed up."""
    try:
        summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
        kept = json.loads((directory / "settings.json").read_text(encoding="utf-8"))
        until = Until(**summary["until"])
    except (OSError, json.JSONDecodeError, KeyError):
        return False
    settings = trial.settings()
    kept["options"].pop("stragglers", None)  # which is a rule for absence now
    wanted = json.loads(json.dumps(describe(settings)))
    # What was no setting when it was computed, such as a fleet's file, had the value that is the default now.
    kept = merge(json.loads(json.dumps(describe(make_settings(trial.method)))), kept)
    for words in (kept, wanted):  # before this was a setting, everybody had its own rule
        if words.setdefault("absence", OWN) == OWN:
            words["absence"] = settings.algorithm.traits(settings.clients).absence
    # Where and with what it was computed, and how long it would have gone on, does not change what was learned.
    apart = dict.fromkeys(("executor", "versions"))
    if {**kept, **apart} != {**wanted, **apart} or replace(until, time=None) != replace(trial.until, time=None):
        raise SettingError(f"{directory} holds a run with other settings; choose another --out, or move it away")
    return _went_far_enough(summary, until, trial.until.time)


def _went_far_enough(summary: dict[str, Any], until: Until, horizon: float | None) -> bool:
    """Whether a kept run has an answer: it reached the target, diverged, or was on its way at the horizon or the last
    visit that it may make."""
    if (summary.get("target") or {}).get("time") is not None or summary.get("status") == "failed: Diverged":
        return True
    ended = summary.get("status") == "done" and until.time is None
    spent = until.visits is not None and summary["visits"] >= until.visits
    return ended or spent or (horizon is not None and summary["time"] >= horizon)


def _read(directory: Path, trial: Trial) -> Finished:
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]

    def column(name: str) -> Column:
        return np.array([np.nan if row.get(name) is None else row[name] for row in rows], float)

    target = summary.get("target") or {}
    in_time = target.get("time") is not None and target["time"] <= (trial.until.time or np.inf)
    return Finished(
        trial=trial,
        status="failed: Diverged" if "Diverged" in summary["status"] else "done",
        reached=target["time"] if in_time else None,
        rounds=target["rounds"] if in_time else None,
        time=column("time"),
        accuracy=column("accuracy"),
        loss=column("loss"),
        columns={name: column(name) for name in dict.fromkeys(name for row in rows for name in row)},
        notes=tuple(summary.get("notes", ())),
        totals={name: np.nan if summary.get(name) is None else float(summary[name]) for name in TOTALS},
    )
