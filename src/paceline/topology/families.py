"""Families of graphs by name, such as ``ring:9``; or a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from paceline.errors import SettingError, nearest
from paceline.forms import DIGITS, Form, Forms, Kind, bounded
from paceline.reading import expanded, shown
from paceline.seeds import stream
from paceline.topology.files import read_graph
from paceline.topology.graphs import MOST, MOST_LINKS, Graph

TRIES, DRAWS = 1000, 1_000_000_000
"""Random graphs, and links of them, drawn before it is said that a connected one is too unlikely."""
SMALL = 10
"""Nodes of a regular graph that is drawn at once, however dense it is."""
HARDEST = 5_000_000
"""Of a regular graph, its nodes times the square of their degree: what it takes to draw one grows so."""


def parse_graph(word: str, *, seed: int = 0, connected: bool = True) -> Graph:
    """A graph from a word such as ``ring:9``, or from a GraphML or edge-list file.

    ``seed`` decides what is random. With ``connected=False`` a file may hold a graph that falls apart.
    """
    name, colon, parameters = (part.strip() for part in word.partition(":"))
    if colon and name in GRAPHS.names:
        graph = GRAPHS.parse(f"{name}:{parameters}", seed=seed)
    elif _is_there(word):
        graph = read_graph(word)
    else:
        raise SettingError(_neither(word, name))
    return graph.require_connected() if connected else graph


def _neither(word: str, name: str) -> str:
    hint = f" ({nearest(name, GRAPHS.names)})" if ":" in word else ""
    if name in GRAPHS.names:
        hint = f" (of what size? as in {GRAPHS.example(name)})"
    examples = ", ".join(map(GRAPHS.example, GRAPHS.names))
    return (
        f"{shown(word)} is neither a graph nor a file that is there{hint}; wanted a GraphML or edge-list file, or one"
        f" of {examples}"
    )


def _is_there(word: str) -> bool:
    try:
        return expanded(word).is_file()
    except (OSError, ValueError):  # no file can be called so
        return False


def _complete(nodes: int) -> Graph:
    return Graph.of(nodes, ((i, j) for i in range(nodes) for j in range(i)))


def _ring(nodes: int) -> Graph:
    return Graph.of(nodes, ((i, (i + 1) % nodes) for i in range(nodes)))


def _star(nodes: int) -> Graph:
    return Graph.of(nodes, ((0, i) for i in range(1, nodes)))


def _tree(nodes: int) -> Graph:
    """The binary heap: PF-E2's choice among the trees that fit the paper's maximum degree."""
    return Graph.of(nodes, (((i - 1) // 2, i) for i in range(1, nodes)))


def _torus(rows: int, columns: int) -> Graph:
    if min(rows, columns) < 3:
        raise SettingError(f"torus:{rows}x{columns}: wanted at least 3 rows and 3 columns")
    if rows * columns > MOST:
        raise SettingError(f"torus:{rows}x{columns} has {rows * columns} nodes; a graph may have 1 to {MOST}")
    across = ((r * columns + c, r * columns + (c + 1) % columns) for r in range(rows) for c in range(columns))
    down = ((r * columns + c, (r + 1) % rows * columns + c) for r in range(rows) for c in range(columns))
    return Graph.of(rows * columns, (*across, *down))


def _barbell(clique: int, path: int) -> Graph:
    import networkx as nx

    if clique < 2 or 2 * clique + path > MOST:
        raise SettingError(f"barbell:{clique},{path}: wanted cliques of 2 or more and at most {MOST} nodes in all")
    if clique * (clique - 1) > MOST_LINKS:
        raise SettingError(f"barbell:{clique},{path}: wanted at most {MOST_LINKS:,} links")
    return _plain(nx.barbell_graph(clique, path))


def _hypercube(dimension: int) -> Graph:
    nodes = 1 << dimension
    return Graph.of(nodes, ((k, k ^ (1 << bit)) for k in range(nodes) for bit in range(dimension)))


def random_graph(nodes: int, p: float, seed: int, *, edges: int | None = None) -> Graph:
    """A connected Erdős–Rényi graph; with ``edges``, one that has exactly so many."""
    i, j = np.triu_indices(nodes, 1)
    draws = stream(seed, "topology", "random", nodes)
    tries = min(TRIES, max(10, DRAWS // max(1, len(i))))
    for _ in range(tries):
        there = draws.random(len(i)) < p
        if edges is not None and there.sum() != edges:
            continue
        if there.sum() > MOST_LINKS:
            raise SettingError(f"random:{nodes},{p:g} has more than {MOST_LINKS:,} links; give fewer nodes or links")
        graph = Graph(nodes, tuple(zip(i[there].tolist(), j[there].tolist(), strict=True)))
        if graph.connected:
            return graph
    raise SettingError(
        f"random:{nodes},{p:g}: none of {tries} draws was {'connected' if edges is None else 'fit'};"
        " raise the probability"
    )


def _regular(nodes: int, degree: int, *, seed: int) -> Graph:
    import networkx as nx

    if not 0 <= degree < nodes or nodes * degree % 2:
        raise SettingError(
            f"regular:{nodes},{degree}: wanted a degree below {nodes}, and an even product of nodes and degree"
        )
    if nodes * degree**2 > HARDEST:
        raise SettingError(f"regular:{nodes},{degree} takes too long to draw; give fewer links, or complete:{nodes}")
    draws = stream(seed, "topology", "regular", nodes, degree)
    word = f"regular:{nodes},{degree}"
    if nodes <= SMALL or degree <= 0.7 * nodes:
        return _connected_draw(word, draws, nx.random_regular_graph, degree, nodes)
    # What is left out is drawn instead: networkx seldom gets a dense one right, and tries for ever.
    return _connected_draw(word, draws, _dense_regular, degree, nodes)


def _dense_regular(degree: int, nodes: int, *, seed: np.random.Generator) -> Any:
    import networkx as nx

    return nx.complement(nx.random_regular_graph(nodes - 1 - degree, nodes, seed=seed))


def _smallworld(nodes: int, neighbours: int, p: float, *, seed: int) -> Graph:
    import networkx as nx

    word = f"smallworld:{nodes},{neighbours},{p:g}"
    if nodes * neighbours > 2 * MOST_LINKS:
        raise SettingError(f"{word}: wanted at most {MOST_LINKS:,} links")
    if not 2 <= neighbours <= nodes:
        raise SettingError(f"{word}: wanted 2 to {nodes} neighbours")
    draws = stream(seed, "topology", "smallworld", nodes, neighbours)
    return _connected_draw(word, draws, nx.watts_strogatz_graph, nodes, neighbours, p)


def _connected_draw(word: str, draws: np.random.Generator, make: Callable[..., Any], *arguments: float) -> Graph:
    for _ in range(TRIES):
        graph = _plain(make(*arguments, seed=draws))
        if graph.connected:
            return graph
    raise SettingError(f"{word}: none of {TRIES} draws was connected; ask for more links")


def _plain(graph: Any) -> Graph:
    """From a networkx graph of the nodes 0 to M-1."""
    return Graph.of(graph.number_of_nodes(), graph.edges())


_DIGITS = replace(DIGITS, pattern=r"\s*[0-9]{1,9}\s*")


def _least(count: int, most: int = MOST) -> Kind:
    return bounded(_DIGITS, f"a whole number from {count} to {most}", lambda value: count <= value <= most)


_SHARE = Kind("a probability from 0 to 1", float, r"\s*[0-9]*\.?[0-9]+(?:[eE]-?[0-9]+)?\s*")
_KINDS = {
    "NODES": _least(1),
    "ROWS": _DIGITS,
    "COLUMNS": _DIGITS,
    "CLIQUE": _DIGITS,
    "PATH": _DIGITS,
    "DIMENSION": _least(0, MOST.bit_length() - 1),
    "DEGREE": _DIGITS,
    "NEIGHBOURS": _DIGITS,
    "P": bounded(_SHARE, _SHARE.wanted, lambda value: 0 <= value <= 1),
}
_SEED = ("seed",)

GRAPHS: Forms[Graph] = Forms(
    "the graph",
    Form("complete:NODES", _complete, "all are linked with all", "complete:9", _KINDS),
    Form("ring:NODES", _ring, "each is linked with the one before and the one after", "ring:9", _KINDS),
    Form("torus:ROWSxCOLUMNS", _torus, "a grid whose opposite borders meet", "torus:3x3", _KINDS),
    Form("torus:ROWS,COLUMNS", _torus, "the same", "torus:3,3", _KINDS),
    Form("tree:NODES", _tree, "a binary tree filled from the top", "tree:9", _KINDS),
    Form("barbell:CLIQUE,PATH", _barbell, "two complete graphs with a path of nodes between", "barbell:3,3", _KINDS),
    Form("star:NODES", _star, "all are linked with the first", "star:9", _KINDS),
    Form("hypercube:DIMENSION", _hypercube, "the corners and edges of a cube", "hypercube:3", _KINDS),
    Form("random:NODES,P", random_graph, "each link is there with probability P", "random:9,0.5", _KINDS, _SEED),
    Form("regular:NODES,DEGREE", _regular, "random links, so many at each node", "regular:100,4", _KINDS, _SEED),
    Form(
        "smallworld:NODES,NEIGHBOURS,P",
        _smallworld,
        "a ring with links to the nearest neighbours, each of which is moved elsewhere with probability P",
        "smallworld:20,4,0.1",
        _KINDS,
        _SEED,
    ),
)
"""Graphs that have a name."""
