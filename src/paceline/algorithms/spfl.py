"""Synchronous parallel FL: the server sends before it aggregates (No One Idles, ICML 2023; NI-1 ... NI-3).

In round t the devices train on the model of round t-1 while the server aggregates what they sent before. When all
uploads are in and that aggregation is done, the new model goes out. So a round takes the longer of the two, and
updates come one round late: w(t+1) = w(t) + mean of the updates made from w(t-1), with w(1) = w(0).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.algorithms.aggregate import Aggregation
from paceline.algorithms.base import (
    Model,
    Progress,
    Sums,
    Traits,
    World,
    count_rejected,
    mean,
    require,
    somebody,
    those,
    unless_dropped,
    visit,
)
from paceline.bounds import bounded, check_bounds
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class SPFL:
    """All devices in every round, the server at work meanwhile."""

    rounds: int = bounded(100, least=1)
    local: LocalSGD = field(default_factory=LocalSGD)
    aggregation: Aggregation = field(default_factory=Aggregation)
    aggregate: Literal["deltas", "models"] = "deltas"
    """Add updates to the latest model (Eq. 3), or average models as the reference code does: two chains of models
    that never meet, since even rounds then know nothing of odd ones (NI-E6)."""

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds; whole models can only be averaged plainly."""
        check_bounds(self)
        require(
            self.aggregate == "deltas" or self.aggregation.rule == "mean",
            f"aggregation.rule is {self.aggregation.rule!r}, which works on updates; use aggregate=deltas with it",
        )

    def traits(self, clients: int) -> Traits:
        """NI-2: a synchronous round waits for all its devices."""
        return Traits(
            rounds=self.rounds,
            local=self.local,
            absence="wait",
            needs_public=self.aggregation.needs_public,
            private=Sums(clients) if self.aggregation.rule == "mean" else Sums(),
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Devices and server side by side, round by round."""
        held = world.initial_model()
        sent: dict[int, Model] = {}
        for done in range(self.rounds):
            await somebody(world, done, self.rounds)
            work: list[Any] = [unless_dropped(self.train(world, device, held)) for device in world.clients]
            *arrived, held = await world.gather([*work, self.add(world, held, sent)])
            sent = those(world.clients, arrived)
            yield Progress(held, {"uploads": len(sent)})

    async def train(self, world: World, device: int, held: Model) -> Model:
        """Have a device download the model, train it and upload what it has learned (NI-1)."""
        return await visit(world, device, held, self.local, update=self.aggregate == "deltas")

    async def add(self, world: World, held: Model, sent: Mapping[int, Model]) -> Model:
        """NI-3: the server makes the next model of what it got in the round before."""
        if not sent:
            return held
        for _ in sent:
            world.log.count("staleness", 1)
        flops = self.aggregation.flops(world, held, len(sent))
        if self.aggregate == "models":
            return await world.work(world.server, flops, mean([*sent.values()]))
        centre = self.aggregation.centre(world, held, [*sent.values()], count_rejected(world, [*sent]))
        return await world.work(world.server, flops, held + len(sent) / len(world.clients) * centre)
