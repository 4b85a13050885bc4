"""Sums of models: at once, or term by term as the terms become known, with the same operations in the same order.

A mean of a hundred trained models that is computed at once needs all hundred. Term by term, in the order in which the
sum has them, each is let go as soon as it is added. The bits are the same: a sum is always its first term times its
coefficient, and then one addition after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from paceline.learn.graph import Model, Sum
from paceline.learn.register import unregistered


def weighted(values: Sequence[Tensor], coefficients: Sequence[float]) -> Tensor:
    """The weighted sum of some vectors."""
    total = values[0] * coefficients[0]
    for value, coefficient in zip(values[1:], coefficients[1:], strict=True):
        total.add_(value, alpha=coefficient)
    return total


class RunningSum:
    """A sum that is under way; until it is finished or given back, its node has no parents."""

    def __init__(self, model: Model) -> None:
        assert isinstance(model.operation, Sum)
        self._model = model
        self._total: Tensor | None = None
        self._passing = model.operation.passing
        # Reversed, so that what is added is popped off the end, and held no longer.
        self._rest = [*zip(reversed(model.operation.coefficients), reversed(model.parents), strict=True)]
        model.parents = ()

    @property
    def nbytes(self) -> int:
        """Bytes of what was added up so far."""
        return 0 if self._total is None else self._total.nbytes

    def add_known(self) -> None:
        """Add the terms that are known, up to the first that is not."""
        while self._rest and (value := self._rest[-1][1].value) is not None:
            coefficient, _ = self._rest.pop()
            if self._total is None:
                self._total = value * coefficient
            else:
                self._total.add_(value, alpha=coefficient)

    def finish(self) -> Tensor:
        """The sum, all of whose terms are known."""
        self.add_known()
        assert not self._rest and self._total is not None
        return self._total

    def give_back(self) -> None:
        """Make the node a sum again that somebody else can compute, to the same bits: 1 times what there is."""
        rest = self._rest[::-1]
        if self._total is not None:
            with unregistered():  # no schedule has made this model
                rest.insert(0, (1.0, Model(self._model.space, self._total)))
        self._model.operation = Sum(tuple(c for c, _ in rest), self._passing)
        self._model.parents = tuple(parent for _, parent in rest)
