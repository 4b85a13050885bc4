"""Workers as hands: models live where they were made or sent, and travel as bytes."""

from __future__ import annotations

import asyncio
import itertools
import time
import weakref
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from paceline.clock import VirtualLoop, WallClock
from paceline.errors import Diverged, Dropped, Misplaced, SiteError
from paceline.learn.codecs import Codec, Masked
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.graph import Model
from paceline.learn.hashing import signed
from paceline.learn.recipe import one_step
from paceline.learn.space import Space
from paceline.worlds.learner import FOLLOWING, Learner
from paceline.worlds.local.expressions import Expression, Words, codec_words
from paceline.worlds.local.frames import Frame
from paceline.worlds.local.presence import WallPresence
from paceline.worlds.local.workers import Workers
from paceline.worlds.local.writing import DENSE, Writer
from paceline.worlds.local.writing import read as read_model
from paceline.worlds.machines import Task

PATIENCE, AGAIN = 60.0, 0.2
"""Seconds for which somebody who observes waits for a device, and after which it asks again."""


class WorkerHands:
    """The orchestrator's side: what servers hold is here, what devices hold is known by its number."""

    def __init__(
        self, loop: VirtualLoop, clock: WallClock, learner: Learner, workers: Workers, presence: WallPresence
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._learner = learner
        self._workers = workers
        self._presence = presence
        self._writer = Writer(Executor(CohortTrainer("cpu", 1, 1)))
        self._homes: weakref.WeakKeyDictionary[Model, tuple[int, int]] = weakref.WeakKeyDictionary()
        """The device and the number of what a device holds."""
        self._numbers = itertools.count(1)
        self._forgotten: dict[int, list[int]] = defaultdict(list)
        self._initial = [learner.initial_model(kind) for kind in range(len(learner.problem.spaces))]

    async def visit(self, task: Task, visit: int) -> tuple[Model, Model | None]:
        """The client trains on what it holds, and keeps what it made."""
        client, key = task.client, self._learner.key(task.client, visit)
        expression = Sent(self, client)
        trained = self._held(client, task.model.space)
        words: Words = {
            "do": "visit",
            "act": task.act,
            "start": expression.add(task.model),
            "extras": {name: expression.add(model) for name, model in task.extras.items()},
            "recipe": asdict(task.recipe),
            "lr": task.recipe.lr_at(task.round),
            "key": signed(key),
            "result": self._homes[trained][1],
            "nodes": expression.nodes,
        }
        gradient = None
        if task.gradient_at is not None:
            gradient = self._held(client, task.model.space)
            words["then"] = self._then(task, visit, trained, gradient, expression)
        reply = await self._ask(client, words, expression.blobs)
        if not reply.words["finite"]:
            raise Diverged(
                f"training diverged to NaN or infinity at client {client}, round {task.round + 1},"
                f" t={self._loop.time():g} s\nhint: lower local.lr, or set local.clip (10 is a common choice)"
            )
        trained.figure = torch.tensor(reply.words["figure"])
        return trained, gradient

    def _then(self, task: Task, visit: int, trained: Model, gradient: Model, sent: Sent) -> Words:
        assert task.gradient_at is not None
        point = Sent(self, task.client, sent.blobs)
        return {
            "at": point.add(task.gradient_at(trained)),
            "nodes": point.nodes,
            "lr": one_step(task.recipe).lr_at(task.round),
            "key": signed(self._learner.key(task.client, visit, FOLLOWING)),
            "result": self._homes[gradient][1],
        }

    async def carry(self, models: Sequence[Model], source: int, target: int) -> tuple[Sequence[Model], float]:
        """As bytes: from a server or a device, to a server or a device."""
        blobs = await self._taken(models, source) if source >= 0 else self._written(models)
        size = float(sum(map(len, blobs)))
        arrived = await self._given(models, blobs, target) if target >= 0 else self._read(models, blobs)
        for model, came in zip(models, arrived, strict=True):
            came.figure = model.figure
        return arrived, size

    def _written(self, models: Sequence[Model]) -> list[bytes]:
        contexts = [None if model.wire is None else model.wire.context for model in models]
        return [self._writer.write(model, _codec(model), one) for model, one in zip(models, contexts, strict=True)]

    async def _taken(self, models: Sequence[Model], source: int) -> Sequence[bytes]:
        """A device writes what it sends."""
        sent, parts = Sent(self, source), []
        for model in models:
            context = model.wire.context if model.wire is not None else None
            parts.append(
                {
                    "model": sent.add(model),
                    "codec": codec_words(_codec(model)),
                    "context": None if context is None else sent.add(context),
                }
            )
        words = {"do": "send", "parts": parts, "nodes": sent.nodes, "results": sent.results(models)}
        reply = await self._ask(source, words, sent.blobs)
        sent.keep_results()
        return reply.blobs

    async def _given(self, models: Sequence[Model], blobs: Sequence[bytes], target: int) -> list[Model]:
        """A device reads what it is sent, and keeps it."""
        known, arrived, parts = Sent(self, target, list(blobs)), [], []
        for model in models:
            wire = model.wire
            arrived.append(self._held(target, model.space))
            there = wire.known if wire is not None else None
            parts.append(
                {
                    "codec": codec_words(_codec(model)),
                    "context": wire is not None and isinstance(wire.codec, Masked),
                    "known": None if there is None else known.add(there),
                    "handle": self._homes[arrived[-1]][1],
                }
            )
        await self._ask(target, {"do": "receive", "parts": parts, "nodes": known.nodes}, known.blobs)
        return arrived

    def _read(self, models: Sequence[Model], blobs: Sequence[bytes]) -> list[Model]:
        """A server reads what came."""
        arrived: list[Model] = []
        for model, data in zip(models, blobs, strict=True):
            wire, context = model.wire, None
            if wire is not None and isinstance(wire.codec, Masked):
                context = self._writer.value(arrived[-1] if wire.known is None else wire.known)
            value = read_model(model.space, data, _codec(model), context)
            arrived.append(Model(model.space, value))
        return arrived

    async def work(self, site: int, model: Model) -> Model:
        """A server of this process computes there and then."""
        self._writer.value(model)
        done = self._loop.create_future()
        self._clock.post(lambda: None if done.done() else done.set_result(None))
        await done
        return model

    def bring(self, models: Sequence[Model]) -> None:
        """Values for whoever observes the run: that is no traffic of the run, and its time stands still meanwhile."""
        for model in models:
            for part in self._parts(model):
                self._fetch(part)

    def _parts(self, model: Model) -> list[Model]:
        """The largest parts of a model that one device can compute by itself."""
        if model.value is not None:
            return []
        if len(clients := self._clients(model)) == 1:
            return [model]
        return [part for parent in model.parents for part in self._parts(parent)] if clients else []

    def _clients(self, model: Model) -> set[int]:
        """The devices that hold what a model is made of."""
        if model.value is not None:
            return set()
        if model in self._homes:
            return {self._homes[model][0]}
        return set().union(*(self._clients(parent) for parent in model.parents))

    def _fetch(self, model: Model) -> None:
        (client,) = self._clients(model)
        sent = Sent(self, client)
        words = {"do": "bring", "wanted": sent.add(model), "nodes": sent.nodes, "results": sent.results([model])}
        reply = self._ask_now({**words, "client": client}, sent.blobs)
        sent.keep_results()
        model.settle(DENSE.decode(model.space, reply.blobs[0]))

    def _ask_now(self, words: dict[str, Any], blobs: Sequence[bytes]) -> Frame:
        """Ask a device and wait; one that is lost is asked again when it is back."""
        client, until = words["client"], self._clock.now() + PATIENCE
        while self._clock.now() < until:
            if (reply := self._workers.of(client).ask_now(words, blobs)) is not None:
                if "error" in reply.words:
                    raise SiteError(f"client {client} could not {words['do']}: {reply.words['error']}")
                return reply
            time.sleep(AGAIN)
        raise SiteError(f"client {client} holds a model that is to be observed, and does not answer")

    def close(self) -> None:
        """End the workers."""
        self._workers.stop()

    # -- what devices hold ---------------------------------------------------------------------------------------

    def home(self, model: Model) -> tuple[int, int] | None:
        """The device that holds a model, and its number there."""
        return self._homes.get(model)

    def initial_kind(self, model: Model) -> int | None:
        """Which of the initial models this is, if any: everybody makes them from the seed."""
        return next((kind for kind, initial in enumerate(self._initial) if model is initial), None)

    def new_number(self) -> int:
        """A number under which some device will hold something."""
        return next(self._numbers)

    def keep(self, model: Model, client: int, handle: int) -> None:
        """A device holds this model, under this number."""
        self._homes[model] = client, handle
        weakref.finalize(model, self._forgotten[client].append, handle).atexit = False

    def _held(self, client: int, space: Space) -> Model:
        """A model that a device will hold."""
        model = Model(space)
        self.keep(model, client, self.new_number())
        return model

    async def _ask(self, client: int, words: dict[str, Any], blobs: Sequence[bytes]) -> Frame:
        """Ask a device; ``Dropped`` if its process dies before it has answered."""
        future: asyncio.Future[Frame | None] = self._loop.create_future()
        forget, self._forgotten[client][:] = list(self._forgotten[client]), []
        asked = {**words, "client": client, "forget": forget}
        self._workers.of(client).ask(asked, blobs, lambda frame: None if future.done() else future.set_result(frame))
        reply = await future
        if reply is None:
            raise Dropped(client, self._loop.time(), reason="lost", gone=self._presence.gone(client))
        if "error" in reply.words:
            raise SiteError(f"client {client} could not {words['do']}: {reply.words['error']}")
        return reply


def _codec(model: Model) -> Codec | None:
    return None if model.wire is None else model.wire.codec


class Sent:
    """An expression over what one device holds, with the byte strings that go along."""

    def __init__(self, hands: WorkerHands, client: int, blobs: list[bytes] | None = None) -> None:
        self.blobs = [] if blobs is None else blobs
        self._hands = hands
        self._client = client
        self._expression = Expression(self._named)
        self._results: list[tuple[Model, int]] = []

    @property
    def nodes(self) -> list[Words]:
        """What has been added so far."""
        return self._expression.nodes

    def add(self, model: Model) -> int:
        """The place of a model among the nodes."""
        return self._expression.add(model)

    def _named(self, model: Model) -> Words | None:
        home = self._hands.home(model)
        if home is not None and home[0] == self._client:
            return {"held": home[1]}
        if (kind := self._hands.initial_kind(model)) is not None:
            return {"initial": kind}
        if model.parents and home is None:
            return None
        if model.value is not None and model.places is None:  # everybody has it
            self.blobs.append(DENSE.encode(model.space, model.value))
            return {"blob": len(self.blobs) - 1}
        raise Misplaced(f"client {self._client} does not have a model that it is to use; send it there first")

    def results(self, models: Sequence[Model]) -> list[tuple[int, int]]:
        """Numbers under which the device is to keep what it computes here, so that it need not do it again."""
        new = [model for model in models if self._hands.home(model) is None]
        self._results = [(model, self._hands.new_number()) for model in new]
        return [(self.add(model), handle) for model, handle in self._results]

    def keep_results(self) -> None:
        """The device has answered, so it has them; one that dies before it answers may have nothing."""
        for model, handle in self._results:
            self._hands.keep(model, self._client, handle)
