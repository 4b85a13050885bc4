"""The memory of a drive: what it learns is written down, what it holds is kept now and then, and it can go on.

Nothing of the coroutines is kept. A schedule is a function of settings and of what was learned, so to go on is to run
it again with results from the file of stops (``learned``) and placeholders for values, up to the stop of the last
checkpoint; there the models that are still held get their values back, by their numbers.
"""

from __future__ import annotations

import gc
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from paceline.errors import DataError, PacelineError, SettingError
from paceline.learn.executor import Executor, Statistics
from paceline.learn.graph import Model
from paceline.learn.placeholders import pretend
from paceline.learn.register import Register
from paceline.ledger.checkpoints import FOLDER, Checkpoint, Held, read_checkpoint, write_checkpoint
from paceline.ledger.durable import all_to_disk
from paceline.ledger.weights import FILE as WEIGHTS
from paceline.reading import plain_number
from paceline.runs.driver import learn, wanted
from paceline.runs.learned import FILE, LearnedFile, Stop, counted, make_stop, place_of, repeat_effects, require_fit
from paceline.runs.plainly import Unkeepable
from paceline.runs.run import Run
from paceline.runs.stopping import Stopping
from paceline.sizes import parse_size

EVERY = 20.0
"""Seconds between two checkpoints, unless another interval is asked for."""
SHARE = 0.02
"""Of a drive's time that checkpoints may take: where one takes long, the next is put off."""
BUDGET = float(8 << 30)
"""Bytes that checkpoints may take on disk, unless another budget is asked for."""


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """How often the values of a drive are kept, and how much room they may take."""

    every: float = EVERY
    """Seconds; infinite: never."""
    budget: float = BUDGET
    """Bytes."""

    def plain(self) -> dict[str, float | None]:
        """For JSON, which has no infinity: no interval is never."""
        return {"every": None if self.every == math.inf else self.every, "budget": self.budget}

    @classmethod
    def parse(cls, text: str | None) -> Keeping:
        """From ``60`` (seconds), ``never``, or ``60,2GB``; None for what is usual.

        >>> Keeping.parse("60,2GB")
        Keeping(every=60.0, budget=2000000000.0)
        """
        if text is None:
            return cls()
        seconds, comma, size = text.partition(",")
        try:
            every = math.inf if seconds == "never" else _finite(seconds)
            return cls(every=every, budget=parse_size(size) if comma else BUDGET)
        except ValueError:
            raise SettingError(
                f"--checkpoint {text!r}: wanted seconds, such as 60, or never; and if you like how much room"
                " checkpoints may take, such as 60,2GB"
            ) from None


@dataclass
class Kept:
    """What keeping a run's state has cost so far."""

    checkpoints: int = 0
    largest: int = 0
    """Bytes of the largest."""
    seconds: float = 0.0
    said: list[str] = field(default_factory=list)
    """What a user should know of it."""

    def text(self) -> str:
        """A line for the log."""
        many = "" if self.checkpoints == 1 else "s"
        return f"kept {self.checkpoints} checkpoint{many}, {self.largest / 1e6:.3g} MB at most, {self.seconds:.2g} s"


@dataclass(frozen=True)
class Before:
    """What a checkpoint says besides values: how far the file of stops had come, and what had been done."""

    bytes: int
    sha256: str
    seconds: list[float]
    """Of every run, in real time."""
    statistics: Statistics

    @classmethod
    def read(cls, state: Mapping[str, Any], runs: int) -> Before:
        """From the checkpoint of so many runs; ``DataError`` if it is none."""
        try:
            seconds = [float(one) for one in state["seconds"]]
            done = Statistics(**{name: int(number) for name, number in state["statistics"].items()})
            found = cls(int(state["bytes"]), str(state["sha256"]), seconds, done)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
            raise DataError(f"the checkpoint says nothing that can be gone on with: {problem!r}") from None
        if len(seconds) != runs or not all(0 <= one < math.inf for one in seconds):
            raise DataError(f"the checkpoint is not one of {runs} runs")
        return found


class Keeper:
    """Keeps one drive in a directory; with ``again`` it begins where the last one was cut off."""

    def __init__(
        self,
        directory: Path,
        runs: Sequence[Run],
        executor: Executor,
        register: Register[Model],
        keeping: Keeping,
        stopping: Stopping,
        *,
        again: bool = False,
        on_first: Callable[[], None] = lambda: None,
    ) -> None:
        self.kept = Kept()
        self._folder = directory / FOLDER
        self._runs = runs
        self._executor = executor
        self._register = register
        self._keeping = keeping
        self._stopping = stopping
        self._on_first = on_first
        """Called before the first checkpoint is written."""
        self._learned = LearnedFile(self._folder / FILE)
        self._stop = 0
        self._stops: list[Stop] = []
        """Those that are replayed."""
        self._from: Checkpoint | None = None
        self._able = True
        self._flushed: set[Run] = set()
        """Runs that have ended, and whose files are on the disk."""
        if again:
            self._begin_again()
        self._due = time.monotonic() + keeping.every

    # -- what a driver asks ----------------------------------------------------------------------------------------

    def learn(self, runs: Sequence[Run]) -> Mapping[object, PacelineError]:
        """Compute what these runs need, or remember it."""
        self._stop += 1
        return self._remember(runs) if self._stop <= len(self._stops) else self._compute(runs)

    def stopped(self) -> None:
        """Give values back at the end of a replay; keep them when that is due."""
        if self._stop < len(self._stops):
            self._stopping.check()
            return
        if self._from is not None:
            checkpoint, self._from = self._from, None
            self._give_back(checkpoint)
            self.kept.said += [line for run in self._runs if run.done and (line := _lost_weights(run))]
        elif self._stopping.requested is not None or time.monotonic() >= self._due:
            self.save()
        self._stopping.check()

    def save(self) -> None:
        """Write a checkpoint of this stop."""
        if not self._able or self._stop < len(self._stops) or self._from is not None:
            return
        begin = time.monotonic()
        held = {number: Held(value, model.figure) for number, model, value in self._held()}
        for run in self._runs:
            if not run.done:
                run.save()
        self._flush_ended()
        self._learned.to_disk()
        if not self.kept.checkpoints:
            self._on_first()
        size = write_checkpoint(self._folder, self._stop, self._state(), held, self._keeping.budget)
        took = time.monotonic() - begin
        self.kept.checkpoints += 1
        self.kept.seconds += took
        self.kept.largest = max(self.kept.largest, size)
        self._due = time.monotonic() + max(self._keeping.every, took / SHARE)
        if size > self._keeping.budget:
            self._give_up(
                f"a checkpoint takes {size / 1e6:,.0f} MB, more than the {self._keeping.budget / 1e6:,.0f} MB that"
                " all may take: this one stays, and no other is written"
            )

    def close(self) -> None:
        """The drive has ended, with or before its runs."""
        self._learned.close()

    def forget(self) -> None:
        """All runs have ended, and that is written down: nothing of this is needed any more."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _flush_ended(self) -> None:
        """Have what ended runs have left on the disk: their weights are in no checkpoint that is yet to come."""
        for run in self._runs:
            if run.done and run.directory is not None and run not in self._flushed:
                all_to_disk([run.directory])
                self._flushed.add(run)

    # -- learning --------------------------------------------------------------------------------------------------

    def _compute(self, runs: Sequence[Run]) -> Mapping[object, PacelineError]:
        promises = [promise for run in runs for promise in run.learner.awaited()]
        before, made = counted(runs), self._register.made
        failed = learn(runs, self._executor)
        if self._able:
            try:
                self._learned.add(make_stop(runs, made, promises, before, failed))
            except Unkeepable as problem:
                self._give_up(
                    f"a run has read {problem} off its models, which cannot be written down: from here on no"
                    " checkpoint is written (numbers, texts, tuples, lists, dictionaries, arrays and tensors can be)"
                )
        return failed

    def _remember(self, runs: Sequence[Run]) -> Mapping[object, PacelineError]:
        stop = self._stops[self._stop - 1]
        here = place_of(runs, self._register.made)
        if here != stop.place():
            raise DataError(
                f"the schedule takes another course than before: at stop {self._stop} it had made {stop.made} models"
                f" at t={_times(stop.times)}, and now {here[0]} at t={_times(here[1])}; something that decides it has"
                " changed since"
            )
        models, promises = wanted(runs)
        if len(promises) != len(stop.results):
            raise DataError(
                f"the schedule takes another course than before: at stop {self._stop} it had to learn"
                f" {len(stop.results)} things, and now {len(promises)}; something that decides it has changed since"
            )
        require_fit(runs, promises, stop)
        pretend(models, promises, stop.results)
        return repeat_effects(runs, stop)

    def _give_up(self, why: str) -> None:
        self._able = False
        self.kept.said.append(why)

    # -- going on --------------------------------------------------------------------------------------------------

    def _begin_again(self) -> None:
        checkpoint, problems = read_checkpoint(self._folder)
        self.kept.said += problems
        if checkpoint is None:
            self._learned.path.unlink(missing_ok=True)
            return
        try:
            before = Before.read(checkpoint.state, len(self._runs))
            self._stops = self._learned.reopen(before.bytes, before.sha256)
        except DataError as problem:
            self.kept.said.append(f"{problem}; so it began again")
            self.forget()
            self._learned = LearnedFile(self._folder / FILE)
            return
        self._from = checkpoint
        for run, seconds in zip(self._runs, before.seconds, strict=True):
            run.recorder.seconds = seconds
        self._executor.statistics = before.statistics

    def _state(self) -> dict[str, Any]:
        seconds = [run.summary()["seconds"] for run in self._runs]
        return asdict(Before(self._learned.bytes, self._learned.sha256, seconds, self._executor.statistics))

    def _give_back(self, checkpoint: Checkpoint) -> None:
        held = {number: model for number, model, _ in self._held()}
        if held.keys() != checkpoint.values.keys():
            raise DataError(
                f"the replay holds {len(held)} models at stop {checkpoint.stop}, and the checkpoint"
                f" {len(checkpoint.values)}: something that decides the schedule has changed since"
            )
        for number, (value, _) in checkpoint.values.items():
            space = held[number].space
            # What is in whole numbers is no weights: the number of a draw of noise, say.
            if value.is_floating_point() and (value.shape != (space.size,) or value.dtype != space.dtype):
                raise DataError(f"the checkpoint's model {number} is none of {space.name}: {_described(value)}")
        device = self._executor.trainer.device
        moved = {id(value): value.to(device) for value, _ in checkpoint.values.values()}  # what is shared, once
        for number, (value, figure) in checkpoint.values.items():
            held[number].value = moved[id(value)]
            held[number].figure = None if figure is None else figure.to(device)
            if self._executor.budget is not None:
                self._executor.budget.note(held[number])

    def _held(self) -> list[tuple[int, Model, Tensor]]:
        """The models that have values and are still needed, with their numbers."""
        gc.collect()  # what only holds itself is nobody's, and when it would go depends on much else
        return [(model.number, model, model.value) for model in self._register.held() if model.value is not None]


def _finite(text: str) -> float:
    """Seconds; ``ValueError`` for what is no finite number of 0 or more."""
    found = plain_number(text)
    if not 0 <= found < math.inf:
        raise ValueError(f"{text[:80]!r} is no number of seconds")
    return found


def _lost_weights(run: Run) -> str:
    """What is to be said of a run that had ended before the checkpoint, which has its weights no more."""
    if run.directory is None or not run.keeps_model or run.failure is not None or (run.directory / WEIGHTS).exists():
        return ""
    return f"{run.directory / WEIGHTS} is missing, and its run had ended: to have it again, run that once more"


def _described(value: Tensor) -> str:
    return f"{tuple(value.shape)} of {value.dtype}"


def _times(times: Sequence[float]) -> str:
    return ", ".join(f"{time:g}" for time in times[:4]) + (", ..." if len(times) > 4 else "")
