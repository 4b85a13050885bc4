"""A pool of clients at work: what asynchronous algorithms share on the clients' side."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from paceline.algorithms.base import Dropped, Model, World, comes, deserted, require, visit
from paceline.learn.recipe import LocalSGD


class Update(NamedTuple):
    """What a client sends back: the model it made, the one it started from, and that one's version."""

    trained: Model
    start: Model
    version: int


@dataclass(eq=False)
class PoolServer:
    """The server of a pool: the current model, how often it has changed, and what has arrived since."""

    model: Model
    inbox: asyncio.Queue[Update]
    version: int = 0

    def replace(self, model: Model) -> None:
        """The next version."""
        self.model = model
        self.version += 1


def start_pool(world: World, concurrency: int, local: LocalSGD, rounds: int) -> PoolServer:
    """A server with the initial model, and so many clients at work for it until the run ends.

    >>> import paceline
    >>> class Latest(paceline.Algorithm):
    ...     rounds, local = 4, paceline.LocalSGD()
    ...     async def run(self, world):
    ...         server = start_pool(world, 2, self.local, self.rounds)
    ...         for _ in range(self.rounds):
    ...             server.replace((await server.inbox.get()).trained)
    ...             yield paceline.Progress(server.model)
    >>> paceline.dry(Latest(), {"times": "constant:3", "jitter": 0}, clients=5).times
    [3.0, 3.0, 6.0, 6.0]
    """
    server = PoolServer(world.initial_model(), asyncio.Queue())
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
        server.inbox.put_nowait(Update(trained, start, version))
        del trained  # the server has it, and nobody else holds it while the next client is at work
        await world.settled()  # the next client starts from what the server makes of this


class RestingClients:
    """Draws clients uniformly among those that are online and not at work, by rejection."""

    TRIES = 200

    def __init__(self, world: World, places: int) -> None:
        self._world = world
        self._size = len(world.clients)
        self._draw = world.stream("idle clients").integers  # an address: another word would draw other clients
        self._busy: set[int] = set()
        self._line = asyncio.Lock()
        self.places = places
        """How many of the pool's places are still served."""

    def take(self) -> int | None:
        """A client that is now at work; None if none is found in many tries."""
        online, away = self._world.presence.online, set[int]()
        for tried in range(1, self.TRIES + 1):
            client = int(self._draw(self._size))
            if client in self._busy or client in away:
                continue
            if online(client):
                self._busy.add(client)
                return client
            away.add(client)
            if len(away) + len(self._busy) == self._size:  # nobody is left to be asked: the rest is drawn in vain
                self._draw(self._size, size=self.TRIES - tried)
                return None
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
        resting = [client for client in self._world.clients if client not in self._busy]
        return await comes(self._world, resting) and bool(resting)

    def put_back(self, client: int, for_good: bool = False) -> None:
        """Say that a client has finished its work and may be drawn again, unless it left for good."""
        if not for_good:
            self._busy.discard(client)


def check_pool(concurrency: int, clients: int) -> None:
    """Clients at work are distinct, so there must be as many."""
    require(
        1 <= concurrency <= clients,
        f"concurrency is {concurrency} but there are {clients} clients;"
        " lower algorithm.concurrency or raise `clients`",
    )
