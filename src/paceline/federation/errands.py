"""A task on its way to a node, as often as it is sent, and the answers that come back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from paceline.bounds import is_number
from paceline.errors import WireError
from paceline.federation.folding import Ask
from paceline.reading import cleaned
from paceline.worlds.local.frames import Frame
from paceline.worlds.local.hosts import Answered

PROBE = 30.0
"""Seconds after which a node that has not answered is asked whether it is there."""


@dataclass(eq=False)
class Errand:
    """A task on its way, as often as it is sent."""

    client: int
    ask: Ask
    answered: Answered
    begun: float
    guess: Ask | None = None
    """What will be asked next, most likely, and is done at once."""
    tries: int = 0
    done: bool = False

    def is_slow(self) -> bool:
        """Whether it is worth asking if anybody is there."""
        return time.monotonic() > self.begun + PROBE * self.tries


def answers_of(reply: Frame, number: str) -> dict[str, Frame]:
    """What a node answered, by the tasks' numbers; ``WireError`` if the one that is asked for is not among them."""
    if "error" in reply.words:
        return {number: Frame(_told(reply.words))}
    found: dict[str, Frame] = {}
    said, start = reply.words.get("answers"), 0
    try:
        for answer in said if isinstance(said, list) else ():
            name, words, count = str(answer["id"]), _told(answer["words"]), answer["blobs"]
            if type(count) is not int or not 0 <= count <= len(reply.blobs) - start:
                raise ValueError
            found[name] = Frame(words, reply.blobs[start : start + count])
            start += count
    except (TypeError, KeyError, ValueError):
        raise WireError("its answers and the arrays that came with them do not go together") from None
    if number not in found:
        raise WireError("it answered something else than it was asked")
    return found


def _told(words: Any) -> dict[str, Any]:
    """Return a node's words with a printable error, and without ``lost``, which only this process may set."""
    said = dict(words)
    if "error" in said:
        return {"error": cleaned(str(said["error"]))}
    return {name: value for name, value in said.items() if name != "lost"}


def times_of(reply: Frame) -> dict[str, float]:
    """Return when a node received, worked on and answered a message, by its clock; empty unless all are numbers."""
    said, names = reply.words.get("times"), ("arrived", "began", "ended", "left")
    told = {name: said[name] for name in names if is_number(said.get(name))} if isinstance(said, dict) else {}
    return told if len(told) == len(names) else {}
