"""One run of the laboratory, and what became of it."""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from paceline import errors
from paceline.algorithms.base import Traits
from paceline.chaos.books import broken
from paceline.chaos.limits import Hang, at_most
from paceline.chaos.scene import words
from paceline.errors import Deadlock, Diverged, Misplaced, SiteError
from paceline.learn.executor import Executor
from paceline.runs.driver import drive, make_executor
from paceline.runs.local import PROCESS, make_local_run
from paceline.runs.making import make_run
from paceline.runs.recorder import Row
from paceline.runs.replay import ALONE
from paceline.runs.run import Run
from paceline.runs.settings import Settings, make_settings
from paceline.runs.until import Until
from paceline.seeds import stream
from paceline.worlds.local.hosts import Scene
from paceline.worlds.local.workers import Workers

End = Literal["done", "ends", "hang", "wrong"]
SECONDS = 60.0
"""Of real time that a run may take: a hundred times what most need."""
LOCAL_SECONDS = 180.0
WORKERS = 2
GLANCE = 0.01
"""Seconds between two looks at whether the moment to kill a worker has come."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A run that is over, one way or another."""

    traits: Traits
    rows: list[Row]
    time: float
    """Virtual seconds until its last round."""
    end: End
    message: str = ""
    """How it ended, where it did not make all its rounds."""
    struck: bool = True
    """Whether what should happen to it did, where the run itself does not show that."""

    @property
    def accuracy(self) -> float:
        """Of the last row; NaN where there is none."""
        return float(self.rows[-1]["accuracy"]) if self.rows else math.nan


def simulated(name: str, seed: int, more: Sequence[str], limit: float | None = None) -> Trial:
    """One run in the simulation; one that is not over at ``limit``, in virtual seconds, hangs."""
    settings = settings_of(name, seed, words(tuple(more)))
    run = make_run(settings, until=Until(time=limit), check_places=True)
    return _driven(run, make_executor(run.settings.executor), SECONDS, limit)


def settings_of(name: str, seed: int, said: Sequence[str]) -> Settings:
    """The settings of one run."""
    return make_settings(name, [*said, f"seed={seed}"])


def with_workers(name: str, seed: int, more: Sequence[str], *, kill: bool) -> Trial:
    """One run on real processes; with ``kill``, one of them is ended by force after the first round."""
    hosts: list[Workers] = []

    def watched(scene: Scene) -> Workers:
        hosts.append(Workers(WORKERS, PROCESS, scene))
        return hosts[0]

    with at_most(LOCAL_SECONDS):
        settings = settings_of(name, seed, words(tuple(more), local=True))
        run = make_local_run(settings, workers=WORKERS, make_hosts=watched)
    victim = int(stream(seed, "chaos", "worker").integers(WORKERS))
    killed: list[int] = []

    async def strike() -> None:
        while not run.world.progress:
            await run.world.loop.at(run.world.now() + GLANCE)
        if (process := hosts[0].of(victim).process) is not None:
            os.kill(process.pid, signal.SIGKILL)
            killed.append(process.pid)

    if kill:
        begin = run.on_start
        run.on_start = lambda: _both(begin, lambda: run.world.spawn(strike()))
    trial = _driven(run, make_executor(ALONE), LOCAL_SECONDS)
    return replace(trial, struck=bool(killed))


def _both(one: Callable[[], object], other: Callable[[], object]) -> None:
    one()
    other()


def _driven(run: Run, executor: Executor, seconds: float, limit: float | None = None) -> Trial:
    """Take a run to its end, and look at what it left."""
    try:
        with at_most(seconds):
            drive([run], executor)
        end, message = _ended(run, limit)
    except Hang as hang:
        end, message = "hang", str(hang)
    if end in ("done", "ends") and (problem := _nonsense(run)) is not None:
        end, message = "wrong", problem
    return Trial(traits=run.traits, rows=run.rows, time=run.world.now(), end=end, message=message)


def _ended(run: Run, limit: float | None) -> tuple[End, str]:
    """How a run ended, and what it said."""
    problem = run.failure
    if isinstance(problem, Deadlock):
        return "hang", _first_line(problem)
    if isinstance(problem, Misplaced) or (isinstance(problem, SiteError) and _unforeseen(problem)):
        return "wrong", _first_line(problem)
    if isinstance(problem, Diverged) and run.settings.hostile == "none":  # no undisturbed run of these does
        return "wrong", _first_line(problem)
    if problem is not None:
        return "ends", _first_line(problem)
    if run.world.progress >= run.traits.rounds:
        return "done", ""
    if run.ended is not None:
        return "ends", run.ended.splitlines()[0]
    return "hang", f"{run.world.progress} of {run.traits.rounds} rounds at t={limit or run.world.now():g} s"


def _unforeseen(problem: SiteError) -> bool:
    """Whether something else lies behind it: here, or in a worker, of which only the name is left."""
    told = re.match(r"client \d+ could not \w+: (\w+): ", str(problem))
    return problem.__cause__ is not None or (told is not None and not hasattr(errors, told[1]))


def _nonsense(run: Run) -> str | None:
    """Figures that cannot be, in rows or in the books."""
    for row in run.rows:
        for name, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                return f"{name} of round {row['round']} is {value}"
    return broken(run.world.ledger)


def _first_line(problem: BaseException) -> str:
    return str(problem).splitlines()[0]
