"""Nodes of a federation as hosts of devices: who is which client, who is there, and tasks that count once.

Every task has a number that is made of what it says. So one that is sent again, because its answer was lost or this
process was started anew, is known to the node, which answers it from its cache.
"""

from __future__ import annotations

import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from flwr.serverapp import Grid

from paceline.errors import SiteError, WireError, is_of_disk
from paceline.federation.config import Limits
from paceline.federation.courier import REFUSED, Courier, Letter, Lost, Reply
from paceline.federation.errands import Errand, answers_of, times_of
from paceline.federation.folding import Folding, make_ask
from paceline.federation.members import Members
from paceline.federation.terms import FORMAT, terms_of
from paceline.worlds.local.frames import Frame
from paceline.worlds.local.hosts import Answered, Scene

LOG = logging.getLogger(__name__)
GREETING = 60.0
"""Seconds in which a node must say who it is."""
TRIES = 3
"""How often a task is sent before its device counts as lost."""
AGAIN = (0, 3, 4, 8)
"""Flower's codes of mishaps on the way to a node that may well be there: unknown, a message or a reply that is not
there any more, an application that crashed."""


class Nodes:
    """All nodes of a run; each is one client."""

    def __init__(
        self,
        grid: Grid,
        run: str,
        limits: Limits,
        scene: Scene,
        members: Members,
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
        self._members = members
        self._keys: dict[int, bytes] = {}
        """The key of every node seen so far, as reported by the SuperLink."""
        self._courier = Courier(grid, limits.bytes, self._look, self._end)
        self._folding = Folding(scene.directory / "pending")
        self._lock = threading.RLock()
        self._node: dict[int, int] = {}
        """The node that a client is, if it is there."""
        self._asked: dict[int, float] = {}
        """Nodes that have been asked who they are, and when they may be asked again."""
        self._errands: dict[int, list[Errand]] = {client: [] for client in range(scene.clients)}
        self._all = threading.Event()
        self._started = False
        self.problem: Exception | None = None
        """Reason why no more requests can be sent."""

    # -- what the orchestrator asks -------------------------------------------------------------------------------

    def start(self) -> None:
        """Wait until every client has its node."""
        self._courier.start()
        until = time.monotonic() + self._waiting
        while not self._all.wait(min(10.0, max(0.0, until - time.monotonic()))):
            missing = [client for client in range(self._scene.clients) if client not in self._node]
            LOG.info("waiting for the nodes of clients %s", missing)
            if time.monotonic() >= until:
                self.problem = SiteError(f"the nodes of clients {missing} have not joined")
                break
        if self.problem is not None:
            self.stop()
            raise self.problem
        self._started = True

    def of(self, client: int) -> Node:
        """The node that a client is."""
        return Node(self, client, self._scene)

    def stop(self) -> None:
        """Speak to nodes no more: the run is over."""
        self._scene.clock.expecting = False
        self._courier.stop()
        self._give_up(SiteError("the run is over"))

    def ask(self, client: int, words: dict[str, Any], blobs: Sequence[bytes], answered: Answered) -> None:
        """Have a node do something; ``answered`` may be called from another thread."""
        ask = make_ask(words, blobs)
        errand, ready = Errand(client, ask, answered, time.monotonic()), None
        with self._lock:
            there, waits = client in self._node and self.problem is None, words["do"] == "receive"
            if there and waits:
                self._folding.defer(client, ask)
                ready = Frame({})
            elif there:
                errand.guess = self._folding.guess(client, ask)
                self._folding.note(client, ask)
                ready = self._folding.ready(client, ask.number)
                if ready is None:
                    self._errands[client].append(errand)
        if there and ready is None:
            self._send(errand)
        else:
            answered(ready)

    # -- tasks ------------------------------------------------------------------------------------------------------

    def _send(self, errand: Errand) -> None:
        errand.tries += 1
        with self._lock:
            node = self._node.get(errand.client)
            asks = [*self._folding.waiting(errand.client), errand.ask]
        if errand.guess is not None:
            asks.append(errand.guess)
        said = [{"id": ask.number, "words": ask.words, "blobs": len(ask.blobs)} for ask in asks]
        blobs = tuple(blob for ask in asks for blob in ask.blobs)
        seconds, end = self._limits.seconds, errand.begun + self._limits.seconds
        if node is None or time.monotonic() >= end:
            why = f"no answer within {seconds:g} s"
            self._settle(errand, None if node is None else Frame({"lost": "lost", "why": why}))
            return
        words = self._said({"do": "tasks", "asks": said})
        self._courier.send(Letter(node, words, blobs, seconds, partial(self._replied, errand), deadline=end))

    def _said(self, words: dict[str, Any]) -> dict[str, Any]:
        """Add the common words and a secret token, without which nobody can answer in another node's name."""
        return {**words, "run": self._run, "format": FORMAT, "letter": secrets.token_hex(16)}

    def _replied(self, errand: Errand, letter: Letter, reply: Reply) -> None:
        if errand.done:
            return
        if isinstance(reply, Frame):
            try:
                answers = answers_of(reply, errand.ask.number)
            except WireError as problem:
                reply = Lost(REFUSED, str(problem))
            else:
                self._trip(errand, letter, reply, "")
                with self._lock:
                    self._folding.came(errand.client, answers, errand.guess)
                self._settle(errand, answers[errand.ask.number])
                return
        self._trip(errand, letter, Frame({}), f"{reply.code}: {reply.reason}")
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

    def _trip(self, errand: Errand, letter: Letter, reply: Frame, outcome: str) -> None:
        self._on_trip(
            {
                "client": errand.client,
                "do": [ask["words"]["do"] for ask in letter.words["asks"]],
                "task": errand.ask.number,
                "try": errand.tries,
                "sent": letter.pushed,
                "came": time.time(),
                "times": times_of(reply),
                "bytes_down": sum(map(len, letter.blobs)),
                "bytes_up": sum(map(len, reply.blobs)),
                "outcome": outcome,
            }
        )

    # -- who is there, in the thread that looks for replies ---------------------------------------------------------

    def _look(self, there: Mapping[int, bytes]) -> None:
        self._keys |= there
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
        for node in (there.keys() - known) | slow:
            if now >= self._asked.get(node, 0.0):
                self._greet(node)

    def _greet(self, node: int) -> None:
        """Ask a node who it is."""
        self._asked[node] = time.monotonic() + GREETING
        words = self._said({"do": "hello", "terms": terms_of(self._scene.settings)})
        self._courier.send(Letter(node, words, (), GREETING, self._greeted))

    def _greeted(self, letter: Letter, reply: Reply) -> None:
        try:
            if isinstance(reply, Lost):
                raise WireError(reply.reason)
            client = self._members.admit(self._keys.get(letter.node, b""), reply.words, self._scene.clients)
        except WireError as problem:
            LOG.warning("node %d is refused as a client: %s", letter.node, problem)
            return
        self._asked.pop(letter.node, None)
        with self._lock:
            before = self._node.get(client)
        if before is None:
            self._here(client, letter.node)
        elif before != letter.node:
            self._replaced(client, before, letter.node)
        else:
            self._remind(client)

    def _here(self, client: int, node: int) -> None:
        with self._lock:
            self._node[client] = node
            everybody = len(self._node) == self._scene.clients
        LOG.info("client %d is there", client)
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
        LOG.info("client %d is away: %s", client, why)
        self._courier.abandon(gone)
        if self._started:
            self._scene.clock.post(partial(self._scene.on_presence, client, False))
        for errand in lost:
            self._settle(errand, Frame({"lost": "lost", "why": why}))

    def _end(self, problem: BaseException) -> None:
        """Give up when the courier fails. A full disk is not a failure of the run."""
        if not isinstance(problem, OSError) or not is_of_disk(problem):
            problem = SiteError(f"{type(problem).__name__}: {problem}")
        self._give_up(problem)
        self._scene.clock.post(self._fail)

    def _give_up(self, problem: Exception) -> None:
        """Answer all present and future requests with the reason why there is no answer."""
        with self._lock:
            self.problem = self.problem or problem
            waiting = [errand for errands in self._errands.values() for errand in errands]
        self._all.set()
        for errand in waiting:
            self._settle(errand, None)

    def _fail(self) -> None:
        assert self.problem is not None
        raise self.problem


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
        found = None if found is None or "lost" in found.words else found
        if found is None and self._nodes.problem is not None:
            raise self._nodes.problem
        return found
