"""Machines that know where every model is, and refuse one that is used where it was never sent.

For checking algorithms: every model that is made or sent is marked with its site, algebra is at the sites that have
all of its terms, and training, sending, working and reading ask. Only who observes a run may see everything: what is
in a ``Progress`` may be a mean that exists nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.errors import Misplaced, site_name
from paceline.learn.graph import Ghost, Model, Sum, common_places
from paceline.learn.promises import LocalReadings, Promise
from paceline.worlds.machines import Task
from paceline.worlds.wrapping import WrappedMachines


class CheckedMachines(WrappedMachines):
    """Any machines, with the question of places asked before each act."""

    async def visit(self, task: Task) -> tuple[Model, Model | None]:
        """What is trained is at the client, and so must be all that it is trained from."""
        for name, model in {"model": task.model, **task.extras}.items():
            self._require(model, task.client, f"{task.act} from a {name}")
        trained, gradient = await self._machines.visit(task)
        found = placed(trained, task.client)
        return found, None if gradient is None else placed(gradient, task.client)

    async def carry(
        self, models: Sequence[Model], source: int, target: int, round: int, *, waits: bool
    ) -> Sequence[Model]:
        """The source must have what it sends, and what it writes it with; the target has it afterwards."""
        for model in models:
            self._require(model, source, f"send to {site_name(target)}")
            if model.wire is not None and model.wire.context is not None:
                self._require(model.wire.context, source, f"write what it sends to {site_name(target)} with a mask")
            if model.wire is not None and model.wire.known is not None:
                self._require(model.wire.known, target, f"read what {site_name(source)} sends with a mask")
        arrived = await self._machines.carry(models, source, target, round, waits=waits)
        return [placed(model, target) for model in arrived]

    async def work(self, site: int, flops: float, round: int, model: Model) -> Model:
        """A server must have all that it computes from."""
        self._require(model, site, "compute")
        return await self._machines.work(site, flops, round, model)

    def read(self, promise: Promise[Any]) -> None:
        """What an algorithm reads must be at one site, or at each site its own."""
        sites = promise.sites if isinstance(promise, LocalReadings) else 1
        each = len(promise.models) // sites if sites else 0
        for k in range(sites):
            if common_places(promise.models[k * each : (k + 1) * each]) == frozenset():
                raise Misplaced(
                    f"something is read off models of different sites at t={self.loop.time():g} s, and no site has"
                    " all of them; send them to one site first"
                )

    def _require(self, model: Model, site: int, act: str) -> None:
        if model.places is None or site in model.places:
            return
        where = " and ".join(map(site_name, sorted(model.places))) or "nowhere: no site has all that it is made of"
        raise Misplaced(
            f"{site_name(site)} cannot {act} at t={self.loop.time():g} s: it does not have that model, which is at"
            f" {where}; use what `send` returned there"
        )


def placed(model: Model, site: int) -> Model:
    """The same model at one site only."""
    if isinstance(model, Ghost):
        same: Model = Ghost(model.space)
    else:
        same = Model(model.space, model.value, Sum((1.0,), passing=True), (model,))
        same.figure = model.figure
    same.wire = model.wire
    same.places = frozenset([site])
    return same
