"""When a device's links were at work while it waited for something else: then it was not idle."""

from __future__ import annotations

import math


class Engaged:
    """Transfers of each device, as far back as somebody waits."""

    def __init__(self) -> None:
        self._spans: dict[int, list[list[float]]] = {}
        self._waits: dict[int, list[float]] = {}

    def add(self, site: int, start: float, end: float, now: float) -> list[float]:
        """A transfer from start to end, of which the end may be yet to come; what nobody asks about is forgotten.

        Returns start and end: where the end is not known (infinite), it is to be written there when it is.
        """
        added = [start, end]
        spans = self._spans.get(site)
        if spans is None:
            self._spans[site] = [added]
            return added
        since = min(self._waits.get(site, ()), default=now)
        if spans[0][1] <= since:
            spans[:] = [span for span in spans if span[1] > since]
        spans.append(added)
        return added

    def begin(self, site: int, now: float) -> None:
        """The device begins to wait."""
        self._waits.setdefault(site, []).append(now)

    def gaps(self, site: int, begin: float, end: float) -> list[tuple[float, float]]:
        """It has waited: the times in which its links were idle too."""
        self._waits[site].remove(begin)
        if not self._waits[site]:
            del self._waits[site]
        found, free = [], begin
        for start, stop in [*sorted(self._spans.get(site, ())), [end, math.inf]]:
            if start > free:
                found.append((free, min(start, end)))
            free = max(free, stop)
            if free >= end:
                break
        return found
