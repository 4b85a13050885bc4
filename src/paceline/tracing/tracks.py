"""Places for spans: a process for every site, a thread for what it does at once without overlapping."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from paceline.report.text import site as site_name

TRACKS = {"train": "compute", "work": "compute", "send": "uplink", "receive": "downlink", "wait": "waiting"}
"""Which of a site's tracks shows which kind of span; a kind that nobody knows is shown as work."""
ORDER = ("compute", "uplink", "downlink", "waiting")


class Thread(NamedTuple):
    """A thread that has just been opened, and how it is to be shown."""

    tid: int
    name: str
    rank: int


class Tracks:
    """Hands out threads so that no two spans of one overlap, whatever order the spans come in.

    A viewer takes spans of one thread that overlap for calls inside of calls, or drops them. A site that carries
    several transfers at once so gets as many threads; a thread is used again once it is free.
    """

    def __init__(self, lowest: int, highest: int) -> None:
        self._lowest = lowest
        self._sites = highest - lowest + 1
        self._next = self._sites + 2
        """Numbers of threads follow those of processes: a thread with its process's number is a main thread."""
        self._ends: dict[tuple[int, str], list[tuple[int, int]]] = {}
        """Of each site's track the threads by the end of their last span, the earliest first."""

    @property
    def run_pid(self) -> int:
        """The process that shows what belongs to no site."""
        return self._sites + 1

    def pid(self, site: int) -> int:
        """The process of a site; 0 is not used, for viewers take it for the idle one."""
        return site - self._lowest + 1

    def process(self, site: int) -> tuple[str, int]:
        """The name of a site's process and its rank: servers stand above clients."""
        servers = max(-self._lowest, 0)
        return site_name(site, several=servers > 1), -site if site < 0 else servers + 1 + site

    def place(self, site: int, track: str, start: int, end: int) -> tuple[int, Thread | None]:
        """The thread for a span, and what to say of it if it is new; both times are whole nanoseconds."""
        threads = self._ends.setdefault((site, track), [])
        free = bisect_right(threads, (start, self._next)) - 1
        if free >= 0:
            _, tid = threads.pop(free)
            new = None
        else:
            number = len(threads) + 1
            name = track if number == 1 else f"{track} {number}"
            tid, new = self._next, Thread(self._next, name, 100_000 * ORDER.index(track) + number)
            self._next += 1
        threads.insert(bisect_right(threads, (end, tid)), (end, tid))
        return tid, new
