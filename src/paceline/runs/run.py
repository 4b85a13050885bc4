"""One run: an algorithm in a world, what it learns, and what it leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from paceline.algorithms.base import Progress, Traits
from paceline.algorithms.named import rounds_of
from paceline.algorithms.world import World
from paceline.clock import VirtualLoop
from paceline.errors import Deserted, Fruitless, PacelineError, SiteError, WireError, is_of_disk
from paceline.learn.graph import Model
from paceline.learn.job import Score
from paceline.learn.placeholders import PLACEHOLDER
from paceline.learn.promises import Promise
from paceline.ledger import Ledger
from paceline.ledger.directory import write_partition
from paceline.ledger.events import Chronicle, Event
from paceline.ledger.weights import write_weights
from paceline.runs.recorder import Recorder, Row
from paceline.runs.settings import Settings
from paceline.runs.until import Until
from paceline.worlds.learner import Learner
from paceline.worlds.privacy.spending import Spending
from paceline.worlds.problem import Problem

PHANTOMS = 3
"""Rounds in a row that may end at the instant they began without anybody having trained."""


class RunningWorld(World, Protocol):
    """A world with what a run needs besides: its clock, its books, what it learns."""

    loop: VirtualLoop
    ledger: Ledger
    chronicle: Chronicle
    learner: Learner
    spending: Spending | None
    progress: int
    on_deserted: Callable[[Deserted], None] | None

    def bring(self, models: Sequence[Model]) -> None:
        """Make the values of these models known to whoever observes the run."""
        ...

    def score(self, models: Sequence[Model]) -> Promise[Score] | None:
        """Have every client score its own model; None where whoever observes the run does that."""
        ...

    def close(self) -> None:
        """End what the world has started."""
        ...


class Run:
    """A run that a driver advances: it goes on until it needs a value or has ended."""

    def __init__(
        self,
        settings: Settings,
        traits: Traits,
        world: RunningWorld,
        *,
        until: Until | None = None,
        directory: Path | None = None,
        keep_spans: bool = True,
        on_row: Callable[[Run, Row], None] | None = None,
        keeps_model: bool = False,
    ) -> None:
        self.settings = settings
        """All of it resolved: what the world was made of."""
        self.traits = traits
        self.world = world
        self.learner = world.learner
        self.until = until or Until()
        self.directory = directory
        self.done = False
        self.failure: BaseException | None = None
        self.ended: str | None = None
        """Why it ended before its last round, where that is no failure."""
        self.on_start: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None
        self.keeps_model = keeps_model
        self.final: dict[str, Tensor] = {}
        """The flat weights that were scored last, if they are kept: ``model``, or one a client."""
        self.scored: Sequence[Model] = ()
        """The models that were scored last, if they are kept."""
        self._keep_spans = keep_spans
        self._started = False
        self._last: tuple[float, int] | None = None
        self._phantoms = 0
        self._progress: Progress | None = None
        self.recorder = Recorder(
            settings,
            self.until,
            world.ledger,
            world.chronicle,
            directory,
            lambda row: on_row(self, row) if on_row is not None else None,
        )

    @property
    def rows(self) -> list[Row]:
        """The rows of metrics so far."""
        return self.recorder.rows

    @property
    def problem(self) -> Problem:
        """What is learned: data, models and how they are scored."""
        return self.learner.problem

    @property
    def label(self) -> str:
        """The algorithm, its variant and the seed, for messages."""
        return f"{self.settings.method} seed {self.settings.seed}"

    def start(self, *, again: bool = False) -> None:
        """Make the directory, or open it ``again``, and the coroutine."""
        self.recorder.start(keep_spans=self._keep_spans, state=self.state(), again=again)
        if self.directory is not None and not self.learner.dry:
            write_partition(self.directory, self.problem.label_counts())
        self.world.loop.start(self._main())
        self._started = True
        self.on_start()

    # -- inside the run's time ------------------------------------------------------------------------------------

    async def _main(self) -> None:
        """Follow the algorithm until it ends, the target is met, or the time is over."""
        deserted: asyncio.Future[None] = self.world.loop.create_future()
        self.world.on_deserted = lambda problem: None if deserted.done() else deserted.set_exception(problem)
        waiting: set[asyncio.Future[None]] = {deserted, self.world.loop.create_task(self._follow())}
        if self.until.time is not None:
            waiting.add(self.world.loop.create_task(self._time_over(self.until.time)))
        done, late = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in late:
            task.cancel()
        try:
            for task in done:
                await task
        except Deserted as end:
            if not self.world.ledger.visits:
                raise
            self.ended = str(end)
            self.world.log.tell(Event(kind="end", text=self.ended))
        if not self.world.ledger.visits:
            raise Fruitless(
                f"nothing was learned: no visit was finished until t={self.world.now():g} s, in {self.world.progress}"
                " rounds. Let devices stay longer (fleet.availability), give them less to do, or the run more time"
            )
        round, when = self.recorder.last()
        # When the time was over, a last row says how it stood then.
        over = self.until.time is not None and self.world.now() >= self.until.time > when
        if self._progress is not None and (over or round != self.world.progress):
            await self._evaluate(self._progress)
        self._fetch_scored()

    def _fetch_scored(self) -> None:
        """Have what was scored last, to be kept with the run; what clients that are gone for good hold is lost."""
        try:
            self.world.bring(self.scored)
        except (SiteError, WireError) as problem:
            self.world.log.tell(Event(text=f"not all final weights are kept: {problem}"))

    async def _time_over(self, when: float) -> None:
        """Until the end of this instant, so that what happens at it counts."""
        await self.world.loop.at(when)
        await self.world.settled()

    async def _follow(self) -> None:
        """Evaluate as asked whatever the algorithm yields."""
        every = self.settings.every or 1
        if self.world.failures.possible and not self.traits.outlives_servers:
            self.world.spawn(end_with_server(self.world, self.settings.name))
        stream = rounds_of(self.settings.algorithm, self.world)
        try:
            async for self._progress in stream:
                self.world.progress += 1
                self._check_phantom()
                if self.world.progress % every == 0 and await self._evaluate(self._progress):
                    break
                if self.until.met_by_visits(self.world.ledger.visits):
                    break
                if self.learner.is_full:
                    await self.learner.flush()
        finally:
            await stream.aclose()

    def _check_phantom(self) -> None:
        """Rounds that take no time and in which nobody trains would go on to the last at once."""
        now = self.world.now(), self.world.ledger.visits
        self._phantoms = self._phantoms + 1 if now == self._last else 0
        self._last = now
        if self._phantoms >= PHANTOMS:
            raise Deserted(
                f"nobody takes part any more at t={now[0]:g} s: {PHANTOMS} rounds passed at once and without a visit;"
                f" {self.world.progress - PHANTOMS} of {self.traits.rounds} rounds are done"
            )

    async def _evaluate(self, progress: Progress) -> bool:
        """Promise (or, if the schedule depends on it, await) a row of metrics; True if the target is met."""
        row = self.recorder.costs(self.world.progress, self.world.now()) | dict(progress.info) | self._spent()
        if self.learner.dry:
            self.recorder.write(row)
            return False
        measures = await self._measures(progress)
        self.recorder.promise(row, measures)
        if not self.until.learned:
            return False
        await self.learner.observe(measures[""])  # by now its row is written
        return self.recorder.reached is not None

    def _spent(self) -> dict[str, float]:
        """What has been spent of privacy, where there is any."""
        spending = self.world.spending
        epsilon = None if spending is None else spending.epsilon(self.world.progress)
        return {} if epsilon is None else {"epsilon": epsilon}

    async def _measures(self, progress: Progress) -> dict[str, Promise[Score]]:
        """The scores of a row, promised."""
        scored = self._to_score(progress)
        self.recorder.personal = not isinstance(scored, Model)
        own = None
        if not isinstance(scored, Model) and len(scored) == self.settings.clients:
            own = self.world.score(scored)
        if own is None:
            self.world.bring([scored] if isinstance(scored, Model) else scored)
        for model in progress.others.values():
            self.world.bring([model] if isinstance(model, Model) else model)
        if self.keeps_model:
            self.scored = [scored] if isinstance(scored, Model) else scored
        measures: dict[str, Promise[Score]] = {"": self.problem.measure(scored) if own is None else own}
        measures |= {f"_{name}": self.problem.measure_others(model) for name, model in progress.others.items()}
        for measure in measures.values():
            self.learner.expect(measure)
        return measures

    def _to_score(self, progress: Progress) -> Model | Sequence[Model]:
        """What is scored: one model on all test samples, or every client's on its own."""
        if not self.settings.personal or not isinstance(progress.model, Model):
            return progress.model
        return [progress.model] * self.settings.clients if progress.own is None else progress.own()

    # -- outside, with the driver ---------------------------------------------------------------------------

    def advance(self) -> None:
        """Go on until a value is needed or the run has ended; a failure is kept, not raised. That a disk is full is
        none: it ends all runs, which can then be gone on with."""
        if not self._started:
            self.start()
        try:
            if self.world.loop.advance():
                self.done = True
                self.world.loop.result()
        except PacelineError as problem:
            self.fail(problem)
        except Exception as problem:
            if is_of_disk(problem):
                raise
            where = "".join(f", {note}" for note in getattr(problem, "__notes__", ()))
            self.fail(wrapped(problem, f"failed at t={self.world.now():g} s{where}"))

    def settle(self, problem: PacelineError | None) -> None:
        """Values are there: write the rows that waited for them and let the coroutine go on."""
        if problem is not None and self.failure is None:
            self.fail(problem)
        self.recorder.write_ready(failed=self.failure is not None)
        if self.failure is None:
            self.learner.settle()

    def save(self) -> None:
        """Have all that is known by now on disk."""
        self.recorder.save(self.state())

    def fail(self, problem: BaseException) -> None:
        """End the run with this problem."""
        self.failure = problem
        self.done = True

    def close(self) -> None:
        """End the run's tasks, complete its files."""
        try:
            self.world.loop.close()
            self.world.close()
        finally:
            self._keep_final()
            self.recorder.finish(self.state())
            self.on_close()
            # What was under way holds models, on a GPU perhaps gigabytes; the run itself may be kept for its rows.
            self._progress = None
            self.world.loop.main = None
            self.learner.forget()

    def _keep_final(self) -> None:
        """What was scored last, as far as it was learned."""
        scored = {f"client {k}" if self.recorder.personal else "model": m for k, m in enumerate(self.scored)}
        known = all(
            model.value is not PLACEHOLDER for model in self.scored
        )  # else it ended before, and they are kept
        self.final = {name: model.value for name, model in scored.items() if known and model.value is not None}
        self.scored = ()
        if self.final and self.directory is not None:
            write_weights(self.directory, self.final)

    def state(self) -> dict[str, Any]:
        """How it stands with the run."""
        status = "done" if self.done else "running"
        if isinstance(self.failure, KeyboardInterrupt):
            status = "interrupted"
        elif self.failure is not None:
            status = f"failed: {type(self.failure).__name__}"
        return {
            "status": status,
            "error": None if self.failure is None else str(self.failure),
            "ended": self.ended,
            "absence": self.settings.absence,
            "weights": self.traits.weights,
            "hostile": sorted(self.learner.adversary.clients),
            "model": "+".join(space.name for space in self.problem.spaces),
            "parameters": self.problem.space.size,
            "rounds": self.world.progress,
            "time": self.world.now(),
            **({"privacy": spending.plain(self.world.progress)} if (spending := self.world.spending) else {}),
        }

    def summary(self) -> dict[str, Any]:
        """The run in one object."""
        return self.recorder.summary(self.state())


async def end_with_server(world: World, name: str) -> None:
    """End an algorithm with one server when that fails, with a message."""
    await world.failures.breakdown(world.server)
    raise SiteError(f"server 1 failed at t={world.now():g} s, and {name} cannot go on without it")


def wrapped(problem: Exception, what: str) -> SiteError:
    """An exception that nobody foresaw, with where it happened."""
    error = SiteError(f"{what}: {type(problem).__name__}: {problem}")
    error.__cause__ = problem
    return error
