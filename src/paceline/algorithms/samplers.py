"""Who rides in which sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paceline.algorithms.base import World, draw_clients


class Sampler(Protocol):
    """Draws a round's sequences; no client appears twice in a round."""

    def draw(self, world: World, round: int, width: int, length: int) -> list[list[int]]:
        """``width`` lists of ``length`` clients."""
        ...


@dataclass(frozen=True)
class UniformSampler:
    """Every client with the same probability in every place."""

    def draw(self, world: World, round: int, width: int, length: int) -> list[list[int]]:
        """A uniform draw without replacement, cut into sequences."""
        chosen = draw_clients(world, width * length, "cohort", round)
        return [chosen[k * length : (k + 1) * length] for k in range(width)]
