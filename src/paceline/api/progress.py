"""Progress that works in a terminal (one line per run, redrawn) and in a log file (a line now and then).

Nothing here needs torch: the first line is there before anything that takes long is imported.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from paceline.api.watched import Row, Speed, Watched, clock_text

if TYPE_CHECKING:
    from paceline.learn.executor import Executor
    from paceline.runs.run import Run

LOG_FIRST, LOG_MOST, LOG_GROWS = 2.0, 30.0, 1.5
"""Seconds of real time between two lines of one run in a log file: at first, at most, and how the gap grows."""
SILENCE, SILENCE_MOST = 5.0, 300.0
"""Seconds without any line after which a log says that work goes on: at first, and at most."""
WIDE = 9
"""Letters of the longest phase."""


class Told(Console):
    """A console on standard error that falls silent when nobody can read it any more: a run does not end because its
    terminal was closed, nor is it ended half because whoever wrote its log was interrupted too."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(stderr=True, quiet=quiet, highlight=False)

    def print(self, *objects: Any, **how: Any) -> None:
        """Print, if anybody is there."""
        try:
            super().print(*objects, **how)
        except OSError:
            self.quiet = True

    def on_broken_pipe(self) -> None:
        """Nobody reads the pipe."""
        self.quiet = True


class LiveProgress:
    """Shows phases and the latest metrics of every run on standard error, or on another console."""

    def __init__(
        self, *, quiet: bool = False, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.console = console or Told(quiet=quiet)
        self.runs: dict[int, Watched] = {}  # by the identity of the run: labels may be alike
        self._clock = clock
        self._phase, self._about, self._since = "", "", clock()
        self._speed: Speed | None = None
        self._spoken, self._silence = clock(), SILENCE
        self._ended = threading.Event()
        self._ticker: threading.Thread | None = None
        self._live = Live(console=self.console, refresh_per_second=4, transient=True, get_renderable=self._screen)

    def __enter__(self) -> LiveProgress:
        if self.console.quiet:
            return self
        if self.console.is_terminal:
            self._live.start()
        elif not self.console.is_jupyter:  # there, what another thread prints may land in another cell
            self._ticker = threading.Thread(target=self._tick_on, name="paceline-progress", daemon=True)
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._ticker is not None:
            self._ticker.join()
        if self._live.is_started:
            with suppress(OSError):  # the terminal may be gone
                self._live.stop()
        for run in self.runs.values():
            if not self.console.is_terminal and run.row is not None and run.said != run.row["round"]:
                self._say(run)
            self._tell(run)  # what was decided after the last metrics

    def phase(self, name: str, about: str = "") -> None:
        """Something that may take long begins; a log says so at once."""
        self._phase, self._about, self._since, self._silence = name, about, self._clock(), SILENCE
        if not self.console.is_terminal:
            self._print(f"{name:<{WIDE}}  {about}".rstrip())

    def watch(self, runs: Sequence[Run], executor: Executor | None) -> None:
        """These runs are about to begin, and this computes what they learn, if anything is learned here."""
        self._speed = Speed(runs, executor, self._clock)
        for run in runs:
            self.runs[id(run)] = Watched(run)

    def __call__(self, run: Run, row: Row) -> None:
        """A run has a new row of metrics, and perhaps has decided something."""
        watched = self.runs.setdefault(id(run), Watched(run))
        now = self._clock()
        watched.add(row, now)
        self._tell(watched)
        if not self.console.is_terminal and now >= watched.due:
            watched.gap = min(LOG_MOST, watched.gap * LOG_GROWS) if watched.gap else LOG_FIRST
            watched.due = now + watched.gap
            self._say(watched)

    def tick(self) -> None:
        """After a long silence a log says that work goes on, and how fast."""
        now = self._clock()
        if self._phase and now >= self._spoken + self._silence:
            self._silence = min(SILENCE_MOST, 2 * self._silence)
            self._print(self._standing(now))

    def _tick_on(self) -> None:
        while not self._ended.wait(1.0):
            self.tick()

    def _print(self, line: str) -> None:
        self._spoken = self._clock()
        self.console.print(line, soft_wrap=True, markup=False)

    def _tell(self, watched: Watched) -> None:
        """Decisions that have not been told yet."""
        for line in watched.news():
            self._print(line)

    def _say(self, watched: Watched) -> None:
        if watched.row is not None:
            watched.said = watched.row["round"]
            parts = [watched.row_text, watched.outlook(), self._speed.text() if self._speed else ""]
            self._print(f"{watched.label:<18} {'  '.join(part for part in parts if part)}")

    def _standing(self, now: float) -> str:
        """How it stands as a whole, in one line."""
        parts = [f"{self._phase:<{WIDE}}  {clock_text(now - self._since)}"]
        if self._speed is None or not self.runs:
            return f"{parts[0]}  {self._about}"
        ended = sum(watched.done for watched in self.runs.values())
        if len(self.runs) > 1:
            parts.append(f"{ended} of {len(self.runs)} runs ended")
        else:
            parts += [watched.clock() for watched in self.runs.values()]
        parts += [text] if (text := self._speed.text(whole=True)) else []
        return "  ".join(parts)

    def _screen(self) -> Group:
        """What a terminal shows: the whole in one line, then a line for each run, as many as there is room for."""
        watched = sorted(self.runs.values(), key=lambda run: run.done)
        room = max(1, self.console.height - 4)
        table = Table.grid(padding=(0, 2))
        for run in watched[:room]:
            table.add_row(Text(run.label, style="bold"), Text(run.line()))
        more = [Text(f"and {len(watched) - room} more")] if len(watched) > room else []
        return Group(Text(self._standing(self._clock()), style="dim"), table, *more)
