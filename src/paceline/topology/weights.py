"""Weights on the edges of a graph, and how fast averaging with them brings the nodes together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paceline.seeds import stream
from paceline.topology.graphs import Graph
from paceline.topology.threads import eigenvalues

Array = NDArray[np.float64]


def mixing_matrix(graph: Graph, weights: Array) -> Array:
    """W with these weights on the edges, both ways, and the rest of every row on the diagonal."""
    i, j = graph.ends
    matrix = np.zeros((graph.nodes, graph.nodes))
    matrix[i, j] = matrix[j, i] = weights
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
    return matrix


def disagreement_factor(matrix: Array) -> float:
    """λ = ‖W - J‖₂: by how much a round of mixing shrinks the distance from the mean at least."""
    rest = matrix - 1.0 / len(matrix)
    if np.array_equal(matrix, matrix.T):
        return float(np.abs(eigenvalues(rest)).max())
    return float(np.linalg.norm(rest, 2))


def consensus_rate(matrix: Array) -> float:
    """p = 1 - ‖W - J‖₂² (PF-6); the square, whatever is said after Assumption 5 (PF-E1)."""
    return 1.0 - disagreement_factor(matrix) ** 2


def disagreement_of_all_modes(matrix: Array) -> float:
    """The sum of λ²/(1 - λ²) over the eigenvalues of a symmetric W but that of the mean; infinite if one is 1.

    It is how far nodes stay apart in the long run, squared and added up, that each stray by 1 in a direction of their
    own in every round before they mix.
    """
    squares = np.sort(eigenvalues(matrix - 1.0 / len(matrix)) ** 2)
    # The mean's own is 0 after the subtraction, and adds nothing.
    return float(np.sum(squares / (1.0 - squares))) if squares[-1] < 1.0 - 1e-12 else float("inf")


def metropolis(graph: Graph) -> Array:
    """1 / (max of the two ends' degrees + 1): the paper's default (PF-7)."""
    degrees = np.array(graph.degrees, np.float64)
    i, j = graph.ends
    weights: Array = 1.0 / (np.maximum(degrees[i], degrees[j]) + 1.0)
    return weights


def uniform(graph: Graph) -> Array:
    """1 / (largest degree + 1) on every edge: the simplest that is doubly stochastic on any graph."""
    return np.full(len(graph.edges), 1.0 / (max(graph.degrees) + 1.0))


def constant(graph: Graph, *, signed: bool = False) -> Array:
    """The best weight that is the same on every edge, 2 / (λ₂ + λ_max) of the Laplacian (PF-E3).

    λ of W is convex in that weight, so where it would make a diagonal negative (a star), the largest that does not is
    the best one; ``signed`` allows it.
    """
    if not graph.edges:
        return np.zeros(0)
    best = 2.0 / (graph.spectral_gap + float(graph.spectrum[-1]))
    return np.full(len(graph.edges), best if signed else min(best, 1.0 / max(graph.degrees)))


def random(graph: Graph, *, seed: int = 0) -> Array:
    """Draws from (0, 1), scaled by one factor so that the largest row sum is 1 (PF-E4)."""
    draws = stream(seed, "topology", "weights").random(len(graph.edges))
    i, j = graph.ends
    rows = np.bincount(i, draws, graph.nodes) + np.bincount(j, draws, graph.nodes)
    return draws / max(float(rows.max()), np.finfo(np.float64).tiny) if graph.edges else draws
