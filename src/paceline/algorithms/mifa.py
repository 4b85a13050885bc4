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
    Sums,
    Traits,
    World,
    came_back,
    count_rejected,
    somebody,
)
from paceline.bounds import bounded, check_bounds
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class MIFA:
    """The server memorises every device's last update and averages all of them in each round."""

    rounds: int = bounded(100, least=1)
    local: LocalSGD = field(default_factory=LocalSGD)
    aggregation: Aggregation = field(default_factory=Aggregation)
    rescale: bool = True
    """Whether to rescale remembered updates to the present learning rate, as Gu et al. do: their memory holds updates
    divided by their rates. With false, an update keeps the rate that made it."""

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds."""
        check_bounds(self)

    def traits(self, clients: int) -> Traits:
        """Nobody is waited for, but in the first round."""
        return Traits(
            rounds=self.rounds,
            local=self.local,
            absence="skip",
            needs_public=self.aggregation.needs_public,
            private=Sums(),
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Every round the mean over all devices of each one's last update is added."""
        model = world.initial_model()
        memory: dict[int, tuple[Model, int]] = {}
        for r in range(self.rounds):
            await somebody(world, r, self.rounds)
            there = [device for device in world.clients if not memory or world.presence.online(device)]
            arrived = await came_back(
                world, {device: self.visit(world, device, model, first=not memory) for device in there}
            )
            memory |= {device: (update, r) for device, update in arrived.items()}
            for _, born in memory.values():
                world.log.count("staleness", r - born)
            flops = self.aggregation.flops(world, model, len(memory))
            if memory:
                updates = [self.remembered(update, born, r) for update, born in memory.values()]
                centre = self.aggregation.centre(world, model, updates, count_rejected(world, [*memory]))
                model = model + centre
            model = await world.work(world.server, flops, model)
            yield Progress(model, {"uploads": len(arrived)})

    def remembered(self, update: Model, born: int, round: int) -> Model:
        """Return the update of round ``born`` as it counts in ``round``."""
        made = self.local.lr_at(born)
        factor = self.local.lr_at(round) / made if self.rescale and made else 1.0
        return update if factor == 1.0 else factor * update

    async def visit(self, world: World, device: int, model: Model, first: bool) -> Model:
        """An update of a device; in the first round it is waited for until it is back."""
        if first:
            await world.presence.reach([device])
        received = await world.send(model, world.server, device)
        trained = await (self.insist(world, device, received) if first else self.train(world, device, received))
        return await world.send(trained - received, device, world.server)

    async def train(self, world: World, device: int, model: Model) -> Model:
        """Train a device's model on its own samples."""
        return await world.train(device, model, self.local)

    async def insist(self, world: World, device: int, model: Model) -> Model:
        """Local training, begun again whenever the device is back."""
        while True:
            try:
                return await self.train(world, device, model)
            except Dropped as dropped:
                if dropped.gone:
                    raise
                await world.presence.reach([device])
