"""The weights that mix fastest on a graph (PF-8), with a proof of how far from the best they can be.

λ = ‖W - J‖₂ is convex in the edge weights w, since W = I - L(w) with the weighted Laplacian L. So

    minimise s   subject to   -s·I ⪯ I - J - L(w) ⪯ s·I

is a semidefinite program in one number an edge (``interior.py``). Every answer comes with a lower bound from the dual
problem, so nothing has to be believed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.errors import PacelineError, SettingError
from paceline.topology.cache import cached, remember
from paceline.topology.graphs import Graph
from paceline.topology.interior import InteriorPoint
from paceline.topology.threads import SMALL, one_thread
from paceline.topology.weights import constant, disagreement_factor, metropolis, mixing_matrix

Array = NDArray[np.float64]

GAP = 1e-6
"""How far above the best λ an answer may be."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best weights found, and a bound that none can beat."""

    weights: Array
    """One for each edge, in the order of the graph's edges."""
    bound: float
    """λ of every other choice is at least this."""


def optimal_weights(graph: Graph, *, signed: bool = False, solver: str = "interior") -> Optimum:
    """Edge weights of the least λ (PF-8): all of W non-negative unless ``signed`` (PF-E3), no link off the graph.

    ``solver="cvxpy"`` asks a general solver instead, which needs ``paceline[topology]`` and is for small graphs.
    """
    graph.require_connected()
    if solver not in ("interior", "cvxpy"):
        raise SettingError(f"solver is {solver!r}; wanted interior or cvxpy")
    if solver == "cvxpy":
        from paceline.topology.semidefinite import solve_semidefinite

        return Optimum(solve_semidefinite(graph, signed=signed), 0.0)
    if graph.nodes == 1:
        return Optimum(np.zeros(0), 0.0)
    key = ("optimal", str(signed), repr(GAP))
    if (known := cached(graph, key)) is not None and _holds(graph, found := Optimum(*known), signed):
        return found
    with one_thread(max(graph.nodes, SMALL)):
        found = _solve(graph, signed)
    remember(graph, key, found.weights, found.bound)
    return found


def _solve(graph: Graph, signed: bool) -> Optimum:
    """Edges that look alike get one weight, if the bound then proves that this costs nothing; else each its own.

    The problem is convex, so weights averaged over the graph's symmetries are as good as any. Instead of finding the
    symmetries we guess them and check.
    """
    classes = _alike(graph)
    each = np.arange(len(graph.edges))
    found = None
    if classes.max() + 1 < len(each):
        found = _best_of(graph, _interior(graph, classes, signed), signed)
    if found is None or _lambda(graph, found.weights) - found.bound > 3 * GAP:
        found = _best_of(graph, _interior(graph, each, signed), signed)
    if _lambda(graph, found.weights) - found.bound > 1e-4:
        raise PacelineError(
            f"the best mixing weights were not found: λ = {_lambda(graph, found.weights):.6g} but the bound is"
            f" {found.bound:.6g}; use constant or metropolis weights or the solver cvxpy, and report the graph"
        )
    return found


def _interior(graph: Graph, classes: NDArray[np.intp], signed: bool) -> Optimum:
    return Optimum(*InteriorPoint(graph, classes, signed=signed).minimise(GAP))


def _best_of(graph: Graph, found: Optimum, signed: bool) -> Optimum:
    """Closed forms that are as good win: on rings and tori they are exact where Newton's are nearly so."""
    candidates = (constant(graph, signed=signed), metropolis(graph), found.weights)
    return Optimum(min(candidates, key=lambda weights: _lambda(graph, weights)), found.bound)


def _lambda(graph: Graph, weights: Array) -> float:
    return disagreement_factor(mixing_matrix(graph, weights))


def _holds(graph: Graph, found: Optimum, signed: bool) -> bool:
    """Whether these are feasible weights that the bound proves to be good."""
    matrix = mixing_matrix(graph, found.weights)
    return bool((signed or matrix.min() > -1e-12) and -1e-9 <= disagreement_factor(matrix) - found.bound <= 1e-4)


def _alike(graph: Graph) -> NDArray[np.intp]:
    """Classes of edges that no symmetry needs to tell apart, by numbers that every symmetry leaves as they are."""
    resolvent: Array = np.asarray(np.linalg.inv(np.eye(graph.nodes) + graph.laplacian), np.float64)
    i, j = graph.ends
    own = np.diag(resolvent)
    numbers = (resolvent[i, j], np.minimum(own[i], own[j]), np.maximum(own[i], own[j]))
    codes = np.stack([_grouped(column) for column in numbers], axis=1)
    classes: NDArray[np.intp] = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
    return classes


def _grouped(values: Array) -> NDArray[np.intp]:
    """A number for each value, the same for values that differ by rounding only."""
    order = np.argsort(values)
    codes = np.empty(len(values), np.intp)
    codes[order] = np.cumsum(np.diff(values[order], prepend=values[order[0]]) > 1e-10)
    return codes
