"""Bytes on their way: when both ends are there, how long it takes, and what breaks off.

A device has one uplink and one downlink, each of which carries one transfer at a time; what comes too early stands in
line, and between devices nothing is reserved meanwhile. A server carries any number. Where the fleet has a network,
transfers share it instead, fairly and side by side.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import NamedTuple

from paceline.clock import VirtualLoop
from paceline.errors import Dropped, Severed
from paceline.ledger import Ledger
from paceline.system import Fleet, FreeLinks
from paceline.system.network import Route
from paceline.worlds.diary import Diary
from paceline.worlds.network.flows import Flows
from paceline.worlds.network.lanes import Lanes
from paceline.worlds.simulation.presence import SimulatedPresence

MEETINGS = 1000
"""Windows that two devices may miss each other in before they are taken never to meet."""


class Moved(NamedTuple):
    """What became of a transfer."""

    end: float
    size: float
    joules: float
    lanes: tuple[int, int]


class Transfers:
    """All that is sent in one run."""

    def __init__(
        self, loop: VirtualLoop, fleet: Fleet, presence: SimulatedPresence, ledger: Ledger, diary: Diary
    ) -> None:
        self._loop = loop
        self._fleet = fleet
        self._presence = presence
        self._ledger = ledger
        self._diary = diary
        self._apart: dict[tuple[int, int], float] = {}
        """Pairs that were found never to meet from some time on: that takes long, and need not be found again."""
        self._uplink: dict[int, float] = {}
        self._downlink: dict[int, float] = {}
        self._lanes = Lanes()
        self._lines: Counter[tuple[int, str]] = Counter()
        self._network = fleet.network
        self._safe = fleet.failures.none
        free = isinstance(fleet.links, FreeLinks) and fleet.network is None
        self.at_once = free and presence.steady and self._safe
        """Whether every transfer takes no time and nothing can come in its way: the usual case of large dry runs."""
        self._alarms: dict[float, asyncio.Future[None]] = {}
        self._flows = Flows(loop, fleet.network) if fleet.network is not None else None

    async def carry(self, source: int, target: int, size: float, round: int, *, waits: bool = True) -> None:
        """Move so many bytes; ``Dropped`` or ``Severed`` where an end or the link fails before they are over."""
        now = self._loop.time()
        failing = math.inf if self._safe else self._failing(source, target)
        if failing <= now:
            raise self._broken(source, target)
        if not self._presence.steady and (source >= 0 or target >= 0):
            await self._both_there(source, target, round, failing, waits=waits)
            now = self._loop.time()
        route = self._network.route(source, target) if self._network is not None else None
        start, late = (now, source) if route is not None else self._links_free(source, target, now)
        if start >= failing:
            await self._loop.at(failing)
            raise self._broken(source, target)
        waiting = target if late == source else source
        queues = start > now or (bool(self._lines) and self._lined_up(source, target))
        # A server always has other things to do than to wait for a link.
        waits = waits and queues and waiting >= 0
        question = self._diary.ask(now) if waits else None
        try:
            if route is not None:
                moved = await self._shared(route, source, target, size, failing)
            elif queues and ((source >= 0 and target >= 0) or not self._presence.steady):
                start, moved = await self._in_turn(source, target, size, round, start, failing)
            else:
                moved = self._alone(source, target, size, now, start, failing)
                if moved.end > now:
                    await self._loop.at(moved.end)
            if waits:
                self._diary.book_wait(waiting, now, start, round, late)
        finally:  # what failed, or is in flight when a run ends, is not booked
            if question is not None:
                self._diary.answered(question)
        self._ledger.transfer(source, target, start, moved.end, round, moved.size, moved.joules, moved.lanes)
        if moved.end == failing:
            raise self._broken(source, target)
        if not self._presence.steady:
            self._presence.served(target)

    async def _both_there(self, source: int, target: int, round: int, failing: float, *, waits: bool) -> None:
        """Until both ends are there, as long as the rule for absence allows; who is there meanwhile waits."""
        now = self._loop.time()
        when, late = self._meeting(source, target, now)
        if when <= now:
            return
        if when == math.inf or not self._presence.absence.patience:
            raise Dropped(late, now, when, reason="away")
        question = self._diary.ask(now)
        try:
            if when >= failing:
                await self._loop.at(failing)
                raise self._broken(source, target)
            await self._presence.sleep(late, now, when)
        finally:
            other = target if late == source else source
            if waits and other >= 0:
                self._diary.book_wait(other, now, self._loop.time(), round, late)
            self._diary.answered(question)

    async def _in_turn(
        self, source: int, target: int, size: float, round: int, start: float, failing: float
    ) -> tuple[float, Moved]:
        """As soon as both links are free and both ends are there; returns when that was."""
        start = await self._line_up(source, target, round, start, failing)
        moved = self._alone(source, target, size, self._loop.time(), start, failing)
        if moved.end > self._loop.time():
            await self._loop.at(moved.end)
        return start, moved

    def _lined_up(self, source: int, target: int) -> bool:
        """Whether devices stand in line for either link."""
        return bool(self._lines[source, "up"] or self._lines[target, "down"])

    async def _line_up(self, source: int, target: int, round: int, start: float, failing: float) -> float:
        """Two sites with other transfers on their links: sleep until both are free; returns when that is.

        Nothing is reserved: while one end is busy, the other serves whom it can. So one line does not hold up all.
        Who comes when a link is free lets those go first who stand there already.
        """
        links = (source, "up"), (target, "down")
        self._lines.update(links)
        try:
            while True:
                await self._loop.at(min(start, failing))
                if self._loop.time() >= failing:
                    raise self._broken(source, target)
                if not self._presence.steady:  # one of them may have gone away while it stood in line
                    await self._both_there(source, target, round, failing, waits=False)
                start, _ = self._links_free(source, target, self._loop.time())
                if start <= self._loop.time():
                    return start
        finally:
            for link in links:  # not as counters subtract: they look at all that they hold
                self._lines[link] -= 1
                if not self._lines[link]:
                    del self._lines[link]

    # -- two kinds of transfers ---------------------------------------------------------------------------------

    def _alone(self, source: int, target: int, size: float, now: float, start: float, failing: float) -> Moved:
        """At the rate of its two ends, whatever else is on its way."""
        seconds, joules = self._fleet.links.cost(source, target, size, start)
        end = start + seconds
        if end >= failing:  # as many bytes as have passed by then
            share = (failing - start) / seconds if seconds else 1.0
            end, size, joules = failing, size * share, joules * share
        lanes = (0, 0)
        if end > start:
            lanes = self._occupy(source, target, now, start, end)
        return Moved(end, size, joules, lanes)

    async def _shared(self, route: Route, source: int, target: int, size: float, failing: float) -> Moved:
        """At a fair share of what it passes through."""
        assert self._flows is not None
        lanes = self._lanes.hold(source, "send"), self._lanes.hold(target, "receive")
        flow = self._flows.begin(route, size)
        begun = self._loop.time()
        engaged = [self._diary.open(site, begun) for site in (source, target) if site >= 0]
        try:
            if failing < math.inf:
                await asyncio.wait([flow.done, self._alarm(failing)], return_when=asyncio.FIRST_COMPLETED)
            else:
                await flow.done
            if flow.done.done():
                flow.done.result()  # which may be an error: asyncio.wait raises none
            else:
                size = self._flows.stop(flow)
        except asyncio.CancelledError:
            self._flows.stop(flow)
            raise
        finally:
            self._lanes.release(source, "send", lanes[0])
            self._lanes.release(target, "receive", lanes[1])
            end = self._loop.time()
            for span in engaged:
                span[1] = end
        return Moved(end, size, flow.joules, lanes)

    # -- ends ----------------------------------------------------------------------------------------------------

    def _links_free(self, source: int, target: int, now: float) -> tuple[float, int]:
        """When both ends have their links free, and which of them is waited for."""
        up = self._uplink.get(source, 0.0) if source >= 0 else 0.0
        down = self._downlink.get(target, 0.0) if target >= 0 else 0.0
        return max(now, up, down), source if up >= down else target

    def _meeting(self, source: int, target: int, now: float) -> tuple[float, int]:
        """When both ends are there, and which of them is waited for; infinity if their hours never meet."""
        pair = min(source, target), max(source, target)
        if now >= self._apart.get(pair, math.inf):
            return math.inf, source
        when, late = now, source
        for _ in range(MEETINGS):
            there = self._presence.next_online(source, when), self._presence.next_online(target, when)
            if there == (when, when) or math.inf in there:
                break
            when, late = max(there), source if there[0] >= there[1] else target
        else:
            self._apart[pair] = now
            return math.inf, source
        if math.inf in there:
            return math.inf, source if there[0] == math.inf else target
        return when, late

    def _occupy(self, source: int, target: int, now: float, start: float, end: float) -> tuple[int, int]:
        if source >= 0:
            self._uplink[source] = end
            self._diary.add(source, start, end)
        if target >= 0:
            self._downlink[target] = end
            self._diary.add(target, start, end)
        return (
            0 if source >= 0 else self._lanes.take(source, "send", now, end),
            0 if target >= 0 else self._lanes.take(target, "receive", now, end),
        )

    # -- failures ------------------------------------------------------------------------------------------------

    def _failing(self, source: int, target: int) -> float:
        """When the first of both ends and the link between them fails."""
        failures = self._fleet.failures
        return min(failures.server(source), failures.server(target), failures.link(source, target))

    def _alarm(self, when: float) -> asyncio.Future[None]:
        """One timer for all transfers that end with a failure, not one each."""
        if when not in self._alarms:
            self._alarms[when] = self._loop.at(when)
        return self._alarms[when]

    def _broken(self, source: int, target: int) -> Dropped:
        now = self._loop.time()
        for site in (source, target):
            if self._fleet.failures.server(site) <= now:
                return Dropped(site, now, reason="failed")
        return Severed(source, target, now)
