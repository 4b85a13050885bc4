"""What branches did before they met: who waited at a barrier, and for whom; where one failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from paceline.ledger import NO_SITE
from paceline.worlds.diary import Diary

Activity = tuple[int, float, float]
"""A site was busy from a moment to another. (A plain tuple: millions are made.)"""


class Branch:
    """Where a branch of a run has been: all of it where a barrier will ask, else only the last site."""

    __slots__ = ("last", "log")

    def __init__(self, log: list[Activity] | None) -> None:
        self.log = log
        self.last = NO_SITE

    def note(self, site: int, start: float, end: float) -> None:
        """A site was busy in this branch."""
        if self.log is None:
            self.last = site
        else:
            self.log.append((site, start, end))

    def say_where(self, problem: BaseException) -> None:
        """Tell an exception which site the branch was last busy at; the innermost branch speaks first."""
        site = self.log[-1][0] if self.log else self.last
        if site != NO_SITE and not hasattr(problem, "__notes__"):
            problem.add_note(f"in a branch last at {f'client {site}' if site >= 0 else f'server {site}'}")


def book_waits(
    diary: Diary,
    logs: Sequence[Sequence[Activity]],
    begin: float,
    end: float,
    round: int,
    failing: Callable[[int], float],
) -> list[int]:
    """Book every gap of every site that took part between ``begin`` and ``end``; return those sites.

    A gap before a site's activity is blamed on whoever was busy before it in its branch (the rider in front), or
    on the server. The gap after its last one is blamed on the client that finished last of all.
    """
    last = _last_to_finish(logs)
    busy: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
    for log in logs:
        before = -1
        for site, start, stop in log:
            busy[site].append((start, stop, before))
            if site >= 0:
                before = site
    for site, spans in busy.items():
        spans.sort()
        free, alive = begin, failing(site)  # the dead do not wait
        for start, stop, before in spans:
            if start > free:
                cause = before if site >= 0 and before != site else last
                diary.book_wait(site, free, min(start, alive), round, cause)
            free = max(free, stop)
        diary.book_wait(site, free, min(end, alive), round, last)
    return list(busy)


def _last_to_finish(logs: Sequence[Sequence[Activity]]) -> int:
    finishes = [(end, k, site) for k, log in enumerate(logs) for site, _, end in log if site >= 0]
    return max(finishes)[2] if finishes else -1
