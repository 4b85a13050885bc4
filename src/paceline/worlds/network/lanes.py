"""Lanes: a site that carries several transfers at once has several tracks, and no two spans of one overlap."""

from __future__ import annotations

import heapq
from collections import defaultdict


class Lanes:
    """The lowest lane that is free for each transfer, per site and direction."""

    def __init__(self) -> None:
        self._free: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._ending: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
        self._count: dict[tuple[int, str], int] = defaultdict(int)

    def take(self, site: int, track: str, now: float, end: float) -> int:
        """Occupy a lane from now to the transfer's end, also while it still queues at the other end."""
        place = (site, track)
        free, ending = self._free[place], self._ending[place]
        while ending and ending[0][0] <= now:
            heapq.heappush(free, heapq.heappop(ending)[1])
        lane = self._lowest(place)
        heapq.heappush(ending, (end, lane))
        return lane

    def hold(self, site: int, track: str) -> int:
        """Occupy a lane until it is released: nobody knows yet when that will be."""
        return self._lowest((site, track))

    def release(self, site: int, track: str, lane: int) -> None:
        """Give a held lane back."""
        heapq.heappush(self._free[site, track], lane)

    def _lowest(self, place: tuple[int, str]) -> int:
        if self._free[place]:
            return heapq.heappop(self._free[place])
        self._count[place] += 1
        return self._count[place] - 1
