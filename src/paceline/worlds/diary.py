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


class Diary:
    """Occupied intervals of every site, as far back as somebody may ask."""

    def __init__(self, ledger: Ledger, away: Away | None = None) -> None:
        self._ledger = ledger
        self._away = away
        self._last: dict[int, Interval] = {}
        """What each site did or does last: nearly always all that anybody may ask about."""
        self._others: dict[int, list[Interval | list[float]]] = {}
        """What else of a site may still be asked about."""
        self._open: dict[int, float] = {}
        self._asked = 0
        self._since = math.inf
        """When the oldest of the open questions was asked."""

    def ask(self, now: float) -> int:
        """Somebody will ask about the time from now on; returns the question's number."""
        self._asked = question = self._asked + 1
        self._open[question] = now
        self._since = min(self._since, now)
        return question

    def answered(self, question: int) -> None:
        """Forget a question that nobody asks any more."""
        del self._open[question]
        # Questions are asked in the order of time: the first that is open is the oldest.
        self._since = next(iter(self._open.values()), math.inf)

    def add(self, site: int, start: float, end: float) -> None:
        """The site is occupied from start to end, of which the end may be yet to come."""
        if end <= start:
            return
        last = self._last.get(site)
        if last is not None and last[1] > (self._since if self._since < start else start):
            self._remember(site, last, start)
        self._last[site] = start, end

    def open(self, site: int, start: float) -> list[float]:
        """The site is occupied from now on: start and end, where the end is to be written when it is known."""
        span = [start, math.inf]
        self._remember(site, span, start)
        return span

    def _remember(self, site: int, span: Interval | list[float], now: float) -> None:
        """Keep a span beside the site's last one, and forget those that nobody can ask about any more."""
        others, since = self._others.get(site), min(self._since, now)
        if others is None:
            self._others[site] = [span]
            return
        if others and others[0][1] <= since:
            others[:] = [other for other in others if other[1] > since] if len(others) > 1 else ()
        others.append(span)

    def book_wait(self, site: int, begin: float, end: float, round: int, cause: int) -> None:
        """The site was engaged and waited: book the part of it in which it was there and did nothing else."""
        if end <= begin:
            return
        if self._away is None and self._is_free(site, begin, end):
            self._ledger.wait(site, begin, end, round, cause)
            self.add(site, begin, end)
            return
        for start, stop in self._gaps(site, begin, end):
            self._ledger.wait(site, start, stop, round, cause)
            self.add(site, start, stop)

    def _spans(self, site: int) -> list[Interval | list[float]]:
        last = self._last.get(site)
        return [*self._others.get(site, ())] + ([] if last is None else [last])

    def _is_free(self, site: int, begin: float, end: float) -> bool:
        """Whether the site does nothing between two moments."""
        last = self._last.get(site)
        if last is not None and last[1] > begin and last[0] < end:
            return False
        others = self._others.get(site)
        return not others or all(stop <= begin or start >= end for start, stop in others)

    def _gaps(self, site: int, begin: float, end: float) -> list[Interval]:
        known = [(start, stop) for start, stop in self._spans(site)]
        if self._away is not None and site >= 0:
            known += self._away(site, begin, end)
        if not known:
            return [(begin, end)]
        known.sort()
        found, free = [], begin
        for start, stop in [*known, (end, math.inf)]:
            if start > free:
                found.append((free, min(start, end)))
            free = max(free, stop)
            if free >= end:
                break
        return found
