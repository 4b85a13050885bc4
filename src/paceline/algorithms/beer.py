"""BEER: gradient tracking with compressed communication (Zhao et al., NeurIPS 2022, Algorithm 1).

Beside its model x every client has a tracker v of the gradient of the mean loss. Nobody sends either: all send
compressed differences, C(x - h) and C(v - g), from which everybody knows the same estimates h of x and g of v. In
every round, with gamma a small step of mixing:

    v <- v + gamma sum over j of w_ij (g_j - g_i) + (new gradient - last gradient);   g <- g + C(v - g)
    x <- x + gamma sum over j of w_ij (h_j - h_i) - rate v;                           h <- h + C(x - h)

Mixing moves nothing on average, so the mean of the trackers is the mean of the gradients, whatever was compressed.
Everybody keeps a copy of its neighbours' estimates, made of the differences that came. One that missed a difference
is out of step: the link is not used until the estimates have been sent whole (ours; the paper has no losses). When a
client has gone for good, its gradient is still in the others' trackers: these then start again from the last
gradients of those who are left, with g = 0.

The first g is C of the first v, as in DA-DPFL's code; in the authors' own code it is 0 for one round more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

from paceline.algorithms.base import (
    Dropped,
    Event,
    Model,
    Progress,
    Traits,
    World,
    encoded,
    once,
    require,
    somebody,
    total,
)
from paceline.algorithms.gossip import Neighbours, draw_keys, heard_by, metropolis_shares, rival_recipe
from paceline.algorithms.neighbourhoods import Neighbourhoods
from paceline.bounds import bounded, check_bounds
from paceline.learn.codecs import Gsgd, Top
from paceline.learn.recipe import LocalSGD


class Estimates(NamedTuple):
    """What is known of a client: h, of its model, and g, of its tracker."""

    model: Model
    tracker: Model


@dataclass
class Tracks:
    """What clients have after a round, by client."""

    models: dict[int, Model]
    trackers: dict[int, Model]
    gradients: dict[int, Model]
    """The last of each."""
    estimates: dict[int, Estimates]
    """What each knows that the others know of it."""
    known: dict[tuple[int, int], Estimates]
    """By who knows and of whom. A neighbour that missed a difference has none: it is out of step."""

    @property
    def living(self) -> list[int]:
        """Those who have not gone for good."""
        return sorted(self.trackers)

    def in_step(self, one: int, other: int) -> bool:
        """Whether both know the other's estimates: a link is used by both of its ends or by neither."""
        return (one, other) in self.known and (other, one) in self.known


@dataclass(frozen=True, kw_only=True)
class BEER:
    """All clients on a fixed, undirected graph."""

    rounds: int = bounded(100, least=1)
    graph: str = "circulant"
    """Who is linked: ``circulant`` (the ``degree`` nearest numbers, as in DA-DPFL's code), ``ring``, ``complete``, or
    any graph of as many nodes as there are clients: ``torus:10x10``, ``regular:100,4``, a file."""
    degree: int = bounded(10, least=2)
    """Links of each client of a circulant; all others where there are not so many."""
    gamma: float = bounded(0.05, above=0, most=1)
    """The step of mixing: the coarser the compression, the smaller it must be. On quadratics 0.3 diverged where the
    damping tau of gsgd was 11, and 0.1 where it was 27, as for a ResNet-18 at 8 bits; 0.05 did not. For some
    thousand weights tau is 1.1, and larger steps agree faster. DA-DPFL's script has 0.01."""
    compressor: Literal["gsgd", "top", "none"] = "gsgd"
    """``gsgd``: random rounding to multiples of a part of the norm, damped; ``top``: the largest numbers."""
    bits: int = bounded(8, least=2, most=16)
    """Of a number, for gsgd: two vectors of 8 bits are half a dense model. DA-DPFL's script has 9."""
    share: float = bounded(0.125, above=0, most=1)
    """Of numbers that ``top`` keeps; each costs 8 bytes, its value and its place."""
    gradients: Literal["batch", "full"] = "batch"
    """Of ``local.steps`` batches, or of all the client's data. Of several batches it is the sum along the way, the
    displacement over the rate: where the mean of these is 0 is not quite the optimum of the mean loss."""
    local: LocalSGD = field(default_factory=lambda: rival_recipe(lr=0.05, epochs=None, steps=1))
    """``local.lr`` is the rate of the step along the tracker."""

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds; trackers need plain gradients, and estimates need fixed links."""
        check_bounds(self)
        require(
            self.local.momentum == 0,
            f"local.momentum is {self.local.momentum}, but the tracker needs plain gradients; set it to 0",
        )
        require(
            self.graph != "random",
            "graph is 'random', new neighbours in every round in one direction, but estimates are kept along fixed"
            " links; wanted 'circulant', 'ring', 'complete' or another fixed graph",
        )
        if self.graph != "circulant":
            Neighbourhoods(graph=self.graph).check(clients)

    def traits(self, clients: int) -> Traits:
        """There is no server; trackers follow the gradients of all, so everybody is waited for."""
        return Traits(rounds=self.rounds, local=self.local, absence="wait", servers=0, outlives_servers=True)

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Models are scored after the step, before they are mixed again."""
        async for tracks in self.tracks(world):
            yield Progress([*tracks.models.values()], {"clients": len(tracks.living)})

    async def tracks(self, world: World) -> AsyncIterator[Tracks]:
        """Go through the rounds of BEER's recursion, and yield what each client has after every one."""
        start, links = world.initial_model(), self.links(world)
        zero, everybody = start * 0.0, world.clients
        nothing = Estimates(zero, zero)
        now = Tracks(
            models=dict.fromkeys(everybody, start),
            trackers=dict.fromkeys(everybody, zero),
            gradients=dict.fromkeys(everybody, zero),
            estimates=dict.fromkeys(everybody, nothing),
            known={(own, other): nothing for own in everybody for other in links[own]},
        )
        for round in range(self.rounds):
            await somebody(world, round, self.rounds)
            now = await self.advance(world, links, now, round)
            yield now

    def links(self, world: World) -> Neighbours:
        """Return every client's neighbours, who stay the same in all rounds."""
        if self.graph != "circulant":
            return Neighbourhoods(graph=self.graph).draw(world, 0)
        clients = len(world.clients)
        steps = [step for k in range(1, self.degree // 2 + 1) for step in (k, -k)]
        return [sorted({(own + step) % clients for step in steps} - {own}) for own in range(clients)]

    async def advance(self, world: World, links: Neighbours, old: Tracks, round: int) -> Tracks:
        """One round. What a client computes needs nothing that is sent in this round, so both vectors go at once."""
        living = set(old.living)
        hears = [[k for k in links[own] if k in living and own in living] for own in world.clients]
        steady = [[k for k in near if old.in_step(own, k)] for own, near in enumerate(hears)]
        rows = metropolis_shares(steady, {own: [own, *steady[own]] for own in living})
        keys, rate = draw_keys(world, "beer", round), self.local.lr_at(round)
        new = replace(
            old,
            models=dict(old.models),
            trackers=dict(old.trackers),
            gradients=dict(old.gradients),
            estimates=dict(old.estimates),
            known=dict(old.known),
        )
        gone: set[int] = set()
        sums = Sums()

        async def ride(client: int) -> None:
            try:
                gradient = await self.gradient(world, client, old.models[client])
            except Dropped as dropped:
                if dropped.gone:
                    gone.add(client)
                return
            row = rows[client]
            news_of_gradient = [gradient, -old.gradients[client]]
            v = total([old.trackers[client], *self.pull(client, row, old, "tracker"), *news_of_gradient])
            x = total([old.models[client], *self.pull(client, row, old, "model"), -rate * v])
            h, g = old.estimates[client]
            news = [self.compressed(x - h, ~keys[client]), self.compressed(v - g, keys[client])]
            new.trackers[client], new.models[client], new.gradients[client] = v, x, gradient
            new.estimates[client] = Estimates(sums.of(h, news[0]), sums.of(g, news[1]))
            await world.transfers(self.tell(world, new, client, other, news, sums) for other in order[client])

        order = heard_by(hears)
        await world.gather(ride(client) for client in world.clients if client in living)
        return self.without(world, new, gone) if gone else new

    async def tell(
        self, world: World, new: Tracks, client: int, other: int, news: Sequence[Model], sums: Sums
    ) -> None:
        """A neighbour learns the differences; one that is out of step gets the estimates themselves, whole."""
        before = new.known.get((other, client))
        try:
            if before is None:
                new.known[other, client] = Estimates(*await world.send_all(new.estimates[client], client, other))
                return
            of_x, of_v = await world.send_all(news, client, other)
            new.known[other, client] = Estimates(sums.of(before.model, of_x), sums.of(before.tracker, of_v))
        except Dropped:
            new.known.pop((other, client), None)

    def without(self, world: World, new: Tracks, lost: set[int]) -> Tracks:
        """Clients that have gone for good are still in the others' trackers: these start again, with g = 0."""
        names = ", ".join(map(str, sorted(lost)))
        world.log.tell(
            Event(
                text=f"gone for good, and left out from now on: clients {names};"
                " trackers start again from the last gradients of the others"
            )
        )
        zero = world.initial_model() * 0.0
        gradients = {client: gradient for client, gradient in new.gradients.items() if client not in lost}
        estimates = {client: Estimates(new.estimates[client].model, zero) for client in gradients}
        known = {pair: Estimates(known.model, zero) for pair, known in new.known.items() if lost.isdisjoint(pair)}
        return Tracks(new.models, dict(gradients), gradients, estimates, known)

    def pull(
        self, own: int, row: dict[int, float], old: Tracks, which: Literal["model", "tracker"]
    ) -> Iterable[Model]:
        """gamma times the weighted differences from the neighbours' estimates, as terms of a sum."""
        weights = {k: self.gamma * row[k] for k in sorted(row) if k != own}
        terms = [weight * getattr(old.known[own, k], which) for k, weight in weights.items()]
        return [*terms, -sum(weights.values()) * getattr(old.estimates[own], which)]

    async def gradient(self, world: World, client: int, model: Model) -> Model:
        """Compute a client's gradient at this model, of one batch or of all its samples."""
        if self.gradients == "batch":
            recipe = self.unit
            trained = await world.train(client, model, recipe)
            return once(1.0 / recipe.lr * (model - trained))
        full = await world.learning.probe(client, model, self.local)
        return full + self.local.weight_decay * model

    @cached_property
    def unit(self) -> LocalSGD:
        """The recipe whose movement, divided by its rate, is the gradient. A single step may have any rate, and at 1
        nothing is lost by rounding."""
        return replace(self.local, lr=1.0 if self.local.steps == 1 else self.local.lr, schedule="constant")

    def compressed(self, difference: Model, key: int) -> Model:
        """C: what is left of a difference, and how it is sent."""
        if self.compressor == "gsgd":
            return encoded(difference, Gsgd(self.bits, key))
        return encoded(difference, Top(self.share)) if self.compressor == "top" else difference


class Sums:
    """Sums of one round. All who have the same estimate and add the same difference to it have the same sum: where a
    world gives everybody the same object, it is computed and kept once."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], tuple[Model, Model, Model]] = {}

    def of(self, estimate: Model, difference: Model) -> Model:
        """Return the sum of an estimate and a difference; the same pair is added once, however many ask."""
        key = id(estimate), id(difference)
        if key not in self._found:
            self._found[key] = estimate, difference, estimate + difference  # which also keeps the names taken
        return self._found[key][2]
