"""FedDF: ensemble distillation at the server, also across architectures (Lin et al., NeurIPS 2020).

Devices may have networks of different kinds, whose weights cannot be averaged. Every round the uploads of each kind
are averaged among themselves, and each average then learns from what all uploads of all kinds say together about
public samples without labels.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from paceline.algorithms.aggregate import distillation_flops, distilled
from paceline.algorithms.base import (
    Dropped,
    Model,
    Progress,
    Traits,
    World,
    draw_clients,
    mean,
    require,
    somebody,
    visit,
)
from paceline.learn.distillation import Distillation
from paceline.learn.recipe import LocalSGD


@dataclass(frozen=True, kw_only=True)
class FedDF:
    """One student of every architecture, taught by all."""

    rounds: int = 30
    participants: int = 20
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
        )

    def check(self, clients: int) -> None:
        """Raise ``SettingError`` if these settings are impossible with so many clients."""
        require(self.rounds >= 1, f"rounds is {self.rounds}; it must be 1 or more")
        require(
            1 <= self.participants <= clients,
            f"participants is {self.participants} but there are {clients} clients; lower it or raise `clients`",
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Train, average by kind, distil."""
        students = [world.initial_model(kind) for kind in range(world.learning.kinds)]
        for r in range(self.rounds):
            await somebody(world, r, self.rounds)
            chosen = draw_clients(world, self.participants, "cohort", r)
            arrived = await world.gather(
                self.upload(world, client, students[world.learning.kind(client)]) for client in chosen
            )
            kinds = map(world.learning.kind, chosen)
            uploads = [(kind, model) for kind, model in zip(kinds, arrived, strict=True) if model is not None]
            if uploads:
                students = [await self.student(world, kind, old, uploads) for kind, old in enumerate(students)]
            others = {f"{k + 1}_{student.space.name}": student for k, student in enumerate(students[1:], start=1)}
            yield Progress(students[0], {"uploads": len(uploads)}, others)

    async def upload(self, world: World, client: int, model: Model) -> Model | None:
        """A client's model, unless it drops out."""
        try:
            return await visit(world, client, model, self.local)
        except Dropped:
            return None

    async def student(self, world: World, kind: int, old: Model, uploads: list[tuple[int, Model]]) -> Model:
        """The average of its own kind (or the old one, if nobody of it came), taught by all."""
        own = [model for other, model in uploads if other == kind]
        start = mean(own) if own else old
        if not self.teach:
            return start
        teachers = [model for _, model in uploads]
        spaces = [teacher.space for teacher in teachers]
        flops = distillation_flops(world, old.space, spaces, self.distillation)
        return await world.work(world.server, flops, distilled(world, start, teachers, self.distillation))
