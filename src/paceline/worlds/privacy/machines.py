"""Machines that let nothing out of a client but clipped and noised updates of what a server sent it.

A client's upload must be a model that it trained from what a server sent, or that model with such models added or
subtracted. The trained model in it is replaced by start + clipped update + noise, and all else is an error: so
privacy does not rest on what an algorithm says about itself, but for how the server adds uploads up.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from paceline.errors import SiteError
from paceline.learn.graph import Ghost, Model, Sum, by_rows, combine
from paceline.learn.hashing import signed
from paceline.learn.promises import Promise
from paceline.learn.protecting import protected
from paceline.seeds import address, mix
from paceline.worlds.learner import Learner
from paceline.worlds.machines import Machines, Task
from paceline.worlds.privacy.spending import Spending
from paceline.worlds.wrapping import WrappedMachines


class PrivateMachines(WrappedMachines):
    """Any machines, with uploads protected; nothing else changes, and no time passes for it."""

    def __init__(self, machines: Machines, learner: Learner, spending: Spending) -> None:
        super().__init__(machines)
        self._spending = spending
        self._learner = learner
        self._public: weakref.WeakSet[Model] = weakref.WeakSet()
        """What servers have sent: everybody may know it."""
        self._starts: weakref.WeakKeyDictionary[Model, Model] = weakref.WeakKeyDictionary()
        """What clients have trained, and from what."""
        self._keys: weakref.WeakKeyDictionary[Model, Model] = weakref.WeakKeyDictionary()
        """What clients have trained, and where its noise is drawn. (Not the protected model: that one is made of the
        trained one, and would keep it, and its start, for ever where an upload never arrives.)"""
        self._told: weakref.WeakSet[Model] = weakref.WeakSet()
        """Keys of uploads that the server has: the same once more tells nothing new, by itself."""
        self._key = address(learner.seed, "privacy")
        self._made: Counter[int] = Counter()

    async def visit(self, task: Task) -> tuple[Model, Model | None]:
        """What a client trains from what a server sent, it may send."""
        trained, gradient = await super().visit(task)
        if task.act == "train" and not isinstance(trained, Ghost) and self._is_public(task.model):
            for same in aliases(trained):
                self._starts[same] = task.model
        return trained, gradient

    async def carry(
        self, models: Sequence[Model], source: int, target: int, round: int, *, waits: bool
    ) -> Sequence[Model]:
        """What a server sends is public from then on; what a client sends is protected."""
        if source >= 0:
            return await self._upload(models, source, target, round, waits=waits)
        for model in models:
            self._public.update(aliases(model))
        arrived = await super().carry(models, source, target, round, waits=waits)
        self._public.update(arrived)
        return arrived

    def read(self, promise: Promise[Any]) -> None:
        """A schedule that looked at what clients have learned would tell of it."""
        raise SiteError(
            f"something learned is read off models at t={self.loop.time():g} s, and the schedule would tell of it;"
            " with privacy.clip that is not allowed"
        )

    async def _upload(
        self, models: Sequence[Model], client: int, target: int, round: int, *, waits: bool
    ) -> Sequence[Model]:
        if target >= 0 or len(models) != 1:
            what = f"a model to client {target}" if target >= 0 else f"{len(models)} models at once"
            raise self._refusal(client, what)
        (model,) = models
        if isinstance(model, Ghost):
            arrived = await super().carry(models, client, target, round, waits=waits)
            self._spending.arrived(client, round)
            return arrived
        key, upload = self._protected(model, client)
        arrived = await super().carry([upload], client, target, round, waits=waits)
        if key not in self._told or self._spending.summed:
            self._told.add(key)
            self._spending.arrived(client, round)
        return arrived

    def _protected(self, model: Model, client: int) -> tuple[Model, Model]:
        """Where an upload's noise is drawn, and what a client sends in the place of what it was about to send."""
        terms = [(1.0, model)]
        if model not in self._starts and isinstance(model.operation, Sum):
            terms = list(zip(model.operation.coefficients, model.parents, strict=True))
        own = [term for term in terms if term[1] in self._starts]
        others = [term for term in terms if term[1] not in self._starts]
        if model.wire is not None or len(own) != 1 or not all(self._is_public(other) for _, other in others):
            raise self._refusal(client, "something else than an update of what a server sent it")
        (factor, trained) = own[0]
        hidden = self._hidden(trained, client)
        upload = hidden if model is trained else combine([(factor, hidden), *others], passing=True)
        upload.places = model.places
        return self._keys[trained], upload

    def _hidden(self, trained: Model, client: int) -> Model:
        """The protected model, deferred; the same to the bit whenever it is asked for."""
        if trained not in self._keys:
            key = self._key_of(client, trained)
            for same in aliases(trained):
                self._keys[same] = key
        start, spending = self._starts[trained], self._spending
        keys = [self._keys[trained]] if spending.deviation else []
        return by_rows(protected, start, trained, *keys, clip=spending.clip, deviation=spending.deviation)

    def _key_of(self, client: int, trained: Model) -> Model:
        """Where the noise of a client's next upload is drawn, as a vector of one number beside the models'."""
        key = mix(self._key, client, self._made[client])
        self._made[client] += 1
        return Model(trained.space, torch.tensor([signed(key)]))

    def _is_public(self, model: Model) -> bool:
        first = [self._learner.initial_model(kind) for kind in range(len(self._learner.problem.spaces))]
        return any(same in self._public or any(same is one for one in first) for same in aliases(model))

    def _refusal(self, client: int, what: str) -> SiteError:
        return SiteError(
            f"client {client} is about to send {what} at t={self.loop.time():g} s; with privacy.clip a client sends"
            " one update of what a server sent it, and nothing else"
        )


def aliases(model: Model) -> Iterator[Model]:
    """A model, and those of which it is only another mark: the same at one site, say."""
    yield model
    while isinstance(model.operation, Sum) and model.operation.coefficients == (1.0,):
        (model,) = model.parents
        yield model
