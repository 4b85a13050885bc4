"""What a run tells besides its costs: decisions, failures, and values that are counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

EventKind = Literal["decision", "failure", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a run and that its log and report say."""

    text: str
    """What happened, in words for people."""
    kind: EventKind = "decision"
    """What was decided; what failed (``sites`` says who); why the run ended before its last round."""
    sites: tuple[int, ...] = ()
    """The server that failed, or the two between which a link did."""
    name: str = ""
    """What failed, in a few words: ``server 4``, ``link 1–2``."""
    figures: dict[str, Any] = field(default_factory=dict)
    """What happened, in numbers for programs."""


@dataclass(frozen=True, slots=True)
class Told:
    """An event, and when it was told."""

    time: float
    event: Event

    @property
    def text(self) -> str:
        """What happened, in words."""
        return self.event.text

    @property
    def figures(self) -> dict[str, Any]:
        """What happened, in numbers."""
        return self.event.figures

    def plain(self) -> dict[str, Any]:
        """The event as it is written into summary.json."""
        event = self.event
        return {
            "time": self.time,
            "kind": event.kind,
            "text": event.text,
            "sites": list(event.sites),
            "name": event.name,
            "figures": event.figures,
        }


class Chronicle:
    """All events of one run, and how often each counted value came up."""

    def __init__(self) -> None:
        self.events: list[Told] = []
        self.counts: dict[str, Counter[int]] = {}

    def tell(self, time: float, event: Event) -> None:
        """Keep an event that happened at this time."""
        self.events.append(Told(time, event))

    def count(self, name: str, value: int, times: int = 1) -> None:
        """Count a value that came up once more, or so often, under the name of its distribution."""
        counted = self.counts.get(name)
        if counted is None:
            counted = self.counts[name] = Counter()
        counted[value] += times
