"""Processes that are started, watched, started again when they end, and ended together with whoever started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from paceline.reading import shown_lines

FIRST, LONGEST, STEADY = 0.5, 20.0, 60.0
"""Seconds before the first restart, before any, and after which a process counts as steady."""
GENTLE = 8.0
"""Seconds in which a process that was asked to end may do so."""
_PR_SET_PDEATHSIG = 1
COMPLAINT = re.compile(r"error|fail|refused|\[code: \d+\]", re.IGNORECASE)
"""What a line of a log has in it that says what is wrong."""


def environment(home: Path) -> dict[str, str]:
    """What Flower's programs are started with: they call nobody, and keep their own things in one place."""
    own = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {
        **os.environ,
        "PATH": own,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25",
        "PACELINE_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


class Child:
    """One process, whichever it is at present."""

    def __init__(self, name: str, command: Sequence[str], log: Path, surroundings: Mapping[str, str]) -> None:
        self.name = name
        self.starts = 0
        self._command = list(command)
        self._log = log
        self._environment = dict(surroundings)
        self._process: subprocess.Popen[bytes] | None = None
        self._pause = FIRST
        self._begun = 0.0
        self._due: float | None = None

    @property
    def pid(self) -> int | None:
        """The number of the process while it runs, else None."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process is not None else None

    def start(self) -> None:
        """Start the process, with its output appended to its log."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            # Started by the only thread there is, so nothing can be locked in the child.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509
            )
        self.starts += 1
        self._begun, self._due = time.monotonic(), None

    def tend(self, say: Callable[[str], None] = lambda line: None) -> None:
        """Start it again if it has ended, later each time, and say so."""
        if self._process is None or (status := self._process.poll()) is None:
            return
        now = time.monotonic()
        if self._due is None:
            self._pause = FIRST if now - self._begun > STEADY else min(2 * self._pause, LONGEST)
            self._due = now + self._pause
            why = f": {found}" if (found := self._complaint()) else ""
            say(f"{self.name} has ended (status {status}){why}; again in {self._pause:g} s, see {self._log}")
        elif now >= self._due:
            end_group(self._process.pid, signal.SIGKILL)  # whatever it had started
            self.start()

    def stop(self) -> None:
        """Ask it to end, and what it started; whoever does not is ended."""
        if self._process is None:
            return
        end_group(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GENTLE)
        end_group(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _complaint(self) -> str:
        """The last line of its log that says what is wrong, if any does."""
        found = [line.strip() for line in self.last_words(40).splitlines() if COMPLAINT.search(line)]
        return found[-1][:300] if found else ""

    def last_words(self, lines: int = 15) -> str:
        """Return the last lines of the process's log."""
        try:
            return shown_lines(self._log.read_text(encoding="utf-8", errors="replace"), lines)
        except OSError:
            return ""


class Children:
    """Some processes that belong together: ended in the reverse order of their start."""

    def __init__(self) -> None:
        self.all: list[Child] = []

    def add(self, child: Child) -> Child:
        """Start one more process and look after it."""
        self.all.append(child)
        child.start()
        return child

    def tend(self, say: Callable[[str], None] = lambda line: None) -> None:
        """Start again whoever has ended, and say so."""
        for child in self.all:
            child.tend(say)

    def stop(self) -> None:
        """End all processes, the last one first."""
        for child in reversed(self.all):
            child.stop()


def end_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process and to all that it started."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _die_with_parent() -> None:
    """Where the system can do it (Linux): be asked to end when the parent is gone, however it went."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    except (OSError, AttributeError):
        return
