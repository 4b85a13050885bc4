"""Fewer trips: what a node is sent travels with what it is told next, and what it will send comes with what it made.

A trip takes seconds, whatever it carries. A model for a node waits here, on disk, until there is a task for it. And
what a node was asked to send after its last visit it will most likely be asked to send after the next: so it is told
at once, in the words in which it would be asked. Tasks are known by what they say; if the guess was right, the answer
is there when it is wanted, and if not, nobody has asked for it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paceline.worlds.local.frames import Frame, packed, unpacked

_ACT = re.compile(r"send\.(-?\d+)\.(-?\d+)\.(\d+)\.(.+)", re.ASCII)
"""A handle that is named after a transfer (see ``worlds.local.journal.Act``)."""


class Ask(NamedTuple):
    """A task in words and byte strings, with its number."""

    number: str
    words: dict[str, Any]
    blobs: tuple[bytes, ...]


def make_ask(words: dict[str, Any], blobs: Sequence[bytes]) -> Ask:
    """A task; what a node may forget besides is no part of what it is known by."""
    said = {name: value for name, value in words.items() if name != "forget"}
    found = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    for blob in blobs:
        found.update(hashlib.sha256(blob).digest())
    return Ask(found.hexdigest()[:32], words, tuple(blobs))


class Folding:
    """What waits for a trip, and what came with one before it was asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._waiting: dict[int, dict[str, Ask]] = defaultdict(dict)
        self._ready: dict[int, tuple[str, Frame]] = {}
        self._visit: dict[int, Mapping[str, Any]] = {}
        """The words of each client's last visit."""
        self._pattern: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        """A visit, and what was to be sent after it."""
        self._recall()

    # -- models on their way to a node ------------------------------------------------------------------------------

    def defer(self, client: int, ask: Ask) -> None:
        """Let a model wait for the next task; it is on disk, should this process end before."""
        path = self._file(client, ask.number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".new").write_bytes(packed(Frame({"words": ask.words}, ask.blobs)))
        path.with_suffix(".new").replace(path)
        self._waiting[client][ask.number] = ask

    def waiting(self, client: int) -> list[Ask]:
        """What goes along with the next task, in the order in which it was sent."""
        return list(self._waiting[client].values())

    def _recall(self) -> None:
        """What waited when another process ended."""
        files = sorted(self._directory.glob("*/*.frame"), key=lambda file: file.stat().st_mtime_ns)
        for file in files:
            if (kept := unpacked(file.read_bytes())) is not None:
                ask = Ask(file.stem, kept.words["words"], kept.blobs)
                self._waiting[int(file.parent.name)][ask.number] = ask

    def _file(self, client: int, number: str) -> Path:
        return self._directory / str(client) / f"{number}.frame"

    # -- what a node will send --------------------------------------------------------------------------------------

    def note(self, client: int, ask: Ask) -> None:
        """Learn from what is really asked."""
        if ask.words["do"] == "visit":
            self._visit[client] = ask.words
            self._ready.pop(client, None)
        elif ask.words["do"] == "send" and not ask.blobs and client in self._visit:
            said = {name: value for name, value in ask.words.items() if name != "forget"}
            self._pattern[client] = self._visit[client], said

    def guess(self, client: int, ask: Ask) -> Ask | None:
        """What will be asked after this visit, if it is as it was after the last."""
        if ask.words["do"] != "visit" or client not in self._pattern:
            return None
        visit, sent = self._pattern[client]
        names: dict[str, str] = {}
        if visit is ask.words or not _alike(visit, ask.words, names):
            return None
        return make_ask(_renamed(sent, names), ())

    def ready(self, client: int, number: str) -> Frame | None:
        """The answer to a task, if it came before it was asked for."""
        if client not in self._ready or self._ready[client][0] != number:
            return None
        return self._ready.pop(client)[1]

    def came(self, client: int, answers: Mapping[str, Frame], guess: Ask | None) -> None:
        """A trip has ended: what went along with it is there, and what came along with it is kept."""
        for number in answers:
            if self._waiting[client].pop(number, None) is not None:
                self._file(client, number).unlink(missing_ok=True)
        if guess is not None and guess.number in answers and "error" not in answers[guess.number].words:
            self._ready[client] = guess.number, answers[guess.number]


def _alike(one: Any, other: Any, names: dict[str, str]) -> bool:
    """Whether two visits differ only in numbers and in what models are called; ``names`` are told which is which."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = one.keys() - {"forget"}
        return keys == other.keys() - {"forget"} and all(_alike(one[key], other[key], names) for key in keys)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_alike(a, b, names) for a, b in zip(one, other, strict=True))
    if isinstance(one, str) and isinstance(other, str):
        return names.setdefault(one, other) == other
    return type(one) is type(other)


def _renamed(words: Any, names: Mapping[str, str]) -> Any:
    """The same words of the next visit."""
    if isinstance(words, Mapping):
        return {key: _renamed(value, names) for key, value in words.items()}
    if isinstance(words, list | tuple):
        return [_renamed(value, names) for value in words]
    if not isinstance(words, str):
        return words
    if words in names:
        return names[words]
    if (act := _ACT.fullmatch(words)) is not None:  # what a transfer makes is named after it: it will be the next
        return f"send.{act[1]}.{act[2]}.{int(act[3]) + 1}.{act[4]}"
    return words
