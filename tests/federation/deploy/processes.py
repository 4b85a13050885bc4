"""Flower's own programs as processes of a test: each with its log, all of them ended with it."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PROGRAMS = Path(sys.executable).parent
PATIENCE = 120.0
"""Seconds for which a test waits for what ought to happen; a busy machine takes its time."""
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}


def free_port():
    """A port of loopback on which nobody listens."""
    for port in random.sample(range(19000, 20000), 1000):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


def until(holds, what):
    """Wait for it."""
    end = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, f"waited in vain for: {what()}"
        time.sleep(0.05)
    return found


class Processes:
    """What a test started."""

    def __init__(self, folder):
        self.folder = folder
        self._started = []
        self._environment = os.environ | QUIET | {"FLWR_HOME": str(folder / "flower")}
        self._environment["PATH"] = f"{PROGRAMS}:{os.environ['PATH']}"  # Flower starts others by name

    def start(self, name, *words):
        """A program with its own process group, and the file of what it says."""
        log = self.folder / f"{name}-{len(self._started)}.log"
        with log.open("wb") as file:
            program = subprocess.Popen(
                words, stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=self._environment,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        self._started.append(program)
        return program, log

    def ended(self, program):
        """How a program ended, when it has."""
        return program.wait(PATIENCE)

    def close(self):
        """Nobody outlives the test."""
        for program in reversed(self._started):
            _signal(program, signal.SIGTERM)
        end = time.monotonic() + 10
        for program in self._started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(max(0.1, end - time.monotonic()))
            _signal(program, signal.SIGKILL)
            program.wait()


def _signal(program, number):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, number)
