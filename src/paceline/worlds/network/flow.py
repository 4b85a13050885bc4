"""One transfer under way, the ports that it passes, and the group with which it shares them.

What happens to them, and when, is decided in ``flows``.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from paceline.clock import VirtualLoop
from paceline.system.network import Port, Rate, Route

if TYPE_CHECKING:
    from paceline.worlds.network.crowd import Crowd

ROUNDING = 2.0**-48
"""Share of the time within which a transfer's end is now."""


class Place:
    """A port while transfers pass it: what it carries at most, and which transfers these are."""

    __slots__ = ("capacity", "devices", "flows", "key", "rate", "until", "watts")

    def __init__(self, key: Port, capacity: float, rate: Rate | None = None) -> None:
        self.key = key
        self.capacity = capacity
        self.rate = rate
        self.watts = 0.0
        """Of a device's link, whose transfers have them together."""
        self.until = -math.inf
        self.flows: dict[Flow, None] = {}
        self.devices: dict[Place, int] = {}
        """Of a cell: the links of the devices active in it, and how many transfers each has there."""


class Flow:
    """One transfer on its way: how much of it is left, at which rate it moves, and when it will have ended."""

    __slots__ = (
        "_loop",
        "active",
        "alone",
        "cell",
        "crowd",
        "done",
        "due",
        "free",
        "group",
        "left",
        "link",
        "part",
        "places",
        "power",
        "rate",
        "route",
        "seconds",
        "serial",
        "silent",
        "since",
        "size",
        "spent",
    )

    def __init__(self, loop: VirtualLoop, serial: int, route: Route, size: float) -> None:
        self._loop = loop
        self.serial = serial
        self.route = route
        self.size = size
        self.done: asyncio.Future[None] = asyncio.Future(loop=loop)
        """Done when the last byte has arrived; cancelled if the transfer was stopped."""
        self.active = False
        self.left = size
        self.seconds = 0.0
        self.power = route.watts
        self.spent = 0.0
        """Joules up to the last time that they were counted."""
        self.since = 0.0
        self.rate = 0.0
        self.part = 1.0
        """Of its device's link, in a cell."""
        self.free = False
        """Nothing limits it but its device's link and its part of a cell."""
        self.alone = False
        """It is free and has the link to itself, so that no change of the link's rate need be waited for."""
        self.due = math.inf
        self.silent = 0
        self.places: list[Place] = []
        self.link: Place | None = None
        self.cell: Place | None = None
        self.group: Group | None = None
        self.crowd: Crowd | None = None
        """Where its numbers are while it is one of very many."""

    @property
    def joules(self) -> float:
        """Energy of both ends so far, from the first byte on; nan where nobody defined a power.

        Silence in a recording counts, as it does for links that are not shared.
        """
        return self.spent + self.power * (self._loop.time() - self.since if self.active else 0.0)

    def settle(self, now: float) -> None:
        """Count what has passed since the last time."""
        if now <= self.since:
            return
        if self.is_due(now):
            self.left = 0.0
        elif self.alone:
            assert self.link is not None and self.link.rate is not None
            self.left = max(self.left - self.part * self.link.rate.moved(self.since, now), 0.0)
        else:
            self.left = max(self.left - self.rate * (now - self.since), 0.0)
        self.seconds += now - self.since
        self.spent += self.power * (now - self.since)
        self.since = now

    def ride(self, now: float) -> float:
        """When it ends if it stays alone."""
        assert self.link is not None and self.link.rate is not None
        self.due = now + self.link.rate.seconds(self.left / self.part, now)
        return self.due

    def refresh(self, now: float) -> float:
        """Look at the links' rates; until when all of them hold."""
        until = math.inf
        for place in self.places:
            if place.rate is not None:
                if place.until <= now:
                    place.capacity, place.until = place.rate.at(now)
                until = min(until, place.until)
        return until

    def limits(self, capacities: dict[Place, float]) -> tuple[float, list[Place]]:
        """The most that it may have whatever others do, and the ports that it shares."""
        most, shared = math.inf, []
        for place in self.places:
            if len(place.flows) > 1:
                shared.append(place)
                capacities[place] = place.capacity
            elif place.capacity < most:
                most = place.capacity
        if self.cell is not None and self.link is not None:
            most = min(most, self.part * self.link.capacity)
        return most, shared

    def is_due(self, now: float) -> bool:
        """Whether the last byte arrives now, as far as a clock of 53 bits can tell."""
        return self.due - now <= ROUNDING * max(now, 1.0)


class Group:
    """Transfers that were divided together, and still are."""

    __slots__ = ("alive", "crowd", "flows")

    def __init__(self, flows: list[Flow], crowd: Crowd | None = None) -> None:
        self.flows = flows
        self.crowd = crowd
        """Where they are instead, if they are very many."""
        self.alive = True
