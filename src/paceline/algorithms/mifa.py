"""MIFA: the server remembers every device's last update (Gu et al., NeurIPS 2021).

Whoever is there takes part; for the others their last update counts again. So nobody is waited for, except in the
first round, when there is nothing to remember yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from paceline.algorithms.aggregate import Aggregation
from paceline.algorithms.base import (
    Dropped,
    Model,
    Progress,
    World,
    combine,
    count_rejected,
    require,
    train_once,
    train_when_back,
)
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class MIFA:
    """Memorised updates."""

    rounds: int = 100
    local: LocalSGD = field(default_factory=LocalSGD)
    aggregation: Aggregation = field(default_factory=Aggregation)

    def check(self, clients: int) -> None:
        """Refuse what cannot be."""
        require(self.rounds >= 1, f"rounds is {self.rounds}; it must be 1 or more")

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Every round the mean over all devices of each one's last update is added."""
        model = world.initial_model()
        memory: dict[int, tuple[Model, int]] = {}
        for r in range(self.rounds):
            try:
                await world.reach(*world.clients)
            except Dropped:  # nobody is left
                return
            there = [device for device in world.clients if not memory or world.online(device)]
            arrived = await world.gather(self.visit(world, device, model, wait=not memory) for device in there)
            for device, update in zip(there, arrived, strict=True):
                if update is not None:
                    memory[device] = (update, r)
            for _, born in memory.values():
                world.record("staleness", r - born)
            await world.work(world.server, self.aggregation.flops(world, model, len(memory)))
            if memory:
                updates = [update for update, _ in memory.values()]
                centre = self.aggregation.centre(world, model, updates, count_rejected(world, [*memory]))
                model = combine([(1.0, model), (1.0, centre)])
            yield Progress(model, {"uploads": sum(update is not None for update in arrived)})

    async def visit(self, world: World, device: int, model: Model, wait: bool) -> Model | None:
        """An update of a device, or nothing if it went away and is not waited for."""
        try:
            received = await world.send(model, world.server, device)
            train = train_when_back if wait else train_once
            trained = await train(world, device, received, self.local)
            return await world.send(trained - received, device, world.server)
        except Dropped:
            return None
