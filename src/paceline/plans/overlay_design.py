"""Overlays and weights chosen together, under what servers and links can carry.

A round's time between servers is the slowest T_ii' of Eq. 18. If it may take T seconds, a link must carry a model in
T, and a server may have as many neighbours as models that it moves in T. So the problem falls into parts: for each T
that matters, the overlay on which servers agree fastest (with the best weights, PF-8) among those that keep these
limits; then the T with the least product of seconds and rounds.

The part is hard to solve exactly, as overlays are many. It is solved as follows, deterministically. Links are added
one by one to a tree that keeps the limits, each time the one that lowers the sum of 1/λ over the Laplacian's
eigenvalues most (greedily, as in Ghosh and Boyd 2006, but by all eigenvalues). Then links are exchanged as long as
some drawn exchange makes servers agree faster, and links are added again. Links to which the best weights give
nothing are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from paceline.plans.capacities import Capacities, Pair
from paceline.seeds import stream
from paceline.topology import Graph, make_mixing, mixing_matrix
from paceline.topology.weights import constant, disagreement_factor, metropolis

Array = NDArray[np.float64]

MOST_LIMITS = 24
"""Limits of T that are tried; where there are more, some in equal steps."""
TRIES = 600
"""Exchanges drawn for an overlay of few servers; for larger ones fewer, as each takes longer."""
NOTHING = 1e-3
"""A weight below this share of the largest is nothing."""
SLACK = 1e-9
"""Rounding must not take a neighbour from a server that can just have it."""


def designs(capacities: Capacities, megabits: float) -> Iterator[Graph]:
    """An overlay for every limit of the seconds between servers that makes a difference; each overlay once."""
    seen = set()
    for limit in _some(_limits(capacities, megabits)):
        found = _designed(capacities, megabits, limit)
        if found is not None and found.edges not in seen:
            seen.add(found.edges)
            yield found


def _limits(capacities: Capacities, megabits: float) -> list[float]:
    """Seconds at which one more link becomes fast enough, or some server may have one more neighbour."""
    nodes = {node for node in capacities.nodes if math.isfinite(node)}
    found = {megabits / rate for rate in capacities.links.values()}
    found |= {megabits * count / node for node in nodes for count in range(1, capacities.servers)}
    return sorted(found)


def _some(limits: list[float]) -> list[float]:
    if len(limits) <= MOST_LIMITS:
        return limits
    places = np.linspace(0, len(limits) - 1, MOST_LIMITS).round().astype(int)
    return [limits[place] for place in dict.fromkeys(places.tolist())]


def _designed(capacities: Capacities, megabits: float, limit: float) -> Graph | None:
    """The overlay found for a limit; None where no tree keeps it."""
    within = limit * (1 + SLACK)
    allowed = {pair for pair, rate in capacities.links.items() if megabits <= rate * within}
    most = capacities.servers - 1
    room = [most if math.isinf(node) else min(most, int(node * within / megabits)) for node in capacities.nodes]
    tree = _tree(capacities.servers, allowed, list(room))
    if tree is None:
        return None
    grown = _grown(capacities.servers, tree, allowed, room)
    exchanged = _exchanged(grown, allowed, room)
    # Exchanges go by weights that are known at once; the best weights may tell otherwise, and like every link more.
    filled = _grown(capacities.servers, set(exchanged.edges), allowed, room)
    return _bare(max((exchanged, filled, grown), key=lambda graph: round(make_mixing(graph).p, 6)))


def _tree(servers: int, allowed: set[Pair], room: list[int]) -> set[Pair] | None:
    """A tree within the limits, the servers with most room first; None where this way leads to none."""
    near: list[list[int]] = [[] for _ in range(servers)]
    for i, j in allowed:
        near[i].append(j)
        near[j].append(i)
    first = max(range(servers), key=lambda server: (room[server], len(near[server]), -server))
    inside, links = {first}, set[Pair]()
    while len(inside) < servers:
        ways = [(one, other) for one in inside if room[one] for other in near[one] if other not in inside]
        ways = [way for way in ways if room[way[1]] > 0]
        if not ways:
            return None
        one, other = max(ways, key=lambda way: (room[way[1]], room[way[0]], -way[1], -way[0]))
        links.add((min(one, other), max(one, other)))
        inside.add(other)
        room[one] -= 1
        room[other] -= 1
    return links


def _grown(servers: int, begun: set[Pair], allowed: set[Pair], room: list[int]) -> Graph:
    """The links that it is begun with, and others while there is room, the most useful first."""
    links, left = set(begun), list(room)
    for pair in begun:
        for server in pair:
            left[server] -= 1
    # (L + J)⁻¹, whose trace falls by |column|²/(1 + resistance) with a link; a link changes it by one outer product.
    inverse: Array = np.asarray(np.linalg.inv(Graph.of(servers, links).laplacian + 1.0 / servers), np.float64)
    while open_pairs := sorted(pair for pair in allowed - links if left[pair[0]] and left[pair[1]]):
        i, j = np.array(open_pairs).T
        columns = inverse[:, i] - inverse[:, j]
        resistance = columns[i, np.arange(len(i))] - columns[j, np.arange(len(i))]
        gains = (columns**2).sum(axis=0) / (1 + resistance)
        best = int(np.argmax(gains.round(12)))
        links.add(open_pairs[best])
        for server in open_pairs[best]:
            left[server] -= 1
        inverse = inverse - np.outer(columns[:, best], columns[:, best]) / (1 + resistance[best])
    return Graph.of(servers, links)


def _exchanged(graph: Graph, allowed: set[Pair], room: list[int]) -> Graph:
    """The overlay after exchanges of links that make servers agree faster, each drawn by its address."""
    draws = stream(0, "plans", "overlay", graph.nodes)
    best = _agreement(graph)
    for _ in range(max(40, TRIES * 16 // max(16, graph.nodes))):
        other = _exchange(graph, allowed, room, draws)
        if other is not None and other.connected and (found := _agreement(other)) < best - SLACK:
            graph, best = other, found
    return graph


def _exchange(graph: Graph, allowed: set[Pair], room: list[int], draws: np.random.Generator) -> Graph | None:
    """Two links ab and cd become ac and bd, or others come where one or two go; None where that cannot be."""
    if len(graph.edges) < 2:
        return None
    (a, b), (c, d) = (graph.edges[k] for k in draws.choice(len(graph.edges), 2, replace=False))
    links = set(graph.edges)
    if draws.random() < 0.5:
        c, d = d, c
    new = {(min(a, c), max(a, c)), (min(b, d), max(b, d))}
    if len({a, b, c, d}) == 4 and new <= allowed - links:
        return Graph.of(graph.nodes, links - {(a, b), (min(c, d), max(c, d))} | new)
    gone = {(a, b), (min(c, d), max(c, d))} if draws.random() < 0.5 else {(a, b)}
    return _filled(Graph.of(graph.nodes, links - gone), sorted(allowed - links), room, draws)


def _filled(graph: Graph, candidates: list[Pair], room: list[int], draws: np.random.Generator) -> Graph | None:
    """The overlay with as many of these links as there is room for, in an order that is drawn."""
    left = [most - degree for most, degree in zip(room, graph.degrees, strict=True)]
    links = set(graph.edges)
    for place in draws.permutation(len(candidates)):
        i, j = candidates[place]
        if left[i] > 0 and left[j] > 0:
            links.add((i, j))
            left[i] -= 1
            left[j] -= 1
    return Graph.of(graph.nodes, links) if len(links) > len(graph.edges) else None


def _agreement(graph: Graph) -> float:
    """λ with weights that are known at once; the best ones take a hundred times as long to find."""
    return min(disagreement_factor(mixing_matrix(graph, rule(graph))) for rule in (constant, metropolis))


def _bare(graph: Graph) -> Graph:
    """The overlay without links to which the best weights give nothing."""
    matrix = make_mixing(graph).matrix
    largest = max(matrix[i, j] for i, j in graph.edges)
    kept = Graph.of(graph.nodes, (pair for pair in graph.edges if matrix[pair] > NOTHING * largest))
    return kept if kept.connected else graph
