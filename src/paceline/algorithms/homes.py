"""Which server each client belongs to: every client has exactly one, also after servers have failed."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Literal

from paceline.learn.graph import Model
from paceline.topology import Graph

Layout = Literal["spread", "blocks"]


class Homes:
    """The clients of every server."""

    def __init__(self, samples: Sequence[int], graph: Graph, layout: Layout = "spread") -> None:
        """Give every client a server, by how many samples each client has."""
        self.samples = sum(samples)
        self._graph = graph
        clients, servers = len(samples), graph.nodes
        if layout == "spread":
            self._lists = [list(range(k, clients, servers)) for k in range(servers)]
        else:
            ends = [clients * k // servers for k in range(servers + 1)]
            self._lists = [list(range(ends[k], ends[k + 1])) for k in range(servers)]

    def of(self, server: int) -> list[int]:
        """The clients of a server."""
        return self._lists[server]

    def models(self, of: Mapping[int, Model]) -> list[Model]:
        """Return every client's model: its server's, or any of these if its server has none."""
        found = {client: of.get(server) for server, mine in enumerate(self._lists) for client in mine}
        return [found[client] or next(iter(of.values())) for client in sorted(found)]

    def reattach(self, server: int, living: Container[int]) -> dict[int, int]:
        """Let a server's clients go to the nearest living one each; how many went where.

        Nearest by links on the overlay as it was built; among equally near ones the one with fewest clients.
        """
        distances = self._graph.distances(server)
        near = [(distance, other) for other, distance in distances.items() if other in living]
        if not near:
            return {}
        least = min(near)[0]
        candidates = sorted(other for distance, other in near if distance == least)
        moved: dict[int, int] = {}
        for client in self._lists[server]:
            home = min(candidates, key=lambda other: len(self._lists[other]))
            self._lists[home].append(client)
            moved[home] = moved.get(home, 0) + 1
        self._lists[server] = []
        return moved
