"""Mixing weights: the paper's numbers, and what must hold on every graph."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paceline.errors import SettingError
from paceline.topology import WEIGHTINGS, Graph, consensus_rate, disagreement_factor, make_mixing, parse_graph


@st.composite
def connected_graphs(draw, most=9):
    nodes = draw(st.integers(1, most))
    tree = [(draw(st.integers(0, i - 1)), i) for i in range(1, nodes)]
    pairs = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    return Graph.of(nodes, tree + draw(st.lists(pairs, max_size=20)))


@pytest.mark.parametrize(
    ("word", "p"),
    [("complete:9", 1), ("torus:3x3", 0.84), ("ring:9", 0.2876), ("barbell:3,3", 0.0783), ("tree:9", 0.0894)],
)
def test_the_papers_weights(word, p):
    """PF-T1 with PF-7; the tree as PF-E2 has it."""
    assert make_mixing(parse_graph(word), "metropolis").p == pytest.approx(p, abs=1e-4)


@pytest.mark.parametrize(
    ("word", "p", "signed"),
    [
        ("complete:9", 1, 1),
        ("torus:3x3", 8 / 9, 8 / 9),
        ("ring:9", 0.3842, 0.3842),
        ("barbell:3,3", 0.1227, 0.1284),
        ("tree:9", 0.1470, 0.1591),
    ],
)
def test_the_optimum(word, p, signed):
    """PF-8, PF-E3."""
    graph = parse_graph(word)
    assert make_mixing(graph).p == pytest.approx(p, abs=1e-4)
    assert make_mixing(graph, signed=True).p == pytest.approx(signed, abs=1e-4)


def test_the_rate_is_the_square():
    """PF-E1, on a matrix whose λ is known, and on one that is not symmetric."""
    assert disagreement_factor(np.eye(3)) == pytest.approx(1)
    half = np.array([[0.75, 0.25], [0.25, 0.75]])
    assert (disagreement_factor(half), consensus_rate(half)) == (pytest.approx(0.5), pytest.approx(0.75))
    shift = np.roll(np.eye(4), 1, axis=1)
    assert disagreement_factor(shift) == pytest.approx(1)


def test_a_constant_is_optimal_on_ring_and_torus_and_capped_on_a_star():
    for word in ("ring:9", "torus:3x3"):
        graph = parse_graph(word)
        assert make_mixing(graph, "constant").p == pytest.approx(make_mixing(graph).p, abs=1e-9)
    star = parse_graph("star:9")
    assert make_mixing(star, "constant").matrix.min() == 0
    assert make_mixing(star, "constant", signed=True).matrix.min() == pytest.approx(1 - 8 * 0.2)
    assert make_mixing(star, "constant", signed=True).p > make_mixing(star, "constant").p


def test_random_weights_follow_their_seed():
    graph = parse_graph("torus:3x3")
    one, same, other = (make_mixing(graph, "random", seed=seed).matrix for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.allclose(one, other)


@given(graph=connected_graphs(), weights=st.sampled_from(sorted(WEIGHTINGS)), signed=st.booleans())
def test_every_matrix_is_a_mixing_matrix(graph, weights, signed):
    found = make_mixing(graph, weights, signed=signed, seed=3)
    W = found.matrix
    assert np.array_equal(W, W.T)
    assert np.allclose(W.sum(axis=0), 1, atol=1e-12)
    linked = np.eye(graph.nodes, dtype=bool)
    for i, j in graph.edges:
        linked[i, j] = linked[j, i] = True
    assert not W[~linked].any()
    assert found.signed or W.min() >= 0
    assert 0 <= found.factor <= 1 and found.p == pytest.approx(consensus_rate(W), abs=1e-9)


# A node whose own weight the optimum takes to 0 within rounding.
@example(graph=Graph.of(7, [(0, 1), (0, 5), (1, 2), (1, 4), (1, 6), (2, 3), (2, 4), (2, 5), (5, 6)]))
@given(graph=connected_graphs())
def test_the_optimum_is_the_best_and_proves_it(graph):
    best, signed = make_mixing(graph), make_mixing(graph, signed=True)
    for name in ("metropolis", "uniform", "constant", "random"):
        assert best.p >= make_mixing(graph, name).p - 1e-6
    assert signed.p >= best.p - 1e-5
    assert signed.p >= make_mixing(graph, "constant", signed=True).p - 1e-6
    for one in (best, signed):
        assert -1e-9 <= one.factor - one.bound <= 1e-5


def test_rounds_to_halve():
    assert make_mixing(parse_graph("complete:5")).rounds_to_halve == 1
    ring = make_mixing(parse_graph("ring:9"))
    rounds = ring.rounds_to_halve
    assert ring.factor**rounds <= 0.5 < ring.factor ** (rounds - 1)
    assert make_mixing(Graph(3, ((0, 1),)), "metropolis").rounds_to_halve is None


@pytest.mark.parametrize("weights", sorted(WEIGHTINGS))
def test_what_is_not_connected_never_agrees(weights):
    found = make_mixing(Graph(4, ((0, 1), (2, 3))), weights)
    assert (found.p, found.factor) == (0, 1)


def test_an_unknown_weighting_is_refused():
    with pytest.raises(SettingError, match="did you mean 'metropolis'"):
        make_mixing(parse_graph("ring:3"), "metropolitan")


def test_the_matrix_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        make_mixing(parse_graph("ring:3")).matrix[0, 0] = 1
