"""Promises of what is to be learned about models: a score, or something that is read off their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from torch import Tensor

from paceline.learn.graph import Model
from paceline.learn.job import Score, Spread

R = TypeVar("R")


class Promise(Generic[R]):
    """A promise of what is to be learned about some models."""

    __slots__ = ("models", "result")

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = tuple(models)
        self.result: R | None = None

    def settle(self, result: R) -> None:
        """Become a result and let go of the models."""
        self.result = result
        self.models = ()


class Measure(Promise[Score]):
    """The score of one model, or the mean over several models each on its own test rows."""

    __slots__ = ("rows", "x", "y")

    def __init__(self, models: Sequence[Model], x: Tensor, y: Tensor, rows: Sequence[Tensor] | None = None) -> None:
        super().__init__(models)
        self.x = x
        self.y = y
        self.rows = rows


class Reading(Promise[R]):
    """What a function reads off the models' values."""

    __slots__ = ("function",)

    def __init__(self, models: Sequence[Model], function: Callable[[Sequence[Tensor]], R]) -> None:
        super().__init__(models)
        self.function = function


class LocalReadings(Reading[R]):
    """What a function reads off the models of several sites, each of which reads its own alone.

    The values come site by site, as many of each.
    """

    __slots__ = ("sites",)

    def __init__(self, models: Sequence[Sequence[Model]], function: Callable[[Sequence[Tensor]], R]) -> None:
        super().__init__([model for own in models for model in own], function)
        self.sites = len(models)


class Comparison(Promise[Spread]):
    """How far probed gradients lie from each other, and how noisy each is."""

    __slots__ = ()
