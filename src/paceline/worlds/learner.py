"""What one run promises to learn: nodes that wait to be computed, what is awaited of them, and when that is due."""

from __future__ import annotations

import asyncio
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from paceline.clock import VirtualLoop
from paceline.errors import PacelineError, SettingError
from paceline.learn.graph import Model, Visit
from paceline.learn.hashing import signed
from paceline.learn.promises import Measure, Promise
from paceline.learn.recipe import LocalSGD, one_step
from paceline.seeds import address, mix
from paceline.worlds.hostile import HARMLESS, Hostile
from paceline.worlds.problem import Problem

T = TypeVar("T")
Act = Literal["train", "probe"]
FOLLOWING = 1
"""Below a visit's key: the address of the gradient that follows its training."""


class Learner:
    """Promises of one run; the driver computes them, several runs' together."""

    def __init__(
        self,
        loop: VirtualLoop,
        problem: Problem,
        seed: int,
        *,
        dry: bool = False,
        adversary: Hostile = HARMLESS,
        flush: float = math.inf,
        frugal: bool = False,
    ) -> None:
        self.problem = problem
        self.seed = seed
        self.dry = dry
        """The schedule and its costs only: models are ghosts, and nothing can be observed."""
        self.adversary = adversary
        self.pending: list[weakref.ref[Model]] = []
        self.promises: list[tuple[Promise[Any], asyncio.Future[Any] | None]] = []
        self._loop = loop
        self.flush_limit = flush
        """Visits after which what is pending is computed even if nobody asks."""
        self.frugal = frugal
        """Whether memory is short: then what is awaited is computed, and what a round or a device has under way is
        left until something is made of it, for a promise takes less room than a model."""
        self._flush: asyncio.Future[Any] | None = None
        self._key = address(seed, "train")

    # -- promising -------------------------------------------------------------------------------------------------

    def initial_model(self, kind: int = 0) -> Model:
        """The same for every algorithm with this seed."""
        return self.problem.initial_model(self.seed, kind)

    def visit(
        self,
        act: Act,
        client: int,
        visit: int,
        model: Model,
        recipe: LocalSGD,
        round: int,
        extras: dict[str, Model],
    ) -> Model:
        """What a client will have computed in its visit of this number."""
        if self.dry:
            return model
        key = self.key(client, visit)
        promise = self._promise(act, client, key, model, recipe, recipe.lr_at(round), round, extras)
        if act == "train":
            promise = self.adversary.upload(client, signed(key), model, promise, extras.get("mask"))
        return promise

    def key(self, client: int, visit: int, *part: int) -> int:
        """Where a visit draws its batches, or a part of it."""
        return mix(self._key, client, visit, *part)

    def gradient(self, client: int, visit: int, model: Model, recipe: LocalSGD, round: int) -> Model:
        """The gradient of one batch, after the training of this visit.

        One step of plain SGD with rate 1 goes from the model to the model less the gradient.
        """
        if self.dry:
            return model
        key, step = self.key(client, visit, FOLLOWING), one_step(recipe)
        return model - self._promise("train", client, key, model, step, step.lr_at(round), round, {})

    def _promise(
        self,
        act: Act,
        client: int,
        key: int,
        model: Model,
        recipe: LocalSGD,
        rate: float,
        round: int,
        extras: dict[str, Model],
    ) -> Model:
        operation = Visit(
            act=act,
            shards=self.adversary.shards(self.problem, client),
            client=client,
            recipe=recipe,
            lr=rate,
            key=signed(key),
            extras=tuple(extras),
            owner=self,
            round=round,
            time=self._loop.time(),
        )
        promise = Model(model.space, None, operation, (model, *extras.values()))
        self.pending.append(weakref.ref(promise))
        return promise

    def expect(self, promise: Promise[Any]) -> None:
        """Have it computed at the next stop."""
        self.promises.append((promise, None))

    def measure(self, score: Callable[..., Measure], model: Model | Sequence[Model]) -> Measure:
        """Promise the score of a model, which is computed with whatever is learned next."""
        measure = score(model)
        self.expect(measure)
        return measure

    # -- waiting ---------------------------------------------------------------------------------------------------

    async def observe(self, promise: Promise[T]) -> T:
        """Stop the clock until the result is known."""
        if self.dry:
            raise SettingError(
                "a dry run learns nothing, but this run must know something learned to go on;"
                " leave out --dry-run, or what asks for it"
            )
        if promise.result is None:
            hold = self._loop.hold()
            self.promises.append((promise, hold))
            await hold
        assert promise.result is not None
        return promise.result

    @property
    def is_full(self) -> bool:
        """Whether so much is pending that it should be computed: memory is bounded so."""
        return len(self.pending) >= self.flush_limit

    async def flush(self) -> None:
        """Stop the clock until all that is pending is computed."""
        self._flush = self._loop.hold()
        await self._flush

    # -- computing, by the driver ----------------------------------------------------------------------------------

    def wanted(self) -> tuple[list[Model], list[Promise[Any]]]:
        """What must be computed before the run can go on."""
        models: list[Model] = []
        if self._flush is not None and not (self.frugal and self.awaited()):
            alive = (reference() for reference in self.pending)
            models = [model for model in alive if model is not None and model.value is None]
        return models, self.awaited()

    def awaited(self) -> list[Promise[Any]]:
        """What is to be learned about models before the run can go on."""
        return [promise for promise, _ in self.promises if promise.result is None]

    def settle(self) -> None:
        """Values are there: let whoever waited for them go on."""
        promises, self.promises = self.promises, []
        for promise, hold in promises:
            if hold is not None:
                self._loop.settle(hold, promise.result)
        self.pending = [r for r in self.pending if (m := r()) is not None and m.value is None]
        if self._flush is not None:
            flush, self._flush = self._flush, None
            self._loop.settle(flush, None)

    def forget(self) -> None:
        """The run is over: let go of what it was waiting for."""
        self.promises, self.pending, self._flush = [], [], None


Failures = dict[Learner, PacelineError]
"""Runs whose learning failed or diverged, with what to tell them."""
