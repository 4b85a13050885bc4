"""GossipFL: clients meet in pairs and average a random part of their weights (Tang et al., TPDS 2022).

In every round all draw the same random mask from a shared seed, so that only the values under it travel. A pair puts
the mean of both where the mask is and keeps the rest. Whom to meet is drawn at random here, the variant that DA-DPFL
compares with; the paper can also choose partners by their bandwidth.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paceline.algorithms.base import Model, Progress, Traits, World, apply, by_rows, packed, require, somebody
from paceline.algorithms.gossip import Meeting, draws, equal_shares, mixed, rival_recipe, train_and_meet
from paceline.algorithms.neighbourhoods import Neighbourhoods, matching, matching_of_neighbours
from paceline.bounds import bounded, check_bounds
from paceline.learn.codecs import Masked
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class GossipFL:
    """All clients in every round, in groups that are drawn anew."""

    rounds: int = bounded(100, least=1)
    group: int = bounded(2, least=2)
    """Clients that meet: 2 is the paper's matching; DA-DPFL's code has groups of M+1, so that all rivals have as many
    neighbours. Those that are left over join a group each; with pairs, one that is left over stays alone."""
    graph: str = "complete"
    """Who may meet: anybody (``complete``), or in pairs the neighbours of a fixed graph with a node for every client,
    such as ``ring``, ``torus:10x10``, a file."""
    density: float = bounded(0.5, above=0, most=1)
    """Every weight travels with this probability."""
    local: LocalSGD = field(default_factory=rival_recipe)

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds, and a group cannot be larger than the fleet."""
        check_bounds(self)
        require(2 <= self.group <= clients, f"group is {self.group}; with {clients} clients wanted 2 to {clients}")
        if self.graph != "complete":
            require(
                self.group == 2 and self.graph != "random",
                f"gossipfl.graph is {self.graph!r} and gossipfl.group {self.group}; on a graph neighbours meet in"
                " pairs, so wanted a fixed graph and group=2, or graph=complete",
            )
            self._neighbours().check(clients)

    def traits(self, clients: int) -> Traits:
        """There is no server; whoever is away is left out of the round."""
        return Traits(rounds=self.rounds, local=self.local, absence="skip", servers=0, outlives_servers=True)

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """In every round all clients train, meet their partners, and average what the mask lets through."""
        models = [world.initial_model() for _ in world.clients]
        for round in range(self.rounds):
            groups = self.groups(world, round)
            key = int(world.stream("gossipfl", "mask", round).integers(2**63))
            await somebody(world, round, self.rounds)
            met = await self.meet(world, groups, models, key)
            trained = met.scored(models)
            models = self.average(met, trained, key)
            yield Progress(trained, {"clients": len(met.trained)})

    def _neighbours(self) -> Neighbourhoods:
        return Neighbourhoods(graph=self.graph)

    def groups(self, world: World, round: int) -> list[tuple[int, ...]]:
        """Who meets whom; every client is in one group at most."""
        if self.graph != "complete":
            return list(matching_of_neighbours(world, round, self._neighbours().draw(world, round)))
        if self.group == 2:
            return list(matching(world, round))
        order = [int(k) for k in world.stream("matching", round).permutation(len(world.clients))]
        whole = len(order) // self.group
        groups = [order[k * self.group : (k + 1) * self.group] for k in range(whole)]
        for k, extra in enumerate(order[whole * self.group :]):
            groups[k % whole].append(extra)
        return [tuple(group) for group in groups]

    def covered(self, size: int, key: int) -> int:
        """How many of so many weights the mask of this key covers."""
        return int((draws(key, torch.empty(size)) < self.density).sum())

    async def meet(self, world: World, groups: Sequence[Sequence[int]], models: Sequence[Model], key: int) -> Meeting:
        """Have all clients train and send to their partners, in one round."""
        hears: list[list[int]] = [[] for _ in world.clients]
        for group in groups:
            for client in group:
                hears[client] = [other for other in group if other != client]

        # All know the round's mask: it follows from a shared seed, and never travels.
        start = world.initial_model()
        mask, active = apply(shared_mask, start, key=key, density=self.density), self.covered(start.space.size, key)

        def pack(client: int, trained: Model) -> Model:
            return packed(trained, Masked(active), context=mask, known=mask)

        return await train_and_meet(world, hears, models, self.local, pack)

    def average(self, met: Meeting, trained: Sequence[Model], key: int) -> list[Model]:
        """The group's mean where the mask is, the own weights elsewhere."""
        after = list(trained)
        for client, row in equal_shares(met.heard).items():
            if len(row) > 1:
                centre = mixed(row, met.heard[client])
                after[client] = by_rows(under_mask, trained[client], centre, key=key, density=self.density)
        return after


def shared_mask(like_P: Tensor, *, key: int, density: float) -> Tensor:
    """Ones where the mask of this key is."""
    return (draws(key, like_P) < density).to(like_P.dtype)


def under_mask(own_CP: Tensor, centre_CP: Tensor, *, key: int, density: float) -> Tensor:
    """Replace what the shared mask of this key covers."""
    return torch.where(draws(key, own_CP) < density, centre_CP, own_CP)
