"""FedDF: ensemble distillation at the server, also across architectures (Lin et al., NeurIPS 2020).

Devices may have networks of different kinds, whose weights cannot be averaged. Every round the uploads of each kind
are averaged among themselves, and each average then learns from what all uploads of all kinds say together about
public samples without labels.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from paceline.algorithms.aggregate import aggregated, distillation_flops, distilled
from paceline.algorithms.base import (
    Model,
    Progress,
    Sums,
    Traits,
    World,
    came_back,
    draw_clients,
    mean,
    require,
    somebody,
    visit,
)
from paceline.bounds import bounded, check_bounds
from paceline.learn.distillation import Distillation
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class FedDF:
    """One student of every architecture, taught by all."""

    rounds: int = bounded(30, least=1)
    participants: int = bounded(20, least=1)
    """Clients a round."""
    local: LocalSGD = field(default_factory=LocalSGD)
    distillation: Distillation = field(default_factory=Distillation)
    teach: bool = True
    """Without it every architecture averages its own devices and learns from nobody else: each alone."""

    def traits(self, clients: int) -> Traits:
        """Whoever leaves is not waited for."""
        return Traits(
            rounds=self.rounds,
            local=self.local,
            absence="skip",
            mixes_architectures=True,
            needs_public=self.teach,
            private=Sums(),
        )

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds, and no more clients can be drawn than there are."""
        check_bounds(self)
        require(
            1 <= self.participants <= clients,
            f"participants is {self.participants} but there are {clients} clients; lower it or raise `clients`",
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """In every round clients train, and the server averages by architecture and distils."""
        students = [world.initial_model(kind) for kind in range(world.learning.kinds)]
        for r in range(self.rounds):
            await somebody(world, r, self.rounds)
            chosen = draw_clients(world, self.participants, "cohort", r)
            kinds = {client: world.learning.kind(client) for client in chosen}
            arrived = await came_back(
                world, {client: visit(world, client, students[kind], self.local) for client, kind in kinds.items()}
            )
            uploads = [(kinds[client], model) for client, model in arrived.items()]
            if uploads:
                students = [await self.student(world, kind, old, uploads) for kind, old in enumerate(students)]
            others = {f"{k + 1}_{student.space.name}": student for k, student in enumerate(students[1:], start=1)}
            yield Progress(students[0], {"uploads": len(uploads)}, others)

    async def student(self, world: World, kind: int, old: Model, uploads: list[tuple[int, Model]]) -> Model:
        """The average of its own kind (or the old one, if nobody of it came), taught by all."""
        own = [model for other, model in uploads if other == kind]
        start = mean(own) if own else old
        if not self.teach:
            return await aggregated(world, start, len(own)) if own else old
        teachers = [model for _, model in uploads]
        spaces = [teacher.space for teacher in teachers]
        flops = distillation_flops(world, old.space, spaces, self.distillation)
        return await world.work(world.server, flops, distilled(world, start, teachers, self.distillation))
