"""The weights that mix best on a graph, with a proof of how far from the best they can be.

What is best is one of two things. By ``slowest`` (PF-8), the largest λ = ‖W - J‖₂ is least: whatever servers disagree
about fades fastest. By ``all-modes`` the sum of λ²/(1 - λ²) is (``all_modes.py``): servers that stray again and again
stay closest together.

λ = ‖W - J‖₂ is convex in the edge weights w, since W = I - L(w) with the weighted Laplacian L. So

    minimise s   subject to   -s·I ⪯ I - J - L(w) ⪯ s·I

is a semidefinite program in one number an edge (``interior.py``); the sum over all modes is convex, too. Every answer
comes with a lower bound from the dual problem, so nothing has to be believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.errors import PacelineError, SettingError, nearest
from paceline.topology.all_modes import AllModes
from paceline.topology.graphs import Graph
from paceline.topology.interior import InteriorPoint
from paceline.topology.threads import SMALL, one_thread
from paceline.topology.weights import (
    constant,
    disagreement_factor,
    disagreement_of_all_modes,
    metropolis,
    mixing_matrix,
)

Array = NDArray[np.float64]

GAP = 1e-6
"""How far above the best λ an answer may be, or which share above the best sum."""
WORST = 1e-4
"""How far above it an answer is worth nothing."""


@dataclass(frozen=True)
class Objective:
    """What weights are to make least."""

    symbol: str
    measure: Callable[[Array], float]
    """Of a mixing matrix."""
    solver: type[InteriorPoint] | type[AllModes]


OBJECTIVES = {
    "slowest": Objective("λ", disagreement_factor, InteriorPoint),
    "all-modes": Objective("the sum over all modes", disagreement_of_all_modes, AllModes),
}


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best weights found, and a bound that none can beat."""

    weights: Array
    """One for each edge, in the order of the graph's edges."""
    bound: float
    """What every other choice comes to, λ or the sum, is at least this."""


def optimal_weights(
    graph: Graph, *, signed: bool = False, solver: str = "interior", objective: str = "slowest"
) -> Optimum:
    """Edge weights that are best by this objective; no entry of W is negative unless ``signed`` (PF-E3).

    ``solver="cvxpy"`` asks a general solver instead, which needs the extra ``topology`` and is for small graphs.
    """
    graph.require_connected()
    if solver not in ("interior", "cvxpy"):
        raise SettingError(f"solver is {solver!r}; wanted interior or cvxpy")
    if objective not in OBJECTIVES:
        raise SettingError(f"objective is {objective!r}; {nearest(objective, OBJECTIVES)}")
    if solver == "cvxpy":
        from paceline.topology.semidefinite import solve_semidefinite

        return Optimum(solve_semidefinite(graph, signed=signed, all_modes=objective == "all-modes"), 0.0)
    if graph.nodes == 1:
        return Optimum(np.zeros(0), 0.0)
    goal = OBJECTIVES[objective]
    with one_thread(max(graph.nodes, SMALL)):
        return _solve(graph, signed, goal)


def _solve(graph: Graph, signed: bool, goal: Objective) -> Optimum:
    """Edges that look alike get one weight, if the bound then proves that this costs nothing; else each its own.

    The problem is convex, so weights averaged over the graph's symmetries are as good as any. Instead of finding the
    symmetries we guess them and check.
    """
    classes = _alike(graph)
    each = np.arange(len(graph.edges))
    found = None
    if classes.max() + 1 < len(each):
        found = _best_of(graph, _interior(graph, classes, signed, goal), signed, goal)
    if found is None or _above(graph, found, goal) > 3 * GAP:
        found = _best_of(graph, _interior(graph, each, signed, goal), signed, goal)
    if _above(graph, found, goal) > WORST:
        raise PacelineError(
            f"the best mixing weights were not found: {goal.symbol} is {_value(graph, found.weights, goal):.6g}, but"
            f" the bound is {found.bound:.6g}; use constant or metropolis weights or the solver cvxpy, and report the"
            " graph"
        )
    return found


def _interior(graph: Graph, classes: NDArray[np.intp], signed: bool, goal: Objective) -> Optimum:
    return Optimum(*goal.solver(graph, classes, signed=signed).minimise(GAP))


def _best_of(graph: Graph, found: Optimum, signed: bool, goal: Objective) -> Optimum:
    """Closed forms that are as good win: on rings and tori they are exact where Newton's are nearly so."""
    candidates = (constant(graph, signed=signed), metropolis(graph), found.weights)
    return Optimum(min(candidates, key=lambda weights: _value(graph, weights, goal)), found.bound)


def _value(graph: Graph, weights: Array, goal: Objective) -> float:
    return goal.measure(mixing_matrix(graph, weights))


def _above(graph: Graph, found: Optimum, goal: Objective) -> float:
    """How far these weights are above the bound; as a share of it where it is above 1, which no λ is."""
    return (_value(graph, found.weights, goal) - found.bound) / max(1.0, found.bound)


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
