"""Signals that ask a process to end: it finishes what it computes, keeps it, and ends; a second ends it at once.

They are Ctrl-C, SIGTERM, and the SIGHUP of a terminal that was closed, which shells may send twice. Whoever has it
ignored (``nohup``) does not hear it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

PATIENCE = 5.0
"""Seconds for which what is being computed may go on after somebody has asked for the end."""

SHOW_CURSOR = b"\x1b[?25h"
"""For terminals, in which progress hides it."""


class Stopped(KeyboardInterrupt):
    """Somebody asked the process to end: ``signal`` is how."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.signal = signal.Signals(number)
        super().__init__(f"stopped by {self.signal.name}")

    @property
    def status(self) -> int:
        """The exit status by which a shell knows it."""
        return 128 + self.signal


class Stopping:
    """``with Stopping() as stopping:`` the first signal is noted, and becomes ``Stopped`` when patience is over."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.requested: signal.Signals | None = None
        self._patience = patience
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():  # nobody else hears signals
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._asked)
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._over)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in self._before.items():
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, handler)
        self._before.clear()

    def check(self) -> None:
        """A good moment to end, if that was asked for. Nothing is given up any more: summaries are being written."""
        if self.requested is not None:
            if self._before:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            raise Stopped(self.requested)

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)  # a terminal closes once
        if self.requested is not None:
            _end_at_once(number)
        if not self._patience:
            raise Stopped(number)
        self.requested = signal.Signals(number)
        signal.setitimer(signal.ITIMER_REAL, self._patience)

    def _over(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested is not None:
            raise Stopped(self.requested)


def _end_at_once(number: int) -> None:
    """Without closing anything: what is on disk is whole at any moment, and can be gone on with."""
    with suppress(OSError):  # the terminal may be gone
        if sys.stderr.isatty():
            os.write(sys.stderr.fileno(), SHOW_CURSOR)
    os._exit(128 + number)
