"""What branches did before they met: who waited at a barrier, and for whom; where one failed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from paceline.errors import site_name
from paceline.ledger import NO_SITE
from paceline.worlds.diary import Diary

Activity = tuple[int, float, float]
"""A site was busy from a moment to another. (A plain tuple: millions are made.)"""


class Branch:
    """Where a branch of a run has been: all of it where a barrier will ask, else only the last site."""

    __slots__ = ("begin", "last", "log", "met")

    def __init__(self, begin: float | None = None) -> None:
        """Take the time at which the barrier began that will ask, if there is one."""
        self.last = NO_SITE
        self.begin = math.inf if begin is None else begin
        self.met: list[int] = []
        """Who was busy at the very beginning, for no time: that leaves no gap, but they take part."""
        self.log: list[Activity] | None = None if begin is None else []
        """What came after that; None where nobody will ask."""

    def note(self, site: int, start: float, end: float) -> None:
        """A site was busy in this branch."""
        self.last = site
        if self.log is None:
            return
        if end > self.begin:
            self.log.append((site, start, end))
        else:
            self.met.append(site)

    def note_message(self, source: int, target: int, now: float) -> None:
        """Two sites were busy for no time."""
        self.last = target
        if self.log is None:
            return
        if now > self.begin:
            self.log += ((source, now, now), (target, now, now))
        else:
            self.met += (source, target)

    def note_messages(self, sources: Iterable[int], target: int, now: float) -> None:
        """One site was busy with several others, one after the other, for no time."""
        if self.log is not None and now == self.begin:
            self.last = target
            first, *others = sources
            self.met += (first, target, *others, target)  # each is there, and the target is the last
            return
        for source in sources:
            self.note_message(source, target, now)

    def say_where(self, problem: BaseException) -> None:
        """Tell an exception which site the branch was last busy at; the innermost branch speaks first."""
        if self.last != NO_SITE and not hasattr(problem, "__notes__"):
            problem.add_note(f"in a branch last at {site_name(self.last)}")


def book_waits(
    diary: Diary, branches: Sequence[Branch], begin: float, end: float, round: int, failing: Callable[[int], float]
) -> list[int]:
    """Book every gap of every site that took part between ``begin`` and ``end``; return those sites.

    A gap before a site's activity is blamed on whoever was busy before it in its branch (the rider in front), or
    on the server. The gap after its last one is blamed on the client that finished last of all. That client itself,
    and a server where there was no client, waits for the server that was busy last: nobody waits for itself.
    """
    last, servers = _last_to_finish(branches), _servers_by_end(branches)
    busy: dict[int, list[tuple[float, float, int]]] = {}
    for branch in branches:
        for site in branch.met:
            if site not in busy:
                busy[site] = []
        before = next((site for site in reversed(branch.met) if site >= 0), -1)
        for site, start, stop in branch.log or ():
            busy.setdefault(site, []).append((start, stop, before))
            if site >= 0:
                before = site
    for site, spans in busy.items():
        spans.sort()
        blamed = last if last != site else next((server for server in servers if server != site), NO_SITE)
        free, alive = begin, failing(site)  # the dead do not wait
        for start, stop, before in spans:
            if start > free:
                cause = before if site >= 0 and before != site else blamed
                diary.book_wait(site, free, min(start, alive), round, cause)
            free = max(free, stop)
        diary.book_wait(site, free, min(end, alive), round, blamed)
    return list(busy)


def _last_to_finish(branches: Sequence[Branch]) -> int:
    """The client that was busy last; of several the one of the last branch."""
    late = [(end, k, site) for k, branch in enumerate(branches) for site, _, end in branch.log or () if site >= 0]
    if late:
        return max(late)[2]
    met = [(k, site) for k, branch in enumerate(branches) for site in branch.met if site >= 0]
    return max(met)[1] if met else -1


def _servers_by_end(branches: Sequence[Branch]) -> list[int]:
    """Return the busy servers, the last one first. A message counts for its sender."""
    ends: dict[int, float] = {}
    for branch in branches:
        for site, _, end in branch.log or ():
            if site < 0 and end > ends.get(site, -math.inf):
                ends.pop(site, None)
                ends[site] = end
    return sorted(ends, key=lambda site: -ends[site])
