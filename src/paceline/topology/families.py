"""Families of graphs by name, such as ``ring:9``; or a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from paceline.errors import SettingError, nearest
from paceline.seeds import stream
from paceline.topology.files import read_graph
from paceline.topology.graphs import MOST, Graph

TRIES = 1000
"""Random graphs drawn before it is said that a connected one is too unlikely."""


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
