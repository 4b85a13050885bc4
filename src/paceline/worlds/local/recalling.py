"""Hands that remember: what was done before the run was cut off is not done again, and then they go on.

Devices still hold what they held, and servers' models are computed again from what came to them. So nobody trains
again, and nothing is sent again but in acts that had not come to an end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from paceline.clock import VirtualLoop
from paceline.errors import DataError
from paceline.learn.codecs import Codec
from paceline.learn.graph import Apply, Model
from paceline.learn.job import Score
from paceline.learn.promises import Promise, Reading
from paceline.learn.space import Space
from paceline.worlds.local.arrivals import Arrivals
from paceline.worlds.local.hands import WorkerHands, codec_of, context_of
from paceline.worlds.local.journal import Act, Entry, by_act
from paceline.worlds.local.machines import Carried
from paceline.worlds.local.recorded import ended
from paceline.worlds.local.writing import read
from paceline.worlds.machines import Task


class RecallingHands:
    """Workers' hands, after acts that are in the journal."""

    def __init__(
        self,
        loop: VirtualLoop,
        hands: WorkerHands,
        entries: Sequence[Entry],
        arrivals: Arrivals,
        was_seen: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._hands = hands
        self._past = by_act(entries)
        self._arrivals = arrivals
        self._was_seen = was_seen
        """Whether what is to be observed now was observed before."""
        self._present: asyncio.Future[None] = loop.create_future()

    def go_on(self) -> None:
        """The past is over: what was under way is asked for again."""
        self._present.set_result(None)

    async def visit(self, act: Act, task: Task, visit: int) -> tuple[Model, Model | None]:
        """What the client made then, and still holds."""
        entry = await self._recalled(act)
        if entry is None:
            return await self._hands.visit(act, task, visit)
        trained, gradient = self._hands.to_be_made(act, task)
        if task.gradient_at is not None:
            task.gradient_at(trained)  # an algorithm may note what it is asked for here
        if entry.figure is not None:
            trained.figure = torch.tensor(entry.figure)
        return trained, gradient

    async def carry(self, act: Act, models: Sequence[Model]) -> Carried:
        """Return what arrived then, if the journal has this act; else have it carried."""
        entry = await self._recalled(act)
        if entry is None:
            return await self._hands.carry(act, models)
        if act.site >= 0:
            self._hands.sent_results(act, models).keep()
        else:  # as it did then: else what servers make would grow into one long sum of all that ever came
            self._hands.written(models)
        arrived = self._hands.to_arrive(act, models) if act.target >= 0 else self._read(entry, models)
        for model, came in zip(models, arrived, strict=True):
            came.figure = model.figure
        return Carried(arrived, entry.bytes, entry.kept)

    async def work(self, act: Act, model: Model) -> Model:
        """Have a server compute from what arrived then, if the journal has this act."""
        entry = await self._recalled(act)
        if entry is None:
            return await self._hands.work(act, model)
        self._hands.compute(model)
        return model

    def bring(self, models: Sequence[Model]) -> None:
        """What was seen before is not looked at again."""
        if self._was_seen():
            self._hands.observer.pass_over(models)
        else:
            self._hands.observer.look_again(models)

    def score(self, models: Sequence[Model]) -> Promise[Score] | None:
        """What clients said before they are not asked again."""
        scorer = self._hands.scorer
        if not scorer.can(models):
            return None
        if not self._was_seen():
            self._hands.observer.admit(models)
            return self._hands.score(models)
        scorer.pass_over(models)
        return Reading((), _unknown)

    def close(self) -> None:
        """End the hands, since the run is over."""
        self._hands.close()

    async def _recalled(self, act: Act) -> Entry | None:
        """What the journal says of an act, when it has ended; None, in the present, if that is yet to be."""
        entry = self._past.pop(act, None)
        if entry is None:
            if not self._present.done():
                await asyncio.shield(self._present)  # whoever gives up waiting takes nobody else along
            return None
        if entry.start != self._loop.time():
            raise DataError(
                f"the run takes another course than before: {act.what} {act.number} of site {act.site} begins at"
                f" t={self._loop.time():g} s, and began at {entry.start:g} s; something that decides it has changed"
            )
        await ended(self._loop, entry)
        return entry

    def _read(self, entry: Entry, models: Sequence[Model]) -> list[Model]:
        """What came to a server, to be read when somebody needs it."""
        if len(entry.kept) != len(models):
            raise DataError(
                f"what came to server {-entry.target} at t={entry.end:g} s was not kept, for it took more room than"
                " all may take: run it again, with more room (--checkpoint 20,30GB)"
            )
        arrived: list[Model] = []
        for model, (begin, size) in zip(models, entry.kept, strict=True):
            context = context_of(model, arrived)
            fetch = partial(self._value, model.space, codec_of(model), begin, size)
            came = Model(model.space, None, Apply(fetch), () if context is None else (context,))
            came.places = None
            arrived.append(came)
        return arrived

    def _value(self, space: Space, codec: Codec | None, begin: int, size: int, *context: Tensor) -> Tensor:
        data = self._arrivals.read(begin, size)
        return read(space, data, codec, context[0] if context else None)


def _unknown(values: Sequence[Tensor]) -> Score:
    """What a promise that is remembered is never asked for."""
    raise DataError("what clients scored before the run was cut off is not in its memory; run it again")
