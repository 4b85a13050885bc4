"""What a reproduction found: rows of the paper's number, ours, and whether they agree."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

Cell = float | str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One number or claim of a paper, and ours beside it."""

    name: str
    paper: Cell
    """What the paper says; None where it prints nothing."""
    ours: Cell
    unit: str = ""
    ok: bool | None = None
    """Whether they agree within the tolerance that the reproduction states; None: there is nothing to compare."""
    note: str = ""
    reference: Cell = None
    """What ours is compared with where the paper prints nothing: a formula, or an independent calculation."""
    slip: bool = False
    """Whether our result disagrees with the printed one and agrees with the correct one, as the note explains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How a reproduction is wanted."""

    scale: str | None = None
    """One of the entry's scales; None where there is no choice."""
    seeds: int = 5
    out: Path | None = None
    """A directory that exists, for what is worth keeping."""
    quiet: bool = False
    data: str | None = None
    """One of the experiment's datasets; None is all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """All rows of one table or figure.

    A paper's function gives the rows, a note and perhaps a figure; the registry, which knows it, fills in the rest.
    """

    rows: Sequence[Row]
    note: str = ""
    figure: Callable[[], Any] | None = None
    """Makes the matplotlib figure; called only when somebody wants to see it."""
    id: str = ""
    title: str = ""
    seconds: float = 0.0
    scale: str | None = None
    hardware: str = ""

    def to_json(self) -> dict[str, Any]:
        """The object that ``--json`` prints; NaN and infinity, which JSON lacks, are null."""
        return {
            "id": self.id,
            "title": self.title,
            "scale": self.scale,
            "hardware": self.hardware,
            "rows": [_plain(row) for row in self.rows],
            "seconds": round(self.seconds, 3),
            "note": self.note,
        }


def compared(name: str, paper: float, ours: float, *, within: float, unit: str = "", note: str = "") -> Row:
    """A row that is ok if the two numbers differ by at most ``within``; a NaN never is."""
    slack = 1e-9 * max(1.0, abs(paper))  # the paper's 0.30 and our 0.31 differ by 0.01, whatever binary says
    return Row(name, float(paper), float(ours), unit, bool(abs(paper - ours) <= within + slack), note)


def claimed(name: str, paper: str, ours: str, holds: bool, note: str = "") -> Row:
    """A row for something that the paper says in words."""
    return Row(name, paper, ours, "", bool(holds), note)


def by_reference(row: Row) -> Row:
    """The same row, where the number that ours is compared with does not stand in the paper."""
    return replace(row, paper=None, reference=row.paper)


def _plain(row: Row) -> dict[str, Any]:
    return asdict(row) | {name: _finite(getattr(row, name)) for name in ("paper", "ours", "reference")}


def _finite(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def hardware(*, trained: bool) -> str:
    """What the numbers were computed on: the GPU if there is one and something was trained, else the processor."""
    if trained:
        import torch

        if torch.cuda.is_available():
            return torch.cuda.get_device_name()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{_processor()}, {cores} core{'s' if cores > 1 else ''}"


def _processor() -> str:
    """The processor's name; on Linux ``platform.processor`` is empty or says only the instruction set."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
