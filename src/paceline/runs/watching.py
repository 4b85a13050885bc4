"""Whoever shows how an experiment goes on: told of its phases, then free to look at its runs at any time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from paceline.learn.executor import Executor
    from paceline.runs.run import Run


class Watcher(Protocol):
    """Looks on and changes nothing; it may look from a thread of its own."""

    def phase(self, name: str, about: str = "") -> None:
        """Something that may take long begins: ``loading``, ``preparing``, ``learning``."""
        ...

    def watch(self, runs: Sequence[Run], executor: Executor | None) -> None:
        """These runs are about to begin, and this computes what they learn; None where nothing is learned here."""
        ...


class Nobody:
    """Watches nothing."""

    def phase(self, name: str, about: str = "") -> None:
        """Not told to anybody."""

    def watch(self, runs: Sequence[Run], executor: Executor | None) -> None:
        """Not looked at by anybody."""


NOBODY = Nobody()
