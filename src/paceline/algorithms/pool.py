"""A pool of clients at work: what asynchronous algorithms share on the clients' side."""

from __future__ import annotations

import asyncio
import heapq
import math
from dataclasses import dataclass
from typing import NamedTuple

from paceline.algorithms.aggregate import aggregated
from paceline.algorithms.base import Dropped, Model, World, comes, deserted, require, visit
from paceline.algorithms.mailbox import Mailbox
from paceline.learn.recipe import LocalSGD

BATCH = 256
"""Clients that are drawn at once."""


class Update(NamedTuple):
    """What a client sends back: the model it made, the one it started from, and that one's version."""

    trained: Model
    start: Model
    version: int


@dataclass(eq=False)
class PoolServer:
    """The server of a pool: the current model, how often it has changed, and what has arrived since."""

    model: Model
    inbox: Mailbox[Update]
    places: int
    """Most clients at work at any time."""
    version: int = 0
    _working: bool = False
    _line: asyncio.Event | None = None
    """Event that releases clients waiting for the server."""

    def replace(self, model: Model) -> None:
        """Take this model as the server's next version."""
        self.model = model
        self.version += 1

    async def aggregate(self, world: World, model: Model, count: int) -> None:
        """Install ``model``, a sum of ``count`` updates, once the server has computed it. Clients go on meanwhile."""
        self._working = True
        self.replace(await aggregated(world, model, count))
        self._working = False
        if self._line is not None:
            world.spawn(self._let_go(world))

    async def keeps_up(self) -> None:
        """Wait while the server is busy and its queue holds as many updates as clients can be at work."""
        if self._full:
            self._line = self._line or asyncio.Event()
            await self._line.wait()

    async def _let_go(self, world: World) -> None:
        """Release all waiting clients if the queue has room. One check for all costs less than one for each."""
        await world.settled()  # until the server has taken what it works on next
        if self._line is not None and not self._full:
            self._line.set()
            self._line = None

    @property
    def _full(self) -> bool:
        return self._working and len(self.inbox) >= self.places


def start_pool(world: World, concurrency: int, local: LocalSGD, rounds: int) -> PoolServer:
    """A server with the initial model, and so many clients at work for it until the run ends.

    >>> import paceline
    >>> class Latest(paceline.Algorithm):
    ...     rounds, local = 4, paceline.LocalSGD()
    ...
    ...     async def run(self, world):
    ...         server = start_pool(world, 2, self.local, self.rounds)
    ...         for _ in range(self.rounds):
    ...             await server.aggregate(world, (await server.inbox.get()).trained, 1)
    ...             yield paceline.Progress(server.model)
    >>> paceline.dry(Latest(), {"times": "constant:3", "jitter": 0}, clients=5).times
    [3.0, 3.0, 6.0, 6.0]
    """
    server = PoolServer(world.initial_model(), Mailbox(), concurrency)
    resting = RestingClients(world, concurrency)
    for _ in range(concurrency):
        world.spawn(_keep_working(world, server, resting, local, rounds))
    return server


async def _keep_working(
    world: World, server: PoolServer, resting: RestingClients, local: LocalSGD, rounds: int
) -> None:
    """One place in the pool: a client that is not at work downloads, trains and uploads; then another takes over."""
    while True:
        client = resting.take()
        if client is None:  # hardly anybody is there
            client = await resting.next()
        if client is None:
            if not resting.places:
                raise deserted(world, server.version, rounds)
            return
        start, version = server.model, server.version
        try:
            trained = await visit(world, client, start, local)
        except Dropped as dropped:
            resting.put_back(client, for_good=dropped.gone)
            continue
        resting.put_back(client)
        server.inbox.put(Update(trained, start, version))
        del trained  # the server has it, and nobody else holds it while the next client is at work
        await world.settled()  # the next client starts from what the server makes of this
        await server.keeps_up()


class RestingClients:
    """Draws clients uniformly among those that are online and not at work.

    By rejection, which costs the same however many clients there are, while at most half of them can be at work. In a
    pool with more places hardly anybody would be found so: then a list of those at rest is kept to draw from. In a
    fleet too large to try all clients, those at rest are kept by arrival once no online client was found.
    """

    TRIES = 200

    def __init__(self, world: World, places: int) -> None:
        self._world = world
        self._size = len(world.clients)
        self._rng = world.stream("idle clients")  # an address: another word would draw other clients
        self._drawn: list[int] = []
        self._busy: set[int] = set()
        self._idle = [*world.clients] if 2 * places > self._size else None
        """Those not at work, in any order, where they are too few to be found by rejection."""
        self._here: list[int] = []
        self._coming: list[tuple[float, int]] | None = None
        """Heap of clients at rest by arrival, if it is used. ``_here`` has those that arrived and may have left."""
        self._line = asyncio.Lock()
        self.places = places
        """How many of the pool's places are still served."""

    def take(self) -> int | None:
        """A client that is now at work; None if none is found in many tries."""
        coming, idle = self._coming, self._idle
        client = self._welcome(coming) if coming is not None else self._reject() if idle is None else self._pick(idle)
        if client is not None:
            self._busy.add(client)
        return client

    def _reject(self) -> int | None:
        online, busy, drawn, away = self._world.presence.online, self._busy, self._drawn, set[int]()
        for tried in range(1, self.TRIES + 1):
            client = drawn.pop() if drawn else self._draw()
            if client in busy or client in away:
                continue
            if online(client):
                return client
            away.add(client)
            if len(away) + len(busy) == self._size:  # nobody is left to be asked: the rest is drawn in vain
                for _ in range(self.TRIES - tried):
                    self._draw()
                return None
        return None

    def _draw(self) -> int:
        """Any client. Many are drawn at once, which are the same as one by one."""
        if not self._drawn:
            self._drawn += self._rng.integers(self._size, size=BATCH).tolist()[::-1]
        return self._drawn.pop()

    def _pick(self, idle: list[int]) -> int | None:
        """Without replacement: who was drawn and is away goes to the end of the list and is not drawn again."""
        for left in range(len(idle), max(0, len(idle) - self.TRIES), -1):
            place = int(self._rng.integers(left))
            idle[place], idle[left - 1] = idle[left - 1], idle[place]
            if self._world.presence.online(idle[left - 1]):
                idle[left - 1], idle[-1] = idle[-1], idle[left - 1]
                return idle.pop()
        return None

    def _welcome(self, coming: list[tuple[float, int]]) -> int | None:
        """Return a random client at rest that is online. Clients that have left go back to the heap."""
        here, now = self._here, self._world.now()
        while coming and coming[0][0] <= now:
            here.append(heapq.heappop(coming)[1])
        while here:
            place = int(self._rng.integers(len(here)))
            here[place], here[-1] = here[-1], here[place]
            client = here.pop()
            if self._world.presence.online(client):
                return client
            heapq.heappush(coming, (self._world.presence.expected(client), client))
        return None

    async def next(self) -> int | None:
        """The next client that comes and is not at work; None if none ever will, which closes this place of the pool.

        Places stand in line: all of them at once would look for the one who comes.
        """
        async with self._line:
            while True:
                if (client := self.take()) is not None:
                    return client
                if not await self._somebody_comes():
                    self.places -= 1
                    return None

    async def _somebody_comes(self) -> bool:
        if self._coming is not None:  # nobody is online now
            return bool(self._coming) and await comes(self._world, [self._coming[0][1]])
        everybody = self._world.clients if self._idle is None else self._idle
        resting = [client for client in everybody if client not in self._busy]
        expected = self._world.presence.expected
        if self._size > self.TRIES and resting and not math.isnan(expected(resting[0])):
            self._coming = sorted((expected(client), client) for client in resting)
            return True
        return await comes(self._world, resting) and bool(resting)

    def put_back(self, client: int, for_good: bool = False) -> None:
        """Say that a client has finished its work and may be drawn again, unless it left for good."""
        if for_good:
            return
        self._busy.discard(client)
        if self._coming is not None:
            heapq.heappush(self._coming, (self._world.presence.expected(client), client))
        elif self._idle is not None:
            self._idle.append(client)


def check_pool(concurrency: int, clients: int) -> None:
    """Clients at work are distinct, so there must be as many."""
    require(
        1 <= concurrency <= clients,
        f"concurrency is {concurrency} but there are {clients} clients;"
        " lower algorithm.concurrency or raise `clients`",
    )
