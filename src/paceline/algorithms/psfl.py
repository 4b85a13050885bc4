"""Parallel-sequential federated learning, with FedAvg and sequential FL as its two ends.

Zhou et al., INFOCOM 2025, Algorithm 1: W sequences ride abreast, each of S clients in a row; every sequence starts
from the round's model, and the ends are averaged (PS-1 ... PS-3). Where W and S are not given, a warm-up estimates
how unequal the clients are and the structure with the shortest time by the paper's bounds is taken (PS-9 ... PS-11).
One sequence of S = N0 clients is sequential FL; W = N0 sequences of one client are FedAvg.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from paceline.algorithms.aggregate import Aggregation
from paceline.algorithms.base import (
    Assumption,
    Dropped,
    Event,
    Model,
    Progress,
    Traits,
    World,
    came_back,
    count_rejected,
    require,
    somebody,
)
from paceline.algorithms.samplers import Sampler, check_fit, sampler_named
from paceline.algorithms.server import ServerOptimiser, ServerRule
from paceline.algorithms.structure import bound_ratio, choose_structure, explain
from paceline.algorithms.time_order import TimeOrder
from paceline.algorithms.warmup import WarmUp, warm_up
from paceline.bounds import bounded, check_bounds
from paceline.learn.recipe import LocalSGD

CHOSEN = ("W", "S", "width", "length", "ratio", "expected_round_seconds")
"""Figures of the structure that was chosen."""


class End(NamedTuple):
    """A sequence's model at its end, and the samples it has seen."""

    model: Model
    samples: int
    riders: tuple[int, ...]
    """The clients it has been to."""


@dataclass(frozen=True, kw_only=True)
class PSFL:
    """W sequences abreast, S clients in each."""

    rounds: int = bounded(100, least=1)
    participants: int = bounded(20, least=1)
    """Most clients a round, W*S."""
    width: int | None = bounded(None, least=1)
    """W, sequences abreast; chosen after a warm-up when neither it nor the length is given."""
    length: int | None = bounded(None, least=1)
    """S, clients in each."""
    sampler: Literal["partition", "uniform", "weighted"] | Sampler = "partition"
    """How a round's clients are drawn: one of each speed class for every sequence (``partition``, PS-13), all alike
    (``uniform``), or the faster the likelier (``weighted``)."""
    local: LocalSGD = field(default_factory=LocalSGD)
    warmup: WarmUp = field(default_factory=WarmUp)
    server: ServerRule = field(default_factory=ServerRule)
    aggregation: Aggregation = field(default_factory=Aggregation)

    def check(self, clients: int) -> None:
        """W*S clients are drawn without repetition, so there must be as many."""
        check_bounds(self)
        for name in ("width", "length"):
            given = getattr(self, name)
            alone = given is not None and None in (self.width, self.length)
            require(
                not alone or given <= self.participants,
                f"{name} is {given} but participants is {self.participants}; lower it, raise algorithm.participants,"
                " or give both width and length",
            )
        if (structure := self.given_structure()) is not None:
            check_fit(clients, *structure)
            return
        require(
            self.participants <= clients,
            f"participants is {self.participants} but there are {clients} clients;"
            " lower algorithm.participants or raise `clients`",
        )
        self.warmup.check(clients)

    def traits(self, clients: int) -> Traits:
        """The structure is learned unless it is given; the paper passes over whoever drops out."""
        return Traits(
            rounds=self.rounds,
            local=self.local,
            absence="skip",
            needs_public=self.aggregation.needs_public,
            assumption=self.assumed_structure() if self.given_structure() is None else None,
        )

    def assumed_structure(self) -> Assumption:
        """As many sequences as clients in each, or nearly: what a warm-up would find must be learned."""
        width = math.isqrt(self.participants - 1) + 1
        length = max(1, self.participants // width)
        return Assumption(
            f"the structure that a warm-up would find is taken to be W={width} sequences of S={length} clients"
            " (psfl.width and psfl.length choose another)",
            {"width": width, "length": length},
        )

    def given_structure(self) -> tuple[int, int] | None:
        """W and S as far as they are given; one of them alone is filled up to the participants."""
        if self.width is None and self.length is None:
            return (1, 1) if self.participants == 1 else None
        width = self.width or max(1, self.participants // (self.length or 1))
        return width, self.length or max(1, self.participants // width)

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Algorithm 1."""
        model = world.initial_model()
        times = TimeOrder(len(world.clients), int(world.stream("time order").integers(1 << 63)))
        structure = self.given_structure()
        if structure is None:
            model, structure = await self.warm_up(world, model, times)
        sampler = sampler_named(self.sampler) if isinstance(self.sampler, str) else self.sampler
        seen = times if sampler.learns_times else None
        server = self.server.start()
        for r in range(self.rounds):
            await somebody(world, r, self.rounds)
            sequences = sampler.draw(world, times, r, *structure)
            rides = {place: self.ride(world, model, sequence, seen) for place, sequence in enumerate(sequences)}
            arrived = [*(await came_back(world, rides)).values()]
            flops = self.aggregation.flops(world, model, len(arrived))
            model = await world.work(world.server, flops, self.aggregate(world, server, model, arrived))
            for _ in arrived:
                world.log.count("staleness", 0)
            yield Progress(model, {"sequences": len(arrived)})

    def aggregate(self, world: World, server: ServerOptimiser, model: Model, ends: Sequence[End]) -> Model:
        """PS-2: the plain average, or what the rules say."""
        models, samples = [end.model for end in ends], [end.samples for end in ends]
        if self.aggregation.rule == "mean" or not ends:
            return server.step(model, models, samples)
        rejected = count_rejected(world, [end.riders for end in ends])
        centre = self.aggregation.centre(world, model, [end - model for end in models], rejected)
        return server.step(model, [model + centre], [sum(samples)])

    async def warm_up(self, world: World, model: Model, times: TimeOrder) -> tuple[Model, tuple[int, int]]:
        """Lines 1 to 11: estimate, then choose; learning goes on from where the warm-up ends."""
        model, found = await warm_up(world, model, self.local, self.warmup, times)
        world.log.tell(Event(text=found.text(), figures=found.figures()))
        best = choose_structure(
            participants=self.participants,
            population=len(world.clients),
            time_mean=found.time_mean.value,
            time_std=found.time_std,
            ratio=bound_ratio(found.sigma2.value, found.B.value, self.warmup.c0),
        )
        figures = {name: getattr(best, name) for name in CHOSEN}
        world.log.tell(
            Event(text=f"structure: {best.W} sequences of {best.S} clients. {explain(best)}", figures=figures)
        )
        return model, (best.W, best.S)

    async def ride(self, world: World, model: Model, sequence: Sequence[int], times: TimeOrder | None) -> End | None:
        """The model passes from client to client: one that drops out is passed over, and whoever drops out with the
        model in hand takes it away. None where nobody was there at all."""
        holder, riders = world.server, list[int]()
        for client in sequence:
            begin, there = world.now(), world.presence.online(client)
            try:
                received = await world.send(model, holder, client)
                model = await world.train(client, received, self.local)
            except Dropped as dropped:
                if dropped.site == holder:
                    raise
                continue
            if times is not None and there:  # the time to wait for a device that is away says nothing of its speed
                times.observe(client, world.now() - begin)
            holder = client
            riders.append(client)
        if not riders:
            return None
        samples = sum(map(world.samples, riders))
        return End(await world.send(model, holder, world.server), samples, tuple(riders))
