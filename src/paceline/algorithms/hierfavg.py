"""Hierarchical FedAvg: clients, edge servers, and a cloud (Liu et al., ICC 2020; HierFAVG in the P-FedAvg paper).

Every edge server averages its clients' models after each kappa_1 local steps (``local.steps``); after kappa_2 such
aggregations (``partial``) the cloud averages the edge servers' models. All wait for all at the cloud.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

from paceline.algorithms.aggregate import aggregated
from paceline.algorithms.base import (
    BY_OBJECTIVE,
    Event,
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
from paceline.bounds import bounded, check_bounds
from paceline.errors import SiteError
from paceline.learn.recipe import LocalSGD
from paceline.topology import Graph


@dataclass(frozen=True, kw_only=True)
class HierFAVG:
    """Clients average at edge servers, and these, less often, in a cloud."""

    rounds: int = bounded(100, least=1)
    """Aggregations of the cloud."""
    servers: int = bounded(9, least=1)
    """Edge servers."""
    participants: int | None = bounded(4, least=1, none="for all")
    """Clients that each edge server draws (PF-E8: 4 of each, not 9 in all); none: all of its clients."""
    partial: int = bounded(2, least=1)
    """Aggregations at the edge for each at the cloud (kappa_2, E2 in the P-FedAvg paper)."""
    redraw: bool = False
    """Draw clients anew for every aggregation at the edge, as the reference code does, or once in a round."""
    objective: Literal["samples", "clients"] = "samples"
    """Weights of clients and edge servers: by their samples, or all clients alike."""
    layout: Layout = "spread"
    """Which clients an edge server has: every M-th, or one block."""
    local: LocalSGD = field(default_factory=LocalSGD)

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds, and every edge server must have as many clients as it draws."""
        check_bounds(self)
        require(self.servers <= clients, f"servers is {self.servers}, but there are only {clients} clients")
        fewest = clients // self.servers
        require(
            self.participants is None or 1 <= self.participants <= fewest,
            f"participants is {self.participants}, but {clients} clients at {self.servers} servers leave {fewest} to"
            f" some; wanted 1 to {fewest}, or none for all",
        )

    @property
    def cloud(self) -> int:
        """The cloud's site, after those of the edge servers."""
        return -1 - self.servers

    def traits(self, clients: int) -> Traits:
        """Edge servers, the cloud and the links between them may fail."""
        return Traits(
            rounds=self.rounds,
            local=self.local,
            absence="skip",
            servers=self.servers + 1,
            links={(k + 1, self.servers + 1) for k in range(self.servers)},
            outlives_servers=True,
            private=Sums(),
            weights="samples" if self.objective == "samples" else "equal",
            weighing=BY_OBJECTIVE,
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """The cloud: send out, wait for all edge servers, average."""
        model = world.initial_model()
        unlinked = Graph.of(self.servers, [])
        homes = Homes([world.samples(client) for client in world.clients], unlinked, self.layout)
        living = set(range(self.servers))
        world.spawn(self.watch_cloud(world))
        for server in range(self.servers):
            world.spawn(self.watch(world, homes, living, server, -1 - server))
            world.spawn(self.watch(world, homes, living, server, -1 - server, self.cloud))
        for round in range(self.rounds):
            await somebody(world, round, self.rounds)
            came = await came_back(
                world, {server: self.edge(world, homes, server, round, model) for server in sorted(living)}
            )
            if not living:
                raise SiteError(f"no server is left at t={world.now():g} s; {round} of {self.rounds} rounds are done")
            weights, answers = [weight for weight, _ in came.values()], [answer for _, answer in came.values()]
            if any(weights):
                model = await aggregated(world, mean(answers, weights), len(answers), self.cloud)
            yield Progress(model, {"servers": len(came)})

    async def watch(self, world: World, homes: Homes, living: set[int], server: int, *sites: int) -> None:
        """An edge server is lost when it fails, or its link to the cloud."""
        await world.failures.breakdown(*sites)
        if server in living:
            living.discard(server)
            alone = len(sites) == 1
            what = f"server {server + 1}" if alone else f"the link between server {server + 1} and the cloud"
            world.log.tell(
                Event(
                    kind="failure",
                    text=f"{what} has failed; its {len(homes.of(server))} clients are left out",
                    sites=sites,
                    name=what if alone else f"link {server + 1}–{self.servers + 1}",
                )
            )

    async def watch_cloud(self, world: World) -> None:
        """The run ends with the cloud."""
        await world.failures.breakdown(self.cloud)
        raise SiteError(f"the cloud, server {-self.cloud}, failed at t={world.now():g} s: nothing goes on without it")

    async def edge(self, world: World, homes: Homes, server: int, round: int, model: Model) -> tuple[float, Model]:
        """An edge server's part of a round: what its model counts, and that model at the cloud."""
        site, weight = -1 - server, 0.0
        model = await world.send(model, self.cloud, site)
        for turn in range(self.partial):
            clients = self.draw(world, homes, server, round, turn if self.redraw else 0)
            came = await came_back(
                world, {client: visit(world, client, model, self.local, site) for client in clients}
            )
            if came:
                weights = [self.weight(world, client) for client in came]
                weight, average = sum(weights), mean([*came.values()], weights)
                model = await aggregated(world, average, len(came), site)
        return weight, await world.send(model, site, self.cloud)

    def draw(self, world: World, homes: Homes, server: int, round: int, turn: int) -> list[int]:
        """The clients of an aggregation at the edge."""
        mine = homes.of(server)
        if self.participants is None:
            return mine
        return draw_clients(world, self.participants, "hierfavg", "draw", server, round, turn, among=mine)

    def weight(self, world: World, client: int) -> float:
        """What a client's model counts."""
        return float(world.samples(client)) if self.objective == "samples" else 1.0
