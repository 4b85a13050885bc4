"""The hours of a device: intervals in which it is online, once or again and again."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from paceline.errors import SettingError
from paceline.system.cost import BRIEFEST, LONGEST


def require_period(period: float) -> float:
    """This period, if a clock can tell its laps apart; otherwise ``SettingError``."""
    if not BRIEFEST <= period <= LONGEST:
        raise SettingError(f"the period is {period:g} s; wanted seconds above 0 ({BRIEFEST:g} to {LONGEST:g})")
    return period


class Schedule:
    """Intervals in which a device is online, once or again and again after a period."""

    __slots__ = ("_ends", "_period", "_starts")

    def __init__(self, intervals: Sequence[tuple[float, float]], period: float | None = None) -> None:
        starts, ends = _merged(sorted(intervals))
        if period is not None:
            starts, ends = _wrapped(starts, ends, period)
        self._starts, self._ends, self._period = starts, ends, period

    def around(self, now: float, offset: float) -> tuple[float, float]:
        """The end of the last interval begun by ``now`` and the beginning of the next.

        The device is ``offset`` seconds ahead of the schedule. The end is -inf if no interval has begun, the
        beginning inf if none follows.
        """
        if math.isinf(now):  # asked about a device that is never back
            return -math.inf, math.inf
        index = self._last_begun(now, offset)
        # Rounding in the division may put us one interval off; comparing with the very numbers that we hand
        # out makes the instant at which a device comes online an instant at which it is online.
        while self._start(index + 1, offset) <= now:
            index += 1
        while self._start(index, offset) > now:
            index -= 1
        return self._end(index, offset), self._start(index + 1, offset)

    def _last_begun(self, now: float, offset: float) -> int:
        if self._period is None:
            return bisect_right(self._starts, now + offset) - 1
        lap, phase = divmod(now + offset, self._period)
        return int(lap) * len(self._starts) + bisect_right(self._starts, phase) - 1

    def _start(self, index: int, offset: float) -> float:
        if self._period is None:
            if index < 0:
                return -math.inf
            return self._starts[index] - offset if index < len(self._starts) else math.inf
        lap, place = divmod(index, len(self._starts))
        return lap * self._period + self._starts[place] - offset

    def _end(self, index: int, offset: float) -> float:
        if self._period is None:
            return self._ends[index] - offset if index >= 0 else -math.inf
        lap, place = divmod(index, len(self._starts))
        return lap * self._period + self._ends[place] - offset


def _merged(intervals: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    starts: list[float] = []
    ends: list[float] = []
    for start, end in intervals:
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends


def _wrapped(starts: list[float], ends: list[float], period: float) -> tuple[list[float], list[float]]:
    if ends[-1] > period:
        raise SettingError(f"an interval ends at {ends[-1]:g} s, after the period of {period:g} s; raise the period")
    if starts[0] == 0 and ends[-1] == period:
        if len(starts) == 1:
            return starts, [math.inf]
        # Online over the turn of the period: one interval, which ends in the next lap.
        return starts[1:], [*ends[1:-1], period + ends[0]]
    return starts, ends
