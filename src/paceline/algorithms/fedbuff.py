"""FedBuff: buffered asynchronous aggregation (Nguyen et al., AISTATS 2022, Algorithms 1 and 2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from paceline.algorithms.base import Progress, Sums, Traits, World, total
from paceline.algorithms.pool import check_pool, start_pool
from paceline.bounds import bounded, check_bounds
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class FedBuff:
    """A fixed number of clients is always at work; every ``buffer`` updates make a new server model."""

    rounds: int = bounded(200, least=1)
    """Server updates."""
    concurrency: int = bounded(20, least=1)
    """Clients at work at any time (the paper's Mc)."""
    buffer: int = bounded(10, least=1, most=1_000_000)
    """Updates per server update (the paper's K)."""
    server_lr: float = bounded(1.0, above=0)
    local: LocalSGD = field(default_factory=LocalSGD)

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds, and no more clients can be at work than there are."""
        check_bounds(self)
        check_pool(self.concurrency, clients)

    def traits(self, clients: int) -> Traits:
        """Tell the run that a client who leaves is replaced by another one."""
        return Traits(rounds=self.rounds, local=self.local, absence="skip", arrivals=True, private=Sums())

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """The server: take K updates, move by their mean, each weighted by its staleness."""
        server = start_pool(world, self.concurrency, self.local, self.rounds)
        for _ in range(self.rounds):
            updates = await server.inbox.take(self.buffer)
            staleness = [server.version - update.version for update in updates]
            for late in staleness:
                world.log.count("staleness", late)
            moves = [
                (update.trained - update.start) * (self.server_lr * weight(late) / self.buffer)
                for update, late in zip(updates, staleness, strict=True)
            ]
            await server.aggregate(world, total([server.model, *moves]), self.buffer)
            yield Progress(server.model, {"staleness": sum(staleness) / self.buffer})


def weight(staleness: int) -> float:
    """1/sqrt(1 + staleness), the paper's choice."""
    return float((1.0 + staleness) ** -0.5)
