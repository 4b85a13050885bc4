"""Recorded byte rates of links: reading the files, and integrating bytes over them."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise, repeat
from pathlib import Path
from typing import NamedTuple

from paceline.errors import CostError, DataError
from paceline.reading import shown
from paceline.system.cost import BRIEFEST
from paceline.system.tables import Row, read_table

BYTES_PER_MBIT = 125_000.0
_PATIENCE = 10_000
"""Segments without a byte after which a transfer between two traces is called stuck."""
_LONGEST = 10_000_000
"""Segments in all after which it is called so too: it moves bytes, but hardly any."""


class Trace:
    """A byte rate that is constant on segments of time and starts over at its end."""

    __slots__ = ("_bytes", "_lap", "_rates", "_starts", "duration", "total")

    def __init__(self, seconds: Sequence[float], mbps: Sequence[float]) -> None:
        self._rates = [rate * BYTES_PER_MBIT for rate in mbps]
        self._starts = list(accumulate(seconds, initial=0.0))
        self._lap = list(zip(self._rates, seconds, strict=True))
        self._bytes = list(accumulate((rate * length for rate, length in self._lap), initial=0.0))
        self.duration = self._starts[-1]
        self.total = self._bytes[-1]
        if not self.total > 0:
            raise DataError("a trace that never moves a byte; leave it out")
        if min(seconds) < BRIEFEST:
            raise DataError(f"a trace with a segment of {min(seconds):g} s; wanted {BRIEFEST:g} s or more each")

    @property
    def mean_mbps(self) -> float:
        """The mean byte rate over one lap of the trace, in Mbit/s."""
        return self.total / self.duration / BYTES_PER_MBIT

    def seconds(self, size: float, at: float) -> float:
        """How long ``size`` bytes take when the transfer starts at time ``at`` of the endless trace."""
        if size <= 0:
            return 0.0
        phase = at % self.duration
        goal = self._moved(phase) + size
        # The goal lies in (0, total] of its lap: a transfer that ends with a lap does not wait for the next.
        laps = math.ceil(goal / self.total) - 1
        left = min(max(goal - laps * self.total, 0.0), self.total)
        return max(laps * self.duration + self._reached(left) - phase, 0.0)

    def walk(self, at: float) -> Iterator[tuple[float, float]]:
        """Rates in bytes a second, and how long each holds, endlessly from time ``at``."""
        phase = at % self.duration
        index = min(bisect_right(self._starts, phase), len(self._rates)) - 1
        yield self._rates[index], self._starts[index + 1] - phase
        yield from self._lap[index + 1 :]
        yield from chain.from_iterable(repeat(self._lap))

    def _moved(self, phase: float) -> float:
        index = min(bisect_right(self._starts, phase), len(self._rates)) - 1
        return self._bytes[index] + (phase - self._starts[index]) * self._rates[index]

    def _reached(self, goal: float) -> float:
        # The first moment at which `goal` bytes have moved; bisect_left skips silent segments before it.
        index = max(bisect_left(self._bytes, goal), 1) - 1
        rate = self._rates[index]
        if not rate:  # only goal == 0 in a trace that begins with silence
            return self._starts[index]
        return min(self._starts[index] + (goal - self._bytes[index]) / rate, self._starts[index + 1])


def seconds_between(sender: Trace, out_at: float, receiver: Trace, in_at: float, size: float) -> float:
    """How long ``size`` bytes take at the smaller of two recorded byte rates."""
    left, elapsed = size, 0.0
    out, into = sender.walk(out_at), receiver.walk(in_at)
    out_rate, out_for = next(out)
    in_rate, in_for = next(into)
    silent = segments = 0
    while silent < _PATIENCE and segments < _LONGEST:
        segments += 1
        step, rate = min(out_for, in_for), min(out_rate, in_rate)
        silent = 0 if rate else silent + 1
        if rate * step >= left:
            return elapsed + (left / rate if left > 0 else 0.0)
        left, elapsed = left - rate * step, elapsed + step
        out_for, in_for = out_for - step, in_for - step
        if out_for <= 0:
            out_rate, out_for = next(out)
        if in_for <= 0:
            in_rate, in_for = next(into)
    raise CostError(
        f"a transfer of {size:g} bytes between two traces is stuck after {elapsed:.0f} s; "
        "they are hardly ever open together: use other traces"
    )


class Recording(NamedTuple):
    """What one trace of a file says about the two directions; None where it says nothing."""

    up: Trace | None
    down: Trace | None


def read_traces(path: str | Path) -> dict[str, Recording]:
    """The traces of a CSV file, by name.

    Columns ``t_s`` and ``mbps`` are needed. ``trace`` names the trace (one trace without it); ``direction``
    is ``up`` or ``down`` (without it the rate holds for both). Where there is ``dur_ms``, ``t_s`` is the end
    of an interval of that length, as in the 4G/LTE logs of Ghent; else an interval runs from its ``t_s`` to
    the next, and the last is as long as the one before it.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in read_table(path, ("t_s", "mbps")):
        name = row.text("trace") if "trace" in row else "trace"
        groups.setdefault((name, _direction(row)), []).append(row)
    traces = {key: _trace(path, key, rows) for key, rows in groups.items()}
    return {
        name: Recording(
            up=traces.get((name, "up"), traces.get((name, "both"))),
            down=traces.get((name, "down"), traces.get((name, "both"))),
        )
        for name, _ in groups
    }


def _direction(row: Row) -> str:
    if "direction" not in row:
        return "both"
    direction = row.text("direction")
    if direction not in ("up", "down"):
        raise row.wrong(f"direction is {shown(direction)}; wanted 'up' or 'down'")
    return direction


def _trace(path: str | Path, key: tuple[str, str], rows: list[Row]) -> Trace:
    try:
        return Trace(_lengths(rows), [row.number("mbps") for row in rows])
    except DataError as wrong:
        if str(wrong).startswith("a trace"):
            raise DataError(f"{path}: {shown(key[0])} ({key[1]}) is {wrong}") from None
        raise


def _lengths(rows: list[Row]) -> list[float]:
    times = [row.number("t_s") for row in rows]
    for row, (before, after) in zip(rows[1:], pairwise(times), strict=True):
        if after <= before:
            raise row.wrong(f"t_s is {after:g} after {before:g}; within a trace it must grow")
    if "dur_ms" in rows[0]:
        return [row.number("dur_ms", positive=True) / 1000 for row in rows]
    gaps = [after - before for before, after in pairwise(times)]
    return [*gaps, gaps[-1] if gaps else 1.0]
