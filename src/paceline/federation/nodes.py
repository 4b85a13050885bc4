"""Nodes of a federation as hosts of devices: who is which client, who is there, and tasks that count once.

Every task has a number that is made of what it says. So one that is sent again, because its answer was lost or this
process was started anew, is known to the node, which answers it from its cache.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from paceline.errors import SiteError, WireError
from paceline.federation.config import Limits
from paceline.federation.courier import REFUSED, Courier, Grid, Letter, Lost, Reply
from paceline.worlds.local.frames import Frame
from paceline.worlds.local.hosts import Answered, Scene

LOG = logging.getLogger(__name__)
FORMAT = 1
"""Of what is said to nodes; one that speaks another is refused."""
GREETING = 60.0
"""Seconds in which a node must say who it is."""
PROBE = 30.0
"""Seconds after which a node that has not answered is asked whether it is there."""
TRIES = 3
"""How often a task is sent before its device counts as lost."""
AGAIN = (0, 3, 4, 8)
"""Flower's codes of mishaps on the way to a node that may well be there: unknown, a message or a reply that is not
there any more, an application that crashed."""


@dataclass(eq=False)
class Errand:
    """A task on its way, as often as it is sent."""

    client: int
    words: dict[str, Any]
    blobs: tuple[bytes, ...]
    answered: Answered
    number: str
    begun: float
    tries: int = 0
    done: bool = False

    def is_slow(self) -> bool:
        """Whether it is worth asking if anybody is there."""
        return time.monotonic() > self.begun + PROBE * self.tries


class Nodes:
    """All nodes of a run; each is one client."""

    def __init__(
        self,
        grid: Grid,
        run: str,
        limits: Limits,
        scene: Scene,
        *,
        on_trip: Callable[[dict[str, Any]], None] = lambda trip: None,
        waiting: float = float("inf"),
    ) -> None:
        self._run = run
        self._limits = limits
        self._scene = scene
        self._on_trip = on_trip
        self._waiting = waiting
        """Seconds for which nodes are waited for in the beginning."""
        self._courier = Courier(grid, limits.bytes, self._look, self._end)
        self._lock = threading.RLock()
        self._node: dict[int, int] = {}
        """The node that a client is, if it is there."""
        self._asked: dict[int, float] = {}
        """Nodes that have been asked who they are, and when they may be asked again."""
        self._errands: dict[int, list[Errand]] = {client: [] for client in range(scene.clients)}
        self._all = threading.Event()
        self._started = False
        self._problem: str | None = None
        self._letters = itertools.count()

    # -- what the orchestrator asks -------------------------------------------------------------------------------

    def start(self) -> None:
        """Wait until every client has its node."""
        self._courier.start()
        until = time.monotonic() + self._waiting
        while not self._all.wait(min(10.0, max(0.0, until - time.monotonic()))):
            missing = [client for client in range(self._scene.clients) if client not in self._node]
            LOG.warning("waiting for the nodes of clients %s", missing)
            if self._problem is not None or time.monotonic() >= until:
                self.stop()
                raise SiteError(self._problem or f"the nodes of clients {missing} have not joined")
        self._started = True

    def of(self, client: int) -> Node:
        """The node that a client is."""
        return Node(self, client, self._scene)

    def stop(self) -> None:
        """The run is over."""
        self._scene.clock.expecting = False
        self._courier.stop()

    def ask(self, client: int, words: dict[str, Any], blobs: Sequence[bytes], answered: Answered) -> None:
        """Have a node do something; ``answered`` is called from another thread."""
        said = {name: value for name, value in words.items() if name != "forget"}
        errand = Errand(client, words, tuple(blobs), answered, number_of(said, blobs), time.monotonic())
        with self._lock:
            there = client in self._node
            if there:
                self._errands[client].append(errand)
        if there:
            self._send(errand)
        else:
            answered(None)

    # -- tasks ----------------------------------------------------------------------------------------------------

    def _send(self, errand: Errand) -> None:
        errand.tries += 1
        ask = {"id": errand.number, "words": errand.words, "blobs": len(errand.blobs)}
        words = self._said({"do": "tasks", "asks": [ask]})
        left = errand.begun + self._limits.seconds - time.monotonic()
        with self._lock:
            node = self._node.get(errand.client)
        if node is None:
            self._settle(errand, None)
            return
        self._courier.send(Letter(node, words, errand.blobs, max(0.0, left), partial(self._replied, errand)))

    def _said(self, words: dict[str, Any]) -> dict[str, Any]:
        """With what every letter says; no two are alike, for Flower numbers them by what they hold."""
        return {**words, "run": self._run, "format": FORMAT, "letter": f"{next(self._letters)}.{time.time_ns()}"}

    def _replied(self, errand: Errand, letter: Letter, reply: Reply) -> None:
        if errand.done:
            return
        if isinstance(reply, Frame):
            try:
                answer = _answer(reply, errand.number)
            except WireError as problem:
                reply = Lost(REFUSED, str(problem))
            else:
                self._trip(errand, letter, reply.words, "")
                self._settle(errand, answer)
                return
        self._trip(errand, letter, {}, f"{reply.code}: {reply.reason}")
        if reply.code in AGAIN and errand.tries < TRIES:
            self._send(errand)
        elif reply.code == REFUSED:
            self._settle(errand, Frame({"lost": "refused", "why": reply.reason}))
        else:
            why = f"Flower's code {reply.code}: {reply.reason}" if reply.code >= 0 else reply.reason
            self._settle(errand, Frame({"lost": "lost", "why": why}))
            self._away(errand.client, why, letter.node)

    def _settle(self, errand: Errand, answer: Frame | None) -> None:
        with self._lock:
            if errand.done:
                return
            errand.done = True
            self._errands[errand.client].remove(errand)
        errand.answered(answer)

    def _trip(self, errand: Errand, letter: Letter, words: dict[str, Any], outcome: str) -> None:
        times = words.get("times")
        self._on_trip(
            {
                "client": errand.client,
                "do": errand.words.get("do"),
                "task": errand.number,
                "try": errand.tries,
                "sent": letter.pushed,
                "came": time.time(),
                "times": times if isinstance(times, dict) else {},
                "bytes": sum(map(len, letter.blobs)),
                "outcome": outcome,
            }
        )

    # -- who is there, in the thread that looks for replies ---------------------------------------------------------

    def _look(self, there: set[int]) -> None:
        with self._lock:
            gone = [client for client, node in self._node.items() if node not in there]
        for client in gone:
            self._away(client, "no sign of life")
        now = time.monotonic()
        with self._lock:
            known = set(self._node.values())
            slow = {
                self._node[client]
                for client, errands in self._errands.items()
                if client in self._node and any(errand.is_slow() for errand in errands)
            }
        for node in (there - known) | slow:
            if now >= self._asked.get(node, 0.0):
                self._greet(node)

    def _greet(self, node: int) -> None:
        """Ask a node who it is."""
        self._asked[node] = time.monotonic() + GREETING
        words = self._said({"do": "hello", "settings": self._scene.settings})
        self._courier.send(Letter(node, words, (), GREETING, self._greeted))

    def _greeted(self, letter: Letter, reply: Reply) -> None:
        if isinstance(reply, Lost) or "error" in reply.words:
            LOG.warning("node %d does not say who it is: %s", letter.node, reply)
            return
        client = reply.words.get("client")
        if not isinstance(client, int) or not 0 <= client < self._scene.clients:
            LOG.warning("node %d says it is client %r; wanted 0 to %d", letter.node, client, self._scene.clients - 1)
            return
        self._asked.pop(letter.node, None)
        with self._lock:
            before = self._node.get(client)
        if before is not None and before != letter.node:
            self._replaced(client, before, letter.node)
        elif before is None:
            self._here(client, letter.node)
        else:
            self._remind(client)

    def _here(self, client: int, node: int) -> None:
        with self._lock:
            self._node[client] = node
            everybody = len(self._node) == self._scene.clients
        LOG.warning("client %d is there", client)
        if self._started:
            self._scene.clock.post(partial(self._scene.on_presence, client, True))
        if everybody:
            self._all.set()

    def _replaced(self, client: int, before: int, node: int) -> None:
        """A node was started anew and has another number: what the old one was to do is said to the new one."""
        with self._lock:
            self._node[client] = node
            errands = list(self._errands[client])
        self._courier.abandon(before)
        for errand in errands:
            self._send(errand)

    def _remind(self, client: int) -> None:
        """It answers this before what it was told first: perhaps it was started anew, and knows nothing of that."""
        with self._lock:
            errands = [errand for errand in self._errands[client] if errand.is_slow()]
        for errand in errands:
            self._send(errand)

    def _away(self, client: int, why: str, node: int | None = None) -> None:
        with self._lock:
            if client not in self._node or (node is not None and self._node[client] != node):
                return
            gone = self._node.pop(client)
            lost = list(self._errands[client])
        LOG.warning("client %d is away: %s", client, why)
        self._courier.abandon(gone)
        if self._started:
            self._scene.clock.post(partial(self._scene.on_presence, client, False))
        for errand in lost:
            self._settle(errand, Frame({"lost": "lost", "why": why}))

    def _end(self, why: str) -> None:
        """Nothing more can be carried."""
        self._problem = why
        self._all.set()
        self._scene.clock.post(partial(_fail, why))


class Node:
    """Who answers for one client."""

    def __init__(self, nodes: Nodes, client: int, scene: Scene) -> None:
        self._nodes = nodes
        self._client = client
        self._scene = scene

    def ask(self, words: dict[str, Any], blobs: Sequence[bytes], answered: Answered) -> None:
        """Have it do something; the answer is an event of the clock."""
        self._nodes.ask(self._client, words, blobs, lambda frame: self._scene.clock.post(partial(answered, frame)))

    def ask_now(self, words: dict[str, Any], blobs: Sequence[bytes]) -> Frame | None:
        """Have it do something and wait for the answer, outside the run's time; None if it is lost before."""
        box: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._nodes.ask(self._client, words, blobs, box.put)
        found = box.get()
        return None if found is None or "lost" in found.words else found


def number_of(words: dict[str, Any], blobs: Sequence[bytes]) -> str:
    """The number of a task: the same for the same words and bytes, whoever asks and when."""
    found = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for blob in blobs:
        found.update(hashlib.sha256(blob).digest())
    return found.hexdigest()[:32]


def _answer(reply: Frame, number: str) -> Frame:
    """What a node answered to a task; ``WireError`` for what is no answer to it."""
    if "error" in reply.words:
        return Frame({"error": str(reply.words["error"])})
    answers, start = reply.words.get("answers"), 0
    for answer in answers if isinstance(answers, list) else ():
        try:
            name, words, count = str(answer["id"]), dict(answer["words"]), int(answer["blobs"])
        except (TypeError, KeyError, ValueError):
            break
        if name == number and 0 <= count <= len(reply.blobs) - start:
            return Frame(words, reply.blobs[start : start + count])
        start += count
    raise WireError("it answered something else than it was asked")


def _fail(why: str) -> None:
    raise SiteError(why)
