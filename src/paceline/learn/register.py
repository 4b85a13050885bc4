"""Models numbered as they are made, so that the values of those still held can be kept, and given back to a replay.

A schedule is repeatable: run again from the same settings and results it makes the same models in the same order. So
a number says which model it is, in another process too.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

PRUNED = 4096
"""How many references are kept before those to models that nobody holds any more are dropped."""


class Numbered(Protocol):
    """Something that can be registered under a number."""

    number: int


M = TypeVar("M", bound=Numbered)


class Register(Generic[M]):
    """Gives every model its number and knows which are still held."""

    def __init__(self) -> None:
        self.made = 0
        """How many models there have been."""
        self._references: list[weakref.ref[M]] = []
        self._room = PRUNED

    def enter(self, model: M) -> None:
        """Give a model the next number."""
        model.number = self.made
        self.made += 1
        self._references.append(weakref.ref(model))
        if len(self._references) > self._room:
            self._references = [one for one in self._references if one() is not None]
            self._room = max(PRUNED, 2 * len(self._references))  # so that pruning costs a constant for each model

    def held(self) -> list[M]:
        """All models that somebody still holds, in the order in which they were made."""
        return [model for one in self._references if (model := one()) is not None]


current: Register[Numbered] | None = None
"""Where models register as they are made; None: nobody asks for their numbers."""


@contextmanager
def unregistered() -> Iterator[None]:
    """Enter no model that is made meanwhile: it is none of a schedule's."""
    global current  # noqa: PLW0603 - as in ``registering``
    before, current = current, None
    try:
        yield
    finally:
        current = before


@contextmanager
def registering(register: Register[Numbered]) -> Iterator[None]:
    """Have all models that are made meanwhile entered here."""
    global current  # noqa: PLW0603 - models are made by operators, which nobody can hand a register to
    before, current = current, register
    try:
        yield
    finally:
        current = before
