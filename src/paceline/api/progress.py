"""Progress that works in a terminal (one line per run, redrawn) and in a log file (a line now and then)."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from paceline.runs.recorder import Row
from paceline.runs.run import Run

LOG_EVERY = 2.0
"""Seconds of real time between two lines of one run in a log file."""


class LiveProgress:
    """Shows the latest metrics of every run on standard error, or on another console."""

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, quiet=quiet, highlight=False)
        self.latest: dict[str, tuple[Run, Row]] = {}
        self._said: dict[str, float] = {}
        self._told: dict[str, int] = {}
        self._live = Live(console=self.console, refresh_per_second=4, transient=True, get_renderable=self._table)

    def __enter__(self) -> LiveProgress:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._live.stop()
        for run, row in self.latest.values():
            if not self.console.is_terminal and self._said.get(run.label) != row["round"]:
                self._say(run, row)
            self._tell(run)  # what was decided after the last metrics

    def __call__(self, run: Run, row: Row) -> None:
        """A run has a new row of metrics, and perhaps has decided something."""
        self.latest[run.label] = (run, row)
        self._tell(run)
        if self.console.is_terminal:
            return
        now = time.monotonic()
        due = f"{run.label} due"
        if now >= self._said.get(due, 0.0):
            self._said[due] = now + LOG_EVERY
            self._say(run, row)

    def _tell(self, run: Run) -> None:
        """Decisions that have not been told yet."""
        events = run.world.chronicle.events
        for told in events[self._told.get(run.label, 0) :]:
            line = f"{run.label:<18} t={told.time:>9.1f} s  {told.event.text}"
            self.console.print(line, soft_wrap=True, markup=False)
        self._told[run.label] = len(events)

    def _say(self, run: Run, row: Row) -> None:
        self._said[run.label] = row["round"]
        self.console.print(f"{run.label:<18} {describe(row)}", soft_wrap=True)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for run, row in list(self.latest.values()):
            table.add_row(f"[bold]{run.label}[/]", describe(row))
        return table


def describe(row: Row) -> str:
    """One row of metrics as a line of text."""
    parts = [f"round {row['round']:>5}", f"t={row['time']:>9.1f} s", f"{row['visits']:>7} visits"]
    if row.get("accuracy") is not None:
        parts += [f"accuracy {row['accuracy']:.4f}", f"loss {row['loss']:.4g}"]
    parts.append(f"idle {100 * row['idle_share']:.0f} %")
    return "  ".join(parts)
