"""The wall clock as a source of events: threads post what has happened, and the loop sleeps until then."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable

Act = Callable[[], None]


class WallClock:
    """Seconds since it was made; what is posted from any thread happens in the order of time."""

    def __init__(self) -> None:
        self.expecting = True
        """Whether anything may still be posted: as long as processes run."""
        self._origin = time.monotonic()
        self._posted: queue.SimpleQueue[tuple[float, Act]] = queue.SimpleQueue()
        self._next: tuple[float, Act] | None = None
        self._past: tuple[float, Act] | None = None

    def restart(self, at: float = 0.0) -> None:
        """Let it be this time at this moment."""
        self._origin = time.monotonic() - at

    def recall(self, until: float, present: Act) -> None:
        """Let timers follow each other without waiting until this time; then this happens, and the clock goes on."""
        self._past = until, present

    def now(self) -> float:
        """Seconds since time 0."""
        return time.monotonic() - self._origin

    def post(self, act: Act) -> None:
        """Say that something has happened just now; this may be called from any thread."""
        self._posted.put((self.now(), act))

    def next(self, until: float | None) -> tuple[float, Act] | None:
        """The next thing that happens, unless ``until`` comes first."""
        if self._past is not None:
            if until is not None and until <= self._past[0]:
                return None
            found, self._past = self._past, None
            self.restart(found[0])
            return found
        if self._next is None:
            self._next = self._wait(until)
        if self._next is None or (until is not None and until < self._next[0]):
            return None
        found, self._next = self._next, None
        return found

    def _wait(self, until: float | None) -> tuple[float, Act] | None:
        try:
            return self._posted.get(timeout=None if until is None else max(0.0, until - self.now()))
        except queue.Empty:
            return None
