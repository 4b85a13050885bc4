"""A simulated world in which nothing comes in anybody's way: the usual one of large dry runs.

Messages take no time and always arrive, nobody ever leaves, no server fails. So a message need only be booked, and a
visit's end is known when it begins. There are millions of both: here they take as few calls as they can, and whoever
is at work holds as little memory as it can, for with thousands at work the processor mostly waits for memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paceline.learn.graph import Model
from paceline.learn.recipe import LocalSGD
from paceline.worlds.machines import Task
from paceline.worlds.stage import BRANCH, Stage, named

if TYPE_CHECKING:
    from paceline.worlds.simulation.machines import SimulatedMachines


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
        machines, begin, round = self.machines, self.loop.now, self.round
        flops = self.learner.problem.flops(client, recipe, flops)
        if machines.is_busy(client):
            task = Task("train", client, model, recipe, round, flops, named(mask, correction, anchor))
            return (await self.visit(task))[0]
        visit, end, joules = machines.begin(client, flops)
        if not self.learner.dry:
            extras = named(mask, correction, anchor)
            model = self.learner.visit("train", client, visit, model, recipe, round, extras)
        if end > begin:
            await self.loop.at(end)
        self.ledger.train(client, begin, end, round, flops, joules)
        branch = BRANCH.get()
        if branch is not None:
            branch.note(client, begin, end)
        return model

    async def send(self, model: Model, source: int, target: int, *, waits: bool = True) -> Model:
        """Book a model that arrives as it is sent."""
        self._book(source, target, model.nbytes)
        return model

    async def send_all(
        self, models: Sequence[Model], source: int, target: int, *, waits: bool = True
    ) -> Sequence[Model]:
        """Book several models that arrive as they are sent."""
        self._book(source, target, sum([model.nbytes for model in models]))
        return models

    def _book(self, source: int, target: int, size: float) -> None:
        now, branch = self.loop.now, BRANCH.get()
        self.ledger.transfer(source, target, now, now, self.round, size, 0.0)
        if branch is None:
            return
        if branch.log is None:
            branch.last = target
        else:
            branch.log += ((source, now, now), (target, now, now))
