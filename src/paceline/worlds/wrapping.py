"""Machines around machines: all that is asked goes through, but for what a kind of them does otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.algorithms.world import Failing, Presence
from paceline.clock import VirtualLoop
from paceline.learn.graph import Model
from paceline.learn.job import Score
from paceline.learn.promises import Promise
from paceline.worlds.machines import Machines, Task


class WrappedMachines:
    """Any machines, passed on as they are; whoever changes something subclasses this."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    @property
    def loop(self) -> VirtualLoop:
        """The clock on which everything happens."""
        return self._machines.loop

    @property
    def size(self) -> int:
        """How many devices there are."""
        return self._machines.size

    @property
    def presence(self) -> Presence:
        """Who can be reached, and how to wait for somebody."""
        return self._machines.presence

    @property
    def failures(self) -> Failing:
        """Which servers and links may break down, and when."""
        return self._machines.failures

    @property
    def shares_links(self) -> bool:
        """Whether transfers of one site go side by side."""
        return self._machines.shares_links

    def failing(self, site: int) -> float:
        """Return when a server fails."""
        return self._machines.failing(site)

    def seconds(self, client: int, flops: float) -> float:
        """How long a client takes for so much work, on average."""
        return self._machines.seconds(client, flops)

    async def visit(self, task: Task) -> tuple[Model, Model | None]:
        """Have a client compute something."""
        return await self._machines.visit(task)

    async def carry(
        self, models: Sequence[Model], source: int, target: int, round: int, *, waits: bool
    ) -> Sequence[Model]:
        """Move models in one message."""
        return await self._machines.carry(models, source, target, round, waits=waits)

    async def work(self, site: int, flops: float, round: int, model: Model) -> Model:
        """Have a server compute for as long as so many FLOPs take it."""
        return await self._machines.work(site, flops, round, model)

    def read(self, promise: Promise[Any]) -> None:
        """An algorithm is about to read this."""
        self._machines.read(promise)

    def bring(self, models: Sequence[Model]) -> None:
        """Whoever observes a run may see everything."""
        self._machines.bring(models)

    def score(self, models: Sequence[Model]) -> Promise[Score] | None:
        """Every client scores its own."""
        return self._machines.score(models)

    def close(self) -> None:
        """End what was started."""
        self._machines.close()
