"""Parallel-sequential federated learning, with FedAvg and sequential FL as its two ends.

Zhou et al., INFOCOM 2025, Algorithm 1, training phase (PS-1 ... PS-3, PS-15): W sequences ride abreast, each of S
clients in a row; every sequence starts from the round's model, and the ends are averaged without weights. One
sequence of S = N0 clients is sequential FL; W = N0 sequences of one client are FedAvg.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from paceline.algorithms.base import Dropped, Model, Progress, World, mean, require
from paceline.algorithms.samplers import Sampler, UniformSampler
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class PSFL:
    """W sequences abreast, S clients in each."""

    rounds: int = 100
    width: int = 5
    """W, sequences abreast."""
    length: int = 4
    """S, clients in each."""
    local: LocalSGD = field(default_factory=LocalSGD)
    sampler: Sampler = field(default_factory=UniformSampler)

    def check(self, clients: int) -> None:
        """W·S clients are drawn without repetition, so there must be as many."""
        require(self.rounds >= 1, f"rounds is {self.rounds}; it must be 1 or more")
        require(
            self.width >= 1 and self.length >= 1,
            f"width {self.width} and length {self.length} must be 1 or more",
        )
        need = self.width * self.length
        require(
            need <= clients,
            f"a round needs width*length = {self.width}*{self.length} = {need} clients but there are {clients};"
            " lower algorithm.width or algorithm.length, or raise `clients`",
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Algorithm 1, lines 12 to 22."""
        model = world.initial_model()
        for r in range(self.rounds):
            sequences = self.sampler.draw(world, r, self.width, self.length)
            ends = await world.gather(self.ride(world, model, sequence) for sequence in sequences)
            arrived = [end for end in ends if end is not None]
            if arrived:
                model = mean(arrived)
            yield Progress(model, {"sequences": len(arrived)})

    async def ride(self, world: World, model: Model, sequence: Sequence[int]) -> Model | None:
        """The model passes from client to client; one that drops out is passed over, a lost holder loses it."""
        holder = world.server
        for client in sequence:
            try:
                received = await world.send(model, holder, client)
                model = await world.train(client, received, self.local)
            except Dropped as dropped:
                if dropped.site == holder:
                    return None
                continue
            holder = client
        try:
            return None if holder == world.server else await world.send(model, holder, world.server)
        except Dropped:
            return None
