"""Moments at which something failed, which charts mark with a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.report.runs import Group, Note, Run
from paceline.report.text import seconds


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A moment that is marked in a chart by a line with a label."""

    time: float
    label: str
    """A word or two beside the line."""
    text: str
    """What is shown when somebody points at the mark."""


def failures(run: Run) -> list[Mark]:
    """What failed in a run, in the order of time."""
    found = [note for note in run.notes if note.kind == "failure" and note.time >= 0]
    return [_mark(note) for note in sorted(found, key=lambda note: note.time)]


def of_groups(groups: Sequence[Group]) -> list[Mark]:
    """What failed in the first seed of each group; what failed in several of them at one moment counts once."""
    found: dict[tuple[float, str], Mark] = {}
    for group in groups:
        for mark in failures(group.runs[0]):
            found.setdefault((mark.time, mark.label), mark)
    return sorted(found.values(), key=lambda mark: mark.time)


def _mark(note: Note) -> Mark:
    return Mark(time=note.time, label=f"{note.name} fails", text=f"{note.name} has failed at {seconds(note.time)}")
