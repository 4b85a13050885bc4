"""What each site has done lately: so that a wait is booked for time in which it did nothing else, and was there.

A site waits for one thing at a time, never while it works or moves bytes, and never while it is away. Whoever wants
to book a wait says so when it begins (``ask``); what happened since the oldest open question is remembered.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from paceline.ledger import Ledger

Interval = tuple[float, float]
Away = Callable[[int, float, float], list[Interval]]
"""When a site was away between two moments."""


class Days:
    """What one site does: its occupied intervals, and a bound on when the last of them ends."""

    __slots__ = ("latest", "spans")

    def __init__(self, span: list[float]) -> None:
        self.spans = [span]
        self.latest = span[1]

    def are_free(self, begin: float, end: float) -> bool:
        """Whether nothing is done between two moments."""
        return self.latest <= begin or all(stop <= begin or start >= end for start, stop in self.spans)


class Diary:
    """Occupied intervals of every site, as far back as somebody may ask."""

    def __init__(self, ledger: Ledger, away: Away | None = None) -> None:
        self._ledger = ledger
        self._away = away
        self._sites: dict[int, Days] = {}
        self._open: dict[int, float] = {}
        self._asked = 0
        self._since = math.inf
        """When the oldest of the open questions was asked."""

    def ask(self, now: float) -> int:
        """Somebody will ask about the time from now on; returns the question's number."""
        self._asked += 1
        self._open[self._asked] = now
        self._since = min(self._since, now)
        return self._asked

    def answered(self, question: int) -> None:
        """Forget a question that nobody asks any more."""
        del self._open[question]
        # Questions are asked in the order of time: the first that is open is the oldest.
        self._since = next(iter(self._open.values()), math.inf)

    def add(self, site: int, start: float, end: float) -> list[float] | None:
        """The site is occupied from start to end, of which the end may be yet to come.

        Returns start and end: where the end is not known (infinite), it is to be written there when it is.
        """
        if end <= start:
            return None
        added = [start, end]
        days = self._sites.get(site)
        if days is None:
            self._sites[site] = Days(added)
            return added
        spans, since = days.spans, self._since if self._since < start else start
        if spans and spans[0][1] <= since:
            spans[:] = [span for span in spans if span[1] > since] if len(spans) > 1 else ()
        spans.append(added)
        days.latest = max(days.latest, end)
        return added

    def book_wait(self, site: int, begin: float, end: float, round: int, cause: int) -> None:
        """The site was engaged and waited: book the part of it in which it was there and did nothing else."""
        if end <= begin:
            return
        days = self._sites.get(site)
        if self._away is None and (days is None or days.are_free(begin, end)):
            self._ledger.wait(site, begin, end, round, cause)
            self.add(site, begin, end)
            return
        for start, stop in self._gaps(site, begin, end):
            self._ledger.wait(site, start, stop, round, cause)
            self.add(site, start, stop)

    def _gaps(self, site: int, begin: float, end: float) -> list[Interval]:
        days = self._sites.get(site)
        known: list[list[float]] = [] if days is None else list(days.spans)
        if self._away is not None and site >= 0:
            known += [list(interval) for interval in self._away(site, begin, end)]
        if not known:
            return [(begin, end)]
        known.sort()
        found, free = [], begin
        for start, stop in [*known, [end, math.inf]]:
            if start > free:
                found.append((free, min(start, end)))
            free = max(free, stop)
            if free >= end:
                break
        return found
