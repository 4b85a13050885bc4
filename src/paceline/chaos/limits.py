"""A limit on the wall clock: what hangs is found, not suffered."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Hang(KeyboardInterrupt):
    """Something took longer than it may. A KeyboardInterrupt, because tasks of a loop keep everything else."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise ``Hang`` in what takes longer; an alarm that was set before goes on. Only the main thread hears it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: object) -> None:
        raise Hang(f"not over after {seconds:g} s")

    begun = time.monotonic()
    before = signal.signal(signal.SIGALRM, over)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begun), 0.001) if left else 0.0)
        signal.signal(signal.SIGALRM, before)
