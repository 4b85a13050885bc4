"""What PSFL's Theorem 1 and Corollary 1 say of a structure: which learning rates, and how near the optimum (PS-6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class Convergence:
    """The constants of the bound for one problem."""

    smoothness: float
    """L of the clients' losses."""
    c0: float = 0.1
    """The free constant of the proof, between 0 and 0.2."""

    def __post_init__(self) -> None:
        if not 0 < self.smoothness < math.inf:
            raise SettingError(f"the smoothness is {self.smoothness:g}; wanted L, a finite number above 0")
        if not 0 < self.c0 < 0.2:
            raise SettingError(f"c0 is {self.c0:g}; Theorem 1 holds for 0 < c0 < 0.2 only")

    @property
    def b(self) -> float:
        """The constant b of the bound, which is positive for all c0 below 0.2 (PS-E1)."""
        c0 = self.c0
        return (16 * c0**3 - 28 * c0**2 - 24 * c0 + 6) / (3 * (1 - 2 * c0**2))

    def largest_rate(self, S: int) -> float:
        """Theorem 1's condition on the learning rate with S clients in a sequence: η ≤ c0/(L·S)."""
        return self.c0 / (self.smoothness * S)

    def spread(self, sigma2: float, heterogeneity: float, S: int, W: int) -> float:
        """α·W + β of Eq. 17 with N0 = S·W participants (PS-4)."""
        c0, participants = self.c0, S * W
        alpha = 4 * c0 * (1 + 2 * c0) / (1 - 2 * c0**2) * (sigma2 + heterogeneity) + 4 * heterogeneity
        return (alpha * W + 4 * sigma2) / participants

    def best_rate(self, rounds: int, distance: float, spread: float, S: int) -> float:
        """Corollary 1's learning rate η: of η̃ = S·η, the smaller of √(r0/(R·(α·W + β))) and c0/L."""
        return min(math.sqrt(distance / (rounds * spread)) if spread else math.inf, self.c0 / self.smoothness) / S

    def gap(self, rounds: int, distance: float, spread: float, S: int) -> float:
        """Theorem 1's bound on the loss above its least, after so many rounds at Corollary 1's learning rate.

        ``distance`` is r0, the squared distance of the first model from the optimum.
        """
        effective = self.best_rate(rounds, distance, spread, S) * S
        return (distance / (effective * rounds) + effective * spread) / self.b
