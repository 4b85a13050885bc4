"""Who hosts devices, as the orchestrator sees it: it asks in words and byte strings, and is told who comes and goes.

Processes of this machine (``workers``) are one way to host them, nodes of a federation another; neither algorithms
nor hands, journals and recordings know which it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from paceline.clock import WallClock
from paceline.worlds.local.frames import Frame

Answered = Callable[[Frame | None], None]
"""Told what a host answered; None if it was lost before."""


class Contact(Protocol):
    """Whoever answers for a device."""

    def ask(self, words: dict[str, Any], blobs: Sequence[bytes], answered: Answered) -> None:
        """Have it do something; the answer is an event of the clock."""
        ...

    def ask_now(self, words: dict[str, Any], blobs: Sequence[bytes]) -> Frame | None:
        """Have it do something and wait for the answer, outside the run's time; None if it is lost before."""
        ...


class Hosts(Protocol):
    """All who host devices of a run."""

    def start(self) -> None:
        """Wait until all are there."""
        ...

    def of(self, client: int) -> Contact:
        """Who answers for a client."""
        ...

    def stop(self) -> None:
        """End all hosts, since the run is over."""
        ...


class Scene(NamedTuple):
    """What hosts are told of the run that they are for."""

    clock: WallClock
    settings: dict[str, Any]
    clients: int
    directory: Path
    """Where hosts of this machine keep what devices hold."""
    on_presence: Callable[[int, bool], None]
    """Told, as an event of the clock, which client has come or gone."""


MakeHosts = Callable[[Scene], Hosts]
