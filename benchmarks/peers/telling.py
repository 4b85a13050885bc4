"""What a peer's script prints: one line of JSON, the last of its output."""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path


class Teller:
    """Keeps the scores of each round and when they were known."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages
        self._begin = time.perf_counter()
        self._imported = 0.0
        """Seconds from the script's first line until it asked for the workload: all that it needs is imported."""
        self.marks: list[float] = []
        """Seconds from the script's first line to the end of each round, scoring included."""
        self.losses: list[float] = []
        self.accuracies: list[float] = []
        self.rate: float | None = None
        """Visits a second, where the marks do not tell it."""

    @property
    def path(self) -> Path:
        """The workload's file, the script's only argument."""
        self._imported = self._imported or time.perf_counter() - self._begin
        return Path(sys.argv[1])

    def round(self, loss: float, accuracy: float) -> None:
        """Note that a round is over and scored."""
        self.marks.append(time.perf_counter() - self._begin)
        self.losses.append(float(loss))
        self.accuracies.append(float(accuracy))

    def tell(self, configuration: str) -> None:
        """Print the line."""
        told = {
            "configuration": configuration,
            "versions": {name: version(name) for name in self._packages},
            "python": sys.version.split()[0],
            "marks": self.marks,
            "losses": self.losses,
            "accuracies": self.accuracies,
            "seconds": {"all": time.perf_counter() - self._begin, "imports": self._imported},
        }
        if self.rate is not None:
            told["rate"] = self.rate
        print(json.dumps(told), flush=True)
