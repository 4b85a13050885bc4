"""What branches did before they met: who waited at a barrier, and for whom; where one failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from paceline.worlds.diary import Diary


class Activity(NamedTuple):
    """A site was busy."""

    site: int
    start: float
    end: float


def say_where(problem: BaseException, log: Sequence[Activity]) -> None:
    """Tell an exception which site its branch was last busy at; the innermost branch speaks first."""
    if log and not hasattr(problem, "__notes__"):
        site = log[-1].site
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
        free = begin
        for start, stop, before in spans:
            if start > free:
                cause = before if site >= 0 and before != site else last
                diary.book_wait(site, free, min(start, failing(site)), round, cause)  # the dead do not wait
            free = max(free, stop)
        diary.book_wait(site, free, min(end, failing(site)), round, last)
    return list(busy)


def _last_to_finish(logs: Sequence[Sequence[Activity]]) -> int:
    finishes = [
        (activity.end, k, activity.site) for k, log in enumerate(logs) for activity in log if activity.site >= 0
    ]
    return max(finishes)[2] if finishes else -1
