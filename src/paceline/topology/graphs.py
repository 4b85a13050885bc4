"""Graphs of servers or peers: from a word such as ``torus:3x3`` or from a file, and what can be said about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import SettingError
from paceline.topology.threads import eigenvalues

Array = NDArray[np.float64]

MOST = 5000
"""Nodes beyond which the dense matrices of this room would take hundreds of megabytes each."""
MOST_LINKS = 500_000


@dataclass(frozen=True)
class Graph:
    """An undirected graph of the nodes 0 to ``nodes - 1``, without loops."""

    nodes: int
    edges: tuple[tuple[int, int], ...]
    """Pairs (i, j) with i < j, sorted, each once."""
    names: tuple[str, ...] = ()
    """What a file calls the nodes; empty where they have no names of their own."""

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MOST:
            raise SettingError(f"a graph of {self.nodes} nodes; wanted 1 to {MOST}")
        if any(not 0 <= i < j < self.nodes for i, j in self.edges):
            raise SettingError(f"an edge must be a pair i < j of the nodes 0 to {self.nodes - 1}; use Graph.of")
        if list(self.edges) != sorted(set(self.edges)):
            raise SettingError("edges must be sorted and each given once; use Graph.of")
        if self.names and len(self.names) != self.nodes:
            raise SettingError(f"{len(self.names)} names for {self.nodes} nodes; give one for each or none")

    @staticmethod
    def of(nodes: int, pairs: Iterable[tuple[int, int]], names: tuple[str, ...] = ()) -> Graph:
        """A graph from pairs in any order; loops and repetitions are dropped."""
        edges = {(min(i, j), max(i, j)) for i, j in islice(pairs, 4 * MOST_LINKS) if i != j}
        if len(edges) > MOST_LINKS:
            raise SettingError(
                f"a graph of {nodes} nodes with more than {MOST_LINKS:,} links takes hours to be looked at; give one"
                " with fewer nodes or fewer links"
            )
        return Graph(nodes, tuple(sorted(edges)), names)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """Of every node, the nodes it is linked with, in order."""
        lists: list[list[int]] = [[] for _ in range(self.nodes)]
        for i, j in self.edges:
            lists[i].append(j)
            lists[j].append(i)
        return tuple(tuple(sorted(near)) for near in lists)

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """How many links every node has."""
        return tuple(len(near) for near in self.neighbours)

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The parts that hang together, the largest first."""
        import networkx as nx

        found = (tuple(sorted(part)) for part in nx.connected_components(self.networkx()))
        return tuple(sorted(found, key=lambda part: (-len(part), part)))

    @property
    def connected(self) -> bool:
        """Whether there is a path from every node to every other."""
        return len(self.components) == 1

    @cached_property
    def diameter(self) -> int | None:
        """Links on the longest shortest path; None if the graph is not connected."""
        import networkx as nx

        return int(nx.diameter(self.networkx())) if self.connected else None

    def path(self, start: int, end: int) -> tuple[int, ...] | None:
        """The nodes of a shortest path, both ends included; None if there is no path."""
        import networkx as nx

        try:
            return tuple(nx.shortest_path(self.networkx(), start, end))
        except nx.NetworkXNoPath:
            return None

    def distances(self, start: int) -> dict[int, int]:
        """Links from a node to every node that can be reached."""
        import networkx as nx

        return dict(nx.single_source_shortest_path_length(self.networkx(), start))

    @cached_property
    def edge_connectivity(self) -> int:
        """The fewest links whose loss cuts the graph in two; 0 for a single node."""
        if self.nodes == 1 or not self.connected:
            return 0
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow

        # A smallest cut parts node 0 from some other node; networkx finds the same, but takes a hundred times longer.
        i, j = self.ends
        both = (np.r_[i, j], np.r_[j, i])
        capacities = csr_array((np.ones(2 * len(i), np.int32), both), shape=(self.nodes, self.nodes))
        fewest = min(self.degrees)
        for other in range(1, self.nodes if fewest > 1 else 1):
            fewest = min(fewest, int(maximum_flow(capacities, 0, other).flow_value))
        return fewest

    @property
    def disconnection_tolerance(self) -> int:
        """Links that may fail, whichever they are, before the graph can fall apart: edge connectivity - 1 (PF-E5)."""
        return max(0, self.edge_connectivity - 1)

    @cached_property
    def laplacian(self) -> Array:
        """Degrees on the diagonal, -1 on the edges."""
        matrix = np.diag(np.array(self.degrees, np.float64))
        i, j = self.ends
        matrix[i, j] = matrix[j, i] = -1.0
        matrix.flags.writeable = False
        return matrix

    @cached_property
    def spectrum(self) -> Array:
        """Eigenvalues of the Laplacian, ascending; the first is 0."""
        return np.maximum(eigenvalues(self.laplacian), 0.0)

    @property
    def spectral_gap(self) -> float:
        """The second smallest eigenvalue of the Laplacian: 0 if and only if the graph is not connected."""
        if self.nodes == 1 or not self.connected:
            return 0.0
        return float(self.spectrum[1])

    @property
    def ends(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First and second nodes of all edges."""
        pairs = np.array(self.edges, np.intp).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def networkx(self) -> Any:
        """The same graph as an object of networkx."""
        import networkx as nx

        graph = nx.empty_graph(self.nodes)
        graph.add_edges_from(self.edges)
        return graph

    def require_connected(self) -> Graph:
        """This graph, or an error that names its parts."""
        if not self.connected:
            raise SettingError(f"{self.describe_parts()}; add links between them or plan for each part by itself")
        return self

    def describe_parts(self) -> str:
        """In words, that the graph is not connected and of which parts it consists."""
        parts = [_listed([self.names[k] if self.names else str(k) for k in part]) for part in self.components[:4]]
        more = f" and {len(self.components) - 4} more" if len(self.components) > 4 else ""
        return f"the graph is not connected: it has {len(self.components)} parts, {', '.join(parts)}{more}"


def _listed(names: list[str]) -> str:
    shown = names if len(names) <= 6 else [*names[:5], f"… {len(names)} nodes"]
    return "{" + ", ".join(shown) + "}"
