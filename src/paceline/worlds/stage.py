"""The world that algorithms see: verbs, branches and the books, over whatever machines do the work."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from paceline.algorithms.base import those, unless_dropped
from paceline.errors import Deserted, Dropped
from paceline.learn.graph import Model
from paceline.learn.job import Score
from paceline.learn.promises import Promise
from paceline.learn.recipe import LocalSGD
from paceline.ledger import NO_SITE, Ledger
from paceline.ledger.events import Chronicle, Event
from paceline.seeds import Address, stream
from paceline.worlds.barrier import Branch, book_waits
from paceline.worlds.diary import Diary
from paceline.worlds.learner import Learner
from paceline.worlds.lessons import Lessons
from paceline.worlds.machines import Machines, Task
from paceline.worlds.privacy.spending import Spending
from paceline.worlds.public import PublicSamples

T = TypeVar("T")
BRANCH: contextvars.ContextVar[Branch | None] = contextvars.ContextVar("branch", default=None)
"""The branch that runs now."""
ROUND: contextvars.ContextVar[int | None] = contextvars.ContextVar("round", default=None)
"""The round that the branch that runs now is in, where it has said so."""


class Stage:
    """The world of one run, as its algorithm sees it."""

    server = -1

    def __init__(self, machines: Machines, learner: Learner, ledger: Ledger, diary: Diary) -> None:
        self.machines = machines
        self.learner = learner
        self.ledger = ledger
        self.loop = machines.loop
        self.settled = self.loop.settled
        """Wait for the end of this instant, after everything that happens at it."""
        self.clients = range(machines.size)
        self.chronicle = Chronicle()
        self.count = self.chronicle.count
        """Add a value to what is counted under a name."""
        self.progress = 0
        """How many ``Progress`` have been yielded."""
        self.on_deserted: Callable[[Deserted], None] | None = None
        """Told when a branch of its own finds that nobody is left; a failure unless somebody is told."""
        self.presence = machines.presence
        self.failures = machines.failures
        self.public = PublicSamples(learner.problem)
        self.learning = Lessons(self)
        self.spending: Spending | None = None
        """What has been spent of privacy, where uploads are protected."""
        self._entered = False
        """Whether any branch has said which round it is in."""
        self._diary = diary

    # -- what costs no time ---------------------------------------------------------------------------------

    @property
    def log(self) -> Stage:
        """What is told goes to the chronicle, with the time."""
        return self

    def tell(self, event: Event) -> None:
        """Keep an event for the log and the report."""
        self.chronicle.tell(self.now(), event)

    @property
    def round(self) -> int:
        """The branch's own round, or the number of the next Progress."""
        own = ROUND.get() if self._entered else None
        return self.progress if own is None else own

    def now(self) -> float:
        """The time of this instant."""
        return self.loop.time()

    def stream(self, *path: Address) -> np.random.Generator:
        """The run's stream at an address."""
        return stream(self.learner.seed, *path)

    def initial_model(self, kind: int = 0) -> Model:
        """The same for every algorithm with this seed."""
        return self.learner.initial_model(kind)

    def samples(self, client: int) -> int:
        """Training samples of a client."""
        return self.learner.problem.samples(client)

    def enter(self, round: int) -> None:
        """Of this branch and those that it starts from now on."""
        self._entered = True
        ROUND.set(round)

    # -- what takes time --------------------------------------------------------------------------------------

    async def train(
        self,
        client: int,
        model: Model,
        recipe: LocalSGD,
        *,
        mask: Model | None = None,
        correction: Model | None = None,
        anchor: Model | None = None,
        flops: float | None = None,
    ) -> Model:
        """Have a client train a model on its own samples."""
        work, extras = self.learner.problem.flops(client, recipe, flops), named(mask, correction, anchor)
        return (await self.compute(Task("train", client, model, recipe, self.round, work, extras)))[0]

    async def visit(
        self, client: int, model: Model, recipe: LocalSGD, server: int | None = None, *, update: bool = False
    ) -> Model:
        """Send a model, train it, and send it back, or how it has changed."""
        home = self.server if server is None else server
        received = await self.send(model, home, client)
        trained = await self.train(client, received, recipe)
        return await self.send(trained - received if update else trained, client, home)

    async def compute(self, task: Task) -> tuple[Model, Model | None]:
        """Have a client compute something, and book its time."""
        begin = self.loop.now
        try:
            return await self.machines.visit(task)
        finally:
            self.note(task.client, begin, self.loop.now)

    async def send(self, model: Model, source: int, target: int, *, waits: bool = True) -> Model:
        """Move a model over the links of both ends."""
        begin = self.loop.now
        try:
            return (await self.machines.carry((model,), source, target, self.round, waits=waits))[0]
        finally:
            self._note_both(source, target, begin)

    async def send_all(
        self, models: Sequence[Model], source: int, target: int, *, waits: bool = True
    ) -> Sequence[Model]:
        """Send several models as one message."""
        begin = self.loop.now
        try:
            return await self.machines.carry(models, source, target, self.round, waits=waits)
        finally:
            self._note_both(source, target, begin)

    def _note_both(self, source: int, target: int, begin: float) -> None:
        """Also where it had to wait: what is booked there is not a barrier's wait, and being away is none."""
        self.note(source, begin, self.loop.now)
        self.note(target, begin, self.loop.now)

    async def fetch(self, parcels: Mapping[int, Sequence[Model]], target: int) -> Mapping[int, Sequence[Model]]:
        """A message from each of several sites to one."""
        moves = (self._ask_for(sent, source, target) for source, sent in parcels.items())
        return those(parcels, await self.transfers(unless_dropped(move) for move in moves))

    def _ask_for(self, models: Sequence[Model], source: int, target: int) -> Coroutine[Any, Any, Sequence[Model]]:
        """Whatever else it waits for meanwhile: standing in line for a link is waiting for its owner."""
        return self.wait(target, self.send_all(models, source, target, waits=False), source)

    async def transfers(self, moves: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Side by side where links are shared, else one after the other."""
        if self.machines.shares_links:
            return list(await asyncio.gather(*moves))
        return [await move for move in moves]

    async def work(self, site: int, flops: float, model: Model) -> Model:
        """Have a server do a job of so many FLOPs."""
        begin = self.loop.now
        try:
            return await self.machines.work(site, flops, self.round, model)
        finally:
            self.note(site, begin, self.loop.now)

    async def observe(self, promise: Promise[T]) -> T:
        """Stop the clock until the result is known."""
        self.machines.read(promise)
        self.machines.bring(promise.models)
        return await self.learner.observe(promise)

    async def wait(self, site: int, event: Awaitable[T], cause: int | Callable[[T], int]) -> T:
        """Await an event and book the time at a site."""
        begin, round = self.loop.now, self.round
        question = self._diary.ask(begin)
        try:
            result = await event
            if self.loop.now > begin:
                self._waited(site, begin, round, cause if isinstance(cause, int) else cause(result))
        except Dropped:
            self._waited(site, begin, round, cause if isinstance(cause, int) else NO_SITE)
            raise
        finally:  # what is in flight when a run ends is not booked
            self._diary.answered(question)
        return result

    def _waited(self, site: int, begin: float, round: int, cause: int) -> None:
        end = self.loop.now
        if end > begin:
            self._diary.book_wait(site, begin, min(end, self.machines.failing(site)), round, cause)
            self.note(site, begin, end)

    def bring(self, models: Sequence[Model]) -> None:
        """Let whoever observes the run see these."""
        self.machines.bring(models)

    def score(self, models: Sequence[Model]) -> Promise[Score] | None:
        """Have every client score its own model, where clients can."""
        return self.machines.score(models)

    def close(self) -> None:
        """End what was started, since the run is over."""
        self.machines.close()

    # -- side by side -----------------------------------------------------------------------------------------

    async def gather(self, branches: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """A barrier: all branches, and a record of who waited for whom."""
        begin, round, outer = self.now(), self.round, BRANCH.get()
        courses: list[Branch] = []
        tasks: list[asyncio.Task[T]] = []
        for branch in branches:
            courses.append(Branch(begin))
            tasks.append(self._start(branch, courses[-1]))
        question = self._diary.ask(begin)
        try:
            results = list(await asyncio.gather(*tasks))
            sites = book_waits(self._diary, courses, begin, self.now(), round, self.machines.failing)
        except BaseException as problem:
            for task, course in zip(tasks, courses, strict=True):
                if task.done() and not task.cancelled() and task.exception() is problem:
                    course.say_where(problem)
                task.cancel()
            raise
        finally:
            self._diary.answered(question)
        if outer is not None:
            for site in sites:
                outer.note(site, begin, self.now())
        return results

    def _start(self, coroutine: Coroutine[Any, Any, T], branch: Branch) -> asyncio.Task[T]:
        context = contextvars.copy_context()
        context.run(BRANCH.set, branch)
        return self.loop.create_task(coroutine, context=context)

    def spawn(self, branch: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A branch of its own until the run ends."""
        place = Branch()  # it may run for long: only its last place is kept
        task = self._start(branch, place)
        task.add_done_callback(partial(self._ended, place))
        return task

    def _ended(self, place: Branch, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            place.say_where(problem)
            if isinstance(problem, Deserted) and self.on_deserted is not None:
                self.on_deserted(problem)
            else:
                self.loop.fail(problem)

    def note(self, site: int, start: float, end: float) -> None:
        """A site was engaged in the branch that runs now: what it waited meanwhile is not the barrier's to book."""
        branch = BRANCH.get()
        if branch is not None:
            branch.note(site, start, end)


def named(mask: Model | None, correction: Model | None, anchor: Model | None) -> dict[str, Model]:
    """The models that a visit takes besides the one it starts from, by name."""
    given = {"mask": mask, "correction": correction, "anchor": anchor}
    return {name: extra for name, extra in given.items() if extra is not None}
