"""The optimum against another's solver, its bound, and large graphs."""

import json
import sys
import time

import numpy as np
import pytest

from paceline.errors import SettingError
from paceline.topology import Graph, disagreement_factor, mixing_matrix, parse_graph
from paceline.topology import optimum as optimum_module
from paceline.topology.interior import InteriorPoint
from paceline.topology.optimum import _alike, optimal_weights
from paceline.topology.weights import metropolis


def factor(graph, weights):
    return disagreement_factor(mixing_matrix(graph, weights))


SECOND_OPINION = [
    "barbell:3,3",
    "tree:9",
    "star:7",
    "random:9,0.5",
    "torus:3x5",
    "smallworld:20,4,0.3",
    "regular:30,4",
]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("word", SECOND_OPINION)
def test_a_general_solver_finds_the_same(word, signed):
    pytest.importorskip("cvxpy")
    graph = parse_graph(word)
    ours = optimal_weights(graph, signed=signed)
    theirs = optimal_weights(graph, signed=signed, solver="cvxpy")
    assert factor(graph, ours.weights) == pytest.approx(factor(graph, theirs.weights), abs=1e-5)
    assert factor(graph, theirs.weights) >= ours.bound - 1e-9


def test_the_bound_is_one_for_any_feasible_weights():
    """No other weights may be below it: 200 draws, some of them close to the optimum."""
    graph = parse_graph("random:9,0.5", seed=1)
    found = optimal_weights(graph)
    draws = np.random.default_rng(0)
    for _ in range(200):
        other = np.abs(found.weights + draws.normal(0, 10 ** -draws.uniform(1, 6), len(graph.edges)))
        matrix = mixing_matrix(graph, other)
        if matrix.min() >= 0:
            assert disagreement_factor(matrix) >= found.bound


def test_edges_that_look_alike_share_a_weight():
    assert _alike(parse_graph("torus:5x5")).max() == 0
    assert _alike(parse_graph("torus:4x6")).max() == 1
    assert _alike(parse_graph("barbell:3,3")).max() == 3


@pytest.mark.parametrize("word", ["torus:4x6", "barbell:4,3", "tree:15", "barbell:10,20"])
@pytest.mark.parametrize("signed", [False, True])
def test_symmetry_changes_nothing(word, signed):
    graph = parse_graph(word)
    each, _ = InteriorPoint(graph, np.arange(len(graph.edges)), signed=signed).minimise(1e-6)
    assert factor(graph, optimal_weights(graph, signed=signed).weights) == pytest.approx(
        factor(graph, each), abs=2e-6
    )


def test_a_wrong_guess_of_symmetry_is_found_out(monkeypatch):
    """One class for all edges would give the best constant; the bound shows that it is not the best."""
    graph = parse_graph("random:9,0.5")
    right = optimal_weights(graph)
    monkeypatch.setattr(optimum_module, "_alike", lambda graph: np.zeros(len(graph.edges), np.intp))
    assert factor(graph, optimal_weights(graph).weights) == pytest.approx(factor(graph, right.weights), abs=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "word", ["torus:20x20", "regular:100,4", "smallworld:300,6,0.2", "random:100,0.2", "torus:20x10"]
)
@pytest.mark.parametrize("signed", [False, True])
def test_large_graphs_take_less_than_a_minute_of_a_processor(word, signed):
    graph = parse_graph(word)
    begin = time.process_time()
    found = optimal_weights(graph, signed=signed)
    seconds = time.process_time() - begin
    assert factor(graph, found.weights) - found.bound <= 1e-5
    assert seconds < 60, f"{word} took {seconds:.1f} s"


def test_a_torus_of_middling_size_has_its_closed_form():
    graph = parse_graph("torus:8x8")
    found = optimal_weights(graph)
    low, high = 2 - 2 * np.cos(2 * np.pi / 8), 8.0
    assert factor(graph, found.weights) == pytest.approx((high - low) / (high + low), abs=1e-12)
    assert factor(graph, found.weights) - found.bound <= 1e-6


def test_too_many_links_are_refused(monkeypatch):
    monkeypatch.setattr("paceline.topology.edge_classes.MOST_EDGES", 30)
    with pytest.raises(SettingError, match="more than the 30"):
        optimal_weights(parse_graph("smallworld:20,4,0.3"))


def test_what_the_solvers_need_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    ring = parse_graph("ring:5")
    with pytest.raises(SettingError, match="install the extra `topology`"):
        optimal_weights(ring, solver="cvxpy")
    with pytest.raises(SettingError, match="wanted interior or cvxpy"):
        optimal_weights(ring, solver="simplex")
    with pytest.raises(SettingError, match="not connected"):
        optimal_weights(Graph(3, ((0, 1),)))


def test_no_bound_is_read_from_disk(monkeypatch, tmp_path):
    """What somebody else wrote is no proof: a doctored file once passed for the optimum of a graph."""
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    graph = parse_graph("smallworld:24,4,0.3")
    right = optimal_weights(graph)
    weights = metropolis(graph)
    for file in tmp_path.rglob("*.json"):
        file.write_text(json.dumps({"weights": weights.tolist(), "bound": factor(graph, weights)}))
    again = optimal_weights(graph)
    assert np.array_equal(again.weights, right.weights) and again.bound == right.bound
    assert list(tmp_path.iterdir()) == []
