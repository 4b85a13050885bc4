"""A server that keeps every device's last model and makes its own of all of them (APFL's reference code, NI-E12).

With updates alone, as in Eq. 5, an upload that arrives by itself is all that its aggregation sees: a median or a
distillation of one. A table of all devices' last models gives every aggregation as many.
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.algorithms.aggregate import Aggregation
from paceline.algorithms.base import Model, World, count_rejected


class LastModels:
    """One model for each device that has uploaded; the others count as having the first model."""

    def __init__(self, first: Model, devices: int) -> None:
        self._first = first
        self._devices = devices
        self._models: dict[int, Model] = {}

    def __len__(self) -> int:
        return len(self._models)

    def put(self, models: Mapping[int, Model]) -> None:
        """Take these devices' models in the place of their last ones."""
        self._models |= models

    def combined(self, world: World, rule: Aggregation, model: Model) -> Model:
        """What the rule makes of all, as updates of the server's present model; deferred.

        While some devices have not uploaded yet, it has the weight of those that have, and the first model the rest.
        """
        ordered = dict(sorted(self._models.items()))
        updates = [last - model for last in ordered.values()]
        found = model + rule.centre(world, model, updates, count_rejected(world, [*ordered]))
        share = len(self) / self._devices
        return found if share == 1 else share * found + (1 - share) * self._first
