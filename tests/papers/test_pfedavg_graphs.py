"""Twelve graphs that the paper does not have: what is expected of them, and verdicts on accuracies made up."""

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from paceline.papers.pfedavg import graphs as pfedavg_graphs
from paceline.papers.pfedavg import scenes as pfedavg_scenes
from paceline.papers.pfedavg.graphs import (
    GRAPHS,
    disputed,
    expected,
    overlays,
    rank_correlation,
    same_way,
    verdict_rows,
)
from paceline.papers.pfedavg.scenes import SMALL
from paceline.papers.pfedavg.trained import topologies
from paceline.papers.result import Request

SAME = {
    "bipartite-3-6": nx.complete_bipartite_graph(3, 6),
    "circulant-1-2": nx.circulant_graph(9, [1, 2]),
    "grid": nx.grid_2d_graph(3, 3),
    "lollipop-7-2": nx.lollipop_graph(7, 2),
    "path": nx.path_graph(9),
    "star": nx.star_graph(8),
    "wheel": nx.wheel_graph(9),
    "windmill": nx.windmill_graph(4, 3),
}


@pytest.mark.parametrize("name", SAME)
def test_graphs_are_what_they_are_called(name):
    assert nx.is_isomorphic(GRAPHS[name].networkx(), SAME[name])


def test_none_of_them_is_the_papers():
    papers = [one.graph.networkx() for one in topologies()]
    assert not any(nx.is_isomorphic(graph.networkx(), other) for graph in GRAPHS.values() for other in papers)


def test_they_are_listed_as_all_modes_expect_them():
    numbers = expected()["all modes"]
    assert all(numbers[fast] < numbers[slow] for fast, slow in pairwise(GRAPHS))


def test_three_graphs_have_the_same_p_and_all_modes_tell_them_apart():
    numbers = expected()
    same = ("lollipop-8-1", "windmill", "star")
    assert {numbers["p"][name] for name in same} == {round(64 / 81, 9)}
    assert set(disputed()) >= {("lollipop-8-1", "windmill"), ("windmill", "star"), ("path", "star")}


@pytest.mark.parametrize("variant", overlays(), ids=lambda one: one.name)
def test_the_same_way_is_what_servers_with_a_bent_come_to(variant):
    """x <- W(x + d) with d the same every round, the mean over all d of length 1 a server."""
    matrix, nodes = variant.mixing.matrix, variant.graph.nodes
    apart = np.eye(nodes) - 1 / nodes
    x = np.zeros((nodes, nodes))
    for _ in range(3000):
        x = matrix @ (x + apart)
    assert same_way(variant.mixing) == pytest.approx(np.trace(x @ x.T) / nodes, abs=1e-6)


def test_rank_correlation():
    slowness = {"a": 1.0, "b": 2.0, "c": 3.0}
    assert rank_correlation(slowness, {"a": 90.0, "b": 80.0, "c": 70.0}) == pytest.approx(1)
    assert rank_correlation(slowness, {"a": 70.0, "b": 80.0, "c": 90.0}) == pytest.approx(-1)
    ties = {"a": 3.0, "b": 3.0, "c": 1.0}  # ranks 1.5, 1.5, 3 against 1, 2, 3
    assert rank_correlation(ties, {"a": 1.0, "b": 2.0, "c": 3.0}) == pytest.approx(0.75**0.5)


def means(by):
    """Accuracies that fall with a predictor, with a little noise."""
    numbers = expected()[by]
    noise = np.random.default_rng(1).normal(0, 1e-4, (len(GRAPHS), 6))
    return {name: dict(enumerate(90 - numbers[name] + noise[k])) for k, name in enumerate(GRAPHS)}


@pytest.mark.parametrize("by", ["p", "all modes"])
def test_verdicts_tell_which_number_was_right(by):
    rows = {row.name: row for row in verdict_rows("here", means(by))}
    assert float(rows[f"here: rank correlation with {by}"].ours) > 0.98
    assert rows["here: all modes above p"].ok is (by == "all modes")
    assert "afterwards" in rows["here: rank correlation with few links"].note
    assert rows["here: path - star"].ok is (by == "all modes")
    assert "by p below, by the same way below" in rows["here: path - star"].note


def test_it_runs(monkeypatch):
    monkeypatch.setattr(pfedavg_scenes, "SMALL", {"digits": replace(SMALL["digits"], rounds=4)})
    some = {name: GRAPHS[name] for name in ("grid", "path", "star")}
    monkeypatch.setattr(pfedavg_graphs, "GRAPHS", some)
    found = pfedavg_graphs.graphs(Request(scale="small", seeds=2, quiet=True, data="digits"))
    names = [row.name for row in found.rows]
    assert "digits, sorted, servers: path - star" in names
    assert "digits, paper, average: rank correlation with p" in names
    assert found.figure() is not None
