"""Letters by way of Flower's grid: one thread hands them over, one looks for replies, and each has a deadline.

Replies are pulled one by one: one that is half uploaded would delay the others. Whatever goes wrong on the way is
told as ``Lost``, with Flower's code; who sent the letter decides whether to send it again.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

from paceline.errors import WireError
from paceline.federation.records import from_records, to_records
from paceline.reading import cleaned
from paceline.worlds.local.frames import Frame

LOG = logging.getLogger(__name__)
POLL, LOOK = 0.1, 3.0
"""Seconds between two looks for replies, and for who is there."""
REST = 1.0
"""Seconds of rest after the SuperLink could not be reached."""
LATE, REFUSED, LEFT = -1, -2, -3
"""Codes of ours beside Flower's: no reply in time; a reply that is none; the node is not there."""


class Lost(NamedTuple):
    """A message without an answer, and the reason why there is none."""

    code: int
    reason: str


Reply = Frame | Lost


@dataclass(eq=False)
class Letter:
    """A message to a node, and who wants its reply."""

    node: int
    words: dict[str, Any]
    blobs: tuple[bytes, ...]
    seconds: float
    """How long its reply may take."""
    replied: Callable[[Letter, Reply], None]
    """Called once, in the thread that looks for replies."""
    pushed: float = 0.0
    deadline: float = field(default=0.0)


class Courier:
    """Carries letters until it is stopped."""

    def __init__(
        self, grid: Grid, most: int, on_look: Callable[[Mapping[int, bytes]], None], on_end: Callable[[str], None]
    ) -> None:
        self._grid = grid
        self._most = most
        self._on_look = on_look
        self._on_end = on_end
        self._outbox: queue.SimpleQueue[Letter | None] = queue.SimpleQueue()
        self._flying: dict[str, Letter] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._push, self._poll)]

    def start(self) -> None:
        """Start to carry messages, in threads."""
        for thread in self._threads:
            thread.start()

    def send(self, letter: Letter) -> None:
        """Have a letter carried; this may be called from any thread."""
        letter.pushed = time.time()
        letter.deadline = time.monotonic() + letter.seconds
        self._outbox.put(letter)

    def abandon(self, node: int) -> list[Letter]:
        """Letters to a node whose replies are no longer waited for."""
        with self._lock:
            gone = {number: letter for number, letter in self._flying.items() if letter.node == node}
            self._flying = {number: letter for number, letter in self._flying.items() if number not in gone}
        return list(gone.values())

    def stop(self) -> None:
        """Carry no more messages, and end the threads."""
        self._stopping.set()
        self._outbox.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join()

    # -- in the thread that hands letters over ----------------------------------------------------------------------

    def _push(self) -> None:
        while (letter := self._outbox.get()) is not None and not self._stopping.is_set():
            self._push_one(letter)

    def _push_one(self, letter: Letter) -> None:
        while not self._stopping.is_set():
            left = letter.deadline - time.monotonic()
            if left <= 0:
                letter.replied(letter, Lost(LATE, "the SuperLink could not be reached"))
                return
            try:
                message = Message(to_records(letter.words, letter.blobs), letter.node, "query", ttl=left)
                (number,) = self._grid.push_messages([message])
            except Exception as problem:
                self._trouble(problem)
                continue
            if number:
                with self._lock:
                    self._flying[number] = letter
            else:  # Flower has told of no such node
                letter.replied(letter, Lost(LEFT, "the SuperLink does not take messages for this node"))
            return

    # -- in the thread that looks for replies -----------------------------------------------------------------------

    def _poll(self) -> None:
        look = 0.0
        while not self._stopping.wait(POLL):
            try:
                if time.monotonic() >= look:
                    look = time.monotonic() + LOOK
                    self._on_look({node.node_id: node.public_key for node in self._grid.get_nodes()})
                with self._lock:
                    flying = list(self._flying.items())
                for number, letter in flying:
                    self._pull(number, letter)
            except Exception as problem:
                self._trouble(problem)

    def _pull(self, number: str, letter: Letter) -> None:
        replies = list(self._grid.pull_messages([number]))
        if not replies and time.monotonic() < letter.deadline:
            return
        with self._lock:
            if self._flying.pop(number, None) is None:
                return
        late = Lost(LATE, f"no answer within {letter.seconds:g} s")
        letter.replied(letter, self._read(replies[0]) if replies else late)

    def _read(self, message: Message) -> Reply:
        if message.has_error():
            return Lost(message.error.code, cleaned(message.error.reason or ""))
        try:
            return from_records(message.content, self._most)
        except WireError as problem:
            return Lost(REFUSED, str(problem))

    def _trouble(self, problem: Exception) -> None:
        """The SuperLink may come back; a run that it has ended does not, and a bug is no outage."""
        if isinstance(problem, httpx.HTTPError | OSError):
            LOG.warning("the SuperLink cannot be reached: %s", problem)
            self._stopping.wait(REST)
            return
        self._stopping.set()
        self._on_end(f"{type(problem).__name__}: {problem}")
