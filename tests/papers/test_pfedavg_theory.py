"""P-FedAvg's reproductions without training: the numbers, and that they are computed."""

from itertools import pairwise

import pytest

from paceline.papers.pfedavg import theory as pfedavg_theory
from paceline.papers.pfedavg.theory import fig8_rates, order_of_rate, rates, table3, traffic
from paceline.papers.result import Request
from paceline.topology import parse_graph


def rows(found):
    return {row.name: row for row in found.rows}


def test_four_of_five_printed_rates_are_reproduced():
    """PF-T1; the tree is PF-E2's."""
    found = rows(rates(Request()))
    ours = {"complete": 1, "torus": 0.84, "ring": 0.2876, "barbell": 0.0783, "tree": 0.0894}
    for name, p in ours.items():
        row = found[f"{name}: p, Metropolis weights"]
        assert row.ours == pytest.approx(p, abs=1e-3)
        assert row.ok is (name != "tree")
    assert "PF-E2" in found["tree: p, Metropolis weights"].note


def test_optimal_rates():
    found = rows(rates(Request()))
    best = {"complete": 1, "torus": 0.8889, "tree": 0.1470, "ring": 0.3842, "barbell": 0.1227}
    for name, p in best.items():
        assert found[f"{name}: p, optimal weights"].ours == pytest.approx(p, abs=1e-3)
    signed = {name: row.ours for name, row in found.items() if "either sign" in name}
    assert list(signed.values()) == [pytest.approx(0.1591, abs=1e-3), pytest.approx(0.1284, abs=1e-3)]


def test_rates_are_of_the_graphs(monkeypatch):
    monkeypatch.setattr(pfedavg_theory, "GRAPHS", dict.fromkeys(pfedavg_theory.GRAPHS, "ring:12"))
    assert not any(row.ok for row in rates(Request()).rows)


def test_table_3_counts_what_the_formulas_say():
    found = rows(table3(Request()))
    for name in pfedavg_theory.GRAPHS:
        for what in ("peak traffic", "total traffic", "time, servers as bottleneck", "edge connectivity"):
            assert found[f"{name}: {what}"].ok, (name, what)
        assert found[f"{name}: links that may fail"].ok is False
    tolerated = [row.ours for name, row in found.items() if "may fail" in name]
    assert tolerated == [7, 3, 0, 1, 0]  # PF-E5
    orders = {name.partition(":")[0]: row.ok for name, row in found.items() if "exponent" in name}
    assert orders == {"complete": True, "torus": True, "tree": True, "ring": True, "barbell": False}


@pytest.mark.parametrize(
    ("word", "busiest", "links"),
    [
        ("complete:16", 15, 16 * 15 / 2),
        ("torus:4x4", 4, 2 * 16),
        ("tree:16", 3, 15),
        ("ring:16", 2, 16),
        ("barbell:5,6", 5, 5 * 4 + 6 + 1),
    ],
)
def test_table_3_holds_for_another_size(word, busiest, links):
    """PF-9 with M = 16 and K = 64; times with b = 1 and B = 2."""
    assert traffic(parse_graph(word), 64) == (2 * (4 + busiest), 2 * (64 + links), 8 + busiest / 2)


def test_clients_that_do_not_divide_evenly_load_the_busiest_server():
    assert traffic(parse_graph("ring:3"), 4) == (2 * (2 + 2), 2 * 4 + 6, 2 * 2 + 1)


def test_the_barbells_rate_falls_with_the_square():
    """Not with the cube, as printed, whichever sizes are compared."""
    graphs = [parse_graph(f"barbell:{m},{m}") for m in (10, 20, 40)]
    assert [order_of_rate(a, b) for a, b in pairwise(graphs)] == pytest.approx([-2, -2], abs=0.05)


def test_figure_8_has_the_papers_order():
    """PF-E4: medians of 0.69, 0.43 and 0.31; over 80 graphs each is within 0.05."""
    found = rows(fig8_rates(Request(seeds=2)))
    assert found["order of the medians"].ok
    assert found["graphs on which optimal weights are best"].ours == 100
    for name, median in {"optimal": 0.68, "uniform": 0.43, "random": 0.31}.items():
        row = found[f"{name}: p, median"]
        assert row.ours == pytest.approx(median, abs=0.05)
        assert row.ok is None and row.paper == pfedavg_theory.FIGURE_8[name]
        assert found[f"{name}: p, 5 % quantile"].ours < row.ours < found[f"{name}: p, 95 % quantile"].ours


def test_the_figure_can_be_drawn(tmp_path):
    fig8_rates(Request(seeds=1)).figure().savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000
