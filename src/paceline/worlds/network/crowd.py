"""A large group of transfers as columns: the same arithmetic as one by one, for all of them at once.

On a complete graph of servers thousands of transfers are connected, and every beginning and every end divides all of
them anew. What each of them needs is a few numbers; here these are arrays. Results have the same bits as those of
``flows`` and ``fair_rates``: every operation on a number is the same, and those on one port come in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from paceline.system.network import TIES, Port
from paceline.worlds.network.flow import ROUNDING, Flow, Group

MANY = 100
"""Transfers that are worth columns; a group that has shrunk to a quarter of it becomes objects again."""
HOPS = 30
"""Steps from port to port after which a crowd is taken to have fallen apart; whoever looks closer finds out."""
STEPS = 4
"""Levels of a division after which transfers are sorted by their ports, for there will be many more."""
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Crowd:
    """Transfers that limit each other only by ports of constant capacity, and are all connected."""

    def __init__(self, flows: Sequence[Flow]) -> None:
        self.flows: list[Flow] = []
        """In the order in which they began, as all columns are."""
        self.group: Group | None = None
        """What stands for the crowd among the events."""
        self._index: dict[Port, int] = {}
        self._capacity: Floats = np.array([math.inf])
        """By port; the first is none at all, for transfers that pass fewer than others."""
        self._ports: Indices = np.zeros((0, 1), np.intp)
        self._numbers: Floats = np.zeros((5, 0))
        """Left, rate, since, due and joules spent of each, as ``Flow`` has them."""
        self._power: Floats = np.zeros(0)
        self._serials: Indices = np.zeros(0, np.intp)
        self._gone: list[int] = []
        """Rows of those that were released."""
        self.join(flows)

    # -- who is in it ------------------------------------------------------------------------------------------------

    def join(self, flows: Sequence[Flow]) -> None:
        """Let more flows join the crowd."""
        self.sweep()
        new: list[float] = []
        ports = [self._ports_of(flow, new) for flow in flows]
        self._capacity = np.concatenate([self._capacity, new])
        width = max(self._ports.shape[1], *map(len, ports))
        rows = np.array([row + [0] * (width - len(row)) for row in ports], np.intp)
        old = np.pad(self._ports, ((0, 0), (0, width - self._ports.shape[1])))
        numbers = [(flow.left, flow.rate, flow.since, flow.due, flow.spent) for flow in flows]
        serials = np.concatenate([self._serials, [flow.serial for flow in flows]])
        order = np.argsort(serials, kind="stable")
        everybody = [*self.flows, *flows]
        self.flows = [everybody[k] for k in order.tolist()]
        self._serials = serials[order]
        self._ports = np.concatenate([old, rows])[order]
        self._numbers = np.concatenate([self._numbers, np.array(numbers).T], axis=1)[:, order]
        self._power = np.concatenate([self._power, [flow.power for flow in flows]])[order]
        for flow in flows:
            flow.crowd, flow.group = self, None

    def _ports_of(self, flow: Flow, new: list[float]) -> list[int]:
        """The numbers of the ports that it passes; capacities of ``new`` ones are added to these."""
        for place in flow.places:
            if place.key not in self._index:
                self._index[place.key] = len(self._index) + 1
                new.append(place.capacity)
        return [self._index[place.key] for place in flow.places]

    def due(self, now: float) -> list[Flow]:
        """Those whose last byte arrives now."""
        return list(compress(self.flows, self._are_due(now).tolist()))

    def _are_due(self, now: float) -> Mask:
        found: Mask = self._numbers[3] - now <= ROUNDING * max(now, 1.0)
        return found

    def release(self, flow: Flow) -> None:
        """One of them is an object again; it stays in the columns until ``sweep``."""
        row = int(np.searchsorted(self._serials, flow.serial))
        self._gone.append(row)
        self._write_back(flow, self._numbers[:, row].tolist())

    def release_all(self) -> list[Flow]:
        """All that are left of it, as objects."""
        self.sweep()
        for flow, numbers in zip(self.flows, self._numbers.T.tolist(), strict=True):
            self._write_back(flow, numbers)
        released, self.flows = self.flows, []
        return released

    def _write_back(self, flow: Flow, numbers: list[float]) -> None:
        flow.left, flow.rate, flow.since, flow.due, flow.spent = numbers
        flow.crowd = None

    def sweep(self) -> None:
        """Forget the flows that were released."""
        if self._gone:
            here = np.ones(len(self.flows), bool)
            here[self._gone] = False
            self._gone = []
            self.flows = list(compress(self.flows, here.tolist()))
            self._ports, self._power, self._serials = self._ports[here], self._power[here], self._serials[here]
            self._numbers = self._numbers[:, here]

    def is_whole(self) -> bool:
        """Whether all are still connected through ports that they share."""
        shared = self._counts() > 1
        passing = shared[self._ports]
        reached = np.zeros(len(shared), bool)
        hit = np.arange(len(self.flows)) == 0
        for _ in range(HOPS):
            reached[self._ports[hit][passing[hit]]] = True
            further = hit | (reached[self._ports] & passing).any(axis=1)
            if further.all() or np.array_equal(further, hit):
                return bool(further.all())
            hit = further
        return False

    # -- time --------------------------------------------------------------------------------------------------------

    def divide(self, now: float) -> float:
        """Count what has passed, and give all of them new rates; when the first of them ends."""
        self._settle(now)
        left, rate, _, due, _ = self._numbers
        rate[:] = self._fair_rates()
        with np.errstate(divide="ignore", invalid="ignore"):
            due[:] = np.where(rate > 0, now + left / rate, np.where(left > 0, math.inf, now))
        return float(due.min())

    def _settle(self, now: float) -> None:
        left, rate, since, _, spent = self._numbers
        later = since < now
        passed = np.where(later, now - since, 0.0)
        moved = np.where(self._are_due(now), 0.0, np.maximum(left - rate * passed, 0.0))
        left[:] = np.where(later, moved, left)
        spent[:] = np.where(later, spent + self._power * passed, spent)
        since[:] = np.where(later, now, since)

    def _counts(self) -> Indices:
        """How many pass each port."""
        counts: Indices = np.bincount(self._ports.ravel(), minlength=len(self._capacity))
        counts[0] = 0
        return counts

    def _fair_rates(self) -> Floats:
        """Compute what ``fair_rates`` would, for all flows of the crowd at once."""
        counts = self._counts()
        shared = counts > 1
        passing = shared[self._ports]
        own = np.where(passing, math.inf, self._capacity[self._ports]).min(axis=1)
        return _Filling(self._ports, passing, own, self._capacity, np.where(shared, counts, 0)).rates


class _Filling:
    """Progressive filling, level by level."""

    def __init__(self, ports: Indices, passing: Mask, own: Floats, capacity: Floats, number: Indices) -> None:
        self.rates = np.full(len(own), math.inf)
        self._ports, self._passing = ports, passing
        self._left, self._number = capacity.copy(), number
        self._open = np.ones(len(own), bool)
        self._steps = 0
        slow = np.argsort(own, kind="stable")
        limits, at, unfixed, live = own[slow], 0, len(own), np.flatnonzero(number)
        while unfixed:
            left, number = self._left[live], self._number[live]
            level = np.minimum.reduce(left / number) if len(live) else math.inf
            reach = int(limits.searchsorted(level, side="right"))
            chosen = slow[at:reach]
            chosen, at = chosen[self._open[chosen]], max(at, reach)
            if len(chosen):
                self._fix(chosen, own[chosen])
            else:
                chosen = self._through_any(live[left <= level * number * TIES])
                self._fix(chosen, level)
            unfixed -= len(chosen)
            live = live[self._number[live] > 0]

    def _through_any(self, ports: Indices) -> Indices:
        """Those without a rate that pass any of these ports, each once.

        As a rule there are one or two levels, and to look at all transfers is cheaper than to sort them by ports.
        """
        self._steps += 1
        if self._steps < STEPS:
            full = np.zeros(len(self._left), bool)
            full[ports] = True
            return np.flatnonzero(full[self._ports].any(axis=1) & self._open)
        if self._steps == STEPS:
            self._through, self._starts = _by_port(self._ports, len(self._left))
        spans = [self._through[self._starts[port] : self._starts[port + 1]] for port in ports.tolist()]
        if len(spans) == 1:
            return spans[0][self._open[spans[0]]]
        found = np.zeros(len(self._open), bool)
        found[np.concatenate(spans)] = True
        return np.flatnonzero(found & self._open)

    def _fix(self, chosen: Indices, rates: Floats | float) -> None:
        self.rates[chosen] = rates
        self._open[chosen] = False
        passing = self._passing[chosen]
        ports = self._ports[chosen][passing]
        each = rates if isinstance(rates, float) else rates.repeat(passing.sum(axis=1))
        # One by one, as ``fair_rates`` does: k times a rate is not the same bits as taking it away k times.
        np.subtract.at(self._left, ports, each)
        np.subtract.at(self._number, ports, 1)


def _by_port(ports: Indices, count: int) -> tuple[Indices, Indices]:
    """All transfers, those of one port together, and where each port's begin."""
    flat = ports.ravel()
    small = flat.astype(np.uint16) if count < 1 << 16 else flat  # which are sorted faster
    through = np.argsort(small, kind="stable") // ports.shape[1]
    starts = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=count))])
    return through, starts
