"""Moments at which something failed, as lines across a chart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.report.runs import Group, Note, Run
from paceline.report.text import seconds, tag, words

ROW = 13
"""Height of a row of labels."""
ROWS = 3
"""Where labels would lie upon one another they take further rows; so many, then only the line is drawn."""
_CHARACTER = 6.0
"""Width of a character of a label: wider than most are."""


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


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A mark on the paper; without a row there is no place for its label."""

    mark: Mark
    x: float
    row: int | None
    before: bool
    """Whether the label stands left of the line, since there is no place at its right."""


def place(marks: Sequence[Mark], x: Callable[[float], float], right: float) -> list[Placed]:
    """Where lines and labels go: each label in the first row in which it is free."""
    ends = [-1.0] * ROWS
    placed = []
    for mark in marks:
        at, length = x(mark.time), _CHARACTER * len(mark.label) + 4
        before = at + length > right
        begin = at - length if before else at
        row = next((k for k, end in enumerate(ends) if begin > end), None)
        if row is not None:
            ends[row] = begin + length
        placed.append(Placed(mark=mark, x=at, row=row, before=before))
    return placed


def draw(placed: Sequence[Placed], top: float, floor: float) -> list[str]:
    """The lines and labels, from this height on; labels stand below it, row by row."""
    parts = []
    for one in placed:
        body = words("title", one.mark.text)
        for look in ("grip", "fail"):
            body += tag("line", x1=one.x, x2=one.x, y1=top, y2=floor, class_=look)
        if one.row is not None:
            at = one.x - 4 if one.before else one.x + 4
            side = "tick failed end" if one.before else "tick failed"
            body += words("text", one.mark.label, x=at, y=top + ROW * one.row + 10, class_=side)
        parts.append(tag("g", body, class_="mark"))
    return parts
