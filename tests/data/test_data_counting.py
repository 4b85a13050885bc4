"""The integer arithmetic under the partitions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.data.counting import apportion, draw_counts, grant
from paceline.seeds import stream


@given(
    weights=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20),
    fill=st.floats(0, 1),
    low=st.integers(0, 3),
    extra=st.integers(0, 50),
)
def test_apportion_adds_up_within_its_bounds(weights, fill, low, extra):
    w = np.array(weights)
    high = low + extra
    total = low * len(w) + int(fill * extra * len(w))
    shares = apportion(w, total, low, high)
    assert shares.sum() == total
    assert shares.min() >= low
    assert shares.max() <= high
    # Who weighs more never gets less by more than the rounding.
    order = np.argsort(w)
    assert (np.diff(shares[order]) >= -1).all()


def test_apportion_is_proportional_when_it_divides():
    assert list(apportion(np.array([1.0, 2.0, 3.0]), 60, 0, 60)) == [10, 20, 30]


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 5))
def test_draw_counts_fills_every_need_and_never_overdraws(seed, clients, classes):
    rng = stream(seed, "draw")
    stock = rng.integers(0, 30, classes)
    need = rng.multinomial(rng.integers(0, stock.sum() + 1), np.full(clients, 1 / clients))
    prior = rng.dirichlet(np.full(classes, 0.05), clients)
    prior[0] = 0
    prior[0, 0] = 1.0
    counts = draw_counts(need, prior, stock, rng)
    assert (counts.sum(axis=1) == need).all()
    assert (counts.sum(axis=0) <= stock).all()


def test_draw_counts_follows_the_prior_while_stocks_last():
    """Two clients with disjoint priors get only their own classes."""
    counts = draw_counts(np.array([5, 7]), np.eye(2), np.array([5, 9]), stream(0, "d"))
    assert counts.tolist() == [[5, 0], [0, 7]]


def test_grant_is_exact_where_stock_suffices_and_random_where_not():
    demand = np.array([[3, 4], [3, 4]])
    got = grant(demand, np.array([6, 5]), stream(0, "g"))
    assert got[:, 0].tolist() == [3, 3]
    assert got[:, 1].sum() == 5
    assert (got <= demand).all()
