"""DFedSAM: clients train with sharpness-aware minimisation and average with their neighbours (Shi et al., ICML 2023).

Every local step takes the gradient at w + rho g/|g|, the worst point near by, so that local models end in flat places
and lose less when they are averaged: x_i(t+1) = sum over l of w_il z_l(t). Whole models travel, and every step costs
two gradients.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from paceline.algorithms.base import Progress, Traits, World, somebody
from paceline.algorithms.dfedavgm import shares
from paceline.algorithms.gossip import mixed, rival_recipe, train_and_meet
from paceline.algorithms.neighbourhoods import Neighbourhoods
from paceline.bounds import bounded, check_bounds
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class DFedSAM:
    """All clients in every round, each with its neighbours of that round."""

    rounds: int = bounded(100, least=1)
    neighbours: Neighbourhoods = field(default_factory=Neighbourhoods)
    """Equal weights where they are random and in one direction; Metropolis's on a fixed graph."""
    local: LocalSGD = field(default_factory=lambda: rival_recipe(momentum=0.9, sam=0.01))
    """``local.sam`` is the radius rho; 0 leaves DFedAvgM with whole models."""

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds, and every client must have its neighbours."""
        check_bounds(self)
        self.neighbours.check(clients)

    def traits(self, clients: int) -> Traits:
        """There is no server; whoever is away is left out of the round."""
        return Traits(rounds=self.rounds, local=self.local, absence="skip", servers=0, outlives_servers=True)

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """In every round all clients train, send to their neighbours, and mix what has come."""
        models = [world.initial_model() for _ in world.clients]
        for round in range(self.rounds):
            await somebody(world, round, self.rounds)
            met = await train_and_meet(world, self.neighbours.draw(world, round), models, self.local)
            trained = met.scored(models)
            for client, row in shares(self.neighbours, world, round, met).items():
                models[client] = mixed(row, met.heard[client])
            yield Progress(trained, {"clients": len(met.trained)})
