"""Workers as hands: models live where they were made or sent, and travel as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch

from paceline.clock import VirtualLoop, WallClock
from paceline.errors import Diverged, Dropped, Reason, WireError
from paceline.learn.codecs import Codec, Masked
from paceline.learn.codecs.base import payload_of
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.graph import Model
from paceline.learn.hashing import signed
from paceline.learn.job import Score
from paceline.learn.promises import Promise, Reading
from paceline.learn.recipe import one_step
from paceline.worlds.learner import FOLLOWING, Learner
from paceline.worlds.local.arrivals import Arrivals
from paceline.worlds.local.checks import Checks, figure_of
from paceline.worlds.local.expressions import Words, codec_words
from paceline.worlds.local.frames import Frame
from paceline.worlds.local.holdings import Holdings, Results, Sent
from paceline.worlds.local.hosts import Hosts
from paceline.worlds.local.journal import Act
from paceline.worlds.local.machines import Carried
from paceline.worlds.local.observing import Observer, unable
from paceline.worlds.local.presence import WallPresence
from paceline.worlds.local.scoring import Scorer
from paceline.worlds.local.writing import DENSE, Writer
from paceline.worlds.local.writing import read as read_model
from paceline.worlds.machines import Task


class WorkerHands:
    """The orchestrator's side: what servers hold is here, what devices hold is known by its name."""

    def __init__(
        self,
        loop: VirtualLoop,
        clock: WallClock,
        learner: Learner,
        hosts: Hosts,
        presence: WallPresence,
        arrivals: Arrivals | None = None,
        checks: Checks | None = None,
    ) -> None:
        self.holdings = Holdings(learner)
        self._loop = loop
        self._clock = clock
        self._learner = learner
        self._hosts = hosts
        self._presence = presence
        self._arrivals = arrivals
        self._checks = checks
        """What is believed of what devices send; None: everything, for they are ours."""
        self._writer = Writer(Executor(CohortTrainer("cpu", 1, 1)))
        self.observer = Observer(self.holdings, hosts, presence.gone, near=checks is None)
        self.scorer = Scorer(self.holdings, self.observer, self._writer.value)
        self.on_lost: Callable[[int, Reason, str], None] = lambda client, reason, why: None
        """Told who dropped out and why, where that is known."""

    async def visit(self, act: Act, task: Task, visit: int) -> tuple[Model, Model | None]:
        """The client trains on what it holds, and keeps what it made."""
        client, key = task.client, self._learner.key(task.client, visit)
        expression = Sent(self.holdings, client)
        trained, gradient = self.to_be_made(act, task)
        words: Words = {
            "do": "visit",
            "act": task.act,
            "start": expression.add(task.model),
            "extras": {name: expression.add(model) for name, model in task.extras.items()},
            "recipe": asdict(task.recipe),
            "lr": task.recipe.lr_at(task.round),
            "key": signed(key),
            "result": self._handle(trained),
            "nodes": expression.nodes,
        }
        if gradient is not None:
            words["then"] = self._then(task, visit, trained, gradient, expression)
        reply = await self._ask(client, words, expression.blobs)
        if self._checks is not None:
            self._believe(client, lambda: figure_of(reply.words))
        if not reply.words["finite"]:
            raise Diverged(
                f"training diverged to NaN or infinity at client {client}, round {task.round + 1},"
                f" t={self._loop.time():g} s\nhint: lower local.lr, or set local.clip (10 is a common choice)"
            )
        trained.figure = torch.tensor(reply.words["figure"])
        return trained, gradient

    def to_be_made(self, act: Act, task: Task) -> tuple[Model, Model | None]:
        """What a visit gives, as the client will call it."""
        space = task.model.space
        trained = self.holdings.held(task.client, space, act.handle("model"))
        if task.gradient_at is None:
            return trained, None
        return trained, self.holdings.held(task.client, space, act.handle("gradient"))

    def _then(self, task: Task, visit: int, trained: Model, gradient: Model, sent: Sent) -> Words:
        assert task.gradient_at is not None
        point = Sent(self.holdings, task.client, sent.blobs)
        return {
            "at": point.add(task.gradient_at(trained)),
            "nodes": point.nodes,
            "lr": one_step(task.recipe).lr_at(task.round),
            "key": signed(self._learner.key(task.client, visit, FOLLOWING)),
            "result": self._handle(gradient),
        }

    async def carry(self, act: Act, models: Sequence[Model]) -> Carried:
        """As bytes: from a server or a device, to a server or a device."""
        blobs = await self._taken(act, models) if act.site >= 0 else self.written(models)
        size = float(sum(map(len, blobs)))
        kept: tuple[tuple[int, int], ...] = ()
        if act.site >= 0 and self._checks is not None:
            self._believe(act.site, lambda: self._checked(act, models, blobs))
        if act.target >= 0:
            if act.site < 0 and self._checks is not None:
                self._checks.sent(act.target, [self._writer.value(model) for model in models])
            arrived = await self._given(act, models, blobs)
        else:
            arrived = self._read(models, blobs)
            kept = () if self._arrivals is None else self._arrivals.add(blobs)
        for model, came in zip(models, arrived, strict=True):
            came.figure = model.figure
        return Carried(arrived, size, kept)

    def written(self, models: Sequence[Model]) -> list[bytes]:
        """Write the models that a server sends as bytes."""
        contexts = [None if model.wire is None else model.wire.context for model in models]
        return [self._writer.write(model, codec_of(model), one) for model, one in zip(models, contexts, strict=True)]

    def compute(self, model: Model) -> None:
        """Have the value of what a server holds."""
        self._writer.value(model)

    async def _taken(self, act: Act, models: Sequence[Model]) -> Sequence[bytes]:
        """A device writes what it sends."""
        sent, parts = Sent(self.holdings, act.site), []
        for model in models:
            context = model.wire.context if model.wire is not None else None
            parts.append(
                {
                    "model": sent.add(model),
                    "codec": codec_words(codec_of(model)),
                    "context": None if context is None else sent.add(context),
                }
            )
        results = self.sent_results(act, models)
        words = {"do": "send", "parts": parts, "nodes": sent.nodes, "results": results.words(sent)}
        reply = await self._ask(act.site, words, sent.blobs)
        results.keep()
        return reply.blobs

    def sent_results(self, act: Act, models: Sequence[Model]) -> Results:
        """What a device has computed when it has sent these."""
        return Results(self.holdings, act.site, models, act.handle("sent"))

    async def _given(self, act: Act, models: Sequence[Model], blobs: Sequence[bytes]) -> list[Model]:
        """A device reads what it is sent, and keeps it."""
        known, parts = Sent(self.holdings, act.target, list(blobs)), []
        arrived = self.to_arrive(act, models)
        for model, came in zip(models, arrived, strict=True):
            wire = model.wire
            there = wire.known if wire is not None else None
            parts.append(
                {
                    "codec": codec_words(codec_of(model)),
                    "context": wire is not None and isinstance(wire.codec, Masked),
                    "known": None if there is None else known.add(there),
                    "handle": self._handle(came),
                }
            )
        await self._ask(act.target, {"do": "receive", "parts": parts, "nodes": known.nodes}, known.blobs)
        return arrived

    def to_arrive(self, act: Act, models: Sequence[Model]) -> list[Model]:
        """What a device is sent, as it will call it."""
        return [
            self.holdings.held(act.target, model.space, act.handle(f"came.{k}")) for k, model in enumerate(models)
        ]

    def _checked(self, act: Act, models: Sequence[Model], blobs: Sequence[bytes]) -> None:
        """Refuse what a device sends if it is not what it was asked for; what only its receiver can read, by form."""
        assert self._checks is not None
        if len(blobs) != len(models):
            raise WireError(f"it sent {len(blobs)} models; wanted {len(models)}")
        masked = [isinstance(codec_of(model), Masked) for model in models]
        if act.target < 0 or not any(masked):
            values = [came.value for came in self._read(models, blobs)]
            self._checks.values(act.site, [value for value in values if value is not None])
            return
        for model, data in zip(models, blobs, strict=True):
            payload_of(codec_of(model) or DENSE, model.space, data)

    def _believe(self, client: int, check: Callable[[], object]) -> None:
        """Let a device whose answer is refused drop out."""
        try:
            check()
        except WireError as problem:
            raise self._lost(client, "refused", str(problem)) from None

    def _read(self, models: Sequence[Model], blobs: Sequence[bytes]) -> list[Model]:
        """A server reads what came."""
        arrived: list[Model] = []
        for model, data in zip(models, blobs, strict=True):
            context = context_of(model, arrived)
            given = None if context is None else self._writer.value(context)
            arrived.append(Model(model.space, read_model(model.space, data, codec_of(model), given)))
        return arrived

    async def work(self, act: Act, model: Model) -> Model:
        """A server of this process computes there and then."""
        self._writer.value(model)
        done = self._loop.create_future()
        self._clock.post(lambda: None if done.done() else done.set_result(None))
        await done
        return model

    # -- for whoever observes ------------------------------------------------------------------------------------

    def bring(self, models: Sequence[Model]) -> None:
        """Values for whoever observes the run: that is no traffic of the run."""
        self.observer.bring(models)

    def score(self, models: Sequence[Model]) -> Promise[Score] | None:
        """Clients score what is their own, at once; a promise, so that it is remembered with all that is learned."""
        if not self.scorer.can(models):
            return None
        found = self.scorer.ask(models, lambda client, why: self.on_lost(client, "lost", why))
        return Reading((), lambda values: found)

    def close(self) -> None:
        """End the hosts, since the run is over."""
        self._hosts.stop()
        if self._arrivals is not None:
            self._arrivals.close()

    # -- asking --------------------------------------------------------------------------------------------------

    def _handle(self, model: Model) -> str:
        home = self.holdings.home(model)
        assert home is not None
        return home[1]

    async def _ask(self, client: int, words: dict[str, Any], blobs: Sequence[bytes]) -> Frame:
        """Ask a device; ``Dropped`` if its process dies before it has answered."""
        future: asyncio.Future[Frame | None] = self._loop.create_future()
        asked = {**words, "client": client, "forget": self.holdings.forgotten(client)}
        self._hosts.of(client).ask(asked, blobs, lambda frame: None if future.done() else future.set_result(frame))
        reply = await future
        if reply is None:
            raise Dropped(client, self._loop.time(), reason="lost", gone=self._presence.gone(client))
        if "lost" in reply.words:
            raise self._lost(client, reply.words["lost"], str(reply.words["why"]))
        if "error" in reply.words:
            said = f"client {client} could not {words['do']}: {reply.words['error']}"
            if self._checks is not None:  # one node's trouble is not the end of all
                raise self._lost(client, "refused", said)
            raise unable(reply, said)
        if reply.words.get("forgot"):
            self.holdings.told(client, asked["forget"])
        return reply

    def _lost(self, client: int, reason: Reason, why: str) -> Dropped:
        """A device that drops out, and why, for the run's log."""
        self.on_lost(client, reason, why)
        return Dropped(client, self._loop.time(), reason=reason, gone=self._presence.gone(client))


def codec_of(model: Model) -> Codec | None:
    """How a model is written; None: as dense numbers."""
    return None if model.wire is None else model.wire.codec


def context_of(model: Model, arrived: Sequence[Model]) -> Model | None:
    """What a server reads a model with, if it needs anything: what it has, or what came just before."""
    wire = model.wire
    if wire is None or not isinstance(wire.codec, Masked):
        return None
    return arrived[-1] if wire.known is None else wire.known
