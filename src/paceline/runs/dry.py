"""A timeline without learning, from Python: when each round ended, and what it cost."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from paceline.algorithms.base import Algorithm
from paceline.algorithms.registry import algorithm_named
from paceline.errors import SettingError
from paceline.ledger import Ledger, Totals
from paceline.runs.problem import make_space
from paceline.system import Fleet, FleetSettings, build_fleet
from paceline.worlds.absence import parse_absence
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.machines import simulate
from paceline.worlds.stage import Stage


@dataclass(frozen=True, eq=False)
class Timeline:
    """What a dry run shows."""

    times: list[float]
    """When each round ended, in seconds."""
    ledger: Ledger

    @property
    def seconds(self) -> float:
        """When the last round ended."""
        return self.times[-1] if self.times else 0.0

    @property
    def totals(self) -> Totals:
        """All costs."""
        return self.ledger.totals()

    def spans(self) -> pa.Table:
        """Who did what when, one row a span."""
        return self.ledger.table()


def dry(
    algorithm: Algorithm | str,
    fleet: Fleet | FleetSettings | None = None,
    *,
    clients: int = 100,
    seed: int = 0,
    absence: str | None = None,
    problem: Problem | None = None,
    ledger: Ledger | None = None,
    enough: Callable[[], bool] | None = None,
) -> Timeline:
    """The timeline of an algorithm on a fleet: ``dry("fedbuff", clients=1000).seconds``.

    ``fleet`` is one that was built, or its settings (then of so many ``clients``). Models have the size of
    ``problem``'s, or next to none. It ends with the algorithm, or after the first round at which ``enough`` says so.
    """
    chosen = algorithm_named(algorithm).make() if isinstance(algorithm, str) else algorithm
    if not isinstance(fleet, Fleet):
        fleet = build_fleet(fleet or FleetSettings(), clients, seed)
    chosen.check(fleet.size)
    traits = chosen.traits(fleet.size)
    if traits.observes:
        raise SettingError(f"a dry run learns nothing, but this schedule depends on learning: {traits.observes}")
    world = simulate(
        fleet,
        problem or Problem(make_space("logistic", (1,), 2, "float32"), "none", nominal=1),
        seed,
        ledger,
        learning=False,
        absence=parse_absence(absence or traits.absence),
    )
    return Timeline(follow(world, chosen, enough), world.ledger)


def follow(world: Stage, algorithm: Algorithm, enough: Callable[[], bool] | None = None) -> list[float]:
    """Run an algorithm in a dry world; the times of its progress."""

    async def main() -> list[float]:
        times: list[float] = []
        stream = algorithm.run(world)
        async for _ in stream:
            world.progress += 1
            times.append(world.now())
            if enough is not None and enough():
                break
        await stream.aclose()  # type: ignore[attr-defined]
        return times

    with _uncollected():
        try:
            return world.loop.run_until_complete(main())
        finally:
            world.loop.close()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Tasks and futures die by reference count; the collector would only walk over them again and again."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()
