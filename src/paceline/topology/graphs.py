"""Graphs of servers or peers: from a word such as ``torus:3x3`` or from a file, and what can be said about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from paceline.errors import SettingError, nearest
from paceline.seeds import stream
from paceline.topology.threads import eigenvalues

Array = NDArray[np.float64]

MOST = 5000
"""Nodes beyond which the dense matrices of this room would take hundreds of megabytes each."""
TRIES = 1000
"""Random graphs drawn before it is said that a connected one is too unlikely."""


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
        edges = {(min(i, j), max(i, j)) for i, j in pairs if i != j}
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
        """Links of every node."""
        return tuple(len(near) for near in self.neighbours)

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The parts that hang together, the largest first."""
        found = (tuple(sorted(part)) for part in nx.connected_components(self.networkx()))
        return tuple(sorted(found, key=lambda part: (-len(part), part)))

    @property
    def connected(self) -> bool:
        """Whether there is a path from every node to every other."""
        return len(self.components) == 1

    @cached_property
    def diameter(self) -> int | None:
        """Links on the longest shortest path; None if the graph is not connected."""
        return int(nx.diameter(self.networkx())) if self.connected else None

    def path(self, start: int, end: int) -> tuple[int, ...] | None:
        """The nodes of a shortest path, both ends included; None if there is no path."""
        try:
            return tuple(nx.shortest_path(self.networkx(), start, end))
        except nx.NetworkXNoPath:
            return None

    def distances(self, start: int) -> dict[int, int]:
        """Links from a node to every node that can be reached."""
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
        """The same graph for networkx."""
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


@dataclass(frozen=True)
class _Kind:
    """A family of graphs: how its parameters are written and how one is made."""

    example: str
    pattern: str
    make: Callable[[list[float], int], Graph]

    def parse(self, word: str, parameters: str, seed: int) -> Graph:
        found = re.fullmatch(self.pattern, parameters.strip())
        if not found:
            raise SettingError(f"the graph {word!r} cannot be read; wanted it written like {self.example}")
        return self.make([float(part) for part in found.groups()], seed)


def parse_graph(word: str, *, seed: int = 0, connected: bool = True) -> Graph:
    """A graph from a word such as ``ring:9``, or from a GraphML or edge-list file.

    ``seed`` decides what is random. With ``connected=False`` a file may hold a graph that falls apart.
    """
    name, colon, parameters = word.partition(":")
    if colon and name.strip() in KINDS:
        graph = KINDS[name.strip()].parse(word, parameters, seed)
    elif Path(word).expanduser().is_file():
        from paceline.topology.files import read_graph

        graph = read_graph(word)
    else:
        examples = ", ".join(kind.example for kind in KINDS.values())
        hint = f" ({nearest(name.strip(), KINDS)})" if colon else ""
        if name in KINDS:
            hint = f" (of what size? as in {KINDS[name].example})"
        raise SettingError(
            f"{word!r} is neither a graph nor a file that is there{hint}; wanted a GraphML or edge-list file, or"
            f" one of {examples}"
        )
    return graph.require_connected() if connected else graph


def _whole(values: list[float], word: str, least: int = 1) -> list[int]:
    if any(value < least for value in values):
        raise SettingError(
            f"{word} wants whole numbers of at least {least}; got {', '.join(f'{v:g}' for v in values)}"
        )
    numbers = [int(value) for value in values]
    if max(numbers) > MOST:
        raise SettingError(f"{word} got {max(numbers)}; a graph may have 1 to {MOST} nodes")
    return numbers


def _complete(values: list[float], seed: int) -> Graph:
    (nodes,) = _whole(values, "complete:M")
    return Graph.of(nodes, ((i, j) for i in range(nodes) for j in range(i)))


def _ring(values: list[float], seed: int) -> Graph:
    (nodes,) = _whole(values, "ring:M")
    return Graph.of(nodes, ((i, (i + 1) % nodes) for i in range(nodes)))


def _star(values: list[float], seed: int) -> Graph:
    (nodes,) = _whole(values, "star:M")
    return Graph.of(nodes, ((0, i) for i in range(1, nodes)))


def _tree(values: list[float], seed: int) -> Graph:
    """The binary heap: PF-E2's choice among the trees that fit the paper's maximum degree."""
    (nodes,) = _whole(values, "tree:M")
    return Graph.of(nodes, (((i - 1) // 2, i) for i in range(1, nodes)))


def _torus(values: list[float], seed: int) -> Graph:
    rows, columns = _whole(values, "torus:RxC", least=3)
    if rows * columns > MOST:
        raise SettingError(f"torus:{rows}x{columns} has {rows * columns} nodes; a graph may have 1 to {MOST}")
    across = ((r * columns + c, r * columns + (c + 1) % columns) for r in range(rows) for c in range(columns))
    down = ((r * columns + c, (r + 1) % rows * columns + c) for r in range(rows) for c in range(columns))
    return Graph.of(rows * columns, (*across, *down))


def _barbell(values: list[float], seed: int) -> Graph:
    clique, path = int(values[0]), int(values[1])
    if clique < 2 or 2 * clique + path > MOST:
        raise SettingError(f"barbell:{clique},{path}: wanted cliques of 2 or more and at most {MOST} nodes in all")
    return _plain(nx.barbell_graph(clique, path))


def _hypercube(values: list[float], seed: int) -> Graph:
    dimension = int(values[0])
    if not 0 <= dimension < MOST.bit_length():
        raise SettingError(f"hypercube:{dimension}: wanted a dimension from 0 to {MOST.bit_length() - 1}")
    nodes = 1 << dimension
    return Graph.of(nodes, ((k, k ^ (1 << bit)) for k in range(nodes) for bit in range(dimension)))


def _random(values: list[float], seed: int) -> Graph:
    (nodes,) = _whole(values[:1], "random:M,P")
    probability = values[1]
    if not 0 <= probability <= 1:
        raise SettingError(f"random:{nodes},{probability:g}: wanted a probability from 0 to 1")
    return random_graph(nodes, probability, seed)


def random_graph(nodes: int, probability: float, seed: int, *, edges: int | None = None) -> Graph:
    """A connected Erdős–Rényi graph; with ``edges``, one that has exactly so many."""
    i, j = np.triu_indices(nodes, 1)
    draws = stream(seed, "topology", "random", nodes)
    for _ in range(TRIES):
        there = draws.random(len(i)) < probability
        if edges is not None and there.sum() != edges:
            continue
        graph = Graph(nodes, tuple(zip(i[there].tolist(), j[there].tolist(), strict=True)))
        if graph.connected:
            return graph
    raise SettingError(
        f"random:{nodes},{probability:g}: none of {TRIES} draws was {'connected' if edges is None else 'fit'};"
        " raise the probability"
    )


def _regular(values: list[float], seed: int) -> Graph:
    (nodes,) = _whole(values[:1], "regular:M,D")
    degree = int(values[1])
    if not 0 <= degree < nodes or nodes * degree % 2:
        raise SettingError(f"regular:{nodes},{degree}: wanted a degree below {nodes}, and M·D even")
    return _connected_draw(
        f"regular:{nodes},{degree}",
        stream(seed, "topology", "regular", nodes, degree),
        nx.random_regular_graph,
        degree,
        nodes,
    )


def _smallworld(values: list[float], seed: int) -> Graph:
    (nodes,) = _whole(values[:1], "smallworld:M,K,P")
    near, probability = int(values[1]), values[2]
    if not 2 <= near <= nodes or not 0 <= probability <= 1:
        raise SettingError(
            f"smallworld:{nodes},{near},{probability:g}: wanted 2 to {nodes} neighbours and a probability from 0 to 1"
        )
    word = f"smallworld:{nodes},{near},{probability:g}"
    draws = stream(seed, "topology", "smallworld", nodes, near)
    return _connected_draw(word, draws, nx.watts_strogatz_graph, nodes, near, probability)


def _connected_draw(word: str, draws: np.random.Generator, make: Callable[..., Any], *arguments: float) -> Graph:
    for _ in range(TRIES):
        graph = _plain(make(*arguments, seed=draws))
        if graph.connected:
            return graph
    raise SettingError(f"{word}: none of {TRIES} draws was connected; ask for more links")


def _plain(graph: Any) -> Graph:
    """From a networkx graph of the nodes 0 to M-1."""
    return Graph.of(graph.number_of_nodes(), graph.edges())


WHOLE, SHARE = r"\s*(\d{1,9})\s*", r"\s*(\d*\.?\d+(?:[eE]-?\d+)?)\s*"

KINDS = {
    "complete": _Kind("complete:9", WHOLE, _complete),
    "ring": _Kind("ring:9", WHOLE, _ring),
    "torus": _Kind("torus:3x3", f"{WHOLE}[x,]{WHOLE}", _torus),
    "tree": _Kind("tree:9", WHOLE, _tree),
    "barbell": _Kind("barbell:3,3", f"{WHOLE},{WHOLE}", _barbell),
    "star": _Kind("star:9", WHOLE, _star),
    "hypercube": _Kind("hypercube:3", WHOLE, _hypercube),
    "random": _Kind("random:9,0.5", f"{WHOLE},{SHARE}", _random),
    "regular": _Kind("regular:100,4", f"{WHOLE},{WHOLE}", _regular),
    "smallworld": _Kind("smallworld:20,4,0.1", f"{WHOLE},{WHOLE},{SHARE}", _smallworld),
}
"""Graphs that have a name."""
