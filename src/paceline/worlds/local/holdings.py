"""Who holds what: models that are at devices are known here by what the devices call them."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Sequence

from paceline.errors import Misplaced
from paceline.learn.graph import Model
from paceline.learn.space import Space
from paceline.worlds.learner import Learner
from paceline.worlds.local.expressions import Expression, Words
from paceline.worlds.local.writing import DENSE

Home = tuple[int, str]
"""A device, and what it calls a model: its *handle*."""


class Holdings:
    """What devices hold. Handles are made of the acts that made the models, so that a repetition makes the same."""

    def __init__(self, learner: Learner) -> None:
        self._homes: weakref.WeakKeyDictionary[Model, Home] = weakref.WeakKeyDictionary()
        self._forgotten: dict[int, list[str]] = defaultdict(list)
        self._initial = [learner.initial_model(kind) for kind in range(len(learner.problem.spaces))]

    def held(self, client: int, space: Space, handle: str) -> Model:
        """A model that a device will hold."""
        model = Model(space)
        self.keep(model, client, handle)
        return model

    def keep(self, model: Model, client: int, handle: str) -> None:
        """A device holds this model too, by this name."""
        self._homes[model] = client, handle
        weakref.finalize(model, self._forgotten[client].append, handle).atexit = False

    def home(self, model: Model) -> Home | None:
        """The device that holds a model, and what it calls it."""
        return self._homes.get(model)

    def initial_kind(self, model: Model) -> int | None:
        """Which of the initial models this is, if any: everybody makes them from the seed."""
        return next((kind for kind, initial in enumerate(self._initial) if model is initial), None)

    def forgotten(self, client: int) -> list[str]:
        """Return the models that a device can drop. They are repeated until the device has confirmed."""
        return list(self._forgotten[client])

    def told(self, client: int, handles: Sequence[str]) -> None:
        """Record that a device has dropped these. (The list object stays: deleted models are added to it.)"""
        for handle in handles:
            if handle in self._forgotten[client]:  # else it was told twice at once
                self._forgotten[client].remove(handle)

    # -- what is observed ----------------------------------------------------------------------------------------

    def parts(self, model: Model) -> list[Model]:
        """The largest parts of a model that one device can compute by itself, and whose values are not here."""
        if model.value is not None:
            return []
        if len(clients := self.clients(model)) == 1:
            return [model]
        return [part for parent in model.parents for part in self.parts(parent)] if clients else []

    def client(self, part: Model) -> int:
        """The device that can compute a part."""
        (client,) = self.clients(part)
        return client

    def clients(self, model: Model) -> set[int]:
        """The devices that hold what a model is made of."""
        if model.value is not None:
            return set()
        if model in self._homes:
            return {self._homes[model][0]}
        return set().union(*(self.clients(parent) for parent in model.parents))


class Sent:
    """An expression over what one device holds, with the byte strings that go along."""

    def __init__(self, holdings: Holdings, client: int, blobs: list[bytes] | None = None) -> None:
        self.blobs = [] if blobs is None else blobs
        self._holdings = holdings
        self._client = client
        self._expression = Expression(self._named)

    @property
    def nodes(self) -> list[Words]:
        """What has been added so far."""
        return self._expression.nodes

    def add(self, model: Model) -> int:
        """The place of a model among the nodes."""
        return self._expression.add(model)

    def _named(self, model: Model) -> Words | None:
        home = self._holdings.home(model)
        if home is not None and home[0] == self._client:
            return {"held": home[1]}
        if (kind := self._holdings.initial_kind(model)) is not None:
            return {"initial": kind}
        if model.parents and home is None:
            return None
        if model.value is not None and model.places is None:  # everybody has it
            self.blobs.append(DENSE.encode(model.space, model.value))
            return {"blob": len(self.blobs) - 1}
        raise Misplaced(f"client {self._client} does not have a model that it is to use; send it there first")


class Results:
    """What a device computes on the way is kept there under new names, so that it need not do it again."""

    def __init__(self, holdings: Holdings, client: int, models: Sequence[Model], name: str) -> None:
        new = [model for model in models if holdings.home(model) is None]
        self._holdings = holdings
        self._client = client
        self._handles = [(model, f"{name}.{k}") for k, model in enumerate(new)]

    def words(self, sent: Sent) -> list[tuple[int, str]]:
        """Return the results as the device is told of them."""
        return [(sent.add(model), handle) for model, handle in self._handles]

    def keep(self) -> None:
        """The device has answered, so it has them; one that dies before it answers may have nothing."""
        for model, handle in self._handles:
            self._holdings.keep(model, self._client, handle)
