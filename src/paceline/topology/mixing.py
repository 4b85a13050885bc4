"""Mixing matrices by name: symmetric, rows that sum to 1, no weight off the graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paceline.errors import SettingError, nearest
from paceline.topology import weights as rules
from paceline.topology.graphs import Graph
from paceline.topology.weights import disagreement_factor, disagreement_of_all_modes, mixing_matrix

Array = NDArray[np.float64]

WEIGHTINGS = {
    "optimal": "agrees fastest",
    "all-modes": "stays closest while servers stray",
    "constant": "best of one weight for all links",
    "metropolis": "1/(larger degree of both ends + 1)",
    "uniform": "1/(largest degree + 1)",
    "random": "random, row sums at most 1",
}
"""The ways to weigh links, and what each is."""
BEST = {"optimal": "slowest", "all-modes": "all-modes"}
"""Those that are solved for, and what they make least (``optimum.py``)."""
SIGNABLE = ("optimal", "all-modes", "constant")
"""Those that may be told to use weights below 0."""


@dataclass(frozen=True, eq=False)
class Mixing:
    """A mixing matrix on a graph: with which weights neighbours average."""

    graph: Graph
    weights: str
    """One of ``WEIGHTINGS``."""
    matrix: Array
    signed: bool = False
    """Whether entries may be negative."""
    bound: float | None = None
    """For weights that are solved for: a proven lower bound of what they make least, on this graph."""

    @cached_property
    def factor(self) -> float:
        """λ = ‖W - J‖₂, by which a round of mixing shrinks disagreement at least."""
        # Rounding must not make a graph that is not connected look as if it were drifting apart.
        return min(1.0, disagreement_factor(self.matrix)) if self.graph.connected else 1.0

    @property
    def p(self) -> float:
        """The consensus rate 1 - λ² (PF-6, PF-E1)."""
        return 1.0 - self.factor**2

    @cached_property
    def all_modes(self) -> float:
        """The sum of λ²/(1 - λ²) over all modes of disagreement; infinite on a graph that is not connected."""
        return disagreement_of_all_modes(self.matrix) if self.graph.connected else math.inf

    @property
    def lasting(self) -> float:
        """That sum for one server: how far apart servers stay, squared, that each stray by 1 in every round."""
        return self.all_modes / self.graph.nodes

    @property
    def rounds_to_halve(self) -> int | None:
        """Rounds of mixing after which the distance from the mean is at most half, whatever it was; None: never."""
        if self.factor >= 1:
            return None
        if self.factor <= 0.5:
            return 1
        return math.ceil(math.log(0.5) / math.log(self.factor) - 1e-9)


def make_mixing(graph: Graph, weights: str = "optimal", *, signed: bool = False, seed: int = 0) -> Mixing:
    """The mixing matrix of this name; ``seed`` is for random weights, ``signed`` for optimal and constant ones.

    On a graph that is not connected no weights bring all nodes together; where they would be solved for, they are
    Metropolis's.
    """
    if weights not in WEIGHTINGS:
        raise SettingError(f"weights are {weights!r}; {nearest(weights, WEIGHTINGS)}")
    bound = None
    if weights in BEST and graph.connected:
        from paceline.topology.optimum import optimal_weights

        found = optimal_weights(graph, signed=signed, objective=BEST[weights])
        edges, bound = found.weights, found.bound
    elif weights == "metropolis" or weights in BEST:
        edges = rules.metropolis(graph)
    elif weights == "uniform":
        edges = rules.uniform(graph)
    elif weights == "constant":
        edges = rules.constant(graph, signed=signed)
    else:
        edges = rules.random(graph, seed=seed)
    matrix = mixing_matrix(graph, edges)
    if not signed:
        # A row whose links sum to 1 leaves 0 for the diagonal, but for rounding.
        np.fill_diagonal(matrix, np.maximum(np.diag(matrix), 0.0))
    matrix.flags.writeable = False
    return Mixing(graph, weights, matrix, signed and weights in SIGNABLE, bound)


def weigh_parts(graph: Graph, weigh: Callable[[Graph], Mixing]) -> Mixing:
    """Weights for each part that hangs together by itself: what is best where the whole cannot agree."""
    matrix = np.eye(graph.nodes)
    for part in graph.components:
        place = {node: k for k, node in enumerate(part)}
        inner = Graph.of(len(part), [(place[i], place[j]) for i, j in graph.edges if i in place])
        found = weigh(inner)
        if len(part) == graph.nodes:
            return found
        matrix[np.ix_(part, part)] = found.matrix
    matrix.flags.writeable = False
    return Mixing(graph, found.weights, matrix, found.signed)
