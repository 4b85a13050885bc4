"""Who is there on the wall clock: devices whose process answers; others, after a grace period, have gone for good."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from paceline.clock import VirtualLoop
from paceline.errors import Dropped
from paceline.worlds.absence import Absence

GRACE = 60.0
"""Seconds without a sign of life after which a device is taken to have left for good, unless told otherwise."""


class WallPresence:
    """Devices that come and go as their processes do; nobody knows when one comes back."""

    def __init__(
        self,
        loop: VirtualLoop,
        clients: int,
        absence: Absence,
        grace: float = GRACE,
        *,
        there: bool = True,
    ) -> None:
        self.absence = absence
        self.on_absence: Callable[[int, float, float], None] = lambda client, start, end: None
        self._loop = loop
        self._grace = grace
        self._since: dict[int, float] = {} if there else dict.fromkeys(range(clients), 0.0)
        """Who is away, and since when."""
        self._changed: asyncio.Future[None] | None = None

    def now(self) -> float:
        """The time of this instant."""
        return self._loop.time()

    def change(self, client: int, online: bool) -> None:
        """A device has come or gone, at this instant."""
        if online:
            self._since.pop(client, None)
        else:
            self._since.setdefault(client, self._loop.time())
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        self._changed = None

    def away(self) -> list[int]:
        """Return the devices that are not there."""
        return sorted(self._since)

    def online(self, client: int) -> bool:
        """Whether a client can be asked."""
        return client not in self._since

    def expected(self, client: int) -> float:
        """Return nan: when a process answers again is unknown."""
        return math.nan

    async def reach(self, clients: Sequence[int]) -> None:
        """Until the first of these is there; ``Dropped`` when all of them have been away for too long."""
        await self._until(clients, lambda: max(self._since[client] for client in clients) + self._grace)

    async def attend(self, site: int) -> None:
        """Until a site is there, as long as the rule for absence allows."""
        if site < 0 or self.online(site):
            return
        begin = self._loop.time()
        if not self.absence.patience:
            raise Dropped(site, begin, reason="away", gone=self.gone(site))
        latest = begin + self.absence.patience
        await self._until([site], lambda: min(latest, self._since[site] + self._grace))
        self.on_absence(site, begin, self._loop.time())

    async def _until(self, clients: Sequence[int], latest: Callable[[], float]) -> None:
        while clients and not any(map(self.online, clients)):
            now, end = self._loop.time(), latest()
            if now >= end:
                raise Dropped(clients[0], now, reason="late", gone=all(map(self.gone, clients)))
            if self._changed is None:
                self._changed = self._loop.create_future()
            waiting: list[asyncio.Future[None]] = [self._changed]
            if end < math.inf:
                waiting.append(self._loop.at(end))
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)

    def gone(self, client: int) -> bool:
        """Whether it has been away for longer than anybody waits."""
        return client in self._since and self._loop.time() >= self._since[client] + self._grace
