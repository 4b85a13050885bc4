"""Who is there: what an availability says, and the memory that it does not have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from paceline.clock import VirtualLoop
from paceline.errors import Dropped
from paceline.system import AlwaysOn, Availability, Leave
from paceline.system.availability import staying
from paceline.worlds.absence import Absence

GLIMPSES = 10_000
"""Most times that a device is followed in and out through one interval."""


class SimulatedPresence:
    """Devices that come and go; servers are always there."""

    def __init__(self, loop: VirtualLoop, availability: Availability, absence: Absence) -> None:
        self.steady = isinstance(availability, AlwaysOn)
        """Nobody ever goes: nothing need be asked."""
        self.absence = absence
        self.on_absence: Callable[[int, float, float], None] = lambda client, start, end: None
        """Called with a client that was waited for while it was away, and from when to when that was: such time is no
        waiting of its branch."""
        self._loop = loop
        self._availability = availability
        self._staying = staying(availability)
        self._back: dict[int, float] = {}
        self._served: set[int] = set()
        self._resuming: set[int] = set()

    # -- what an algorithm asks -------------------------------------------------------------------------------------

    def online(self, client: int) -> bool:
        """Whether a client could start now."""
        return self.steady or self.next_online(client, self._loop.now) <= self._loop.now

    def expected(self, client: int) -> float:
        """Return when a client can start next."""
        return self.next_online(client, self._loop.now)

    async def reach(self, clients: Sequence[int]) -> None:
        """Sleep until the first of these is there."""
        if self.steady or not clients:
            return
        now = self._loop.time()
        when = math.inf
        for client in clients:
            when = min(when, self.next_online(client, now))
            if when <= now:  # the cost does not grow with the number of clients
                return
        if when == math.inf:
            raise Dropped(clients[0], now, None, reason="away")
        await self._loop.at(when)
        if len(clients) == 1:
            self.on_absence(clients[0], now, when)

    # -- what the simulation asks -----------------------------------------------------------------------------------

    async def attend(self, site: int) -> None:
        """Sleep until a site is there, as long as the rule for absence allows; else it has dropped out."""
        if self.steady or site < 0:
            return
        now = self._loop.time()
        when = self.next_online(site, now)
        if when <= now:
            return
        if when == math.inf or not self.absence.patience:
            raise Dropped(site, now, when, reason="away")
        await self.sleep(site, now, when)

    async def sleep(self, site: int, since: float, when: float) -> None:
        """Sleep until a site is back at ``when``, or, where that is too late, until nobody waits any more."""
        latest = since + self.absence.patience
        await self._loop.at(min(when, latest))
        self.on_absence(site, since, self._loop.time())
        if when > latest:
            raise Dropped(site, latest, when, reason="late")

    def next_online(self, site: int, when: float) -> float:
        """The earliest time from ``when`` on at which a site is there, or infinity."""
        if site < 0:
            return when
        when = max(when, self._back.get(site, 0.0))
        return when if when == math.inf else self._availability.next_online(site, when)

    def away(self, site: int, begin: float, end: float) -> list[tuple[float, float]]:
        """The parts of this time in which a device was away by its hours; leaves in mid-visit are told elsewhere."""
        found, at = [], begin
        for _ in range(GLIMPSES):
            there = self._availability.next_online(site, at)
            if there > at:
                found.append((at, min(there, end)))
            if there >= end:
                break
            at = self._availability.online_until(site, there)
            if at >= end:
                break
        return found

    def served(self, site: int) -> None:
        """A model has come: the device may vanish with it."""
        self._served.add(site)

    def leave(self, device: int, visit: int, start: float, seconds: float) -> Leave | None:
        """Whether a device goes away during a visit.

        One that vanishes as soon as it has the model does that visit when it is back (``resumes`` says so), and can
        only vanish so if a model has come since its last visit.
        """
        vanishes = device in self._served and device not in self._resuming
        self._served.discard(device)
        self._resuming.discard(device)
        availability = self._availability if vanishes else self._staying
        leave = availability.leaves(device, visit, start, seconds)
        if leave is None or (leave.at == start and not vanishes):
            return None
        if leave.at == start:
            self._resuming.add(device)
        return leave

    def left(self, device: int, back: float) -> None:
        """The device has gone, and is back then."""
        self._back[device] = back

    def resumes(self, device: int) -> bool:
        """Whether the device's next visit is the one that it had not begun."""
        return device in self._resuming
