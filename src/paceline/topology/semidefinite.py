"""PF-8, and the sum over all modes, as semidefinite programs for a general solver.

It is slow, but written by others, so that it can check ours.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import PacelineError, SettingError
from paceline.topology.graphs import Graph

Array = NDArray[np.float64]

MOST_NODES = 80
"""Beyond this a general solver takes minutes and gigabytes."""


def solve_semidefinite(graph: Graph, *, signed: bool = False, all_modes: bool = False) -> Array:
    """The optimal edge weights by cvxpy and its default solver of semidefinite programs."""
    try:
        cp: Any = import_module("cvxpy")
    except ImportError:
        raise SettingError(
            "the solver cvxpy is not installed; install the extra `topology` (see docs/install.md), or use the"
            " solver interior"
        ) from None
    if graph.nodes > MOST_NODES:
        raise SettingError(
            f"the graph has {graph.nodes} nodes; the solver cvxpy takes up to {MOST_NODES}; use the solver interior"
        )
    if not graph.edges:
        return np.zeros(0)
    i, j = graph.ends
    incidence = np.zeros((graph.nodes, len(graph.edges)))
    incidence[i, np.arange(len(i))], incidence[j, np.arange(len(j))] = 1.0, -1.0
    weights, radius = cp.Variable(len(graph.edges)), cp.Variable()
    eye = np.eye(graph.nodes)
    rest = eye - 1.0 / graph.nodes - incidence @ cp.diag(weights) @ incidence.T
    limits = [] if all_modes else [radius * eye - rest >> 0, radius * eye + rest >> 0]
    goal = (cp.tr_inv(eye - rest) + cp.tr_inv(eye + rest)) / 2 if all_modes else radius
    if not signed:
        limits += [weights >= 0, np.abs(incidence) @ weights <= 1]
    problem = cp.Problem(cp.Minimize(goal), limits)
    problem.solve(solver=cp.CLARABEL)
    if weights.value is None or problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise PacelineError(f"cvxpy did not solve the mixing problem ({problem.status}); use the solver interior")
    return _inside(graph, np.asarray(weights.value, np.float64), signed)


def _inside(graph: Graph, weights: Array, signed: bool) -> Array:
    """A solver is right to its tolerance only: what is a little negative becomes 0."""
    if signed:
        return weights
    weights = np.maximum(weights, 0.0)
    i, j = graph.ends
    most = float((np.bincount(i, weights, graph.nodes) + np.bincount(j, weights, graph.nodes)).max())
    return weights / max(1.0, most)
