"""Asynchronous parallel FL: nobody waits for anybody (No One Idles, ICML 2023, Algorithm 1; NI-4 ... NI-8).

A device that contacts the server gets the latest finished model at once; its upload joins the pending ones. Whenever
the server is free it aggregates all that is pending. Only a device whose last upload is not aggregated yet is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from paceline.algorithms.aggregate import Aggregation
from paceline.algorithms.asynchrony import Asynchrony
from paceline.algorithms.base import (
    Dropped,
    Model,
    Progress,
    Sums,
    Traits,
    World,
    count_rejected,
    deserted,
    require,
)
from paceline.algorithms.last_models import LastModels
from paceline.bounds import bounded, check_bounds
from paceline.learn.graph import Ghost
from paceline.learn.recipe import LocalSGD
from paceline.ledger import NO_SITE

STALENESS = ("none", "polynomial", "constant")


class Upload(NamedTuple):
    """What a device sends, and the model that it trained from, with its clock."""

    device: int
    delta: Model
    start: Model
    clock: int


@dataclass(frozen=True, kw_only=True)
class APFL:
    """Every device at its own pace, the server too."""

    rounds: int = bounded(500, least=1)
    """Aggregations."""
    local: LocalSGD = field(default_factory=LocalSGD)
    aggregation: Aggregation = field(default_factory=Aggregation)
    staleness: str = "none"
    """Weights of late updates: none (the paper), ``polynomial:A`` for (1+s)^-A, ``constant:C`` for C if s > 0."""
    table: bool = False
    """Keep the last model of every device and make the next one of all of them, as the reference code does (NI-E12),
    instead of adding the updates that have just come (Eq. 5): every distillation then learns from all devices."""

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds; the weights of late updates must be a form that is known."""
        check_bounds(self)
        staleness_weight(self.staleness, 1)
        require(
            not self.table or self.staleness == "none",
            f"staleness is {self.staleness!r} with table=true, where no update is added that could weigh less; wanted"
            " staleness=none, or table=false",
        )

    def traits(self, clients: int) -> Traits:
        """Tell the run that nobody waits for anybody, and that whoever leaves is left out."""
        return Traits(
            rounds=self.rounds,
            local=self.local,
            absence="skip",
            arrivals=True,
            needs_public=self.aggregation.needs_public,
            private=Sums(),
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Devices run by themselves; NI-7: the server takes all that is pending, works on it, publishes."""
        buffer = Buffer(world.initial_model(), len(world.clients))
        table = LastModels(buffer.model, len(world.clients)) if self.table else None
        for device in world.clients:
            world.spawn(self.device(world, buffer, device))
        stalest = 0
        try:
            for round in range(self.rounds):
                if not buffer.pending:
                    await world.wait(world.server, buffer.arrival(), NO_SITE)
                await world.settled()  # what arrives at the same instant is aggregated together
                world.enter(round)  # and there the server stays until the next uploads come
                uploads = buffer.take()
                newest = await self.aggregated(world, buffer, uploads, table)
                stalest = max(stalest, buffer.publish(newest, uploads))
                await asyncio.sleep(0)  # devices that were held, or act just now, do so before the round is over
                yield Progress(newest, {"uploads": len(uploads)})
        except Alone:
            raise deserted(world, round, self.rounds) from None
        finally:  # however it ends: with its last round, at a target, with its time, or because nobody is left
            if buffer.clock:
                found = Asynchrony(uploads=buffer.clock, devices=len(world.clients), staleness=stalest)
                world.log.tell(found.event())

    async def device(self, world: World, buffer: Buffer, device: int) -> None:
        """Download, train, upload, again and again; after a drop-out from the buffer's present model (NI-8)."""
        while True:
            try:
                if not world.presence.online(device):
                    await world.presence.reach([device])
                start, clock = buffer.model, buffer.clock
                delta = await world.visit(device, start, self.local, update=True)
            except Dropped as dropped:
                if dropped.gone:
                    buffer.leave()
                    return
                continue
            if not buffer.accepts(device):  # NI-6
                await world.wait(device, buffer.aggregated(device), world.server)
            buffer.put(Upload(device, delta, start, clock))

    async def aggregated(
        self, world: World, buffer: Buffer, uploads: Sequence[Upload], table: LastModels | None
    ) -> Model:
        """The next model, after the server's work on these uploads."""
        for upload in uploads:
            world.log.count("staleness", buffer.clock - upload.clock)
        if table is None:
            newest = self.added(world, buffer, uploads)
        else:
            table.put({upload.device: upload.start + upload.delta for upload in uploads})
            newest = table.combined(world, self.aggregation, buffer.model)
        flops = self.aggregation.flops(world, buffer.model, len(uploads) if table is None else len(table))
        return await world.work(world.server, flops, newest)

    def added(self, world: World, buffer: Buffer, uploads: Sequence[Upload]) -> Model:
        """Eq. 5: the model and the middle of these updates; the divisor is the number of devices."""
        if isinstance(buffer.model, Ghost):  # whatever is added to it
            return buffer.model
        weighted = [
            upload.delta * staleness_weight(self.staleness, buffer.clock - upload.clock) for upload in uploads
        ]
        rejected = count_rejected(world, [upload.device for upload in uploads])
        centre = self.aggregation.centre(world, buffer.model, weighted, rejected)
        return buffer.model + len(uploads) / len(world.clients) * centre


class Alone(Exception):
    """Every device has left for good, and all that they sent is aggregated."""


class Buffer:
    """The server's model, the uploads that wait, and the devices that wait for theirs to be aggregated."""

    def __init__(self, model: Model, devices: int) -> None:
        self.model = model
        self._devices = devices
        self.clock = 0
        """Uploads aggregated so far."""
        self.pending: list[Upload] = []
        self._unaggregated: set[int] = set()
        self._held: dict[int, asyncio.Event] = {}
        self._arrival: asyncio.Future[None] | None = None
        """What the server awaits while nothing is pending."""

    def accepts(self, device: int) -> bool:
        """Whether the device's previous upload has been aggregated."""
        return device not in self._unaggregated

    async def aggregated(self, device: int) -> None:
        """Wait until the device's previous upload has been aggregated."""
        await self._held.setdefault(device, asyncio.Event()).wait()

    def arrival(self) -> asyncio.Future[None]:
        """Done as soon as some upload is pending, which none is now; ``Alone`` if none can come any more."""
        arrival = self._arrival = asyncio.get_running_loop().create_future()
        self._end_if_over()
        return arrival

    def leave(self) -> None:
        """A device is gone for good."""
        self._devices -= 1
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self._arrival is not None and not self._devices and not self._unaggregated:
            self._arrival.set_exception(Alone())
            self._arrival = None

    def put(self, upload: Upload) -> None:
        """An upload joins the pending ones; at most one of each device is not aggregated yet (NI-6)."""
        assert upload.device not in self._unaggregated
        self._unaggregated.add(upload.device)
        self.pending.append(upload)
        if self._arrival is not None:
            self._arrival.set_result(None)
            self._arrival = None

    def take(self) -> list[Upload]:
        """Take all uploads that are pending."""
        taken, self.pending = self.pending, []
        return taken

    def publish(self, model: Model, uploads: Sequence[Upload]) -> int:
        """A finished aggregation: the new model, the clock, and the devices that were held.

        Returns the largest staleness of its uploads, as the paper counts: 1 for an update of the very last model
        (Eq. 11). Its clock ticks for every upload: the k-th of an aggregation makes the k-th model from here.
        """
        self.model = model
        stalest = 0
        for upload in uploads:
            self.clock += 1
            stalest = max(stalest, self.clock - upload.clock)
            self._unaggregated.discard(upload.device)
            if (held := self._held.pop(upload.device, None)) is not None:
                held.set()
        return stalest


def staleness_weight(text: str, steps: int) -> float:
    """The weight of an update that is so many aggregated uploads late."""
    word, value = _staleness(text)
    if word == "polynomial":
        return float((1.0 + steps) ** -value)
    return value if word == "constant" and steps > 0 else 1.0


@lru_cache
def _staleness(text: str) -> tuple[str, float]:
    """The word and the number of a rule for late updates; read once, not for every update."""
    word, _, number = text.partition(":")
    try:
        value = float(number) if number else 1.0
    except ValueError:
        value = -1.0
    require(
        word in STALENESS and value >= 0 and (word == "none") == (not number),
        f"staleness is {text!r}; wanted none, polynomial:A or constant:C with a number of 0 or more",
    )
    return word, value
