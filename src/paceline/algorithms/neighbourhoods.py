"""Who hears whom in a round, among clients without a server (DA-1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.algorithms.base import World, require
from paceline.bounds import bounded
from paceline.seeds import subsets
from paceline.topology import parse_graph


@dataclass(frozen=True, kw_only=True)
class Neighbourhoods:
    """Every client's neighbours, drawn anew in every round or fixed."""

    graph: str = "random"
    """``random``: ``degree`` others for each, drawn anew every round, in one direction; ``ring``; ``complete``; any
    fixed graph of as many nodes as there are clients: ``torus:10x10``, ``regular:100,4``, a file."""
    degree: int = bounded(10, least=1)
    """Neighbours of each client where they are random (M)."""

    def check(self, clients: int) -> None:
        """As many neighbours as are drawn must exist; a fixed graph must have a node for every client."""
        if self.graph == "random":
            require(clients > 1, "one client has no neighbours; wanted 2 or more, or neighbours.graph=complete")
            require(
                1 <= self.degree < clients,
                f"neighbours.degree is {self.degree}; with {clients} clients wanted 1 to {clients - 1}",
            )
            return
        nodes = parse_graph(self._word(clients)).nodes
        require(
            nodes == clients,
            f"neighbours.graph {self.graph!r} has {nodes} nodes for {clients} clients; wanted {clients}, or 'random'",
        )

    def _word(self, clients: int) -> str:
        return f"{self.graph}:{clients}" if self.graph in ("ring", "complete", "star", "tree") else self.graph

    def draw(self, world: World, round: int) -> list[tuple[int, ...]]:
        """The clients that each client hears in this round."""
        clients = len(world.clients)
        if self.graph != "random":
            seed = int(world.stream("neighbours", "graph").integers(2**31))
            return list(parse_graph(self._word(clients), seed=seed).neighbours)
        rng = world.stream("neighbours", round)
        drawn = subsets(rng, clients - 1, self.degree, clients)
        # Others are numbered without the client itself: what is at or after its place moves up by one.
        return [tuple(row) for row in (drawn + (drawn >= np.arange(clients)[:, None])).tolist()]


def matching(world: World, round: int) -> list[tuple[int, int]]:
    """Random pairs of clients; with an odd number one is left over (GossipFL)."""
    order = [int(k) for k in world.stream("matching", round).permutation(len(world.clients))]
    return list(zip(order[0::2], order[1::2], strict=False))


def matching_of_neighbours(world: World, round: int, hears: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Random pairs of neighbours: links are gone through in random order, and each whose ends are both free is taken.

    Whose neighbours have all found somebody else is left over.
    """
    links = [(client, other) for client, others in enumerate(hears) for other in others if client < other]
    free, pairs = set(world.clients), list[tuple[int, int]]()
    for k in world.stream("matching", round).permutation(len(links)):
        one, other = links[int(k)]
        if one in free and other in free:
            free -= {one, other}
            pairs.append((one, other))
    return pairs
