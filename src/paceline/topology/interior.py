"""A primal-dual interior-point method for the weights that mix fastest (PF-8), written in edges.

    minimise s   subject to   S₁ = s·I - (I - J - L(x)) ⪰ 0,   S₂ = s·I + (I - J - L(x)) ⪰ 0

and, unless weights may be signed, x >= 0 and d = diag(W) >= 0. x holds one weight for each class of edges and L(x) is
the weighted Laplacian. The dual variables are matrices Z₁, Z₂ ⪰ 0 and vectors μ, ν >= 0. Directions are those of
Helmberg, Kojima and Monteiro with Mehrotra's predictor and corrector. L is a sum of a·aᵀ with a = e_i - e_j, so the
system that a step solves has the entries (aᵀ S⁻¹ b)(aᵀ Z b) for edges a and b: two gathers and a product, where a
general solver would carry matrices of M² rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from paceline.topology.edge_classes import EdgeClasses, even, factored, inverse

Array = NDArray[np.float64]
Pair = tuple[Array, Array]

STEPS = 100
"""Steps after which it is given up; some fifteen are usual."""
NEAR = 0.95
"""Share of the way to the boundary that a step may go."""


@dataclass
class _Point:
    """The values of all variables at one step of the method."""

    s: float
    x: Array
    Z: Pair
    mu: Array
    nu: Array


@dataclass
class _Direction:
    """A step of all variables; dS₁ and dS₂ follow from ds and dx."""

    ds: float
    dx: Array
    dS: Pair
    dZ: Pair
    dmu: Array
    dnu: Array


class InteriorPoint(EdgeClasses):
    """The problem of one graph with one weight for each class of edges."""

    def minimise(self, gap: float) -> tuple[Array, float]:
        """The edges' weights, and a bound that no λ is below; they are closer than ``gap`` if all went well."""
        at = self._start()
        best = (np.inf, at.x, 0.0)
        bound = 0.0
        for _ in range(STEPS):
            bound = max(bound, self._bound(at))
            best = min(best, (at.s, at.x, bound), key=lambda one: one[0])
            if at.s - bound <= gap:
                break
            try:
                if not self._step(at):
                    break
            except LinAlgError:  # rounding has eaten a matrix; what was reached before is still proven
                break
        return best[1][self.classes], bound

    def _start(self) -> _Point:
        x = self._inside()
        s = float(np.abs(np.linalg.eigvalsh(self.rest - self._laplacian(x))).max()) + 0.1
        Z, tau = self.eye / (2 * self.n), s / (2 * self.n)
        return _Point(s, x, (Z, Z.copy()), tau / x, tau / self._diagonal(x))

    def _step(self, at: _Point) -> bool:
        """One predictor and one corrector; False when no step is possible any more."""
        S, d = self._slacks(at.s, at.x), self._diagonal(at.x)
        if not self.signed and min(d.min(), at.x.min()) <= 0:  # rounding has eaten the way to the edge
            return False
        G = (inverse(S[0]), inverse(S[1]))
        tau = self._complementarity(at, S, d)
        solve = self._system(at, G, d)
        guess = self._direction(at, G, d, solve, 0.0, None)
        primal, dual = self._lengths(at, guess, d)
        after = self._complementarity(
            _moved(at, guess, primal, dual),
            self._slacks(at.s + primal * guess.ds, at.x + primal * guess.dx),
            self._diagonal(at.x + primal * guess.dx),
        )
        sigma = min(1.0, max(after / tau, 0.0)) ** 3
        chosen = self._direction(at, G, d, solve, max(sigma, 1e-6) * tau, guess)
        primal, dual = self._lengths(at, chosen, d)
        moved = _moved(at, chosen, NEAR * primal if primal < 1 else 1.0, NEAR * dual if dual < 1 else 1.0)
        at.s, at.x, at.Z, at.mu, at.nu = moved.s, moved.x, moved.Z, moved.mu, moved.nu
        return max(primal, dual) > 1e-8

    # -- pieces of the problem ----------------------------------------------------------------------------------

    def _slacks(self, s: float, x: Array) -> Pair:
        inner = self.rest - self._laplacian(x)
        return s * self.eye - inner, s * self.eye + inner

    def _complementarity(self, at: _Point, S: Pair, d: Array) -> float:
        total = float(np.vdot(S[0], at.Z[0]) + np.vdot(S[1], at.Z[1]))
        if self.signed:
            return total / (2 * self.n)
        return (total + float(at.x @ at.mu + d @ at.nu)) / (3 * self.n + self.k)

    # -- the step -------------------------------------------------------------------------------------------------

    def _system(self, at: _Point, G: Pair, d: Array) -> Callable[[Array], Array]:
        """The linear system in (ds, dx), factored."""
        matrix = np.empty((self.k + 1, self.k + 1))
        (across1, curved1), (across2, curved2) = (self._curvature(g, z) for g, z in zip(G, at.Z, strict=True))
        matrix[0, 0] = np.vdot(G[0], at.Z[0]) + np.vdot(G[1], at.Z[1])
        matrix[0, 1:] = matrix[1:, 0] = across1 - across2
        matrix[1:, 1:] = curved1 + curved2
        if not self.signed:
            matrix[1:, 1:] += (self.at_node.T * (at.nu / d)) @ self.at_node
            matrix[1:, 1:][np.diag_indices(self.k)] += at.mu / at.x
        return factored(matrix)

    def _direction(
        self, at: _Point, G: Pair, d: Array, solve: Callable[[Array], Array], tau: float, guess: _Direction | None
    ) -> _Direction:
        """Towards S·Z = τ·I; with a guess, also against the second-order error that it would make."""
        none = np.zeros((self.n, self.n))
        wanted = [tau * g - (even(g @ s @ z) if guess else none) for g, s, z in self._with(G, guess)]
        right = np.empty(self.k + 1)
        right[0] = np.trace(wanted[0]) + np.trace(wanted[1]) - 1.0
        right[1:] = self._on_classes(wanted[0] - wanted[1])
        mu = nu = np.zeros(0)
        if not self.signed:
            mu = (tau - (guess.dx * guess.dmu if guess else 0.0)) / at.x
            nu = (tau + (self.at_node @ guess.dx * guess.dnu if guess else 0.0)) / d
            right[1:] += mu - self.at_node.T @ nu
        step = solve(right)
        ds, dx = float(step[0]), step[1:]
        change = self._laplacian(dx)
        dS = (ds * self.eye + change, ds * self.eye - change)
        dZ = [w - z - even(g @ s @ z) for w, z, g, s in zip(wanted, at.Z, G, dS, strict=True)]
        if self.signed:
            return _Direction(ds, dx, dS, (dZ[0], dZ[1]), np.zeros_like(at.mu), np.zeros_like(at.nu))
        dmu = mu - at.mu - at.mu / at.x * dx
        dnu = nu - at.nu + at.nu / d * (self.at_node @ dx)
        return _Direction(ds, dx, dS, (dZ[0], dZ[1]), dmu, dnu)

    def _with(self, G: Pair, guess: _Direction | None) -> list[tuple[Array, Array, Array]]:
        if guess is None:
            return [(g, g, g) for g in G]
        return list(zip(G, guess.dS, guess.dZ, strict=True))

    def _lengths(self, at: _Point, step: _Direction, d: Array) -> tuple[float, float]:
        """How far primal and dual variables may go and stay inside; at most 1."""
        primal = dual = 1.0
        if not self.signed:
            primal = min(_reach(at.x, step.dx), _reach(d, -self.at_node @ step.dx))
            dual = min(_reach(at.mu, step.dmu), _reach(at.nu, step.dnu))
        for S, dS, Z, dZ in zip(self._slacks(at.s, at.x), step.dS, at.Z, step.dZ, strict=True):
            primal, dual = _definite(S, dS, primal), _definite(Z, dZ, dual)
        return primal, dual

    def _bound(self, at: _Point) -> float:
        """A lower bound of λ over all weights on the graph, whether or not the dual point is feasible.

        For Z₁, Z₂ ⪰ 0 with tr(Z₁ + Z₂) = 1 and ν >= 0, every feasible W has λ >= tr((Z₁ - Z₂)(I - J)) - Σν + Σ w·r
        with r = ν_i + ν_j - aᵀ(Z₁ - Z₂)a for each edge. Weights lie in [0, 1], or in [-1, 1] where they are signed
        (no entry exceeds ‖W‖ = 1), so the last sum is at least that of min(r, 0), or of -|r|.
        """
        scale = 1.0 / float(np.trace(at.Z[0]) + np.trace(at.Z[1]))
        difference = (at.Z[0] - at.Z[1]) * scale
        value = float(np.vdot(difference, self.rest))
        if self.signed:
            return value - float(np.abs(self._on_edges(difference)).sum())
        nu = at.nu * scale
        slack = nu[self.i] + nu[self.j] - self._on_edges(difference)
        return value - float(nu.sum()) + float(np.minimum(slack, 0.0).sum())


def _moved(at: _Point, step: _Direction, primal: float, dual: float) -> _Point:
    Z = (at.Z[0] + dual * step.dZ[0], at.Z[1] + dual * step.dZ[1])
    return _Point(
        at.s + primal * step.ds, at.x + primal * step.dx, Z, at.mu + dual * step.dmu, at.nu + dual * step.dnu
    )


def _reach(values: Array, change: Array) -> float:
    """The largest length up to 1 that keeps values + length·change >= 0."""
    falling = change < 0
    return min(1.0, float((-values[falling] / change[falling]).min())) if falling.any() else 1.0


def _definite(matrix: Array, change: Array, most: float) -> float:
    """A length up to ``most`` that keeps matrix + length·change positive definite; 0 if none is found."""
    length = most
    while length > 1e-9:
        try:
            np.linalg.cholesky(matrix + length * change)
        except np.linalg.LinAlgError:
            length *= 0.85
        else:
            return length
    return 0.0
