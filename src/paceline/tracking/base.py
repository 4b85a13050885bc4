"""What a tracker is for a run: a book that takes rows of metrics and a summary, and knows which it has already."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class Page:
    """The run that a book is about."""

    name: str
    """The algorithm and the seed, in words."""
    directory: Path
    """The run's own directory."""
    key: str
    """What names the run among those of all commands: the same when it goes on after an interruption."""
    parameters: dict[str, str]
    """Every setting by its dotted name."""


class Book(Protocol):
    """One run in one tracker."""

    rows: int
    """How many rows are in it, also from before the run was interrupted."""
    ended: bool
    """Whether its summary is in it."""

    def write(self, step: int, time: float, figures: Mapping[str, float]) -> None:
        """One more row: a round, its virtual time and what was measured, all of it or nothing."""
        ...

    def end(self, status: str, time: float, figures: Mapping[str, float]) -> None:
        """The summary: how the run ended, at which virtual time, and its figures."""
        ...

    def close(self) -> None:
        """Have all of it on disk."""
        ...


class Tracker(Protocol):
    """All books of one command in one tracker."""

    def open(self, page: Page) -> Book:
        """The book of a run: a new one, or the one that was begun before."""
        ...

    def close(self) -> None:
        """End what the tracker has started."""
        ...


def figures(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The finite numbers among these values by their dotted names, in letters that every tracker takes.

    >>> figures({"time": 3, "loss": None, "target": {"time": 2.5}, "done": True})
    {'time': 3.0, 'target.time': 2.5}
    """
    found: dict[str, float] = {}
    for key, value in values.items():
        name = prefix + re.sub(r"[^\w.-]", "_", str(key))
        if isinstance(value, Mapping):
            found |= figures(value, f"{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[name] = float(value)
    return found
