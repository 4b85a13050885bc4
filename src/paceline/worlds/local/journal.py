"""What happened when in a run on the wall clock: enough to run it again in a simulation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

from paceline.errors import DataError
from paceline.reading import read_text

What = Literal["visit", "send", "work", "online", "offline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One act, or a device that came or went (then ``end`` is when)."""

    what: What
    site: int
    target: int = 0
    """Of a transfer."""
    number: int = 0
    """Which of its kind it is: acts of one kind are counted as they begin, per site and target."""
    start: float = 0.0
    end: float = 0.0
    outcome: str = ""
    """Why it was dropped; empty if it was not."""
    dropped: int = 0
    """The site that dropped out."""
    gone: bool = False
    bytes: float = 0.0
    computed: float = 0.0
    """Seconds that the worker itself took, by its own clock."""


class Journal:
    """Writes entries as they come."""

    def __init__(self) -> None:
        self._file: TextIO | None = None

    def open(self, path: Path) -> None:
        """Write them into this file."""
        self._file = path.open("w", encoding="utf-8")

    def add(self, entry: Entry) -> None:
        """Keep one, if there is a file."""
        if self._file is not None:
            self._file.write(json.dumps(asdict(entry)) + "\n")
            self._file.flush()

    def close(self) -> None:
        """No more."""
        if self._file is not None:
            self._file.close()
            self._file = None


LARGEST = 1 << 30
"""Bytes of a journal."""
Act = tuple[str, int, int, int]
"""What, site, target and number."""


def read_journal(path: Path) -> list[Entry]:
    """All entries; a line that is none is named."""
    entries = []
    try:
        lines = read_text(path, most=LARGEST).splitlines()
    except OSError as problem:
        raise DataError(f"{path}: {problem.strerror}; only runs with --world local have a journal") from None
    for number, line in enumerate(lines, start=1):
        try:
            words: dict[str, Any] = json.loads(line)
            entries.append(Entry(**words))
        except (ValueError, TypeError):
            raise DataError(f"{path}, line {number} is no entry of a journal: {line[:80]!r}") from None
    return entries


def by_act(entries: Iterable[Entry]) -> dict[Act, Entry]:
    """Every act that came to an end."""
    acts = (entry for entry in entries if entry.what in ("visit", "send", "work"))
    return {(entry.what, entry.site, entry.target, entry.number): entry for entry in acts}
