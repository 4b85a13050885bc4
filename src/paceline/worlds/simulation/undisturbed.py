"""A simulated world in which nothing comes in anybody's way: the usual one of large dry runs.

Messages take no time and always arrive, nobody ever leaves, no server fails. So a message need only be booked, and a
visit's end is known when it begins. There are millions of both: here they take as few calls as they can, and whoever
is at work holds as little memory as it can, for with thousands at work the processor mostly waits for memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from paceline.learn.graph import Model
from paceline.learn.recipe import LocalSGD
from paceline.worlds.machines import Task
from paceline.worlds.stage import BRANCH, Stage, named

if TYPE_CHECKING:
    from paceline.worlds.simulation.machines import SimulatedMachines

NOTHING: dict[str, Model] = {}
"""The extras of nearly all visits; nobody writes into it."""


class UndisturbedStage(Stage):
    """The same world to an algorithm, with the same books."""

    machines: SimulatedMachines

    async def train(
        self,
        client: int,
        model: Model,
        recipe: LocalSGD,
        *,
        mask: Model | None = None,
        correction: Model | None = None,
        anchor: Model | None = None,
        flops: float | None = None,
    ) -> Model:
        """Begin at once if the client has nothing else to do; then nothing happens until the end."""
        plain = mask is None and correction is None and anchor is None
        extras = NOTHING if plain else named(mask, correction, anchor)
        flops, round = self.learner.problem.flops(client, recipe, flops), self.round
        if self.machines.is_busy(client):
            return (await super().compute(Task("train", client, model, recipe, round, flops, extras)))[0]
        begin, end, joules, trained = self._begin(client, model, recipe, round, flops, extras)
        if end > begin:
            await self.loop.at(end)
        self.ledger.train(client, begin, end, round, flops, joules)
        self.note(client, begin, end)
        return trained

    async def compute(self, task: Task) -> tuple[Model, Model | None]:
        """The same for what is more than a training."""
        client, begin = task.client, self.loop.now
        if self.machines.is_busy(client):
            return await super().compute(task)
        visit, end, joules = self.machines.begin(client, task.flops, task)
        found = self.machines.promise(task, visit)
        if end > begin:
            await self.loop.at(end)
        self.ledger.train(client, begin, end, task.round, task.all_flops, joules)
        self.note(client, begin, end)
        return found

    async def visit(
        self, client: int, model: Model, recipe: LocalSGD, server: int | None = None, *, update: bool = False
    ) -> Model:
        """A message, a training and a message in one step: every coroutine that waits is one more to be woken."""
        home = self.server if server is None else server
        if self.machines.is_busy(client):
            return await super().visit(client, model, recipe, home, update=update)
        flops, round = self.learner.problem.flops(client, recipe), self.round
        self._book(home, client, model.nbytes, round)
        begin, end, joules, trained = self._begin(client, model, recipe, round, flops, NOTHING)
        if end > begin:
            await self.loop.at(end)
        sent = trained - model if update else trained
        self.ledger.train_and_send(client, begin, end, round, flops, joules, home, self.round, sent.nbytes)
        branch = BRANCH.get()
        if branch is not None:
            branch.note(client, begin, end)
            branch.note_message(client, home, end)
        return sent

    def _begin(
        self, client: int, model: Model, recipe: LocalSGD, round: int, flops: float, extras: dict[str, Model]
    ) -> tuple[float, float, float, Model]:
        """When a training begins and when it ends, its joules, and what it gives."""
        visit, end, joules = self.machines.begin(client, flops)
        if not self.learner.dry:
            model = self.learner.visit("train", client, visit, model, recipe, round, extras)
        return self.loop.now, end, joules, model

    async def work(self, site: int, flops: float, model: Model) -> Model:
        """Servers do one thing at a time here too, and all that they begin."""
        now, round = self.loop.now, self.round
        start, end, _, joules = self.machines.begin_work(site, flops)
        if end > now:
            await self.loop.at(end)
        self.ledger.work(site, start, end, round, flops, joules)
        self.note(site, now, end)
        return model

    async def send(self, model: Model, source: int, target: int, *, waits: bool = True) -> Model:
        """Book a model that arrives as it is sent."""
        self._book(source, target, model.nbytes, self.round)
        return model

    async def send_all(
        self, models: Sequence[Model], source: int, target: int, *, waits: bool = True
    ) -> Sequence[Model]:
        """Book several models that arrive as they are sent."""
        self._book(source, target, sum([model.nbytes for model in models]), self.round)
        return models

    async def fetch(self, parcels: Mapping[int, Sequence[Model]], target: int) -> Mapping[int, Sequence[Model]]:
        """Book what all of them send as one act: it arrives as it is asked for, and nobody waits."""
        if not parcels:
            return parcels
        now, branch = self.loop.now, BRANCH.get()
        sizes = [sum([model.nbytes for model in sent]) for sent in parcels.values()]
        self.ledger.messages([*parcels], target, now, self.round, sizes)
        if branch is not None:
            branch.note_messages(parcels, target, now)
        return parcels

    def _book(self, source: int, target: int, size: float, round: int) -> None:
        now, branch = self.loop.now, BRANCH.get()
        self.ledger.transfer(source, target, now, now, round, size, 0.0)
        if branch is not None:
            branch.note_message(source, target, now)
