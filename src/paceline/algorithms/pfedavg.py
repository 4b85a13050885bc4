"""P-FedAvg: many parameter servers, each with clients of its own, that average with their neighbours (ToN 2022).

Every server does a round of FedAvg with its clients, sends the average to its neighbours on the overlay and mixes
theirs into it: x_i = sum over i' of w_ii' v_i' (PF-1 ... PF-5). It waits for its neighbours only. Where a server or a
link fails, the others go on (``overlay``), and its clients go to the nearest server that is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Literal

from paceline.algorithms.aggregate import aggregated
from paceline.algorithms.base import (
    BY_OBJECTIVE,
    Dropped,
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
    visit,
)
from paceline.algorithms.homes import Homes, Layout
from paceline.algorithms.overlay import Overlay
from paceline.bounds import bounded, check_bounds
from paceline.errors import SettingError, SiteError, nearest
from paceline.learn.recipe import LocalSGD
from paceline.topology import SIGNABLE, WEIGHTINGS, Graph, Mixing, make_mixing, parse_graph


@dataclass(frozen=True, kw_only=True)
class PFedAvg:
    """M servers, each with clients of its own, that average with their neighbours on a graph."""

    rounds: int = bounded(100, least=1)
    topology: str = "torus:3x3"
    """The overlay, and with it the number of servers: ``complete:9``, ``ring:9``, ``tree:9``, ``barbell:3,3``,
    ``star:9``, ``hypercube:3``, ``random:9,0.5``, ``regular:10,4``, ``smallworld:...``, a GraphML or edge file."""
    weights: str = "metropolis"
    """Mixing weights: metropolis (the paper's, PF-7), optimal (PF-8), all-modes, constant, uniform, random."""
    signed: bool = False
    """Allow optimal, all-modes and constant weights below 0 (PF-E3)."""
    participants: int | None = bounded(4, least=1, none="for all")
    """Clients that each server draws in a round (K_i); none: all of its clients."""
    replacement: bool = False
    """Draw with replacement, as Theorem 2 assumes: a client drawn twice trains once and counts twice."""
    objective: Literal["clients", "samples"] = "clients"
    """What is minimised: the mean over servers of the mean over clients, or the loss of all samples, for which the
    loss of client j at server i counts M N_i p_j times (PF-E7): its learning rate is as much larger or smaller (and
    weight decay, if any, with it)."""
    layout: Layout = "spread"
    """Which clients a server has: every M-th, or one block (neighbouring clients share a server)."""
    local: LocalSGD = field(default_factory=LocalSGD)

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds, and every server must have as many clients as it draws."""
        check_bounds(self)
        if self.weights not in WEIGHTINGS:
            raise SettingError(f"weights is {self.weights!r}; {nearest(self.weights, WEIGHTINGS)}")
        servers = self.graph(0).nodes
        require(servers <= clients, f"topology {self.topology!r} has {servers} servers for {clients} clients")
        fewest = clients // servers
        require(
            not self.signed or self.weights in SIGNABLE,
            f"signed is for {', '.join(SIGNABLE)} weights; {self.weights} ones are never below 0: leave it out",
        )
        require(
            self.participants is None or self.replacement or self.participants <= fewest,
            f"participants is {self.participants}, but {clients} clients at {servers} servers leave {fewest} to some;"
            f" set participants to {fewest} or less, or replacement=true",
        )

    def graph(self, seed: int) -> Graph:
        """The overlay of a seed: drawn ones differ, all others do not."""
        return parse_graph(self.topology, seed=seed)

    def weigh(self, graph: Graph) -> Mixing:
        """The mixing matrix of a graph or of what is left of it."""
        return make_mixing(graph, self.weights, signed=self.signed)

    def traits(self, clients: int) -> Traits:
        """Servers and links may fail; of a drawn overlay, links are not known before the run."""
        graph = self.graph(0)
        drawn = self.graph(1).edges != graph.edges
        return Traits(
            rounds=self.rounds,
            local=self.local,
            absence="skip",
            servers=graph.nodes,
            links=None if drawn else {(i + 1, j + 1) for i, j in graph.edges},
            outlives_servers=True,
            private=Sums(),
            weights="samples" if self.objective == "samples" else "equal",
            weighing=BY_OBJECTIVE,
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Servers run by themselves; when the last of them has done a round, that is progress."""
        graph = self.graph(int(world.stream("p-fedavg", "topology").integers(2**31)))
        homes = Homes([world.samples(client) for client in world.clients], graph, self.layout)
        overlay = Overlay(world, graph, [-1 - server for server in range(graph.nodes)], self.weigh)
        overlay.on_loss = lambda server: _moved(homes.reattach(server, overlay.living))
        start = world.initial_model()
        for server in range(graph.nodes):
            world.spawn(self.serve(world, overlay, homes, server, start))
        for round in range(self.rounds):
            models = await overlay.completed(round)
            if not models:
                raise SiteError(f"no server is left at t={world.now():g} s; {round} of {self.rounds} rounds are done")
            every, own = [*models.values()], partial(homes.models, models)
            yield Progress(mean(every), {"servers": len(models)}, {"servers": every}, own)

    async def serve(self, world: World, overlay: Overlay, homes: Homes, server: int, model: Model) -> None:
        """One server, round by round, until the end or until it fails."""
        for round in range(self.rounds):
            world.enter(round)
            await somebody(world, round, self.rounds)
            if server not in overlay.living:
                return
            try:
                average = await self.train(world, overlay, homes, server, round, model)
                model = await overlay.mix(server, round, average)
            except Dropped:
                return

    async def train(
        self, world: World, overlay: Overlay, homes: Homes, server: int, round: int, model: Model
    ) -> Model:
        """PF-2 ... PF-4: draw clients, let them train, average what comes back."""
        drawn = self.draw(world, homes, server, round)
        share = len(overlay.living) * len(homes.of(server)) / homes.samples
        recipes = {client: self.recipe(share * world.samples(client)) for client in drawn}
        site = overlay.sites[server]
        came = await came_back(
            world, {client: visit(world, client, model, recipe, site) for client, recipe in recipes.items()}
        )
        if not came:  # also where this server has failed: its clients have worked for nothing
            return model
        return await aggregated(world, mean([*came.values()], [drawn[client] for client in came]), len(came), site)

    def draw(self, world: World, homes: Homes, server: int, round: int) -> Counter[int]:
        """The round's clients, each as often as it was drawn."""
        mine, path = homes.of(server), ("p-fedavg", "draw", server, round)
        if self.participants is None:
            return Counter(mine)
        if self.replacement:
            places = world.stream(*path).integers(len(mine), size=self.participants)
            return Counter(mine[k] for k in places)
        return Counter(draw_clients(world, self.participants, *path, among=mine))

    def recipe(self, share: float) -> LocalSGD:
        """The local training; where samples count, with the loss times M N_i p_j, so with another step."""
        return self.local if self.objective == "clients" else _scaled(self.local, share)


@lru_cache(maxsize=100_000)
def _scaled(recipe: LocalSGD, factor: float) -> LocalSGD:
    """One object for equal recipes, since what is known of them is kept by object."""
    return replace(recipe, lr=recipe.lr * factor)


def _moved(counts: dict[int, int]) -> str:
    """Where the clients went, in words."""
    if not counts:
        return ""
    homes = ", ".join(f"{count} to server {server + 1}" for server, count in sorted(counts.items()))
    return f"; its clients went over: {homes}"
