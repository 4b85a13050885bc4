"""The memory of a run on the wall clock: what was learned at its stops, what came to servers, what devices hold.

Nothing of this is needed to repeat a run (its journal is enough for that), but to go on with it without computing
anything again. See ``worlds.local.recalling``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from paceline.errors import DataError, PacelineError
from paceline.learn.executor import Executor
from paceline.ledger.checkpoints import FOLDER
from paceline.runs.driver import learn
from paceline.runs.keeper import Keeping, Kept
from paceline.runs.learned import FILE, LearnedFile, Stop, counted, make_stop, place_of, repeat_effects, require_fit
from paceline.runs.plainly import Unkeepable
from paceline.runs.run import Run
from paceline.worlds.local.arrivals import Arrivals


class Observations:
    """Keeps one run with ``--world local``; with ``again`` it begins where the last process was cut off.

    A ``durable`` one survives a power cut too. That costs some milliseconds an act: nothing for a federation, and no
    use where the devices go with the same power.
    """

    def __init__(
        self, directory: Path, keeping: Keeping, executor: Executor, *, again: bool = False, durable: bool = False
    ) -> None:
        self.kept = Kept()
        self.again = again
        self.durable = durable
        self.folder = directory / FOLDER
        self.arrivals = Arrivals(self.folder / "arrivals.bin", keeping.budget, durable=durable)
        self.on_first: Callable[[], None] = lambda: None
        """Called when the first stop is written."""
        self._executor = executor
        self._learned = LearnedFile(self.folder / FILE)
        self._stop = 0
        self._able = True
        self._stops: list[Stop] = self._learned.reopen_all() if again else []

    @property
    def last(self) -> float:
        """The time of the last stop that is known."""
        return max((time for stop in self._stops for time in stop.times), default=0.0)

    def is_past(self) -> bool:
        """Whether what will be learned at the next stop is known."""
        return self._stop < len(self._stops)

    # -- what a driver asks ----------------------------------------------------------------------------------------

    def learn(self, runs: Sequence[Run]) -> Mapping[object, PacelineError]:
        """Compute what is needed, or remember it."""
        for run in runs:
            if self.again and isinstance(run.failure, DataError):  # it cannot be gone on with so: that is not its end
                raise run.failure
        self._stop += 1
        failed = self._remember(runs) if self._stop <= len(self._stops) else self._compute(runs)
        for run in runs:
            if self.again and run.done and run.failure is None:
                self._see(run)
        return failed

    def stopped(self) -> None:
        """Nothing is kept besides: what devices and servers hold is on disk already."""

    def close(self) -> None:
        """The run has ended, or was cut off."""
        self._learned.close()
        self.arrivals.close()
        if not self.arrivals.complete:
            self.kept.said.append(
                "what came to servers took more room than all that is kept may take, so this run could not have been"
                " gone on with; give it more room: --checkpoint 20,30GB"
            )

    def forget(self) -> None:
        """The run has ended, and that is written down."""
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- learning --------------------------------------------------------------------------------------------------

    def _compute(self, runs: Sequence[Run]) -> Mapping[object, PacelineError]:
        promises = [promise for run in runs for promise in run.learner.awaited()]
        before = counted(runs)
        failed = learn(runs, self._executor)
        if self._able:
            try:
                self._learned.add(make_stop(runs, 0, promises, before, failed))
                if self.durable:
                    self._learned.to_disk()
            except Unkeepable as problem:
                self._able = False
                self.kept.said.append(f"a run has read {problem} off its models, which cannot be written down")
        self.on_first()
        self.on_first = lambda: None
        return failed

    def _remember(self, runs: Sequence[Run]) -> Mapping[object, PacelineError]:
        stop = self._stops[self._stop - 1]
        promises = [promise for run in runs for promise in run.learner.awaited()]
        if place_of(runs, 0) != stop.place() or len(promises) != len(stop.results):
            raise DataError(
                f"the run takes another course than before: at stop {self._stop} it was t={stop.times[0]:g} s,"
                f" and now it is {runs[0].world.now():g} s; something that decides it has changed since"
            )
        require_fit(runs, promises, stop)
        for promise, result in zip(promises, stop.results, strict=True):
            promise.settle(result)
        return repeat_effects(runs, stop)

    def _see(self, run: Run) -> None:
        """Have the values of what was scored last: if that was in the past, nobody has computed them."""
        run.world.bring(run.scored)
        self._executor.run(run.scored)
