"""Federated quadratics with a known optimum, heterogeneity and gradient noise: for tests of theory.

Client n has F_n(x) = ½ (x - b_n)ᵀ A_n (x - b_n), and the fleet minimises F = mean_n F_n. Two exact
realisations by data let any linear model with the loss ½‖output - target‖² (mean over samples) have these
very functions, up to a constant that does not depend on x:

- ``samples``: scalar targets. Rows a_j = √d A^½ q_j for an orthonormal basis q give (1/d) Σ a_j a_jᵀ = A.
  Each row comes twice, with targets a_jᵀb + e and a_jᵀb - e: the ±e cancel in the gradient and remain as
  its noise, with E‖a e‖² = e² tr A, hence e² = σ²/tr A. Away from b_n the noise grows (``noise`` has it
  exactly).
- ``vector_samples``: for A_n = s²I, one feature s and d targets s b ± (σ/s) q_j; the noise is σ² at every
  x, the assumption most theorems make. The model is a linear map from 1 to d without bias; its weight is x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.errors import SettingError
from paceline.seeds import stream

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Quadratic:
    """Clients whose losses are quadratic functions F_n; F is their mean."""

    curvature: NDArray[np.float64]
    """A_n, the curvature of client n, symmetric positive definite; an array (clients, d, d)."""
    centre: NDArray[np.float64]
    """b_n, where client n has its least loss; an array (clients, d)."""
    sigma2: float = 0.0
    """Variance of a one-sample gradient at the client's own centre."""

    def __len__(self) -> int:
        return len(self.centre)

    @property
    def smoothness(self) -> float:
        """L: the largest curvature of any client."""
        return float(np.linalg.eigvalsh(self.curvature).max())

    @property
    def convexity(self) -> float:
        """μ: the smallest curvature of any client."""
        return float(np.linalg.eigvalsh(self.curvature).min())

    def optimum(self) -> Vector:
        """The point x at which the mean loss F is least."""
        pull = np.einsum("nij,nj->i", self.curvature, self.centre)
        solution: Vector = np.linalg.solve(self.curvature.sum(axis=0), pull)
        return solution

    def value(self, x: Vector) -> float:
        """The mean loss of all clients at a point, F(x)."""
        gap = x - self.centre
        return float(0.5 * np.einsum("ni,nij,nj->n", gap, self.curvature, gap).mean())

    def gradient(self, n: int, x: Vector) -> Vector:
        """The gradient of client n's loss at a point, ∇F_n(x)."""
        slope: Vector = self.curvature[n] @ (x - self.centre[n])
        return slope

    def mean_gradient(self, x: Vector) -> Vector:
        """The gradient of the mean loss at a point, ∇F(x)."""
        slope: Vector = np.einsum("nij,nj->i", self.curvature, x - self.centre) / len(self)
        return slope

    def heterogeneity(self, x: Vector) -> float:
        """B(x) = mean_n ‖∇F_n(x) - ∇F(x)‖²; the same for every x when all curvatures are equal."""
        slopes = np.einsum("nij,nj->ni", self.curvature, x - self.centre)
        return float(((slopes - slopes.mean(axis=0)) ** 2).sum(axis=1).mean())

    def noise(self, n: int, x: Vector) -> float:
        """E‖∇f(x; ξ) - ∇F_n(x)‖² of one random sample of ``samples(n)``, in closed form.

        ∇f = a (aᵀg ∓ e) with g = x - b; over the rows, E‖a aᵀg‖² = (1/d) Σ ‖a_j‖² (a_jᵀg)².
        """
        rows = self._rows(n)
        gap = x - self.centre[n]
        spread = ((rows**2).sum(axis=1) * (rows @ gap) ** 2).mean()
        return float(self.sigma2 + spread - (self.gradient(n, x) ** 2).sum())

    def samples(self, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Features (2d, d) and targets (2d,) whose squared loss is F_n."""
        rows = np.repeat(self._rows(n), 2, axis=0)
        error = np.sqrt(self.sigma2 / np.trace(self.curvature[n]))
        signs = np.tile([1.0, -1.0], len(rows) // 2)
        return rows, rows @ self.centre[n] + error * signs

    def vector_samples(self, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Features (2d, 1) and targets (2d, d) whose squared loss is F_n, with noise σ² at every x."""
        dimension = self.centre.shape[1]
        bend = self.curvature[n][0, 0]
        if not np.allclose(self.curvature[n], bend * np.eye(dimension), rtol=1e-12, atol=1e-12 * bend):
            raise SettingError(
                f"client {n} bends differently in different directions; vector_samples needs A = s²I "
                "(quadratic(..., condition=1)), samples works for any A"
            )
        scale = np.sqrt(bend)
        shift = np.sqrt(self.sigma2) / scale * np.concatenate([np.eye(dimension), -np.eye(dimension)])
        return np.full((2 * dimension, 1), scale), scale * self.centre[n] + shift

    def _rows(self, n: int) -> NDArray[np.float64]:
        bends, basis = np.linalg.eigh(self.curvature[n])
        # A^½ q_j for a turned basis q, so that the noise is spread over all directions.
        mixed = _rotation(stream(0, "quadratic", n), len(bends))
        rows: NDArray[np.float64] = np.sqrt(len(bends)) * mixed @ (basis * np.sqrt(bends)).T
        return rows


def quadratic(
    rng: np.random.Generator,
    *,
    clients: int,
    dimension: int,
    heterogeneity: float = 1.0,
    sigma2: float = 0.0,
    condition: float = 1.0,
    alike: bool = True,
) -> Quadratic:
    """Draw a fleet with L = 1, μ = 1/condition, and B = ``heterogeneity`` at the optimum.

    ``alike`` gives all clients one curvature, and then B is the same at every x; otherwise each client's
    curvature is turned its own way.
    """
    if clients < 1 or dimension < 1 or condition < 1 or heterogeneity < 0 or sigma2 < 0:
        raise SettingError("quadratic: wanted clients, dimension, condition ≥ 1; heterogeneity, sigma2 ≥ 0")
    if heterogeneity > 0 and clients < 2:
        raise SettingError("quadratic: one client cannot differ from itself; set heterogeneity=0")
    bends = np.logspace(-np.log10(condition), 0, dimension) if dimension > 1 else np.ones(1)
    turns = [_rotation(rng, dimension) for _ in range(1 if alike else clients)]
    curvature = np.stack([(turn * bends) @ turn.T for turn in turns * (clients // len(turns))])
    centre = rng.standard_normal((clients, dimension))
    draft = Quadratic(curvature=curvature, centre=centre, sigma2=sigma2)
    # B is quadratic in the distance of the centres from the optimum, so one scaling about it sets B exactly.
    best, came = draft.optimum(), draft.heterogeneity(draft.optimum())
    centre = best + (centre - best) * np.sqrt(heterogeneity / came if came > 0 else 0.0)
    return Quadratic(curvature=curvature, centre=centre, sigma2=sigma2)


def _rotation(rng: np.random.Generator, dimension: int) -> NDArray[np.float64]:
    q, r = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    turn: NDArray[np.float64] = q * np.sign(np.diag(r))
    return turn
