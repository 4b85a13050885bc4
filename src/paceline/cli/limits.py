"""Bounds of numbers that are options of commands; those of settings are declared on their fields."""

from __future__ import annotations

from collections.abc import Callable

from paceline.bounds import SEEDS, Bounds


def _within(option: str, bounds: Bounds) -> Callable[[int | None], int | None]:
    """What typer is to call with an option's number: it comes back if it is within, and is refused if not."""

    def check(value: int | None) -> int | None:
        bounds.check(option, value)
        return value

    return check


few_seeds = _within("--seeds", SEEDS)
some_workers = _within("--workers", Bounds(least=1, most=1000))
some_draws = _within("--draws", Bounds(least=1, most=100_000))
some_clients = _within("--clients", Bounds(least=1, most=10_000_000))
