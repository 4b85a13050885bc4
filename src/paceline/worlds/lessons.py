"""What else than trained models can be learned in a world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paceline.learn.graph import Model
from paceline.learn.promises import Promise
from paceline.learn.recipe import LocalSGD, share_of_a_step
from paceline.worlds.machines import Task

if TYPE_CHECKING:
    from paceline.worlds.stage import Stage


class Lessons:
    """Probes, gradients that follow a visit, and what is to be observed later."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._problem = stage.learner.problem

    @property
    def kinds(self) -> int:
        """How many architectures there are."""
        return len(self._problem.spaces)

    def kind(self, client: int) -> int:
        """Return which of the architectures a client has, by its number."""
        return self._problem.kind(client)

    async def probe(self, client: int, model: Model, recipe: LocalSGD) -> Model:
        """Have a client compute its full gradient at a model."""
        work, round = self._problem.probe_flops(client), self._stage.round
        task = Task(act="probe", client=client, model=model, recipe=recipe, round=round, flops=work)
        return (await self._stage.compute(task))[0]

    async def train_then_gradient(
        self,
        client: int,
        model: Model,
        recipe: LocalSGD,
        *,
        at: Callable[[Model], Model],
        mask: Model | None = None,
        flops: float | None = None,
    ) -> tuple[Model, Model]:
        """One visit of a visit's time and that of one dense batch, also where visits' times come from a law."""
        task = Task(
            act="train",
            client=client,
            model=model,
            recipe=recipe,
            round=self._stage.round,
            flops=self._problem.flops(client, recipe, flops),
            extras={} if mask is None else {"mask": mask},
            gradient_at=at,
            gradient_flops=self._problem.flops(client, recipe),
            gradient_share=share_of_a_step(recipe, self._problem.samples(client)),
        )
        trained, gradient = await self._stage.compute(task)
        assert gradient is not None
        return trained, gradient

    def visits_per_probe(self, client: int, recipe: LocalSGD) -> float:
        """From the mean times of both: 1 where times come from a law whatever the work."""
        seconds, problem = self._stage.machines.seconds, self._problem
        return seconds(client, problem.flops(client, recipe)) / seconds(client, problem.probe_flops(client))

    def expect(self, promise: Promise[Any]) -> None:
        """Have it computed at the next stop."""
        self._stage.bring(promise.models)
        self._stage.learner.expect(promise)
