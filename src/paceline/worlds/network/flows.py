"""Transfers under way that share a network: who has which rate when, and when each has ended.

Rates are max-min fair: nobody's can be raised without lowering one that is no higher. They change when a transfer
begins or ends and when a recorded link changes, and only for the transfers that are connected with that one through
ports they share: these are a *group*, which is dissolved and divided anew. What happens at one instant is divided
once, after all else that happens at it. A device's watts each way are those of all its transfers together, in equal
parts; a server's end of a link has its own for every transfer, as without sharing.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Iterable

from paceline.clock import VirtualLoop
from paceline.errors import CostError
from paceline.system.network import Network, Port, Rate, Route, Sharing, fair_rates

PATIENCE = 10_000
"""Divisions without a byte after which a transfer between two traces is called stuck."""
_ROUNDING = 2.0**-48
"""Share of the time within which a transfer's end is now."""


class _Place:
    """A port while transfers pass it."""

    __slots__ = ("capacity", "devices", "flows", "key", "rate", "until", "watts")

    def __init__(self, key: Port, capacity: float, rate: Rate | None = None) -> None:
        self.key = key
        self.capacity = capacity
        self.rate = rate
        self.watts = 0.0
        """Of a device's link, whose transfers have them together."""
        self.until = -math.inf
        self.flows: dict[Flow, None] = {}
        self.devices: dict[_Place, int] = {}
        """Of a cell: the links of the devices active in it, and how many transfers each has there."""


class Flow:
    """One transfer on its way."""

    __slots__ = (
        "_joules",
        "_loop",
        "active",
        "alone",
        "cell",
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
        self._joules = 0.0
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
        self.places: list[_Place] = []
        self.link: _Place | None = None
        self.cell: _Place | None = None
        self.group: _Group | None = None

    @property
    def joules(self) -> float:
        """Energy of both ends so far, from the first byte on; nan where nobody defined a power.

        Silence in a recording counts, as it does for links that are not shared.
        """
        return self._joules + self.power * (self._loop.time() - self.since if self.active else 0.0)

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
        self._joules += self.power * (now - self.since)
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

    def limits(self, capacities: dict[_Place, float]) -> tuple[float, list[_Place]]:
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
        return self.due - now <= _ROUNDING * max(now, 1.0)


class _Group:
    """Transfers that were divided together, and still are."""

    __slots__ = ("alive", "flows")

    def __init__(self, flows: list[Flow]) -> None:
        self.flows = flows
        self.alive = True


class Flows:
    """All transfers under way on one clock."""

    def __init__(self, loop: VirtualLoop, network: Network) -> None:
        self._loop = loop
        self._network = network
        self._sharing = network.sharing or Sharing()
        self._places: dict[Port, _Place] = {}
        self._serial = 0
        self._events: list[tuple[float, int, Flow | _Group]] = []
        self._alarm = math.inf
        self._undivided: dict[Flow, None] = {}

    def begin(self, route: Route, size: float) -> Flow:
        """Start a transfer now; its bytes flow after the route's latency."""
        if not 0 <= size < math.inf:
            raise CostError(f"a transfer has a size of {size!r} bytes; wanted a finite number of at least 0")
        self._serial += 1
        flow = Flow(self._loop, self._serial, route, size)
        # Whoever awaits it may be cancelled, and then nobody else knows that its ports are free.
        flow.done.add_done_callback(lambda done: self._abandoned(flow, done))
        if route.latency > 0:
            self._plan(self._loop.time() + route.latency, flow)
            self._set_alarm()
        else:
            self._open(flow)
        return flow

    def stop(self, flow: Flow) -> float:
        """Take a transfer out before its end, and cancel its future; the bytes that have arrived."""
        if flow.active:
            flow.settle(self._loop.time())
            self._close(flow)
        flow.done.cancel()
        return flow.size - flow.left

    def _abandoned(self, flow: Flow, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            self.stop(flow)

    # -- begin and end ----------------------------------------------------------------------------------------

    def _open(self, flow: Flow) -> None:
        """The first byte may flow."""
        flow.since = self._loop.time()
        if flow.size > 0:
            for key in flow.route.ports:
                self._enter(flow, key, None)
            for key, rate in flow.route.links:
                self._enter(flow, key, rate)
        if not flow.places:  # nothing to move, or nothing that limits it
            flow.left = 0.0
            flow.done.set_result(None)
            return
        flow.free = len(flow.route.links) == 1 and all(p.rate or p.capacity == math.inf for p in flow.places)
        if flow.cell is not None:
            assert flow.link is not None
            flow.cell.devices[flow.link] = flow.cell.devices.get(flow.link, 0) + 1
        flow.active = True
        self._divide_later((flow,))

    def _enter(self, flow: Flow, key: Port, rate: Rate | None) -> None:
        place = self._places.get(key)
        if place is None:
            place = _Place(key, self._network.capacity(key) if rate is None else math.nan, rate)
            place.watts = self._network.watts(key)
        if rate is not None:
            flow.link = place
        elif key == flow.route.cell:
            flow.cell = place
        elif place.capacity == math.inf:
            return
        self._places[key] = place
        place.flows[flow] = None
        flow.places.append(place)

    def _close(self, flow: Flow) -> None:
        """It occupies nothing any more."""
        flow.active = False
        if flow.cell is not None and flow.link is not None:
            flow.cell.devices[flow.link] -= 1
            if not flow.cell.devices[flow.link]:
                del flow.cell.devices[flow.link]
        for place in flow.places:
            del place.flows[flow]
            if not place.flows:
                del self._places[place.key]
        self._undivided.pop(flow, None)
        if flow.group is not None:
            self._dissolve(flow.group)

    def _end(self, flow: Flow) -> None:
        flow.left = 0.0
        self._close(flow)
        if not flow.done.done():
            flow.done.set_result(None)

    def _dissolve(self, group: _Group) -> None:
        group.alive = False
        for flow in group.flows:
            flow.group = None
        self._divide_later(flow for flow in group.flows if flow.active)

    # -- time -------------------------------------------------------------------------------------------------

    def _plan(self, when: float, what: Flow | _Group) -> None:
        self._serial += 1
        heapq.heappush(self._events, (when, self._serial, what))

    def _set_alarm(self) -> None:
        """One timer of the loop for the next event that counts."""
        events = self._events
        while events and not self._counts(events[0][2]):
            heapq.heappop(events)
        if events and events[0][0] < self._alarm:
            self._alarm = events[0][0]
            self._loop.call_at(self._alarm, self._wake)

    def _counts(self, what: Flow | _Group) -> bool:
        return what.alive if isinstance(what, _Group) else not what.done.done()

    def _wake(self) -> None:
        now = self._loop.time()
        if now < self._alarm:
            return  # an alarm for something that has changed since
        self._alarm = math.inf
        due: list[Flow] = []
        while self._events and self._events[0][0] <= now:
            what = heapq.heappop(self._events)[2]
            if not self._counts(what):
                continue
            if isinstance(what, Flow):
                self._open(what)
            else:
                due += [flow for flow in what.flows if flow.is_due(now)]
                self._dissolve(what)
        for flow in sorted(due, key=_serial):
            flow.settle(now)
            self._end(flow)
        self._set_alarm()

    # -- dividing ---------------------------------------------------------------------------------------------

    def _divide_later(self, flows: Iterable[Flow]) -> None:
        """Once at this instant, after all that may still begin or end at it."""
        before = len(self._undivided)
        self._undivided.update(dict.fromkeys(flows))
        if not before and self._undivided:
            self._loop.call_at(self._loop.time(), self._divide_all)

    def _divide_all(self) -> None:
        now, undivided = self._loop.time(), self._undivided
        self._undivided = {}
        seen: set[Flow] = set()
        for flow in sorted(undivided, key=_serial):
            if flow not in seen:
                group = _Group(sorted(_connected(flow, seen), key=_serial))
                for member in group.flows:
                    if member.group is not None:
                        member.group.alive = False
                    member.group = group
                    member.settle(now)
                self._divide(group, now)
        self._set_alarm()

    def _divide(self, group: _Group, now: float) -> None:
        """New rates for a group, and when to look at it again."""
        again, others = math.inf, []
        for flow in group.flows:
            # Less what a device's other transfers bear.
            flow.power = flow.route.watts - sum(place.watts * (1 - 1 / len(place.flows)) for place in flow.places)
            if flow.cell is not None and flow.link is not None:
                devices = flow.cell.devices
                flow.part = self._sharing.share(len(devices)) / devices[flow.link]
            flow.alone = flow.free and flow.link is not None and len(flow.link.flows) == 1
            if flow.alone:
                again = min(again, flow.ride(now))
            else:
                others.append(flow)
                again = min(again, flow.refresh(now))
        if others:
            again = min(again, self._fill(others, now))
        self._plan(again, group)

    def _fill(self, flows: list[Flow], now: float) -> float:
        capacities: dict[_Place, float] = {}
        limits = [flow.limits(capacities) for flow in flows]
        again = math.inf
        for flow, rate in zip(flows, fair_rates(limits, capacities), strict=True):
            flow.rate = rate
            if rate > 0:
                flow.due = now + flow.left / rate
                flow.silent = 0
            else:
                flow.due = math.inf if flow.left > 0 else now
                flow.silent += 1
                self._check_patience(flow)
            again = min(again, flow.due)
        return again

    def _check_patience(self, flow: Flow) -> None:
        # One trace moves some day, as every trace does; two may never be open together.
        if flow.silent > PATIENCE and len(flow.route.links) > 1:
            ends = " and ".join(str(key[1]) for key, _ in flow.route.links)
            problem = (
                f"a transfer of {flow.size:g} bytes between devices {ends} is stuck after {flow.seconds:.0f} s; "
            )
            self._close(flow)
            flow.done.set_exception(CostError(problem + "their traces are hardly ever open together: use others"))


def _serial(flow: Flow) -> int:
    return flow.serial


def _connected(first: Flow, seen: set[Flow]) -> list[Flow]:
    """The transfers that share a port with this one, or with one that does, and so on."""
    seen.add(first)
    found, places = [first], set()
    for flow in found:  # it grows meanwhile
        for place in flow.places:
            if len(place.flows) > 1 and place not in places:
                places.add(place)
                new = [other for other in place.flows if other not in seen]
                seen.update(new)
                found += new
    return found
