"""Bounds of numbers that are options of commands; those of settings are declared on their fields."""

from __future__ import annotations

import re
from typing import Any

import click

from paceline.bounds import SEEDS, Bounds


class Whole(click.types.IntParamType):
    """A whole number within bounds in ASCII digits. Python also accepts underscores and digits of other scripts."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number given by a word or a default."""
        if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,4000}", value):
            self.fail(f"{value!r} is not a valid integer.", param, ctx)
        number = int(value)
        self._bounds.check(param.opts[0] if param else "number", number)
        return number


few_seeds = Whole(SEEDS)
some_workers = Whole(Bounds(least=1, most=1000))
some_draws = Whole(Bounds(least=1, most=100_000))
some_clients = Whole(Bounds(least=1, most=10_000_000))
