"""Decentralised parallel SGD: no server; every client averages with its neighbours (Lian et al., NeurIPS 2017).

In every round each client trains, sends its model to its neighbours and mixes theirs into it. As in P-FedAvg it waits
for its neighbours only; a client that has gone for good is left out, and the others weigh anew. Where the rule for
absence does not wait for a client that is away, the others do these rounds without it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial

from paceline.algorithms.base import Dropped, Model, Progress, Traits, World, comes, deserted, mean, require
from paceline.algorithms.overlay import Overlay
from paceline.bounds import bounded, check_bounds
from paceline.errors import SettingError, nearest
from paceline.learn.recipe import LocalSGD
from paceline.topology import WEIGHTINGS, Graph, Mixing, make_mixing, parse_graph


@dataclass(frozen=True, kw_only=True)
class DPSGD:
    """All clients train and average with their neighbours on a graph, without a server."""

    rounds: int = bounded(100, least=1)
    topology: str = "ring"
    """The graph of the clients: ``ring``, ``complete``, ``star``, ``tree``, or with numbers, which must give as many
    nodes as there are clients: ``torus:10x10``, ``regular:100,4``, a file."""
    weights: str = "metropolis"
    """Mixing weights: metropolis (a third each on a ring), optimal, all-modes, constant, uniform, random."""
    local: LocalSGD = field(default_factory=LocalSGD)

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds, and the graph must have a node for every client."""
        check_bounds(self)
        if self.weights not in WEIGHTINGS:
            raise SettingError(f"weights is {self.weights!r}; {nearest(self.weights, WEIGHTINGS)}")
        nodes = self.graph(clients, 0).nodes
        require(
            nodes == clients,
            f"topology {self.topology!r} has {nodes} nodes for {clients} clients; give one of {clients}, or 'ring'",
        )

    def graph(self, clients: int, seed: int) -> Graph:
        """Build the graph over which clients average, of as many nodes as there are clients."""
        plain = self.topology in ("ring", "complete", "star", "tree")
        return parse_graph(f"{self.topology}:{clients}" if plain else self.topology, seed=seed)

    def weigh(self, graph: Graph) -> Mixing:
        """The mixing matrix of a graph or of what is left of it."""
        return make_mixing(graph, self.weights)

    def traits(self, clients: int) -> Traits:
        """There is no server that could fail; every average needs all neighbours."""
        return Traits(rounds=self.rounds, local=self.local, absence="wait", servers=0, outlives_servers=True)

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Clients run by themselves; when the last of them has done a round, that is progress."""
        seed = int(world.stream("dpsgd", "topology").integers(2**31))
        overlay = Overlay(world, self.graph(len(world.clients), seed), world.clients, self.weigh)
        start = world.initial_model()
        for client in world.clients:
            world.spawn(self.peer(world, overlay, client, start))
        own = dict.fromkeys(world.clients, start)
        for round in range(self.rounds):
            models = await overlay.completed(round)
            if not models:
                raise deserted(world, round, self.rounds)
            own.update(models)
            yield Progress(mean([*models.values()]), {"clients": len(models)}, own=partial(list, own.values()))

    async def peer(self, world: World, overlay: Overlay, client: int, model: Model) -> None:
        """One client, round by round, until the end or until it has gone for good."""
        while (round := overlay.rounds[client]) < self.rounds:
            world.enter(round)
            try:
                trained = await world.train(client, model, self.local)
                model = await overlay.mix(client, round, trained)
            except Dropped as dropped:
                if dropped.gone or not await self.back(world, overlay, client):
                    overlay.lose(client)
                    return

    async def back(self, world: World, overlay: Overlay, client: int) -> bool:
        """The others go on without a client until it is back, in the round that they have come to by then."""
        overlay.step_out(client)
        there = await comes(world, [client])
        if there:
            overlay.step_in(client)
        return there
