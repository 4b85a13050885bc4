"""The weights with which nodes that stray stay closest: against another's solver, a search, and their own bound."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from paceline.errors import SettingError
from paceline.topology import Graph, make_mixing, mixing_matrix, parse_graph
from paceline.topology import optimum as optimum_module
from paceline.topology.optimum import optimal_weights
from paceline.topology.weights import disagreement_of_all_modes


def total(graph, weights):
    """The sum straight from the eigenvalues, without what the code under test has."""
    modes = np.linalg.eigvalsh(mixing_matrix(graph, weights))[:-1] ** 2
    return float((modes / (1 - modes)).sum())


def best(word, *, signed=False):
    graph = parse_graph(word)
    return graph, optimal_weights(graph, signed=signed, objective="all-modes")


@pytest.mark.parametrize("word", ["ring:9", "torus:3x3", "ring:30", "complete:5", "star:7"])
def test_on_graphs_whose_links_are_all_alike_it_is_the_best_single_weight(word):
    graph, found = best(word)
    most = 1 / max(graph.degrees)
    searched = minimize_scalar(
        lambda weight: total(graph, np.full(len(graph.edges), weight)),
        bounds=(1e-6, most),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert total(graph, found.weights) == pytest.approx(searched.fun, abs=1e-5)
    assert 0 <= total(graph, found.weights) - found.bound <= 1e-5 * max(1, found.bound)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("word", ["barbell:3,3", "tree:9", "random:9,0.5", "smallworld:20,4,0.3"])
def test_a_general_solver_finds_the_same(word, signed):
    pytest.importorskip("cvxpy")
    graph, ours = best(word, signed=signed)
    theirs = optimal_weights(graph, signed=signed, solver="cvxpy", objective="all-modes")
    assert total(graph, ours.weights) == pytest.approx(total(graph, theirs.weights), rel=1e-5)
    assert total(graph, theirs.weights) >= ours.bound * (1 - 1e-9)


@pytest.mark.parametrize("signed", [False, True])
def test_no_feasible_weights_are_below_the_bound(signed):
    graph, found = best("random:9,0.5", signed=signed)
    draws = np.random.default_rng(0)
    seen = 0
    for _ in range(200):
        other = found.weights + draws.normal(0, 10 ** -draws.uniform(1, 6), len(graph.edges))
        matrix = mixing_matrix(graph, other)
        if signed or matrix.min() >= 0:
            seen += 1
            assert disagreement_of_all_modes(matrix) >= found.bound
    assert seen > 50


@pytest.mark.parametrize("word", ["ring:9", "torus:3x3", "tree:9", "barbell:3,3", "random:9,0.5"])
def test_each_objective_wins_by_its_own_measure(word):
    graph = parse_graph(word)
    slowest, all_modes = make_mixing(graph), make_mixing(graph, "all-modes")
    assert slowest.p >= all_modes.p + 1e-3 and all_modes.all_modes <= slowest.all_modes * 0.95


def test_what_mixes_fastest_may_leave_servers_farther_apart_than_metropolis_weights():
    """On a ring, the weights of the least λ are behind the paper's default by the sum over all modes."""
    ring = parse_graph("ring:9")
    metropolis, optimal = make_mixing(ring, "metropolis"), make_mixing(ring, "optimal")
    assert optimal.p > metropolis.p and optimal.all_modes > 1.2 * metropolis.all_modes


def test_a_wrong_guess_of_symmetry_is_found_out(monkeypatch):
    graph, right = best("barbell:3,3")
    monkeypatch.setattr(optimum_module, "_alike", lambda graph: np.zeros(len(graph.edges), np.intp))
    again = optimal_weights(graph, objective="all-modes")
    assert total(graph, again.weights) == pytest.approx(total(graph, right.weights), rel=1e-5)


def test_weights_are_within_their_bounds():
    for signed in (False, True):
        matrix = make_mixing(parse_graph("star:9"), "all-modes", signed=signed).matrix
        assert np.allclose(matrix.sum(axis=1), 1) and np.array_equal(matrix, matrix.T)
        assert bool(matrix.min() < -0.1) is signed


def test_parts_that_are_apart_stray_ever_farther():
    apart = Graph(4, ((0, 1), (2, 3)))
    assert make_mixing(apart, "all-modes").all_modes == np.inf
    assert disagreement_of_all_modes(np.eye(3)) == np.inf


def test_an_objective_nobody_knows_is_refused():
    with pytest.raises(SettingError, match="objective is 'modes'"):
        optimal_weights(parse_graph("ring:5"), objective="modes")


def test_a_larger_graph_is_solved():
    graph, found = best("regular:100,4")
    assert total(graph, found.weights) - found.bound <= 1e-5 * found.bound
