"""Letters sent through Flower's grid. One thread sends them, one polls for replies, and one enforces deadlines.

Replies are pulled one by one: one that is half uploaded would delay the others. A failed letter is
reported as ``Lost``, with Flower's code, and its sender decides whether to send it again. Deadlines hold even if the
SuperLink neither answers nor hangs up. Any other failure of a thread ends all threads and is reported.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

from paceline.errors import WireError
from paceline.federation.records import from_records, to_records
from paceline.reading import cleaned
from paceline.worlds.local.frames import Frame

T = TypeVar("T")
LOG = logging.getLogger(__name__)
POLL, LOOK = 0.1, 3.0
"""Seconds between two looks for replies, and for who is there."""
REST, PARTING = 1.0, 5.0
"""Seconds between attempts to reach the SuperLink, and the longest wait for an open call at the end."""
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
    """Function that receives the reply: called at most once, in a thread of the courier."""
    pushed: float = 0.0
    deadline: float = field(default=0.0)
    """Instant of the deadline [default: ``seconds`` after sending]."""


class Courier:
    """Carries letters until it is stopped."""

    def __init__(
        self,
        grid: Grid,
        most: int,
        on_look: Callable[[Mapping[int, bytes]], None],
        on_end: Callable[[BaseException], None],
    ) -> None:
        self._grid = grid
        self._most = most
        self._on_look = on_look
        self._on_end = on_end
        self._outbox: queue.SimpleQueue[Letter | None] = queue.SimpleQueue()
        self._open: set[Letter] = set()
        """Letters without a reply."""
        self._flying: dict[str, Letter] = {}
        """Open letters that were sent."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        works = (self._push, self._poll, self._expire)
        self._threads = [threading.Thread(target=partial(self._work, one), daemon=True) for one in works]

    def start(self) -> None:
        """Start to carry messages, in threads."""
        for thread in self._threads:
            thread.start()

    def send(self, letter: Letter) -> None:
        """Have a letter carried; this may be called from any thread."""
        letter.pushed = time.time()
        letter.deadline = letter.deadline or time.monotonic() + letter.seconds
        with self._lock:
            self._open.add(letter)
        self._outbox.put(letter)

    def abandon(self, node: int) -> None:
        """Stop waiting for replies from a node."""
        with self._lock:
            self._open = {letter for letter in self._open if letter.node != node}

    def stop(self) -> None:
        """Carry no more messages, and end the threads."""
        self._stopping.set()
        self._outbox.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join(PARTING)

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as problem:
            self._stopping.set()
            self._outbox.put(None)
            self._on_end(problem)

    def _asked(self, call: Callable[[], Iterable[T]]) -> list[T] | None:
        """Return the SuperLink's answer, or None if it cannot be reached. All other failures are permanent."""
        try:
            return list(call())
        except (httpx.HTTPError, OSError) as problem:
            LOG.warning("the SuperLink cannot be reached: %s", problem)
            self._stopping.wait(REST)
            return None

    def _reply(self, letter: Letter, reply: Reply) -> None:
        with self._lock:
            if letter not in self._open:
                return
            self._open.remove(letter)
        letter.replied(letter, reply)

    # -- in the thread that hands letters over ----------------------------------------------------------------------

    def _push(self) -> None:
        while (letter := self._outbox.get()) is not None and not self._stopping.is_set():
            self._push_one(letter)

    def _push_one(self, letter: Letter) -> None:
        records = to_records(letter.words, letter.blobs)
        while letter in self._open and not self._stopping.is_set():
            if (left := letter.deadline - time.monotonic()) <= 0:
                return
            message = Message(records, letter.node, "query", ttl=left)
            if (numbers := self._asked(partial(self._grid.push_messages, [message]))) is None:
                continue
            if numbers[0]:
                with self._lock:
                    self._flying[numbers[0]] = letter
            else:  # Flower has told of no such node
                self._reply(letter, Lost(LEFT, "the SuperLink does not take messages for this node"))
            return

    # -- in the thread that sees to deadlines -----------------------------------------------------------------------

    def _expire(self) -> None:
        while not self._stopping.wait(POLL):
            for letter in list(self._open):
                if letter.deadline <= time.monotonic():
                    self._reply(letter, Lost(LATE, f"no answer within {letter.seconds:g} s"))

    # -- in the thread that looks for replies -----------------------------------------------------------------------

    def _poll(self) -> None:
        look = 0.0
        while not self._stopping.wait(POLL):
            if time.monotonic() >= look:
                look = time.monotonic() + LOOK
                if (there := self._asked(self._grid.get_nodes)) is not None:
                    self._on_look({node.node_id: node.public_key for node in there})
            with self._lock:
                self._flying = {number: letter for number, letter in self._flying.items() if letter in self._open}
                flying = list(self._flying.items())
            for number, letter in flying:
                if (replies := self._asked(partial(self._grid.pull_messages, [number]))) is None:
                    break
                for reply in replies:
                    self._reply(letter, self._read(reply))

    def _read(self, message: Message) -> Reply:
        if message.has_error():
            return Lost(message.error.code, cleaned(message.error.reason or ""))
        try:
            return from_records(message.content, self._most)
        except WireError as problem:
            return Lost(REFUSED, str(problem))
