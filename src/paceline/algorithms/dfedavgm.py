"""DFedAvgM: clients train with momentum and average with their neighbours (Sun, Li and Wang, TPAMI 2022).

Algorithm 1 sends models: x_i(t+1) = sum over l of w_il z_l(t), z being what was trained. Algorithm 2 sends quantised
differences, q = Q(z - x), and adds them to the own model: x_i(t+1) = x_i(t) + sum over l of w_il q_l(t) (Eq. 7). Even
with an exact Q that is another algorithm: the models themselves are never averaged. On quadratics clients then end at
their own optima at best, and where the weights have an eigenvalue below 0 (a ring with a third each) they drift away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from paceline.algorithms.base import (
    Model,
    Progress,
    Traits,
    World,
    encoded,
    somebody,
)
from paceline.algorithms.gossip import (
    Meeting,
    draw_keys,
    equal_shares,
    metropolis_shares,
    mixed,
    rival_recipe,
    train_and_meet,
)
from paceline.algorithms.neighbourhoods import Neighbourhoods
from paceline.bounds import bounded, check_bounds
from paceline.learn.codecs import Rounded
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class DFedAvgM:
    """All clients in every round, each with its neighbours of that round."""

    rounds: int = bounded(100, least=1)
    neighbours: Neighbourhoods = field(default_factory=Neighbourhoods)
    """Equal weights where they are random and in one direction; Metropolis's on a fixed graph."""
    bits: int | None = bounded(16, least=2, most=16, none="for whole models")
    """Bits of every number of a difference (Algorithm 2); 16 halves the traffic, as in DA-DPFL's comparison, whose
    code sends half-precision floats. None: whole models (Algorithm 1)."""
    rounding: Literal["stochastic", "nearest"] = "stochastic"
    """How numbers are rounded to a multiple of the step; stochastic has no bias."""
    base: Literal["start", "trained"] = "start"
    """What the differences are added to: the model of the round's start (Eq. 7), or the trained one, as DA-DPFL's
    code does; a client's own difference then counts once more."""
    local: LocalSGD = field(default_factory=lambda: rival_recipe(momentum=0.9))

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
            met = await self.meet(world, round, models)
            trained, models = met.scored(models), self.mix(world, round, met, models)
            yield Progress(trained, {"clients": len(met.trained)})

    async def meet(self, world: World, round: int, models: Sequence[Model]) -> Meeting:
        """Have all clients train and send to their neighbours, in one round."""
        keys = draw_keys(world, "dfedavgm", round)

        def pack(client: int, trained: Model) -> Model:
            if self.bits is None:
                return trained
            key = keys[client] if self.rounding == "stochastic" else None
            return encoded(trained - models[client], Rounded(self.bits, key))

        return await train_and_meet(world, self.neighbours.draw(world, round), models, self.local, pack)

    def mix(self, world: World, round: int, met: Meeting, models: Sequence[Model]) -> list[Model]:
        """Every client's model for the next round."""
        after = list(models)
        for client, row in shares(self.neighbours, world, round, met).items():
            average = mixed(row, met.heard[client])
            if self.bits is None:
                after[client] = average
            else:
                base = models[client] if self.base == "start" else met.trained[client]
                after[client] = base + average
        return after


def shares(neighbours: Neighbourhoods, world: World, round: int, met: Meeting) -> dict[int, dict[int, float]]:
    """Return, for every client, the weights of the models that it has heard."""
    if neighbours.graph == "random":
        return equal_shares(met.heard)
    return metropolis_shares(neighbours.draw(world, round), met.heard)
