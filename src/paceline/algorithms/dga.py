"""DGA, delayed gradient averaging: devices train on while their updates travel (Zhu et al., NeurIPS 2021).

A device sends its update as soon as its own training ends, whatever the others do, and does not wait for the average:
it makes an extra visit from its own model, and when the average arrives it puts it in the place of its own
contribution: w <- w + (mean update - own update). An extra visit that still runs then is the device's visit of the
next round, corrected when it ends, so that no round is longer than FedAvg's (NI-E10).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

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
    once,
    somebody,
    unless_dropped,
)
from paceline.bounds import bounded, check_bounds
from paceline.learn.recipe import LocalSGD


class Upload(NamedTuple):
    """All that a device has moved since its last upload."""

    delta: Model
    late: bool
    """Whether all of it was made without the last average."""


Extras = dict[int, asyncio.Task[Model | None]]
"""The extra visits of devices that wait for an average: the movements that they make, None of those given up."""


@dataclass(frozen=True, kw_only=True)
class DGA:
    """Extra local training during communication, with correction."""

    rounds: int = bounded(100, least=1)
    local: LocalSGD = field(default_factory=LocalSGD)
    aggregation: Aggregation = field(default_factory=Aggregation)
    extra: bool = True
    """Whether devices train once more while they would wait for the average, which makes no round longer (NI-E10);
    without it this is FedAvg."""

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
        model, extras = world.initial_model(), Extras()
        for done in range(self.rounds):
            await somebody(world, done, self.rounds)
            arrived = await came_back(
                world, {device: self.turn(world, device, model, extras) for device in world.clients}
            )
            model = await self.add(world, model, arrived)
            yield Progress(model, {"uploads": len(arrived)})

    async def turn(self, world: World, device: int, model: Model, extras: Extras) -> Upload:
        """Get the average, train, upload; the extra visit begins as the upload does, device by device.

        A device that misses the average, or does not get its update through, loses its extra steps.
        """
        try:
            received = await world.send(model, world.server, device)
        finally:
            extra = extras.pop(device, None)
        own, late = await self.moved(world, device, received, extra)
        if self.extra:
            extras[device] = world.spawn(unless_dropped(self.go_on(world, device, received + own, extras)))
        try:
            return Upload(await world.send(own, device, world.server), late)
        except Dropped:
            extras.pop(device, None)
            raise

    async def moved(
        self, world: World, device: int, received: Model, extra: asyncio.Task[Model | None] | None
    ) -> tuple[Model, bool]:
        """All own movement since the last upload, and whether it is the extra visit's alone.

        From the corrected model, w = server's model + own extra steps, the device trains, unless its extra visit is
        still under way: then that is its visit.
        """
        if extra is not None and not extra.done():
            await world.settled()  # one that ends at this very instant has ended
        under_way = extra is not None and not extra.done()
        ahead = None if extra is None else await extra
        if ahead is None:
            return once(await world.train(device, received, self.local) - received), False
        if under_way:
            return ahead, True
        return once(await world.train(device, received + ahead, self.local) - received), False

    async def go_on(self, world: World, device: int, model: Model, extras: Extras) -> Model | None:
        """One more visit meanwhile: the movement it makes; none where the average is there at the same instant."""
        await world.settled()
        if extras.get(device) is not asyncio.current_task():
            return None
        return once(await world.train(device, model, self.local) - model)

    async def add(self, world: World, model: Model, arrived: Mapping[int, Upload]) -> Model:
        """The server's work: the updates of all that are there, each added to the model that it was measured from."""
        flops = self.aggregation.flops(world, model, len(arrived))
        for upload in arrived.values():
            world.log.count("staleness", int(upload.late))
        if arrived:
            deltas = [upload.delta for upload in arrived.values()]
            centre = self.aggregation.centre(world, model, deltas, count_rejected(world, [*arrived]))
            model = model + len(arrived) / len(world.clients) * centre
        return await world.work(world.server, flops, model)
