"""Weights of a graph's edges, one for each class of edges, and what the methods that optimise them need of it.

The weighted Laplacian L(x) is a sum of x_c·a·aᵀ over the edges, with a = e_i - e_j and c the edge's class. So all
that a step of Newton's asks of matrices is gathered edge by edge.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csr_array

from paceline.errors import SettingError
from paceline.topology.graphs import Graph

Array = NDArray[np.float64]

FEW = 16
"""Classes up to which the system is made of whole matrices instead of pairs of edges."""
MOST_EDGES = 6000
"""Edges with weights of their own beyond which the system would take more than a few hundred megabytes."""


class EdgeClasses:
    """A graph with one weight for each class of edges."""

    def __init__(self, graph: Graph, classes: NDArray[np.intp], *, signed: bool) -> None:
        self.n, self.k, m = graph.nodes, int(classes.max()) + 1, len(classes)
        self.signed, self.classes = signed, classes
        self.i, self.j = graph.ends
        if self.k > FEW and m > MOST_EDGES:
            raise SettingError(
                f"the graph has {m} links, more than the {MOST_EDGES} whose weights can be optimised one by one;"
                " use constant or metropolis weights"
            )
        self.eye, self.rest = np.eye(self.n), np.eye(self.n) - 1.0 / self.n
        self.member = csr_array((np.ones(m), (np.arange(m), classes)), shape=(m, self.k))
        ends = csr_array((np.ones(2 * m), (np.r_[self.i, self.j], np.tile(np.arange(m), 2))), shape=(self.n, m))
        self.at_node = np.asarray((ends @ self.member).todense())
        unit = np.eye(self.k)
        self.laplacians = [csr_array(self._laplacian(row)) for row in unit] if self.k <= FEW else []

    def _inside(self) -> Array:
        """One weight for all edges with which every row keeps something on the diagonal."""
        return np.full(self.k, 1.0 / (self.at_node.sum(axis=1).max() + 1.0))

    def _laplacian(self, x: Array) -> Array:
        """The Laplacian of the graph with these edge weights, L(x)."""
        matrix = np.zeros((self.n, self.n))
        matrix[self.i, self.j] = matrix[self.j, self.i] = -x[self.classes]
        np.fill_diagonal(matrix, -matrix.sum(axis=1))
        return matrix

    def _diagonal(self, x: Array) -> Array:
        """The diagonal of the mixing matrix W = I - L(x)."""
        return np.asarray(1.0 - self.at_node @ x)

    def _on_edges(self, matrix: Array) -> Array:
        """Compute aᵀ·matrix·a for the vector a of every edge."""
        own = np.diag(matrix)
        return np.asarray(own[self.i] + own[self.j] - matrix[self.i, self.j] - matrix[self.j, self.i])

    def _on_classes(self, matrix: Array) -> Array:
        """⟨matrix, L_c⟩ for every class."""
        return self._summed(self._on_edges(matrix))

    def _summed(self, values: Array) -> Array:
        """The sums of these numbers over the edges of each class."""
        return np.bincount(self.classes, values, self.k).astype(np.float64, copy=False)

    def _curvature(self, G: Array, Z: Array) -> tuple[Array, Array]:
        """tr(G L_c Z) for all classes and tr(G L_c Z L_d) for all pairs of them."""
        if self.laplacians:
            with_G, with_Z = [one @ G for one in self.laplacians], [one @ Z for one in self.laplacians]
            pairs = np.array([[np.vdot(a, b.T) for b in with_Z] for a in with_G])
            return np.array([np.vdot(a, Z) for a in with_G]), even(pairs)
        left, right = G[self.i] - G[self.j], Z[self.i] - Z[self.j]
        across = self._summed(np.einsum("en,en->e", left, right))
        pairs = left[:, self.i] - left[:, self.j]
        pairs *= right[:, self.i] - right[:, self.j]
        if self.k < len(self.classes):
            pairs = np.asarray(self.member.T @ (self.member.T @ pairs).T)
        return across, pairs


def even(matrix: Array) -> Array:
    """The symmetric part of a matrix that should be symmetric but for rounding."""
    return (matrix + matrix.T) / 2


def inverse(matrix: Array) -> Array:
    """The inverse of a positive definite matrix; an error where it is none."""
    return even(np.asarray(cho_solve(cho_factor(matrix, lower=True), np.eye(len(matrix)))))


def factored(matrix: Array) -> Callable[[Array], Array]:
    """A solver for this matrix, scaled: its unknowns differ by many orders of magnitude close to the boundary."""
    if not (np.isfinite(matrix).all() and (np.diag(matrix) > 0).all()):
        raise LinAlgError("the system of a step is not positive definite")
    scale = 1.0 / np.sqrt(np.diag(matrix))
    scaled = matrix * np.outer(scale, scale)
    for ridge in (0.0, 1e-14, 1e-12, 1e-10):
        try:
            factor = cho_factor(scaled + ridge * np.eye(len(scale)), lower=True)
        except LinAlgError:
            continue
        return lambda right: np.asarray(scale * cho_solve(factor, scale * right))
    raise LinAlgError("the system of a step is not positive definite")
