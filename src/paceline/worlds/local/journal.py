"""What happened when in a run on the wall clock: enough to run it again in a simulation, or to go on with it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

from paceline.errors import DataError
from paceline.ledger.durable import flush
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
    figure: float | None = None
    """The number that came with what a visit made."""
    kept: tuple[tuple[int, int], ...] = ()
    """Where the bytes are that came to a server: beginning and length, model by model (see ``arrivals``)."""

    @property
    def act(self) -> Act:
        """The act that this entry is about."""
        return Act(self.what, self.site, self.target, self.number)


class Act(NamedTuple):
    """Which act one is: the same in a repetition of the run."""

    what: str
    site: int
    target: int
    number: int

    def handle(self, part: str) -> str:
        """What a device calls a part of what this act made."""
        return f"{self.what}.{self.site}.{self.target}.{self.number}.{part}"


class Journal:
    """Writes entries as they come; acts that are in it already are not written again.

    A ``durable`` one is on the disk before anybody goes on, so that no device ever knows of more than it.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self._durable = durable
        self._file: TextIO | None = None
        self._past: frozenset[Act] = frozenset()

    def open(self, path: Path, past: Iterable[Entry] | None = None) -> None:
        """Write them into this file; after those of the ``past``, which are there, if it is gone on with."""
        if past is not None and path.exists():
            _cut_torn(path)
        self._past = frozenset(by_act(past or ()))
        self._file = path.open("w" if past is None else "a", encoding="utf-8")

    def add(self, entry: Entry) -> None:
        """Keep one, if there is a file."""
        if self._file is not None and entry.act not in self._past:
            self._file.write(json.dumps(asdict(entry)) + "\n")
            flush(self._file, durably=self._durable)

    def close(self) -> None:
        """Close the file; no entry can be added any more."""
        if self._file is not None:
            self._file.close()
            self._file = None


LARGEST = 1 << 30
"""Bytes of a journal."""


def read_journal(path: Path, *, torn: bool = False) -> list[Entry]:
    """All entries; a line that is none is named, unless it is the last and may be ``torn``."""
    entries = []
    try:
        text = read_text(path, most=LARGEST)
        lines = (text[: text.rfind("\n") + 1] if torn else text).splitlines()
    except OSError as problem:
        raise DataError(f"{path}: {problem.strerror}; only runs with --world local have a journal") from None
    for number, line in enumerate(lines, start=1):
        try:
            words: dict[str, Any] = json.loads(line)
            words["kept"] = tuple((int(begin), int(size)) for begin, size in words.get("kept", ()))
            entries.append(_checked(Entry(**words)))
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            raise DataError(f"{path}, line {number} is no entry of a journal: {line[:80]!r}") from None
    return entries


def _checked(entry: Entry) -> Entry:
    """The same entry, if its parts are of their kinds; ``TypeError`` if somebody else has written it."""
    whole = (entry.site, entry.target, entry.number, entry.dropped)
    numbers = (entry.start, entry.end, entry.bytes, entry.computed, 0.0 if entry.figure is None else entry.figure)
    texts = isinstance(entry.what, str) and isinstance(entry.outcome, str)
    if (
        not texts
        or not all(type(one) is int for one in whole)
        or not all(type(one) in (int, float) for one in numbers)
    ):
        raise TypeError(entry)
    return entry


def by_act(entries: Iterable[Entry]) -> dict[Act, Entry]:
    """Every act that came to an end."""
    acts = (entry for entry in entries if entry.what in ("visit", "send", "work"))
    return {entry.act: entry for entry in acts}


def _cut_torn(path: Path) -> None:
    """Take off a last line that was not written to its end."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
