"""Placeholder until the real one is written: the plain mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from paceline.algorithms.base import Model, World, mean


@dataclass(frozen=True, kw_only=True)
class Aggregation:
    """The plain mean."""

    rule: Literal["mean"] = "mean"

    def centre(self, world: World, model: Model, deltas: Sequence[Model]) -> Model:
        """The mean."""
        return mean(deltas)

    def flops(self, world: World, model: Model, count: int) -> float:
        """Nothing worth counting."""
        return 0.0
