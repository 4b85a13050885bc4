"""DGA, delayed gradient averaging: devices train on while their updates travel (Zhu et al., NeurIPS 2021).

A device does not wait for the average: it makes extra local steps from its own model, and when the average arrives it
puts it in the place of its own contribution: w <- w + (mean update - own update).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.algorithms.aggregate import Aggregation
from paceline.algorithms.base import (
    Model,
    Progress,
    Sums,
    Traits,
    World,
    came_back,
    count_rejected,
    once,
    somebody,
    those,
    unless_dropped,
)
from paceline.bounds import bounded, check_bounds
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class DGA:
    """Extra local training during communication, with correction."""

    rounds: int = bounded(100, least=1)
    local: LocalSGD = field(default_factory=LocalSGD)
    aggregation: Aggregation = field(default_factory=Aggregation)
    extra: bool = True
    """Whether devices train once more while they would wait; without it this is FedAvg."""

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds."""
        check_bounds(self)

    def traits(self, clients: int) -> Traits:
        """Tell the run that every average is of all devices."""
        summed = Sums(clients) if self.aggregation.rule == "mean" else Sums()
        return Traits(
            rounds=self.rounds,
            local=self.local,
            absence="wait",
            needs_public=self.aggregation.needs_public,
            private="devices train on from models of their own; dga.extra=false can" if self.extra else summed,
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """The server's model is the sum of all averages; every device is ahead of it by its own extra steps."""
        model = world.initial_model()
        held = dict.fromkeys(world.clients, model)
        """The server's model as each device has it."""
        ahead: dict[int, Model] = {}
        for done in range(self.rounds):
            await somebody(world, done, self.rounds)
            there = await came_back(
                world,
                {device: self.train(world, device, model, held, ahead.get(device)) for device in world.clients},
            )
            # From here on transfers, server and extra training run side by side.
            starts = {device: held[device] + own for device, own in there.items()}
            branches: list[Any] = [self.exchange(world, model, there)]
            if self.extra:
                branches += [unless_dropped(self.go_on(world, device, start)) for device, start in starts.items()]
            (model, held), *further = await world.gather(branches)
            ahead = those(there, further) if self.extra else {}
            yield Progress(model, {"uploads": len(there)})

    async def train(
        self, world: World, device: int, model: Model, held: dict[int, Model], ahead: Model | None
    ) -> Model:
        """From the corrected model, w = server's model + own extra steps; all own movement since the last upload.

        A device that missed the last average gets it first, and its extra steps are lost.
        """
        if device not in held:
            held[device], ahead = await world.send(model, world.server, device), None
        base = held[device]
        start = base if ahead is None else base + ahead
        return once(await world.train(device, start, self.local) - base)

    async def exchange(
        self, world: World, model: Model, updates: Mapping[int, Model]
    ) -> tuple[Model, dict[int, Model]]:
        """All updates up, the server's work, the average down: the average, and as each device has it.

        A device that was left out, or misses the average, has none: it has no right to go on from the old one.
        """
        arrived = await self.all_of(
            world, {device: world.send(update, device, world.server) for device, update in updates.items()}
        )
        flops = self.aggregation.flops(world, model, len(arrived))
        for _ in arrived:  # each is added to the model that it was measured from
            world.log.count("staleness", 0)
        if arrived:
            updates_in = [*arrived.values()]
            centre = self.aggregation.centre(world, model, updates_in, count_rejected(world, [*arrived]))
            model = model + len(arrived) / len(world.clients) * centre
        model = await world.work(world.server, flops, model)
        held = await self.all_of(world, {device: world.send(model, world.server, device) for device in updates})
        return model, held

    async def all_of(self, world: World, transfers: Mapping[int, Coroutine[Any, Any, Model]]) -> dict[int, Model]:
        """Transfers side by side; those that arrived.

        Devices that train on meanwhile wait for none of them: no barrier is booked.
        """
        if not self.extra:
            return await came_back(world, transfers)
        tasks = [world.spawn(unless_dropped(transfer)) for transfer in transfers.values()]
        return those(transfers, [await task for task in tasks])

    async def go_on(self, world: World, device: int, model: Model) -> Model:
        """One more visit meanwhile: the movement it makes."""
        return once(await world.train(device, model, self.local) - model)
