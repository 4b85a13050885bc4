"""DGA, delayed gradient averaging: devices train on while their updates travel (Zhu et al., NeurIPS 2021).

A device does not wait for the average: it makes extra local steps from its own model, and when the average arrives it
puts it in the place of its own contribution: w <- w + (mean update - own update).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any

from paceline.algorithms.aggregate import Aggregation
from paceline.algorithms.base import (
    Dropped,
    Model,
    Progress,
    Traits,
    World,
    combine,
    count_rejected,
    require,
    somebody,
)
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class DGA:
    """Extra local training during communication, with correction."""

    rounds: int = 100
    local: LocalSGD = field(default_factory=LocalSGD)
    aggregation: Aggregation = field(default_factory=Aggregation)
    extra: bool = True
    """Whether devices train once more while they would wait; without it this is FedAvg."""

    def check(self, clients: int) -> None:
        """Raise ``SettingError`` if these settings are impossible with so many clients."""
        require(self.rounds >= 1, f"rounds is {self.rounds}; it must be 1 or more")

    def traits(self, clients: int) -> Traits:
        """The average is of all devices."""
        return Traits(
            rounds=self.rounds, local=self.local, absence="wait", needs_public=self.aggregation.needs_public
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """The server's model is the sum of all averages; every device is ahead of it by its own extra steps."""
        model = world.initial_model()
        held = dict.fromkeys(world.clients, model)
        """The server's model as each device has it."""
        ahead: dict[int, Model] = {}
        for done in range(self.rounds):
            await somebody(world, done, self.rounds)
            begin = [self.train(world, device, model, held, ahead.get(device)) for device in world.clients]
            trained = dict(zip(world.clients, await world.gather(begin), strict=True))
            there = {device: own for device, own in trained.items() if own is not None}
            # From here on transfers, server and extra training run side by side.
            starts = {device: combine([(1.0, held[device]), (1.0, own)]) for device, own in there.items()}
            branches: list[Any] = [self.exchange(world, model, there, held)]
            if self.extra:
                branches += [self.go_on(world, device, start) for device, start in starts.items()]
            model, *further = await world.gather(branches)
            ahead = {device: one for device, one in zip(there, further, strict=False) if one is not None}
            yield Progress(model, {"uploads": len(there)})

    async def train(
        self, world: World, device: int, model: Model, held: dict[int, Model], ahead: Model | None
    ) -> Model | None:
        """From the corrected model, w = server's model + own extra steps; all own movement since the last upload.

        A device that missed the last average gets it first, and its extra steps are lost.
        """
        try:
            if device not in held:
                held[device], ahead = await world.send(model, world.server, device), None
            base = held[device]
            start = base if ahead is None else combine([(1.0, base), (1.0, ahead)])
            return combine([(1.0, await world.train(device, start, self.local)), (-1.0, base)])
        except Dropped:
            return None

    async def exchange(self, world: World, model: Model, updates: dict[int, Model], held: dict[int, Model]) -> Model:
        """All updates up, the server's work, the average down."""
        sent = await self.all_of(world, [self.upload(world, device, update) for device, update in updates.items()])
        arrived = {device: one for device, one in zip(updates, sent, strict=True) if one is not None}
        flops = self.aggregation.flops(world, model, len(arrived))
        for _ in arrived:  # each is added to the model that it was measured from
            world.log.count("staleness", 0)
        if arrived:
            updates_in = [*arrived.values()]
            centre = self.aggregation.centre(world, model, updates_in, count_rejected(world, [*arrived]))
            model = combine([(1.0, model), (len(arrived) / len(world.clients), centre)])
        model = await world.work(world.server, flops, model)
        for device in held.keys() - updates.keys():  # it was left out, and misses the average
            del held[device]
        await self.all_of(world, [self.download(world, device, model, held) for device in updates])
        return model

    async def all_of(self, world: World, transfers: list[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Transfers side by side. Devices that train on meanwhile wait for none of them: no barrier is booked."""
        if not self.extra:
            return await world.gather(transfers)
        tasks = [world.spawn(transfer) for transfer in transfers]
        return [await task for task in tasks]

    async def upload(self, world: World, device: int, update: Model) -> Model | None:
        """The update, unless its device is gone."""
        try:
            return await world.send(update, device, world.server)
        except Dropped:
            return None

    async def download(self, world: World, device: int, model: Model, held: dict[int, Model]) -> None:
        """The average; a device that misses it has no right to go on from the old one."""
        try:
            held[device] = await world.send(model, world.server, device)
        except Dropped:
            held.pop(device, None)

    async def go_on(self, world: World, device: int, model: Model) -> Model | None:
        """One more visit meanwhile: the movement it makes."""
        try:
            return combine([(1.0, await world.train(device, model, self.local)), (-1.0, model)])
        except Dropped:
            return None
