"""Run one process and say how long it took and how much memory it and its children had, from start to end."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARK = "PACELINE_PEER_RUN"
"""Children inherit it, so even those that a framework detaches from its process are found."""
EVERY = 0.25
"""Seconds between looks at the memory of all processes of a run; shorter peaks are missed."""


@dataclass
class Measured:
    """One run of one peer."""

    wall: float
    largest: float
    """MiB of the largest process (ru_maxrss of it and of the children it waited for)."""
    tree: float | None
    """MiB of all its processes together at most; shared pages are counted once. None where /proc cannot tell."""
    told: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def measure(command: list[str], environment: dict[str, str], log: Path, limit: float) -> Measured:
    """Run it; what it prints goes to the log, and the log's last line of JSON is what it tells."""
    mark = uuid.uuid4().hex
    with log.open("w+", encoding="utf-8") as output:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command,
            env={**environment, MARK: mark},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        watch = Watch(mark)
        watch.start()
        timer = threading.Timer(limit, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        timer.cancel()
        tree = watch.finish()
        output.seek(0)
        lines = output.read().splitlines()
    found = Measured(wall, usage.ru_maxrss / 1024, tree)
    if process.returncode:
        found.error = f"exit status {process.returncode}: {_complaint(lines)}"
        if process.returncode == -9 and wall >= limit:
            found.error = f"stopped after {limit:.0f} s"
        return found
    told = [line for line in lines if line.startswith('{"configuration"')]
    found.told = json.loads(told[-1]) if told else {}
    found.error = "" if told else "it printed no result"
    return found


def _complaint(lines: list[str]) -> str:
    wrong = [line for line in lines if "Error" in line]
    return (wrong or lines or ["no output"])[-1].strip()[:200]


class Watch(threading.Thread):
    """Looks at the memory of all processes that carry a mark."""

    def __init__(self, mark: str) -> None:
        super().__init__(daemon=True)
        self._needle = f"{MARK}={mark}".encode()
        self._stop_it = threading.Event()
        self._most = 0.0

    def run(self) -> None:
        """Look until told to stop."""
        while not self._stop_it.wait(EVERY):
            self._most = max(self._most, sum(map(_mebibytes, self._processes())))

    def finish(self) -> float | None:
        """The most there was."""
        self._stop_it.set()
        self.join()
        return self._most or None

    def _processes(self) -> list[Path]:
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if self._needle in (place / "environ").read_bytes():
                    found.append(place)
            except OSError:  # it has ended, or is somebody else's
                continue
        return found


def _mebibytes(place: Path) -> float:
    """Proportional set size: a page that n processes share counts as 1/n in each."""
    try:
        text = (place / "smaps_rollup").read_text()
    except OSError:
        return 0.0
    lines = [line for line in text.splitlines() if line.startswith("Pss:")]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0
