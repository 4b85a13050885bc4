"""Ditto: beside a global model every client trains its own, pulled towards it (Li et al., ICML 2021, Algorithm 1).

A client of the round trains the global model as in FedAvg, and its personal model v on F(v) + lambda/2 |v - w|^2, w
being the global model that it received. The server averages the former; the latter never leaves the client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from paceline.algorithms.aggregate import aggregated
from paceline.algorithms.base import (
    Model,
    Progress,
    Sums,
    Traits,
    World,
    came_back,
    draw_clients,
    mean,
    require,
    somebody,
)
from paceline.algorithms.gossip import rival_recipe
from paceline.bounds import bounded, check_bounds
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class Ditto:
    """A server, some clients a round, and a personal model for each."""

    rounds: int = bounded(100, least=1)
    participants: int = bounded(10, least=1)
    """Clients drawn in a round."""
    local: LocalSGD = field(default_factory=lambda: rival_recipe(epochs=3))
    """Training of the global model."""
    personal: LocalSGD = field(default_factory=lambda: replace(rival_recipe(epochs=2), prox=0.5))
    """Training of the personal one; ``personal.prox`` is lambda. 3 and 2 epochs are the paper's that compares; its
    script has 2 and 3 (DA-E10)."""

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds, and no more clients can be drawn than there are."""
        check_bounds(self)
        require(
            1 <= self.participants <= clients,
            f"participants is {self.participants}; with {clients} clients wanted 1 to {clients}",
        )

    def traits(self, clients: int) -> Traits:
        """Whoever leaves is not waited for."""
        return Traits(
            rounds=self.rounds, local=self.local, absence="skip", private=Sums(self.participants, drawn=True)
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """FedAvg for the global model; personal models go along."""
        model = world.initial_model()
        personal = [model for _ in world.clients]
        for round in range(self.rounds):
            await somebody(world, round, self.rounds)
            drawn = draw_clients(world, self.participants, "ditto", "draw", round)
            uploads = await came_back(world, {client: self.visit(world, client, model, personal) for client in drawn})
            model = await aggregated(world, mean([*uploads.values()]) if uploads else model, len(uploads))
            yield Progress(list(personal), {"uploads": len(uploads)}, {"global": model})

    async def visit(self, world: World, client: int, model: Model, personal: list[Model]) -> Model:
        """Have a client train the global model and then its personal one."""
        received = await world.send(model, world.server, client)
        trained = await world.train(client, received, self.local)
        personal[client] = await world.train(client, personal[client], self.personal, anchor=received)
        return await world.send(trained, client, world.server)
