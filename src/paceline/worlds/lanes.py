"""Lanes: a server carries several transfers at once, and no two spans of one lane overlap."""

from __future__ import annotations

import heapq
from collections import defaultdict


class Lanes:
    """The lowest lane that is free for each transfer, per server and direction."""

    def __init__(self) -> None:
        self._free: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._ending: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)

    def take(self, site: int, track: str, now: float, end: float) -> int:
        """Occupy a lane from now to the transfer's end, also while it still queues at the other end."""
        place = (site, track)
        free, ending = self._free[place], self._ending[place]
        while ending and ending[0][0] <= now:
            heapq.heappush(free, heapq.heappop(ending)[1])
        lane = heapq.heappop(free) if free else len(ending)
        heapq.heappush(ending, (end, lane))
        return lane
