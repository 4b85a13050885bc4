"""When a run will end, from its own curve and its own pace; where that cannot be said, nothing is said.

Errors of learning fall, as a rule, faster than a power of the rounds and slower than an exponential, and they are
noisy. So three lines are drawn: a power through the later two thirds of what was measured; a power through the best
scores so far, of the later half; an exponential through those of the later two thirds. What they say, with a margin,
is a range. Where they are far from each other, the answer is that it is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.runs.until import Until

FEWEST = 8
"""Scores without which nothing is said of a target."""
APART = 8.0
"""How many times as far one line may see the target as another."""
FAR = 50.0
"""A target further away than so many times what was done is out of sight."""
NEAR = 0.1
"""Scores jump: a target is never nearer than this share of what was done."""
EARLIER, LATER = 1.5, 2.0
"""How much nearer than the nearest line, and further than the furthest, the target may well be."""
LUCK = 1.0
"""A run ends at the first score that is good enough, a lucky one: its error is so many spreads below the line."""
RECENT = 60.0
"""Seconds of real time from which the pace is taken; more where a round takes longer."""

Row = dict[str, Any]
Range = tuple[float, float]
"""From the earliest to the latest."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What can be said of a run that is under way."""

    target: Range | None = None
    """Between which virtual times the target is expected."""
    seconds: Range | None = None
    """Real seconds until the run ends; both are the same where its rounds decide it."""
    most: float | None = None
    """Real seconds until it ends at the latest, where its end is bounded."""


def forecast(rows: Sequence[Row], arrivals: Iterable[tuple[float, int]], until: Until, rounds: int) -> Forecast:
    """The forecast of a run with these rows, which came at these real times, and may make so many ``rounds``."""
    if not rows:
        return Forecast()
    last, pace = rows[-1], seconds_a_round(arrivals)
    end = min([float(rounds) if rounds > 0 else math.inf, *_limits(last, until)])
    met = rounds_of_target(rows, until)
    if met is not None:
        met = None if met[0] >= end else (met[0], min(met[1], end))
    ends = met if until.learned else (end, end)
    return Forecast(
        target=_times_at(rows, met) if met is not None else None,
        seconds=None if ends is None else _all([_left(one, last["round"], pace) for one in ends]),
        most=_left(end, last["round"], pace),
    )


def rounds_of_target(rows: Sequence[Row], until: Until) -> Range | None:
    """Between which rounds the target is expected; None where the curve does not say."""
    found = []
    for name, wanted in (("accuracy", until.accuracy), ("loss", until.loss)):
        errors = [(row["round"], _error(name, row[name])) for row in rows if row.get(name) is not None]
        if wanted is not None and (met := _crossings(errors, _error(name, wanted))) is not None:
            found.append(met)
    return min(found, default=None)


def seconds_a_round(arrivals: Iterable[tuple[float, int]]) -> float | None:
    """Real seconds a round, of late; None before two rows have come one after the other."""
    seen = list(arrivals)
    if not seen:
        return None
    end, last = seen[-1]
    begin, first = next(((when, round) for when, round in reversed(seen) if when <= end - RECENT), seen[0])
    return (end - begin) / (last - first) if last > first and end > begin else None


def _limits(last: Row, until: Until) -> list[float]:
    """The rounds at which the time, or the number of visits, will be over, if they go on as they went."""
    limits = (("time", until.time), ("visits", until.visits))
    return [last["round"] * most / last[name] for name, most in limits if most is not None and last[name]]


def _error(name: str, value: float) -> float:
    return 1 - value if name == "accuracy" else value


def _crossings(errors: Sequence[tuple[int, float]], wanted: float) -> Range | None:
    points = [(float(round), math.log(error)) for round, error in errors if round > 0 and error > 0]
    if len(points) < FEWEST or not wanted > 0:
        return None
    rounds, logs = zip(*points, strict=True)
    best = list(zip(rounds, accumulate(logs, min), strict=True))
    third, half, now = len(points) // 3, len(points) // 2, rounds[-1]
    power = _on_line(_powers(points[third:]), math.log(wanted), LUCK)
    of_best = _on_line(_powers(best[half:]), math.log(wanted))
    exponential = _on_line(best[third:], math.log(wanted))
    if power is None or of_best is None or exponential is None:
        return None
    met = (math.exp(min(power, 50.0)), math.exp(min(of_best, 50.0)), exponential)
    ahead = [max(one - now, NEAR * now, 1.0) for one in met]
    if max(ahead) > min(APART * min(ahead), FAR * now):
        return None
    return now + min(ahead) / EARLIER, now + max(ahead) * LATER


def _powers(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points over the logarithm of their rounds: there, powers are lines."""
    return [(math.log(round), error) for round, error in points]


def _on_line(points: Sequence[tuple[float, float]], wanted: float, luck: float = 0.0) -> float | None:
    """Where a score near the line through these points falls to what is wanted; None if the line does not fall."""
    middle_x, middle_y = (math.fsum(column) / len(points) for column in zip(*points, strict=True))
    wide = math.fsum((x - middle_x) ** 2 for x, _ in points)
    slope = math.fsum((x - middle_x) * (y - middle_y) for x, y in points) / wide if wide else 0.0
    if not slope < 0:
        return None
    spread = math.sqrt(math.fsum((y - middle_y - slope * (x - middle_x)) ** 2 for x, y in points) / len(points))
    return middle_x + (wanted + luck * spread - middle_y) / slope


def _times_at(rows: Sequence[Row], rounds: Range) -> Range | None:
    """The virtual times of rounds to come, at the pace of the later half."""
    last, before = rows[-1], rows[len(rows) // 2]
    if last["round"] <= before["round"]:
        return None
    pace = (last["time"] - before["time"]) / (last["round"] - before["round"])
    early, late = (float(last["time"] + (round - last["round"]) * pace) for round in rounds)
    return early, late


def _all(found: Sequence[float | None]) -> Range | None:
    early, late = found
    return None if early is None or late is None else (early, late)


def _left(end: float | None, now: int, pace: float | None) -> float | None:
    if end is None or pace is None or math.isinf(end):
        return None
    return max(0.0, (end - now) * pace)
