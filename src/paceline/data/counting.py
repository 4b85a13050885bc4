"""Integer arithmetic of shares: rounding that adds up, and drawing from stocks that run out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def apportion(
    weights: NDArray[np.float64], total: int, low: NDArray[Any] | int, high: NDArray[Any] | int
) -> NDArray[np.int64]:
    """Integers nearest to proportional to the weights that sum to total, each within [low, high].

    The bounds must admit the total; weights must be positive.
    """
    floor, ceiling = (np.broadcast_to(np.asarray(b, np.int64), weights.shape) for b in (low, high))
    assert floor.sum() <= total <= ceiling.sum(), "the bounds must admit the total"
    least, most = 0.0, float(ceiling.max() + 1) / float(weights.min())
    for _ in range(200):  # halving ends when the two meet in floating point
        middle = (least + most) / 2
        if np.clip(np.floor(middle * weights), floor, ceiling).sum() <= total:
            least = middle
        else:
            most = middle
    exact = least * weights
    shares = np.clip(np.floor(exact), floor, ceiling).astype(np.int64)
    # What rounding down left over goes to the largest remainders that still have room.
    while (left := total - int(shares.sum())) > 0:
        order = np.argsort(shares - exact, kind="stable")
        room = order[(shares < ceiling)[order]][:left]
        shares[room] += 1
    return shares


def grant(demand: NDArray[np.int64], stock: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """What each client gets of what it asked, (clients, classes): a random part where stock is short."""
    got = demand.copy()
    for c in np.flatnonzero(demand.sum(axis=0) > stock):
        got[:, c] = rng.multivariate_hypergeometric(demand[:, c], stock[c], method="marginals")
    return got


def draw_counts(
    need: NDArray[np.int64], prior: NDArray[np.float64], stock: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Fill each client's need by drawing classes from its prior; draws of an exhausted class are drawn again.

    A client whose prior has nothing left in stock takes from what is left. The stock must suffice.
    Everyone draws at once, in rounds; a round ends the work or exhausts a class, so there are few.
    """
    assert need.sum() <= stock.sum(), "the need must not exceed the stock"
    counts = np.zeros(prior.shape, np.int64)
    need, stock = need.copy(), stock.copy()
    while need.any():
        open_prior = np.where(stock > 0, prior, 0.0)
        mass = open_prior.sum(axis=1, keepdims=True)
        law = np.where(mass > 0, open_prior, np.where(stock > 0, stock, 0))
        got = grant(rng.multinomial(need, law / law.sum(axis=1, keepdims=True)), stock, rng)
        counts += got
        need -= got.sum(axis=1)
        stock -= got.sum(axis=0)
    return counts
