"""The weights with which nodes that keep straying stay closest together, by Newton's method with barriers.

If every node strays by 1 in a direction of its own each round and then mixes, what is left in the long run is the sum
of λ²/(1 - λ²) over the eigenvalues of W other than that of the mean. As λ²/(1 - λ²) = ½/(1 - λ) + ½/(1 + λ) - 1,

    F(x) = ½·tr (L + J)⁻¹ + ½·tr (2·I - L - J)⁻¹ - M,   L = L(x) the weighted Laplacian, W = I - L,

which is convex in the weights, as traces of inverses of linear matrices are. Its gradient on an edge's vector a is
½·aᵀ(Q² - P²)a with P and Q the two inverses, its curvature for edges a and b (aᵀPb)(aᵀP²b) + (aᵀQb)(aᵀQ²b).
F itself keeps |λ| below 1; unless weights may be signed, logarithms keep weights and diagonal above 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from paceline.topology.edge_classes import EdgeClasses, factored, inverse

Array = NDArray[np.float64]

STEPS = 200
"""Newton steps after which it is given up; some thirty are usual."""
FALL = 0.1
"""What the barriers' weight is multiplied by once the minimum for it is found."""
CENTRED = 0.1
"""Newton's decrement, as a share of the barriers' weight, below which that is so."""
SHORTEST = 1e-10


class _Place(NamedTuple):
    """A point inside, and the inverses there."""

    x: Array
    P: Array
    Q: Array
    value: float


class AllModes(EdgeClasses):
    """The problem of one graph with one weight for each class of edges."""

    def minimise(self, gap: float) -> tuple[Array, float]:
        """The edges' weights, and a bound that no sum over modes is below.

        They are closer than ``gap``, or that share of the sum where it is above 1, if all went well.
        """
        at = self._place(self._inside())
        assert at is not None, "equal weights that leave something on every diagonal have |λ| < 1"
        tau = max(at.value, 1e-3) / len(self.classes)
        bound = 0.0
        for _ in range(STEPS):
            try:
                found, decrement, nu = self._step(at, tau)
            except LinAlgError:  # rounding has eaten a matrix; what was reached before is still proven
                break
            at = found or at
            bound = max(bound, self._bound(at, nu))
            if at.value - bound <= gap * max(1.0, at.value):
                break
            if found is None and (self.signed or tau < gap * SHORTEST):
                break
            if found is None or decrement < CENTRED * tau:
                tau *= FALL
        return at.x[self.classes], bound

    def _place(self, x: Array) -> _Place | None:
        """This point, or None where it is not inside."""
        if not self.signed and min(x.min(), self._diagonal(x).min()) <= 0:
            return None
        laplacian = self._laplacian(x)
        try:
            P = inverse(laplacian + 1.0 / self.n)
            Q = inverse(2 * self.eye - laplacian - 1.0 / self.n)
        except LinAlgError:
            return None
        return _Place(x, P, Q, float(np.trace(P) + np.trace(Q)) / 2 - self.n)

    def _slopes(self, at: _Place) -> Array:
        """The change of F with the weight of every single edge."""
        return self._on_edges(at.Q @ at.Q - at.P @ at.P) / 2

    def _step(self, at: _Place, tau: float) -> tuple[_Place | None, float, Array]:
        """One step towards the minimum with this weight of the barriers: where to, how far down, and prices there.

        The prices are those of the diagonal's bounds, which Newton's method foresees as well as the point.
        """
        slope, nu = self._summed(self._slopes(at)), np.zeros(self.n)
        curved = self._curvature(at.P, at.P @ at.P)[1] + self._curvature(at.Q, at.Q @ at.Q)[1]
        if not self.signed:
            d = self._diagonal(at.x)
            slope = slope - tau / at.x + tau * self.at_node.T @ (1.0 / d)
            curved = curved + tau * (self.at_node.T / d**2) @ self.at_node + tau * np.diag(at.x**-2)
        change = -factored(curved)(slope)
        if not self.signed:
            nu = np.maximum(tau / d * (1.0 + self.at_node @ change / d), 0.0)
        decrement = float(-slope @ change)
        length = 1.0
        while length > SHORTEST:
            found = self._place(at.x + length * change)
            if found and self._height(found, tau) <= self._height(at, tau) - 0.1 * length * decrement:
                return found, decrement, nu
            length /= 2
        return None, decrement, nu

    def _height(self, at: _Place, tau: float) -> float:
        """F with its barriers."""
        if self.signed:
            return at.value
        return at.value - tau * float(np.log(at.x).sum() + np.log(self._diagonal(at.x)).sum())

    def _bound(self, at: _Place, nu: Array) -> float:
        """A lower bound of F over all weights on the graph.

        F is convex, so F(w') >= F(w) + g·(w' - w) with the slopes g at w. For any ν >= 0 and rows that sum to at most
        1, g·w' >= Σ w'·(g + ν_i + ν_j) - Σν. Weights lie in [0, 1], or in [-1, 1] where they are signed (no entry
        exceeds ‖W‖ = 1), so the first sum is at least that of min(g + ν_i + ν_j, 0), or of -|g|.
        """
        slopes = self._slopes(at)
        here = at.value - float(slopes @ at.x[self.classes])
        if self.signed:
            return here - float(np.abs(slopes).sum())
        slack = slopes + nu[self.i] + nu[self.j]
        return here - float(nu.sum()) + float(np.minimum(slack, 0.0).sum())
