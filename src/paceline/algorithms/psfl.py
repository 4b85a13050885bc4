"""Parallel-sequential federated learning, with FedAvg and sequential FL as its two extremes.

Zhou et al., INFOCOM 2025, Algorithm 1: W sequences ride abreast, which means that they carry W copies of the round's
model side by side, each from the server over S clients in turn and back; their ends are averaged (PS-1 ... PS-3).
Where W and S are not given, a warm-up estimates σ², B, t̄ and κ (PS-9, PS-10), and the structure with the shortest
time by the paper's bounds is taken (PS-7, PS-8, PS-11). One sequence of S = N0 clients is sequential FL; W = N0
sequences of one client are FedAvg. All words and symbols: docs/papers/psfl.md.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from paceline.algorithms.aggregate import Aggregation
from paceline.algorithms.base import (
    Assumption,
    Dropped,
    Event,
    Model,
    Progress,
    Sums,
    Traits,
    World,
    came_back,
    count_rejected,
    require,
    somebody,
)
from paceline.algorithms.explaining import explain
from paceline.algorithms.samplers import Sampler, check_fit, sampler_named
from paceline.algorithms.seen_times import SeenTimes
from paceline.algorithms.server import ServerOptimiser, ServerRule
from paceline.algorithms.structure import RoundsBy, bound_ratio, choose_structure
from paceline.algorithms.time_order import TimeOrder
from paceline.algorithms.warmup import Heterogeneity, WarmUp, warm_up
from paceline.bounds import bounded, check_bounds
from paceline.learn.recipe import LocalSGD

CHOSEN = ("W", "S", "width", "length", "ratio", "expected_round_seconds")
"""The fields of ``Structure`` that go to the log as figures when the warm-up has chosen it (PS-7, PS-8)."""


class End(NamedTuple):
    """What a sequence delivers: its model, how many training samples its clients own, and who they were."""

    model: Model
    samples: int
    """The training samples that its clients own together, for ``server.weights=samples``."""
    riders: tuple[int, ...]
    """The clients that it has visited, in their order."""


@dataclass(frozen=True, kw_only=True)
class PSFL:
    """W sequences abreast, S clients in each."""

    rounds: int = bounded(100, least=1)
    participants: int = bounded(20, least=1)
    """Ñ, the most clients of a round: W*S is at most this. Not used where both the width and the length are given."""
    width: int | None = bounded(None, least=1)
    """W, sequences abreast; chosen after a warm-up when neither it nor the length is given."""
    length: int | None = bounded(None, least=1)
    """S, clients in each."""
    rounds_by: RoundsBy = "bound"
    """How long a round of a structure is taken to last when the warm-up chooses one: Theorem 2's bound (PS-5), as in
    the paper, or simulated rounds with the times that were seen of the clients."""
    restructure: int | None = bounded(None, least=1)
    """After every so many rounds the structure is chosen anew, from the times seen until then; never when not given,
    nor where the structure is given."""
    sampler: Literal["partition", "uniform", "weighted"] | Sampler = "partition"
    """How a round's clients are drawn: one of each speed class for every sequence (``partition``, PS-13), every
    client with the same probability (``uniform``), or the faster the likelier (``weighted``)."""
    local: LocalSGD = field(default_factory=LocalSGD)
    warmup: WarmUp = field(default_factory=WarmUp)
    server: ServerRule = field(default_factory=ServerRule)
    aggregation: Aggregation = field(default_factory=Aggregation)

    def check(self, clients: int) -> None:
        """Refuse numbers out of bounds, and structures and warm-ups for which there are too few clients.

        A round draws W*S clients without repetition (PS-14), so there must be as many.
        """
        check_bounds(self)
        for name in ("width", "length"):
            given = getattr(self, name)
            alone = given is not None and None in (self.width, self.length)
            require(
                not alone or given <= self.participants,
                f"psfl.{name} is {given} but psfl.participants is {self.participants}; lower the one, raise the"
                " other, or give both psfl.width and psfl.length",
            )
        if (structure := self.given_structure()) is not None:
            check_fit(clients, *structure)
            return
        require(
            self.participants <= clients,
            f"psfl.participants is {self.participants} but there are {clients} clients; lower it or raise `clients`",
        )
        self.warmup.check(clients)

    def traits(self, clients: int) -> Traits:
        """What a run must know beforehand; whoever drops out is passed over, which is our choice.

        Unless the structure is given it must be learned, and a dry run takes the assumed one instead.
        """
        ways = {"equal": {"server": {"weights": "uniform"}}, "samples": {"server": {"weights": "samples"}}}
        plain = self.aggregation.rule == "mean"  # other rules know no weights
        return Traits(
            rounds=self.rounds,
            local=self.local,
            absence="skip",
            needs_public=self.aggregation.needs_public,
            private=self.sums(),
            weights="samples" if plain and self.server.weights == "samples" else "equal",
            weighing=ways if plain else {},
            assumption=self.assumed_structure() if self.given_structure() is None else None,
        )

    def sums(self) -> Sums | str:
        """How the server uses what clients upload, or why differential privacy is refused (docs/privacy.md).

        FedAvg with a plain mean uses only the sum of a round's uploads; with weights or other rules it may look at
        each of them.
        """
        structure = self.given_structure()
        if structure is None:
            return "its warm-up compares gradients that clients send; psfl.length=1 can"
        if structure[1] > 1:
            return "a model passes through several clients before the server sees it; psfl.length=1 can"
        if self.aggregation.rule != "mean" or self.server.weights != "uniform":
            return Sums()
        return Sums(structure[0], drawn=self.sampler == "uniform")

    def assumed_structure(self) -> Assumption:
        """The structure that a dry run, which learns nothing, takes for the one that a warm-up would find.

        W is the square root of the participants, rounded up, and S is the participants divided by W, rounded down:
        about as many sequences as clients in each.
        """
        width = math.isqrt(self.participants - 1) + 1
        length = max(1, self.participants // width)
        return Assumption(
            f"the structure that a warm-up would find is taken to be W={width} sequences of S={length} clients"
            " (psfl.width and psfl.length choose another)",
            {"width": width, "length": length},
        )

    def given_structure(self) -> tuple[int, int] | None:
        """W and S if the settings say them, None if a warm-up must find them.

        One of them alone is filled up to the participants; with one participant there is nothing to choose.
        """
        if self.width is None and self.length is None:
            return (1, 1) if self.participants == 1 else None
        width = self.width or max(1, self.participants // (self.length or 1))
        return width, self.length or max(1, self.participants // width)

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Algorithm 1: a warm-up unless the structure is given (PS-9 to PS-11), then training (PS-12 to PS-15)."""
        model = world.initial_model()
        times = TimeOrder(len(world.clients), int(world.stream("time order").integers(1 << 63)))
        structure, found = self.given_structure(), None
        if structure is None:
            model, found = await warm_up(world, model, self.local, self.warmup, times)
            world.log.tell(Event(text=found.text(), figures=found.figures()))
            structure = self.choose(world, found, found.times)
        sampler = sampler_named(self.sampler) if isinstance(self.sampler, str) else self.sampler
        observed = times if sampler.learns_times else None
        server = self.server.start()
        for r in range(self.rounds):
            await somebody(world, r, self.rounds)
            if found is not None and self.restructure is not None and r and r % self.restructure == 0:
                structure = self.choose(world, found, found.times.moved(times.estimate))
            sequences = sampler.draw(world, times, r, *structure)  # PS-12 to PS-14
            rides = {w: self.ride(world, model, sequence, observed) for w, sequence in enumerate(sequences)}
            model, arrived = await self.meet(world, server, model, rides)
            yield Progress(model, {"sequences": arrived})

    async def meet(
        self,
        world: World,
        server: ServerOptimiser,
        model: Model,
        rides: Mapping[int, Coroutine[Any, Any, End | None]],
    ) -> tuple[Model, int]:
        """What the server makes of a round's sequences, and how many arrived.

        A function of its own, so that the ends are freed from memory before the new model is evaluated.
        """
        arrived = [*(await came_back(world, rides)).values()]  # PS-3: as late as the slowest sequence
        flops = self.aggregation.flops(world, model, len(arrived))
        model = await world.work(world.server, flops, self.aggregate(world, server, model, arrived))
        for _ in arrived:  # every end was made from this round's model, so the report shows that none is stale
            world.log.count("staleness", 0)
        return model, len(arrived)

    def aggregate(self, world: World, server: ServerOptimiser, model: Model, ends: Sequence[End]) -> Model:
        """PS-2: the plain average of the ends, or what `aggregation` and `server` say."""
        models, samples = [end.model for end in ends], [end.samples for end in ends]
        if self.aggregation.rule == "mean" or not ends:
            return server.step(model, models, samples)
        note_rejected = count_rejected(world, [end.riders for end in ends])
        centre = self.aggregation.centre(world, model, [trained - model for trained in models], note_rejected)
        # One model has all the weight, whatever its samples: `server.weights` matters with the rule `mean` alone.
        return server.step(model, [model + centre], [sum(samples)])

    def choose(self, world: World, found: Heterogeneity, seen: SeenTimes) -> tuple[int, int]:
        """Line 11 of Algorithm 1 (PS-11): the W and S that are best by the warm-up's figures and these times."""
        best = choose_structure(
            participants=self.participants,
            population=len(world.clients),
            time_mean=seen.mean,
            time_std=found.time_std,
            ratio=bound_ratio(found.sigma2.value, found.B.value, self.warmup.c0),  # PS-4
            times=seen,
            rounds_by=self.rounds_by,
        )  # PS-7, PS-8
        figures = {name: getattr(best, name) for name in CHOSEN}
        world.log.tell(
            Event(text=f"structure: {best.W} sequences of {best.S} clients. {explain(best)}", figures=figures)
        )
        return best.W, best.S

    async def ride(self, world: World, model: Model, sequence: Sequence[int], times: TimeOrder | None) -> End | None:
        """One sequence (PS-1): the model passes from client to client, and from the last one to the server.

        A client that drops out before it has trained is passed over. ``Dropped`` when the holder, who has the trained
        model, leaves: the model is lost with it. None where nobody was there at all. Where ``times`` is given, it is
        told the clients' times (PS-15).
        """
        holder, riders, trained = world.server, list[int](), None
        for client in sequence:
            try:
                received = await pass_on(world, model, holder, client, trained, times)
                begun, trained = world.now(), None  # a holder's time is seen once, also if this client leaves now
                model = await world.train(client, received, self.local)
            except Dropped as dropped:
                if dropped.site == holder:
                    raise
                continue
            holder, trained = client, world.now() - begun
            riders.append(client)
        if not riders:
            return None
        end = await pass_on(world, model, holder, world.server, trained, times)
        return End(end, sum(map(world.samples, riders)), tuple(riders))


async def pass_on(
    world: World, model: Model, holder: int, target: int, trained: float | None, times: TimeOrder | None
) -> Model:
    """The holder sends its model onward; its time is its training and this way (PS-15, PS-E11).

    Where the target is away when the model sets out, the holder is not timed: the wait says nothing of its speed.
    But where the rule for absence is to wait, the time for which a client is away itself counts as its own.
    """
    sent, there = world.now(), target == world.server or world.presence.online(target)
    received = await world.send(model, holder, target)
    if times is not None and trained is not None and there:
        times.observe(holder, trained + (world.now() - sent))
    return received
