"""A pool of clients at work: what asynchronous algorithms share on the clients' side."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from paceline.algorithms.base import Dropped, Model, World, require, visit
from paceline.errors import SettingError
from paceline.learn.recipe import LocalSGD


class Update(NamedTuple):
    """What a client sends back: the model it made, the one it started from, and that one's version."""

    trained: Model
    start: Model
    version: int


@dataclass(eq=False)
class Server:
    """The current model, how often it has changed, and what has arrived since."""

    model: Model
    inbox: asyncio.Queue[Update]
    version: int = 0

    def replace(self, model: Model) -> None:
        """The next version."""
        self.model = model
        self.version += 1


def start_pool(world: World, concurrency: int, local: LocalSGD) -> Server:
    """A server with the initial model, and so many clients at work for it until the run ends."""
    server = Server(world.initial_model(), asyncio.Queue())
    idle = IdleClients(world)
    for _ in range(concurrency):
        world.spawn(_keep_working(world, server, idle, local))
    return server


async def _keep_working(world: World, server: Server, idle: IdleClients, local: LocalSGD) -> None:
    """One place in the pool: an idle client downloads, trains, uploads; then another takes the place."""
    while True:
        client = idle.take()
        start, version = server.model, server.version
        try:
            trained = await visit(world, client, start, local)
        except Dropped as dropped:
            idle.put_back(client, for_good=dropped.gone)
            continue
        idle.put_back(client)
        server.inbox.put_nowait(Update(trained, start, version))
        await world.settled()  # the next client starts from what the server makes of this


class IdleClients:
    """Draws clients uniformly among those that are online and not at work, by rejection."""

    PATIENCE = 200

    def __init__(self, world: World) -> None:
        self._world = world
        self._size = len(world.clients)
        self._draw = world.stream("idle clients").integers
        self._busy: set[int] = set()

    def take(self) -> int:
        """A client that is now at work; an offline one only if hardly any is online (it will be waited for)."""
        tries = 0
        if len(self._busy) >= self._size:
            raise SettingError(
                f"no client is left to draw: of {self._size}, all are at work or have dropped out for good;"
                " lower algorithm.concurrency, or let devices come back (fleet.availability)"
            )
        while True:
            client = int(self._draw(self._size))
            tries += 1
            if client not in self._busy and (self._world.online(client) or tries > self.PATIENCE):
                self._busy.add(client)
                return client

    def put_back(self, client: int, for_good: bool = False) -> None:
        """The client is idle again, unless it left for good: then it is never drawn again."""
        if not for_good:
            self._busy.discard(client)


def check_pool(rounds: int, concurrency: int, clients: int) -> None:
    """Clients at work are distinct, so there must be as many."""
    require(rounds >= 1, f"rounds is {rounds}; it must be 1 or more")
    require(
        1 <= concurrency <= clients,
        f"concurrency is {concurrency} but there are {clients} clients;"
        " lower algorithm.concurrency or raise `clients`",
    )
