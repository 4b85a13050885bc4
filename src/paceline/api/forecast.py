"""When a run will end, from its own curve and its own pace; where that cannot be said, nothing is said.

Errors of learning fall roughly as a power of the rounds, so the logarithm of the error over that of the round is
nearly a line. Two such lines, one through the later half of what was measured and one through its last quarter, must
agree about where the target is; else the answer is that it is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.runs.until import Until

FEWEST = 8
"""Scores without which nothing is said of a target."""
AGREE = 3.0
"""How many times as far one line may see the target as the other."""
FAR = 50.0
"""A target further away than so many times what was done is out of sight."""
LUCK = 1.0
"""A run ends at the first score that is good enough, a lucky one: its error is so many spreads below the line."""
RECENT = 60.0
"""Seconds of real time from which the pace is taken."""

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What can be said of a run that is under way."""

    target: float | None = None
    """The virtual time at which the target is expected."""
    seconds: float | None = None
    """Real seconds until the run ends."""
    most: float | None = None
    """Real seconds until it ends at the latest, where its end is bounded."""


def forecast(rows: Sequence[Row], arrivals: Iterable[tuple[float, int]], until: Until, rounds: int) -> Forecast:
    """The forecast of a run with these rows, which came at these real times, and may make so many ``rounds``."""
    if not rows:
        return Forecast()
    last, pace = rows[-1], seconds_a_round(arrivals)
    bounds = [float(rounds) if rounds > 0 else math.inf, *_limits(last, until)]
    end = min(bounds)
    met = round_of_target(rows, until)
    first = end if not until.learned else None if met is None else min(met, end)
    return Forecast(
        target=_time_at(rows, met) if met is not None and met <= end else None,
        seconds=_left(first, last["round"], pace),
        most=_left(end, last["round"], pace),
    )


def round_of_target(rows: Sequence[Row], until: Until) -> float | None:
    """The round in which the target is expected; None where the curve does not say."""
    found = []
    for name, wanted in (("accuracy", until.accuracy), ("loss", until.loss)):
        errors = [(row["round"], _error(name, row[name])) for row in rows if row.get(name) is not None]
        if wanted is not None and (met := _crossing(errors, _error(name, wanted))) is not None:
            found.append(met)
    return min(found, default=None)


def seconds_a_round(arrivals: Iterable[tuple[float, int]]) -> float | None:
    """Real seconds a round, of late; None before two rows have come one after the other."""
    seen = list(arrivals)
    if not seen:
        return None
    end, last = seen[-1]
    begin, first = next(((when, round) for when, round in seen if when >= end - RECENT), seen[0])
    return (end - begin) / (last - first) if last > first and end > begin else None


def _limits(last: Row, until: Until) -> list[float]:
    """The rounds at which the time, or the number of visits, will be over, if they go on as they went."""
    limits = (("time", until.time), ("visits", until.visits))
    return [last["round"] * most / last[name] for name, most in limits if most is not None and last[name]]


def _error(name: str, value: float) -> float:
    return 1 - value if name == "accuracy" else value


def _crossing(errors: Sequence[tuple[int, float]], wanted: float) -> float | None:
    points = [(math.log(round), math.log(error)) for round, error in errors if round > 0 and error > 0]
    if len(points) < FEWEST or not wanted > 0:
        return None
    now = math.exp(points[-1][0])
    ahead = []
    for part in (points[len(points) // 2 :], points[-max(FEWEST // 2, len(points) // 4) :]):
        met = _on_line(part, math.log(wanted))
        if met is None or not met > now:
            return None
        ahead.append(met - now)
    if max(ahead) > AGREE * min(ahead) or max(ahead) > FAR * now:
        return None
    return now + math.sqrt(ahead[0] * ahead[1])


def _on_line(points: Sequence[tuple[float, float]], wanted: float) -> float | None:
    """Where a score near the line through these points falls to what is wanted; None if the line does not fall."""
    middle_x, middle_y = (math.fsum(column) / len(points) for column in zip(*points, strict=True))
    wide = math.fsum((x - middle_x) ** 2 for x, _ in points)
    slope = math.fsum((x - middle_x) * (y - middle_y) for x, y in points) / wide if wide else 0.0
    if not slope < 0:
        return None
    spread = math.sqrt(math.fsum((y - middle_y - slope * (x - middle_x)) ** 2 for x, y in points) / len(points))
    at = middle_x + (wanted + LUCK * spread - middle_y) / slope
    return math.exp(at) if at < 50 else None


def _time_at(rows: Sequence[Row], round: float) -> float | None:
    """The virtual time of a round to come, at the pace of the later half."""
    last, before = rows[-1], rows[len(rows) // 2]
    if last["round"] <= before["round"]:
        return None
    pace = (last["time"] - before["time"]) / (last["round"] - before["round"])
    return float(last["time"] + (round - last["round"]) * pace)


def _left(end: float | None, now: int, pace: float | None) -> float | None:
    if end is None or pace is None or math.isinf(end):
        return None
    return max(0.0, (end - now) * pace)
