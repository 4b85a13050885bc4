"""What each site has done lately: so that a wait is booked for time in which it did nothing else, and was there.

A site waits for one thing at a time, never while it works or moves bytes, and never while it is away. Whoever wants
to book a wait says so when it begins (``ask``); what happened since the oldest open question is remembered.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable

from paceline.ledger import Ledger

Interval = tuple[float, float]
Away = Callable[[int, float, float], list[Interval]]
"""When a site was away between two moments."""


class Spans:
    """A site's occupied time: few ordered spans without overlaps, because touching spans are joined."""

    __slots__ = ("_ends", "_starts", "_under_way")

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []
        self._under_way: list[list[float]] = []
        """Start and end of spans whose end was unknown when they began."""

    def add(self, start: float, end: float) -> None:
        """Occupy the time from start to end."""
        starts, ends = self._starts, self._ends
        low, high = bisect_left(ends, start), bisect_right(starts, end)
        if low < high:  # it touches these
            start, end = min(start, starts[low]), max(end, ends[high - 1])
        starts[low:high], ends[low:high] = [start], [end]

    def open(self, span: list[float]) -> None:
        """Occupy a span whose end is written into it when it is known."""
        for one in self._under_way:
            if one[1] < math.inf:
                self.add(one[0], one[1])
        self._under_way = [*(one for one in self._under_way if one[1] == math.inf), span]

    def forget(self, since: float) -> None:
        """Drop the spans that end before this time."""
        if self._ends and self._ends[0] <= since:
            past = bisect_right(self._ends, since)
            del self._starts[:past], self._ends[:past]

    def between(self, begin: float, end: float) -> list[Interval]:
        """Return the spans that overlap the time between two moments, not cut."""
        low, high = bisect_right(self._ends, begin), bisect_left(self._starts, end)
        found = [*zip(self._starts[low:high], self._ends[low:high], strict=True)] if low < high else []
        return found + [(start, stop) for start, stop in self._under_way if stop > begin and start < end]


class Diary:
    """Occupied intervals of every site, as far back as somebody may ask."""

    def __init__(self, ledger: Ledger, away: Away | None = None) -> None:
        self._ledger = ledger
        self._away = away
        self._last: dict[int, Interval] = {}
        """What each site did or does last: nearly always all that anybody may ask about."""
        self._others: dict[int, Spans] = defaultdict(Spans)
        """What else of a site may still be asked about."""
        self._open: dict[int, float] = {}
        self._asked = self._oldest = 0
        self._since = math.inf
        """When the oldest of the open questions was asked."""

    def ask(self, now: float) -> int:
        """Somebody will ask about the time from now on; returns the question's number."""
        self._asked = question = self._asked + 1
        self._open[question] = now
        if self._since == math.inf:
            self._since, self._oldest = now, question
        return question

    def answered(self, question: int) -> None:
        """Forget a question that nobody asks any more."""
        del self._open[question]
        if question == self._oldest:  # questions are asked in the order of time: the next that is open is the oldest
            while self._oldest <= self._asked and self._oldest not in self._open:
                self._oldest += 1
            self._since = self._open.get(self._oldest, math.inf)

    def add(self, site: int, start: float, end: float) -> None:
        """The site is occupied from start to end, of which the end may be yet to come."""
        if end <= start:
            return
        last = self._last.get(site)
        if last is not None and last[1] > (self._since if self._since < start else start):
            self._remembered(site, start).add(*last)
        self._last[site] = start, end

    def open(self, site: int, start: float) -> list[float]:
        """The site is occupied from now on: start and end, where the end is to be written when it is known."""
        span = [start, math.inf]
        self._remembered(site, start).open(span)
        return span

    def _remembered(self, site: int, now: float) -> Spans:
        """Return a site's spans other than the last, without those that no open question can concern."""
        others = self._others[site]
        others.forget(min(self._since, now))
        return others

    def book_wait(self, site: int, begin: float, end: float, round: int, cause: int) -> None:
        """The site was engaged and waited: book the part of it in which it was there and did nothing else."""
        if end <= begin:
            return
        for start, stop in self._gaps(site, begin, end):
            self._ledger.wait(site, start, stop, round, cause)
            self.add(site, start, stop)

    def _gaps(self, site: int, begin: float, end: float) -> list[Interval]:
        last, others = self._last.get(site), self._others.get(site)
        known = [last] if last is not None and last[1] > begin and last[0] < end else []
        if others is not None:
            known += others.between(begin, end)
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
