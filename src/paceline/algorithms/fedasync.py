"""FedAsync: asynchronous federated optimisation (Xie, Koyejo and Gupta 2019, Algorithm 1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

from paceline.algorithms.base import Progress, Sums, Traits, World, require
from paceline.algorithms.pool import check_pool, start_pool
from paceline.bounds import bounded, check_bounds
from paceline.errors import nearest
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class FedAsync:
    """Every arrival is mixed into the server model at once, the staler the less."""

    rounds: int = bounded(2000, least=1)
    """Server updates, one per arrival."""
    concurrency: int = bounded(20, least=1)
    """Clients at work at any time."""
    mixing: float = bounded(0.6, above=0, most=1)
    """The paper's α."""
    staleness: Literal["constant", "polynomial", "hinge"] = "polynomial"
    fresh: int = bounded(0, least=0, most=1)
    """The staleness of an update that was made from the server's present model: 0, so that it has the full weight, or
    1, as the paper counts (t - τ, where τ is the version before t)."""
    a: float = bounded(0.5, least=0)
    """Exponent of the polynomial, slope of the hinge."""
    b: float = bounded(4.0, least=0)
    """Staleness at which the hinge starts."""
    local: LocalSGD = field(default_factory=lambda: LocalSGD(prox=0.005))
    """The paper's local objective has a proximal term."""

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds, and no more clients can be at work than there are."""
        check_bounds(self)
        check_pool(self.concurrency, clients)
        known = ("constant", "polynomial", "hinge")
        require(self.staleness in known, f"staleness is {self.staleness!r}; {nearest(self.staleness, known)}")

    def traits(self, clients: int) -> Traits:
        """Tell the run that a client who leaves is replaced by another one."""
        return Traits(rounds=self.rounds, local=self.local, absence="skip", arrivals=True, private=Sums())

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """The updater: x_t = (1 - α_t) x_{t-1} + α_t x_new, with α_t = α s(t - τ)."""
        server = start_pool(world, self.concurrency, self.local, self.rounds)
        for _ in range(self.rounds):
            update = await server.inbox.get()
            staleness = server.version - update.version
            world.log.count("staleness", staleness)
            alpha = self.mixing * self.weight(staleness + self.fresh)
            await server.aggregate(world, (1.0 - alpha) * server.model + alpha * update.trained, 1)
            yield Progress(server.model, {"staleness": staleness})

    def weight(self, staleness: int) -> float:
        """The paper's three staleness functions s(t - τ)."""
        match self.staleness:
            case "constant":
                return 1.0
            case "polynomial":
                return float((1.0 + staleness) ** -self.a)
            case "hinge":
                return 1.0 if staleness <= self.b else 1.0 / (1.0 + self.a * (staleness - self.b))
