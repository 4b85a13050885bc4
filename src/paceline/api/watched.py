"""What is shown of one run while it is under way, and how fast learning goes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from paceline.api.forecast import Forecast, forecast

if TYPE_CHECKING:
    from paceline.learn.executor import Executor
    from paceline.runs.run import Run

Row = dict[str, Any]
SPAN = 15.0
"""Seconds of real time over which visits are counted."""
MOST_ROWS = 500
"""Rows that are remembered of a run; of more, every other one is forgotten."""
AFRESH = 2.0
"""Seconds of real time after which a forecast is made anew."""


class Watched:
    """One run with the rows that it has had so far, and when they came."""

    def __init__(self, run: Run) -> None:
        self.label = run.label
        self.due = 0.0
        """When a log may have its next line of this run."""
        self.gap = 0.0
        self.said: int | None = None
        """The round that a log was told of last."""
        self._run = run
        self._rows: list[Row] = []
        self._arrivals: deque[tuple[float, int]] = deque(maxlen=512)
        self._told = 0
        self._now, self._foreseen = 0.0, (-math.inf, "")

    @property
    def row(self) -> Row | None:
        """The latest metrics."""
        return self._rows[-1] if self._rows else None

    @property
    def row_text(self) -> str:
        """The latest metrics as text."""
        return describe(self._rows[-1]) if self._rows else ""

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return bool(self._run.done)

    def add(self, row: Row, now: float) -> None:
        """A new row."""
        self._rows.append(row)
        if len(self._rows) > MOST_ROWS:
            del self._rows[-2::-2]
        self._now = now
        self._arrivals.append((now, row["round"]))

    def news(self) -> list[str]:
        """What was decided since this was last asked."""
        events = self._run.world.chronicle.events
        fresh, self._told = events[self._told :], len(events)
        return [f"{self.label:<18} t={told.time:>9.1f} s  {told.event.text}" for told in fresh]

    def clock(self) -> str:
        """Where the schedule is, which may be ahead of what was scored."""
        world = self._run.world
        return f"schedule at round {world.progress}, t = {world.now():.1f} s, {world.ledger.visits:,} visits"

    def line(self) -> str:
        """All of it in a line."""
        if self.done:
            return f"{self.row_text}  {self.outlook() or 'ended'}"
        return f"{self.row_text}  {self.outlook()}".rstrip() if self._rows else self.clock()

    def outlook(self) -> str:
        """The target, and when the run will end, or that this cannot be said."""
        run = self._run
        reached = run.recorder.reached
        if reached is not None:
            return f"reached {goal(run)} at t={reached['time']:.1f} s"
        if run.done or len(self._rows) < 2:
            return ""
        if self._now >= self._foreseen[0] + AFRESH:  # a terminal asks several times a second
            known = forecast(self._rows, self._arrivals, run.until, run.traits.rounds)
            self._foreseen = self._now, _said(known, goal(run))
        return self._foreseen[1]


class Speed:
    """Visits a second of real time, of late, and how many are learned at once.

    Visits are counted as they are learned; where nothing is learned here, as the schedule books them.
    """

    def __init__(self, runs: Sequence[Run], executor: Executor | None, clock: Callable[[], float]) -> None:
        self._runs = runs
        self._executor = executor
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque([(clock(), 0)])

    def text(self, *, whole: bool = False) -> str:
        """The speed in words; the ``whole`` says also how many visits there were."""
        now, visits = self._clock(), self._visits()
        self._seen.append((now, max(visits, self._seen[-1][1])))
        while len(self._seen) > 2 and self._seen[1][0] <= now - SPAN:
            self._seen.popleft()
        begin, before = self._seen[0]
        if not visits:
            return ""
        parts = [f"{visits:,} visits{' learned' if self._executor else ''}"] if whole else []
        if now > begin:
            speed = (self._seen[-1][1] - before) / (now - begin)
            parts.append(f"{speed:,.0f} visits/s" if speed >= 100 else f"{speed:.3g} visits/s")
        if self._executor is not None and (wave := self._executor.statistics.mean_wave):
            parts.append(f"mean wave {wave:.1f}")
        return "  ".join(parts)

    def _visits(self) -> int:
        if self._executor is not None:
            return self._executor.visits
        return sum(run.world.ledger.visits for run in self._runs)


def goal(run: Run) -> str:
    """The target of a run in words; empty where it has none."""
    wanted = {"accuracy": run.until.accuracy, "loss": run.until.loss}
    return " or ".join(f"{name} {value:g}" for name, value in wanted.items() if value is not None)


def describe(row: Row) -> str:
    """One row of metrics as a line of text."""
    parts = [f"round {row['round']:>5}", f"t={row['time']:>9.1f} s", f"{row['visits']:>7} visits"]
    if row.get("accuracy") is not None:
        parts += [f"accuracy {row['accuracy']:.4f}", f"loss {row['loss']:.4g}"]
    parts.append(f"idle {100 * row['idle_share']:.0f} %")
    return "  ".join(parts)


def clock_text(seconds: float) -> str:
    """Real time as a clock shows it.

    >>> clock_text(75), clock_text(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _said(known: Forecast, target: str) -> str:
    parts = []
    if target and known.target is not None:
        parts.append(f"{target} expected at t={known.target[0]:.0f} to {known.target[1]:.0f} s")
    if known.seconds is not None:
        early, late = (clock_text(seconds) for seconds in known.seconds)
        parts.append(f"ETA {early}" if early == late else f"ETA {early} to {late}")
    else:
        parts.append("ETA unknown" + (f", at most {clock_text(known.most)}" if known.most is not None else ""))
    return "  ".join(parts)
