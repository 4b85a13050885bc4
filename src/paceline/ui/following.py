"""What has come to a run's metrics since somebody last looked: whole lines from a byte on."""

from __future__ import annotations

from typing import Any

from paceline.errors import PacelineError
from paceline.reading import open_file, parse_object
from paceline.ui.listing import FIGURES, Listed, number

PART = 1 << 20
"""Bytes that are read at a time; who is behind asks again at once."""


def news(run: Listed, begin: int) -> dict[str, Any]:
    """The rows after the first ``begin`` bytes, as columns would be too long to say: one list a row."""
    rows: list[list[float | None]] = []
    problem, end, more = run.problem, begin, False
    try:
        data = _part(run, begin)
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == PART:
            raise ValueError("a line of metrics.jsonl is longer than a mebibyte")
        rows = [_row(line) for line in data[:whole].split(b"\n") if line.strip()]
        end, more = begin + whole, len(data) == PART
    except (PacelineError, OSError, ValueError) as wrong:
        problem = str(wrong)[:500]
    return {"name": run.name, "status": run.status, "rows": rows, "next": end, "more": more, "problem": problem}


def _part(run: Listed, begin: int) -> bytes:
    path = run.path / "metrics.jsonl"
    if path.is_symlink():
        raise ValueError("metrics.jsonl is a link, and links are not followed")
    if not path.exists():
        return b""
    with open_file(path) as file:
        file.seek(begin)
        return file.read(PART)


def _row(line: bytes) -> list[float | None]:
    row = parse_object(line.decode("utf-8", "replace"), "metrics.jsonl")
    return [number(row.get(key)) for key in FIGURES]
