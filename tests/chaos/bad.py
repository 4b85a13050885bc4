"""Algorithms that do what no algorithm may."""

import asyncio
from dataclasses import dataclass, field

import paceline
from paceline import LocalSGD, Progress
from paceline.algorithms.base import Reading


@dataclass(frozen=True, kw_only=True)
class Good(paceline.Algorithm):
    rounds: int = 3
    local: LocalSGD = field(default_factory=LocalSGD)

    async def run(self, world):
        model = world.initial_model()
        for round in range(self.rounds):
            await self.before(world, round)
            model = await world.send(await world.train(0, model, self.local), 0, world.server)
            yield Progress(model)
            model = await world.send(model, world.server, 0)

    async def before(self, world, round):
        pass


class Spins(Good):
    async def before(self, world, round):
        while round:
            await world.settled()


class Blocks(Good):
    async def before(self, world, round):
        if round:
            await asyncio.Event().wait()


class Slips(Good):
    async def before(self, world, round):
        [][round]


class Spoils(Good):
    async def before(self, world, round):
        if round:  # what training would make of a message that holds NaN
            trained = await world.train(0, float("nan") * world.initial_model(), self.local)
            await world.observe(Reading([trained], len))


class Strays(Good):
    async def before(self, world, round):
        trained = await world.train(1, world.initial_model(), self.local)
        await world.train(2, trained, self.local)
