"""Who is there: what an availability says, and the memory that it does not have."""

from __future__ import annotations

import math

from paceline.errors import Dropped
from paceline.system import AlwaysOn, Availability, Leave
from paceline.system.availability import staying


class Presence:
    """Devices that come and go; servers are always there."""

    def __init__(self, availability: Availability) -> None:
        self.steady = isinstance(availability, AlwaysOn)
        """Nobody ever goes: nothing need be asked."""
        self._availability = availability
        self._staying = staying(availability)
        self._back: dict[int, float] = {}
        self._served: set[int] = set()
        self._resuming: set[int] = set()

    def next_online(self, site: int, when: float) -> float:
        """The earliest time from ``when`` on at which a site is there, or infinity."""
        if site < 0:
            return when
        when = max(when, self._back.get(site, 0.0))
        return when if when == math.inf else self._availability.next_online(site, when)

    def reachable(self, site: int, when: float, now: float) -> float:
        """The same for someone who must be there: whoever never will be has dropped out."""
        when = self.next_online(site, when)
        if when == math.inf:
            raise Dropped(site, now, None)
        return when

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
