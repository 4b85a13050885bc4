"""Machines on a clock that others drive: the rules that real devices and a recording of them share.

What is really done is a matter of the *hands*: workers that compute (``hands``), or a journal of what they did
(``recorded``). Both go through the same code here, so that a recording is repeated step by step.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

from paceline.algorithms.world import Failing
from paceline.clock import VirtualLoop
from paceline.errors import Dropped
from paceline.learn.graph import Model
from paceline.learn.job import Score
from paceline.learn.promises import Promise
from paceline.ledger import Ledger
from paceline.worlds.diary import Diary
from paceline.worlds.local.journal import Act, Entry, Journal, What
from paceline.worlds.local.presence import WallPresence
from paceline.worlds.machines import Task
from paceline.worlds.network.lanes import Lanes

T = TypeVar("T")


class Carried(NamedTuple):
    """Models that have moved from one site to another."""

    models: Sequence[Model]
    """As they are at the target."""
    bytes: float
    kept: tuple[tuple[int, int], ...] = ()
    """Where what came to a server was written down, if it was."""


class Hands(Protocol):
    """Who does the work, or remembers how it was done. Whoever is lost meanwhile raises ``Dropped``."""

    async def visit(self, act: Act, task: Task, visit: int) -> tuple[Model, Model | None]:
        """A client computes; ``visit`` is how many it has begun before."""
        ...

    async def carry(self, act: Act, models: Sequence[Model]) -> Carried:
        """Models move, from the act's site to its target."""
        ...

    async def work(self, act: Act, model: Model) -> Model:
        """Have a server compute this model."""
        ...

    def bring(self, models: Sequence[Model]) -> None:
        """Have the values of these models, for whoever observes the run."""
        ...

    def score(self, models: Sequence[Model]) -> Promise[Score] | None:
        """Every client scores its own, where it can."""
        ...

    def close(self) -> None:
        """End whatever was started, since the run is over."""
        ...


def _facts(found: object) -> dict[str, Any]:
    """What is written down of what an act gave."""
    if isinstance(found, Carried):
        return {"bytes": found.bytes, "kept": found.kept}
    if isinstance(found, tuple) and found[0].figure is not None:
        return {"figure": float(found[0].figure)}
    return {}


class NothingFails:
    """Servers on this machine fail only together with the run."""

    possible = False

    async def breakdown(self, *sites: int) -> None:
        """Wait for ever: nothing breaks down."""
        await asyncio.get_running_loop().create_future()


class WallMachines:
    """Devices that compute one thing at a time and come and go, whatever they are."""

    shares_links = True

    def __init__(
        self, loop: VirtualLoop, size: int, hands: Hands, presence: WallPresence, ledger: Ledger, journal: Journal
    ) -> None:
        self.loop = loop
        self.size = size
        self.presence = presence
        self.failures: Failing = NothingFails()
        self.diary = Diary(ledger)
        self._hands = hands
        self._ledger = ledger
        self._journal = journal
        self._lanes = Lanes()
        self._turns: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._visits: Counter[int] = Counter()
        self._begun: Counter[tuple[What, int, int]] = Counter()

    def failing(self, site: int) -> float:
        """Return inf: no server ever fails."""
        return math.inf

    def seconds(self, client: int, flops: float) -> float:
        """In proportion to the work: how fast a device is, is not known before."""
        return flops if flops > 0 else 1.0

    async def visit(self, task: Task) -> tuple[Model, Model | None]:
        """A client computes; one that is lost may have to do it again when it is back."""
        while True:
            await self.presence.attend(task.client)
            try:
                async with self._turns[task.client]:
                    return await self._visit(task)
            except Dropped as dropped:
                if dropped.gone or dropped.reason == "refused" or not self.presence.absence.patience:
                    raise

    async def _visit(self, task: Task) -> tuple[Model, Model | None]:
        client, visit, start = task.client, self._visits[task.client], self.loop.time()
        self._visits[client] += 1
        done = False
        try:
            async with self._occupied(client):
                found = await self._told("visit", client, 0, lambda act: self._hands.visit(act, task, visit))
            done = True
            return found
        finally:
            if self.loop.time() > start or done:
                flops = task.all_flops if done else 0.0
                self._ledger.train(client, start, self.loop.time(), task.round, flops, math.nan, done)

    async def carry(
        self, models: Sequence[Model], source: int, target: int, round: int, *, waits: bool
    ) -> Sequence[Model]:
        """Models move, once both ends are there."""
        await self.presence.attend(source)
        await self.presence.attend(target)
        start = self.loop.time()
        lanes = self._lanes.hold(source, "send"), self._lanes.hold(target, "receive")
        try:
            async with self._occupied(source, target):
                found = await self._told("send", source, target, lambda act: self._hands.carry(act, models))
        finally:
            self._lanes.release(source, "send", lanes[0])
            self._lanes.release(target, "receive", lanes[1])
        self._ledger.transfer(source, target, start, self.loop.time(), round, found.bytes, math.nan, lanes)
        return found.models

    async def work(self, site: int, flops: float, round: int, model: Model) -> Model:
        """A server computes, one thing at a time."""
        async with self._turns[site]:
            start = self.loop.time()
            async with self._occupied(site):
                found = await self._told("work", site, 0, lambda act: self._hands.work(act, model))
            self._ledger.work(site, start, self.loop.time(), round, flops, math.nan)
            return found

    def read(self, promise: Promise[Any]) -> None:
        """Whether it may be read is asked elsewhere."""

    def bring(self, models: Sequence[Model]) -> None:
        """Have the values of these models, for whoever observes the run."""
        self._hands.bring(models)

    def score(self, models: Sequence[Model]) -> Promise[Score] | None:
        """Every client scores its own, where it can."""
        return self._hands.score(models)

    def close(self) -> None:
        """End the hands and close the journal, since the run is over."""
        self._hands.close()
        self._journal.close()

    async def _told(self, what: What, site: int, target: int, do: Callable[[Act], Awaitable[T]]) -> T:
        """Do something, and write down when it began and ended."""
        act = Act(what, site, target, self._begun[what, site, target])
        self._begun[what, site, target] += 1
        entry = Entry(**act._asdict(), start=self.loop.time())
        try:
            found = await do(act)
        except Dropped as dropped:
            self._write(entry, outcome=dropped.reason, dropped=dropped.site, gone=dropped.gone)
            raise
        self._write(entry, **_facts(found))
        return found

    def _write(self, entry: Entry, **more: Any) -> None:
        self._journal.add(replace(entry, end=self.loop.time(), **more))

    @asynccontextmanager
    async def _occupied(self, *sites: int) -> AsyncIterator[None]:
        """Nobody waits while it is busy; when that ends is not known before."""
        now = self.loop.time()
        spans = [self.diary.open(site, now) for site in sites if site >= 0]
        try:
            yield
        finally:
            for span in spans:
                span[1] = self.loop.time()
