"""A timeline without learning, from Python: when each round ended, and what it cost."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, cast

import pyarrow as pa

from paceline.algorithms.base import Algorithm
from paceline.algorithms.named import own_algorithm, rounds_of
from paceline.config import apply
from paceline.ledger import Ledger, Totals
from paceline.runs.problem import make_space
from paceline.runs.run import RunningWorld, end_with_server
from paceline.runs.settings import make_settings
from paceline.system import Fleet, FleetSettings, build_fleet
from paceline.system.listed import read_fleet
from paceline.worlds.absence import parse_absence
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.machines import simulate


@dataclass(frozen=True, eq=False)
class Timeline:
    """What a dry run shows: when each round ended, what everything cost, and who did what when.

    >>> import paceline
    >>> timeline = paceline.dry("fedavg", {"times": "constant:2", "jitter": 0}, clients=10, rounds=3)
    >>> timeline.times, timeline.seconds
    ([2.0, 4.0, 6.0], 6.0)
    >>> timeline.totals.visits
    30
    >>> timeline.spans().column("kind").to_pylist().count("train")
    30
    """

    times: list[float]
    """When each round ended, in seconds."""
    ledger: Ledger
    assumed: str = ""
    """What was taken for granted where the schedule depends on something learned."""

    @property
    def seconds(self) -> float:
        """When the last round ended."""
        return self.times[-1] if self.times else 0.0

    @property
    def totals(self) -> Totals:
        """All costs of the run: time, bytes, FLOPs, joules, visits and waiting."""
        return self.ledger.totals()

    def spans(self) -> pa.Table:
        """Who did what when, one row a span."""
        return self.ledger.table()

    def __repr__(self) -> str:
        costs, assumed = self.totals, f"; {self.assumed}" if self.assumed else ""
        return (
            f"{len(self.times):,} rounds in {self.seconds:,.6g} s, {costs.visits:,} visits, {costs.bytes:,.0f} bytes,"
            f" {100 * costs.idle_share:.0f} % of the devices' time spent waiting{assumed}"
        )


def dry(
    algorithm: Algorithm | Callable[[], Algorithm] | str,
    fleet: Fleet | FleetSettings | Mapping[str, Any] | str | PathLike[str] | None = None,
    *,
    clients: int | None = None,
    rounds: int | None = None,
    seed: int = 0,
    absence: str | None = None,
    problem: Problem | None = None,
    ledger: Ledger | None = None,
    enough: Callable[[], bool] | None = None,
) -> Timeline:
    """The timeline of an algorithm on a fleet, without learning anything.

    See ``paceline.dry``, which also takes the settings of a run.
    """
    if not isinstance(fleet, Fleet):
        described = _described(fleet)
        size = clients or (read_fleet(described.file).size if described.file else 100)
        fleet = build_fleet(described, size, seed)
    chosen = _chosen(algorithm, fleet.size, rounds)
    chosen.check(fleet.size)
    traits = chosen.traits(fleet.size)
    assumed = ""
    if traits.assumption is not None:
        chosen, assumed = apply(chosen, traits.assumption.settings), traits.assumption.text
        chosen.check(fleet.size)
    space = make_space("logistic", (1,), 2, "float32")
    world = simulate(
        fleet,
        problem or Problem(space, "none", nominal=1, public_size=int(traits.needs_public)),
        seed,
        ledger,
        learning=False,
        absence=parse_absence(absence or traits.absence),
    )
    return Timeline(follow(world, chosen, enough), world.ledger, assumed)


def _described(fleet: FleetSettings | Mapping[str, Any] | str | PathLike[str] | None) -> FleetSettings:
    if isinstance(fleet, FleetSettings):
        return fleet
    words = fleet if isinstance(fleet, Mapping) else {} if fleet is None else {"file": fspath(fleet)}
    return apply(FleetSettings(), words, "fleet.")


def _chosen(algorithm: Algorithm | Callable[[], Algorithm] | str, clients: int, rounds: int | None) -> Algorithm:
    """By name it is fitted to the fleet, as on the command line; an instance is taken as it is."""
    made: Any = algorithm
    if isinstance(algorithm, str):
        made = make_settings(algorithm, [f"clients={clients}"]).algorithm
    elif isinstance(algorithm, type) or not hasattr(algorithm, "run"):
        made = made()
    if rounds is not None or not hasattr(made, "run"):  # which only an algorithm with settings can be told
        made = own_algorithm(made, type(made).__name__).make()
    return cast(Algorithm, made) if rounds is None else apply(made, {"rounds": rounds})


def follow(world: RunningWorld, algorithm: Algorithm, enough: Callable[[], bool] | None = None) -> list[float]:
    """Run an algorithm in a dry world; the times of its progress."""

    async def main() -> list[float]:
        times: list[float] = []
        if world.failures.possible and not algorithm.traits(len(world.clients)).outlives_servers:
            world.spawn(end_with_server(world, "this algorithm"))
        stream = rounds_of(algorithm, world)
        async for _ in stream:
            world.progress += 1
            times.append(world.now())
            if enough is not None and enough():
                break
        await stream.aclose()
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
