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
from paceline.worlds.network import crowd as crowds
from paceline.worlds.network.crowd import Crowd
from paceline.worlds.network.flow import Flow, Group, Place

Connected = tuple[list[Flow], list[Crowd]]
PATIENCE = 10_000
"""Divisions without a byte after which a transfer between two traces is called stuck."""


class Flows:
    """All transfers under way on one clock."""

    def __init__(self, loop: VirtualLoop, network: Network) -> None:
        self._loop = loop
        self._network = network
        self._sharing = network.sharing or Sharing()
        self._places: dict[Port, Place] = {}
        self._capacities: dict[Port, float] = {}
        self._serial = 0
        self._events: list[tuple[float, int, Flow | Group]] = []
        self._alarm = math.inf
        self._undivided: dict[Flow, None] = {}
        self._stirred: dict[Crowd, None] = {}
        """Crowds that somebody has left."""

    def begin(self, route: Route, size: float) -> Flow:
        """Start a transfer now; its bytes flow after the route's latency."""
        if not 0 <= size < math.inf:
            raise CostError(f"a transfer has a size of {size!r} bytes; wanted a finite number of at least 0")
        self._serial += 1
        flow = Flow(self._loop, self._serial, route, size)
        # Whoever awaits it may be cancelled, and then nobody else knows that its ports are free.
        flow.done.add_done_callback(lambda done: self._abandoned(flow, done))
        if route.latency > 0:
            self._schedule(self._loop.time() + route.latency, flow)
            self._set_alarm()
        else:
            self._open(flow)
        return flow

    def stop(self, flow: Flow) -> float:
        """Take a transfer out before its end, and cancel its future; the bytes that have arrived."""
        if flow.active:
            self._single_out(flow)
            flow.settle(self._loop.time())
            self._close(flow)
        flow.done.cancel()
        return flow.size - flow.left

    def _abandoned(self, flow: Flow, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            self.stop(flow)

    # -- begin and end ----------------------------------------------------------------------------------------

    def _open(self, flow: Flow) -> None:
        """Let a flow's first byte flow."""
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
            place = Place(key, self._capacity(key) if rate is None else math.nan, rate)
            place.watts = self._network.watts(key) if rate is not None else 0.0
        if rate is not None:
            flow.link = place
        elif key == flow.route.cell:
            flow.cell = place
        elif place.capacity == math.inf:
            return
        self._places[key] = place
        place.flows[flow] = None
        flow.places.append(place)

    def _capacity(self, key: Port) -> float:
        """Of a port that transfers enter again and again: it may have been drawn from a law."""
        found = self._capacities.get(key)
        if found is None:
            found = self._capacities[key] = self._network.capacity(key)
        return found

    def _close(self, flow: Flow) -> None:
        """Let a flow occupy its ports no more."""
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

    def _single_out(self, flow: Flow) -> None:
        """What leaves a crowd is an object again."""
        if flow.crowd is not None:
            self._stir(flow.crowd)
            flow.crowd.release(flow)

    def _stir(self, crowd: Crowd) -> None:
        """Have a crowd's byte rates divided anew."""
        if crowd.group is not None:
            crowd.group.alive, crowd.group = False, None
        self._divide_later((), crowd)

    def _end(self, flow: Flow) -> None:
        flow.left = 0.0
        self._close(flow)
        if not flow.done.done():
            flow.done.set_result(None)

    def _dissolve(self, group: Group) -> None:
        group.alive = False
        for flow in group.flows:
            flow.group = None
        self._divide_later(flow for flow in group.flows if flow.active)

    # -- time -------------------------------------------------------------------------------------------------

    def _schedule(self, when: float, what: Flow | Group) -> None:
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

    def _counts(self, what: Flow | Group) -> bool:
        return what.alive if isinstance(what, Group) else not what.done.done()

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
            elif what.crowd is not None:
                due += what.crowd.due(now)
                self._stir(what.crowd)
            else:
                due += [flow for flow in what.flows if flow.is_due(now)]
                self._dissolve(what)
        for flow in sorted(due, key=_serial):
            self._single_out(flow)
            flow.settle(now)
            self._end(flow)
        self._set_alarm()

    # -- dividing ---------------------------------------------------------------------------------------------

    def _divide_later(self, flows: Iterable[Flow], *crowds: Crowd) -> None:
        """Once at this instant, after all that may still begin or end at it."""
        before = bool(self._undivided or self._stirred)
        self._undivided.update(dict.fromkeys(flows))
        self._stirred.update(dict.fromkeys(crowds))
        if not before and (self._undivided or self._stirred):
            self._loop.call_at(self._loop.time(), self._divide_all)

    def _divide_all(self) -> None:
        now, undivided, stirred = self._loop.time(), self._undivided, self._stirred
        self._undivided, self._stirred = {}, {}
        for crowd in [*stirred]:
            crowd.sweep()
            if len(crowd.flows) <= crowds.MANY // 4 or not crowd.is_whole():
                undivided.update(dict.fromkeys(crowd.release_all()))
                del stirred[crowd]
        seen: set[Flow] = set()
        for flow in sorted(undivided, key=_serial):
            if flow not in seen:
                self._regroup(_connected(flow, seen), stirred, now)
        for crowd in stirred:
            self._divide_crowd(crowd, now)
        self._set_alarm()

    def _regroup(self, found: Connected, stirred: dict[Crowd, None], now: float) -> None:
        """Transfers that are connected with one another, and with the crowds among them, are a group from now on."""
        flows, met = found
        plain = all(not flow.route.links and flow.cell is None for flow in flows)
        for crowd in met:
            self._stir_no_more(crowd, stirred)
        if plain and len(met) == 1:
            for flow in flows:
                self._leave_group(flow, now)
            met[0].join(flows)
            stirred[met[0]] = None
            return
        for crowd in met:
            flows += crowd.release_all()
        group = Group(sorted(flows, key=_serial))
        for member in group.flows:
            self._leave_group(member, now)
            member.group = group
        if plain and len(flows) >= crowds.MANY:
            stirred[Crowd(group.flows)] = None
        else:
            self._divide(group, now)

    def _leave_group(self, flow: Flow, now: float) -> None:
        if flow.group is not None:
            flow.group.alive = False
        flow.settle(now)

    def _stir_no_more(self, crowd: Crowd, stirred: dict[Crowd, None]) -> None:
        """It is met by others, who see to it."""
        stirred.pop(crowd, None)
        if crowd.group is not None:
            crowd.group.alive, crowd.group = False, None

    def _divide_crowd(self, crowd: Crowd, now: float) -> None:
        crowd.group = Group([], crowd)
        self._schedule(crowd.divide(now), crowd.group)

    def _divide(self, group: Group, now: float) -> None:
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
        self._schedule(again, group)

    def _fill(self, flows: list[Flow], now: float) -> float:
        capacities: dict[Place, float] = {}
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


def _connected(first: Flow, seen: set[Flow]) -> Connected:
    """The transfers that share a port with this one, or with one that does, and so on; crowds as a whole."""
    seen.add(first)
    found, places, met = [first], set(), dict[Crowd, None]()
    for flow in found:  # it grows meanwhile
        for place in flow.places:
            if len(place.flows) > 1 and place not in places:
                places.add(place)
                new = [other for other in place.flows if other not in seen]
                crowd = next((other.crowd for other in new if other.crowd is not None), None)
                if crowd is not None:
                    met[crowd] = None
                    new = [other for other in new if other.crowd is None]
                seen.update(new)
                found += new
    return found, [*met]
