"""The world on a virtual clock: durations come from ``system``, values are promised by ``learn``.

Every client computes one thing at a time and has one uplink and one downlink, each of which carries one transfer
at a time; what comes too early queues. A server computes one thing at a time and carries any number of transfers.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import weakref
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
from torch import Tensor

from paceline.clock import VirtualLoop
from paceline.errors import Dropped, SettingError
from paceline.learn.graph import Measure, Model, Promise, Visit
from paceline.learn.noise import signed
from paceline.learn.recipe import LocalSGD, one_step
from paceline.ledger import NOBODY as NO_CAUSE
from paceline.ledger import Ledger
from paceline.seeds import Address, address, mix, stream
from paceline.system import Fleet
from paceline.worlds.barrier import Activity, book_waits, say_where
from paceline.worlds.hostile import NOBODY, Hostile
from paceline.worlds.presence import Presence
from paceline.worlds.problem import Problem
from paceline.worlds.transfers import Transfers

T = TypeVar("T")
Log = list[Activity] | deque[Activity]
BRANCH: contextvars.ContextVar[Log | None] = contextvars.ContextVar("branch", default=None)
"""What the branch that runs now has done."""
ROUND: contextvars.ContextVar[int | None] = contextvars.ContextVar("round", default=None)
"""The round that the branch that runs now is in, where it has said so."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something an algorithm decided, and when."""

    time: float
    text: str
    figures: dict[str, Any]


@dataclass(eq=False)
class Simulation:
    """One run's world."""

    fleet: Fleet
    problem: Problem
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    learning: bool = True
    """False is a dry run: the schedule and its costs only."""
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    server: int = -1
    round: int = 0
    adversary: Hostile = NOBODY

    def __post_init__(self) -> None:
        self.clients = range(self.fleet.size)
        self.pending: list[weakref.ref[Model]] = []
        self.promises: list[tuple[Promise[Any], asyncio.Future[Any] | None]] = []
        self.notes: list[Note] = []
        self.distributions: dict[str, Counter[int]] = {}
        self._visits: dict[int, int] = {}
        self._free: dict[int, float] = {}
        self._train_key = address(self.seed, "train")
        self._presence = Presence(self.fleet.availability)
        self._steady = self._presence.steady
        self._transfers = Transfers(self.loop, self.fleet, self._presence, self.ledger)

    # -- what costs no time ---------------------------------------------------------------------------------

    def now(self) -> float:
        """The virtual time."""
        return self.loop.time()

    def stream(self, *path: Address) -> np.random.Generator:
        """The run's stream at an address."""
        return stream(self.seed, *path)

    def initial_model(self, kind: int = 0) -> Model:
        """The same for every algorithm with this seed."""
        return self.problem.initial_model(self.seed, kind)

    @property
    def kinds(self) -> int:
        """How many architectures there are."""
        return len(self.problem.spaces)

    def kind(self, client: int) -> int:
        """Which of them a client has."""
        return self.problem.kind(client)

    def samples(self, client: int) -> int:
        """Training samples of a client."""
        return self.problem.samples(client)

    @property
    def hostile(self) -> frozenset[int]:
        """The clients that work against the others."""
        return self.adversary.clients

    def public(self) -> tuple[Tensor, Tensor]:
        """The server's own samples and labels."""
        return self.problem.public_data()

    def public_size(self) -> int:
        """How many they are, also in a dry run."""
        return self.problem.public_size

    def online(self, client: int) -> bool:
        """Whether a client could start now."""
        return self._steady or self._presence.next_online(client, self.now()) <= self.now()

    def evaluate(self, model: Model | Sequence[Model]) -> Measure:
        """Promise a score."""
        measure = self.problem.measure(model)
        self.expect(measure)
        return measure

    async def observe(self, promise: Promise[T]) -> T:
        """Stop the clock until the result is known."""
        if not self.learning:
            raise SettingError(
                "a dry run learns nothing, but this run must know something learned to go on;"
                " leave out --dry-run, or what asks for it"
            )
        if promise.result is None:
            hold = self.loop.hold()
            self.promises.append((promise, hold))
            await hold
        assert promise.result is not None
        return promise.result

    def expect(self, promise: Promise[Any]) -> None:
        """Have it computed at the next stop."""
        self.promises.append((promise, None))

    def record(self, name: str, value: int) -> None:
        """Count a value."""
        self.distributions.setdefault(name, Counter())[value] += 1

    def forget(self) -> None:
        """The run is over: let go of what it was waiting for."""
        self.loop.main = None
        self.promises, self.pending = [], []

    @property
    def shares_links(self) -> bool:
        """Whether the fleet has a network whose flows share links."""
        return self.fleet.network is not None and self.fleet.network.sharing is not None

    def note(self, text: str, **figures: Any) -> None:
        """Keep a decision for the log and the report."""
        self.notes.append(Note(self.now(), text, figures))

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
        """Local training: the client's time passes, the result is a promise."""
        given = {"mask": mask, "correction": correction, "anchor": anchor}
        extras = {name: extra for name, extra in given.items() if extra is not None}
        work = self.problem.flops(client, recipe, flops)
        return await self._visit("train", client, model, recipe, work, extras)

    async def probe(self, client: int, model: Model, recipe: LocalSGD) -> Model:
        """The full gradient: the client's time passes, the result is a promise."""
        return await self._visit("probe", client, model, recipe, self.problem.probe_flops(client), {})

    async def gradient(self, client: int, model: Model, recipe: LocalSGD) -> Model:
        """One step of plain SGD with rate 1 goes from the model to the model less the gradient.

        It takes that batch's share of a visit, also where visits' times come from a law.
        """
        samples, step = self.samples(client), one_step(recipe)
        share = min(1.0, step.samples_for(samples) / recipe.samples_for(samples))
        work = self.problem.flops(client, recipe)
        return model - await self._visit("train", client, model, step, work, {}, share=share, counted=False)

    def visits_per_probe(self, client: int, recipe: LocalSGD) -> float:
        """From the mean times of both: 1 where times come from a law whatever the work."""
        mean, problem = self.fleet.compute.mean_seconds, self.problem
        return mean(client, problem.flops(client, recipe)) / mean(client, problem.probe_flops(client))

    async def _visit(
        self,
        act: Literal["train", "probe"],
        client: int,
        model: Model,
        recipe: LocalSGD,
        flops: float,
        extras: dict[str, Model],
        *,
        share: float = 1.0,
        counted: bool = True,
    ) -> Model:
        """A visit, or such a share of the time of one."""
        now = self.loop.time()
        visit = self._visits.get(client, 0)
        self._visits[client] = visit + 1
        start = max(now, self._free.get(client, 0.0))
        if not self._steady:
            start = self._presence.reachable(client, start, now)
        seconds, joules = self.fleet.compute.cost(client, visit, flops)
        seconds, joules, flops = seconds * share, joules * share, flops * share
        leave = None if self._steady else self._presence.leave(client, visit, start, seconds)
        if leave is not None and self._presence.resumes(client):
            self._visits[client] = visit
        end = start + seconds if leave is None else leave.at
        self._free[client] = end
        round = self._round()
        if leave is None and self.learning:
            model = self._promise(act, client, visit, model, recipe, extras)
        if end > now:
            await self.loop.at(end)
        self.ledger.wait(client, now, start, round, client)
        done = (end - start) / seconds if leave is not None and seconds else 1.0
        counted = counted and leave is None
        self.ledger.train(client, start, end, round, flops * done, joules * done, counted)
        self._note(client, now, end)
        if leave is not None:
            self._presence.left(client, leave.back)
            raise Dropped(client, leave.at, leave.back)
        return model

    def _promise(
        self,
        act: Literal["train", "probe"],
        client: int,
        visit: int,
        model: Model,
        recipe: LocalSGD,
        extras: dict[str, Model],
    ) -> Model:
        operation = Visit(
            act=act,
            shards=self.adversary.shards(self.problem, client),
            client=client,
            recipe=recipe,
            lr=recipe.lr_at(self._round()),
            key=signed(mix(self._train_key, client, visit)),
            extras=tuple(extras),
            owner=self,
            round=self._round(),
            time=self.loop.time(),
        )
        promise = Model(model.space, None, operation, (model, *extras.values()))
        if act == "train":
            promise = self.adversary.upload(client, operation.key, model, promise, extras.get("mask"))
        self.pending.append(weakref.ref(promise))
        return promise

    async def send(self, model: Model, source: int, target: int, *, waits: bool = True) -> Model:
        """Move a model over the links of both ends."""
        now = self.loop.time()
        await self._transfers.carry(source, target, model.nbytes, self._round(), waits=waits)
        # From now on, also where it had to wait: what is booked here is not a barrier's wait, and being away is none.
        self._note(source, now, self.loop.time())
        self._note(target, now, self.loop.time())
        return model

    async def work(self, site: int, flops: float) -> None:
        """A job at a server."""
        now = self.loop.time()
        start = max(now, self._free.get(site, 0.0))
        seconds, joules = self.fleet.work(flops)
        failing = self.fleet.failures.server(site)
        end = self._free[site] = max(now, min(start + seconds, failing))
        round = self._round()
        if end > now:
            await self.loop.at(end)
        share = (end - start) / seconds if end == failing and seconds else 1.0
        if end > start or end < failing:
            self.ledger.work(site, start, end, round, flops * share, joules * share)
        self._note(site, start, end)
        if end >= failing:
            raise Dropped(site, end)

    @property
    def breakable(self) -> bool:
        """Whether the fleet has failures."""
        return not self.fleet.failures.none

    async def breakdown(self, *sites: int) -> None:
        """Sleep until it has failed."""
        failures = self.fleet.failures
        when = failures.server(*sites) if len(sites) == 1 else failures.link(*sites)
        if when > self.now():
            await (self.loop.create_future() if when == math.inf else self.loop.at(when))

    async def reach(self, *clients: int) -> None:
        """Sleep until the first of these is there."""
        if self._steady:
            return
        when = min(self._presence.next_online(client, self.now()) for client in clients)
        if when == math.inf:
            raise Dropped(clients[0], self.now(), None)
        if when > (now := self.now()):
            await self.loop.at(when)
            if len(clients) == 1:  # a branch of its own: no barrier takes this for idleness
                self._note(clients[0], now, when)

    async def wait(self, site: int, event: Awaitable[T], cause: int | Callable[[T], int]) -> T:
        """Await an event and book the time at a site."""
        begin, round = self.now(), self._round()
        self._transfers.engaged.begin(site, begin)
        try:
            result = await event
        except Dropped:
            self._waited(site, begin, round, cause if isinstance(cause, int) else NO_CAUSE)
            raise
        except BaseException:  # what is in flight when a run ends is not booked
            self._transfers.engaged.gaps(site, begin, self.now())
            raise
        self._waited(site, begin, round, cause if isinstance(cause, int) else cause(result))
        return result

    def _waited(self, site: int, begin: float, round: int, cause: int) -> None:
        self._transfers.book_wait(site, begin, self.now(), round, cause)
        if self.now() > begin:
            self._note(site, begin, self.now())

    # -- side by side -----------------------------------------------------------------------------------------

    async def gather(self, branches: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """A barrier: all branches, and a record of who waited for whom."""
        begin, round, outer = self.now(), self._round(), BRANCH.get()
        logs: list[list[Activity]] = []
        tasks: list[asyncio.Task[T]] = []
        for branch in branches:
            log: list[Activity] = []
            context = contextvars.copy_context()
            context.run(BRANCH.set, log)
            logs.append(log)
            tasks.append(self.loop.create_task(branch, context=context))
        try:
            results = list(await asyncio.gather(*tasks))
        except BaseException as problem:
            for task, log in zip(tasks, logs, strict=True):
                if task.done() and not task.cancelled() and task.exception() is problem:
                    say_where(problem, log)
                task.cancel()
            raise
        sites = book_waits(self.ledger, logs, begin, self.now(), round, self.fleet.failures.server)
        if outer is not None:
            outer.extend(Activity(site, begin, self.now()) for site in sites)
        return results

    async def settled(self) -> None:
        """The end of this instant."""
        await self.loop.settled()

    def spawn(self, branch: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A branch of its own until the run ends."""
        log: deque[Activity] = deque(maxlen=1)  # it may run for long: only its last place is kept
        context = contextvars.copy_context()
        context.run(BRANCH.set, log)
        task = self.loop.create_task(branch, context=context)

        def done(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and (problem := task.exception()) is not None:
                say_where(problem, log)
                self.loop.fail(problem)

        task.add_done_callback(done)
        return task

    def enter(self, round: int) -> None:
        """Of this branch and those that it starts from now on."""
        ROUND.set(round)

    def _round(self) -> int:
        """The branch's own round, or the number of the next Progress."""
        own = ROUND.get()
        return self.round if own is None else own

    def _note(self, site: int, start: float, end: float) -> None:
        log = BRANCH.get()
        if log is not None:
            log.append(Activity(site, start, end))
