"""What a site was doing when it kept another one waiting."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

RECENT_CLIENT, RECENT_SERVER = 64, 512
"""Spans of a site that are remembered: a wait is booked soon after what caused it, so the last ones are enough."""


class Slice(NamedTuple):
    """A span where it is drawn; times are whole nanoseconds."""

    site: int
    kind: str
    peer: int
    start: int
    end: int
    tid: int


class Recent:
    """The latest spans of every site, by which waits find their causes."""

    def __init__(self) -> None:
        self._slices: dict[int, deque[Slice]] = {}

    def add(self, one: Slice) -> None:
        """Remember a span that took time: only such a one keeps others waiting."""
        if one.end <= one.start:
            return
        known = self._slices.get(one.site)
        if known is None:
            known = self._slices[one.site] = deque(maxlen=RECENT_CLIENT if one.site >= 0 else RECENT_SERVER)
        known.append(one)

    def cause(self, wait: Slice) -> Slice | None:
        """What the site that was waited for did for most of the wait; None if nothing is known of it.

        Who did nothing but wait, too, has a cause of its own: arrows then go from wait to wait.
        """
        during = [one for one in self._slices.get(wait.peer, ()) if one.start + 1 < wait.end and one.end > wait.start]
        return max(
            during,
            key=lambda one: (one.kind != "wait", min(one.end, wait.end) - max(one.start, wait.start), one.tid),
            default=None,
        )
