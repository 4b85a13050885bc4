"""What a server holds itself, besides models: samples that are nobody's own."""

from __future__ import annotations

from torch import Tensor

from paceline.worlds.problem import Problem


class PublicSamples:
    """Samples of the server's own, which belong to no client."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    @property
    def size(self) -> int:
        """How many they are, also in a dry run."""
        return self._problem.public_size

    def data(self) -> tuple[Tensor, Tensor]:
        """The samples and their labels."""
        return self._problem.public_data()
