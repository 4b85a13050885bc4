"""BEER: gradient tracking with compressed communication (Zhao et al., NeurIPS 2022, Algorithm 1).

Beside its model x every client has a tracker v of the gradient of the mean loss. Nobody sends either: all send
compressed differences, C(x - h) and C(v - g), from which everybody knows the same estimates h of x and g of v. In
every round, with gamma a small step of mixing:

    v <- v + gamma sum over j of w_ij (g_j - g_i) + (new gradient - last gradient);   g <- g + C(v - g)
    x <- x + gamma sum over j of w_ij (h_j - h_i) - rate v;                           h <- h + C(x - h)

Mixing moves nothing on average, so the mean of the trackers is the mean of the gradients, whatever was compressed.
When a client has gone for good, its gradient is still in the others' trackers: these then start again from the last
gradients of those who are left, with g = 0 (ours; the paper has no losses).

The first g is C of the first v, as in DA-DPFL's code; in the authors' own code it is 0 for one round more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal

import torch
from torch import Tensor

from paceline.algorithms.base import (
    Dropped,
    Model,
    Progress,
    World,
    apply,
    by_rows,
    combine,
    packed,
    require,
    train_when_back,
)
from paceline.algorithms.gossip import Neighbours, draw_keys, meet, metropolis_shares, noise, rival_recipe
from paceline.algorithms.neighbourhoods import Neighbourhoods
from paceline.learn.recipe import LocalSGD


@dataclass
class Tracks:
    """What clients have after a round, by client."""

    models: dict[int, Model]
    trackers: dict[int, Model]
    gradients: dict[int, Model]
    """The last of each."""
    model_estimates: dict[int, Model]
    tracker_estimates: dict[int, Model]

    @property
    def living(self) -> list[int]:
        """Those who have not gone for good."""
        return sorted(self.trackers)


@dataclass(frozen=True, kw_only=True)
class BEER:
    """All clients on a fixed, undirected graph."""

    rounds: int = 100
    graph: str = "circulant"
    """Who is linked: ``circulant`` (the ``degree`` nearest numbers, as in DA-DPFL's code), ``ring``, ``complete``, or
    any graph of as many nodes as there are clients: ``torus:10x10``, ``regular:100,4``, a file."""
    degree: int = 10
    """Links of each client of a circulant; all others where there are not so many."""
    gamma: float = 0.05
    """The step of mixing: the coarser the compression, the smaller it must be. On quadratics 0.3 diverged where the
    damping tau of gsgd was 11, and 0.1 where it was 27, as for a ResNet-18 at 8 bits; 0.05 did not. For some
    thousand weights tau is 1.1, and larger steps agree faster. DA-DPFL's script has 0.01."""
    compressor: Literal["gsgd", "top", "none"] = "gsgd"
    """``gsgd``: random rounding to multiples of a part of the norm, damped; ``top``: the largest numbers."""
    bits: int = 8
    """Of a number, for gsgd: two vectors of 8 bits are half a dense model. DA-DPFL's script has 9."""
    share: float = 0.125
    """Of numbers that ``top`` keeps; each costs 8 bytes, its value and its place."""
    gradients: Literal["batch", "full"] = "batch"
    """Of ``local.steps`` batches, or of all the client's data. Of several batches it is the sum along the way, the
    displacement over the rate: where the mean of these is 0 is not quite the optimum of the mean loss."""
    local: LocalSGD = field(default_factory=lambda: rival_recipe(lr=0.05, epochs=None, steps=1))
    """``local.lr`` is the rate of the step along the tracker."""

    outlives_servers = True

    def check(self, clients: int) -> None:
        """Refuse what cannot be."""
        require(self.rounds >= 1, f"rounds is {self.rounds}; it must be 1 or more")
        require(0 < self.gamma <= 1, f"gamma is {self.gamma}; wanted a number above 0 and at most 1")
        require(2 <= self.bits <= 16, f"bits is {self.bits}; wanted 2 to 16")
        require(0 < self.share <= 1, f"share is {self.share}; wanted a share above 0 and at most 1")
        require(self.degree >= 2, f"degree is {self.degree}; wanted 2 or more")
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

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Models are scored after the step, before they are mixed again."""
        async for tracks in self.tracks(world):
            yield Progress([*tracks.models.values()], {"clients": len(tracks.living)})

    async def tracks(self, world: World) -> AsyncIterator[Tracks]:
        """The recursion, round by round."""
        start, links = world.initial_model(), self.links(world)
        zero = start * 0.0
        now = Tracks(dict.fromkeys(world.clients, start), dict.fromkeys(world.clients, zero), {}, {}, {})
        now.gradients = now.model_estimates = now.tracker_estimates = now.trackers
        for round in range(self.rounds):
            try:
                now = await self.advance(world, links, now, round)
            except Dropped:  # nobody is left
                return
            yield now

    def links(self, world: World) -> Neighbours:
        """Every client's neighbours."""
        if self.graph != "circulant":
            return Neighbourhoods(graph=self.graph).draw(world, 0)
        clients = len(world.clients)
        steps = [step for k in range(1, self.degree // 2 + 1) for step in (k, -k)]
        return [sorted({(own + step) % clients for step in steps} - {own}) for own in range(clients)]

    async def advance(self, world: World, links: Neighbours, old: Tracks, round: int) -> Tracks:
        """One round. What a client computes needs nothing that is sent in this round, so both vectors go at once."""
        living = set(old.living)
        hears = [[k for k in links[own] if k in living and own in living] for own in world.clients]
        rows = metropolis_shares(hears, {own: [own, *hears[own]] for own in living})
        keys, rate = draw_keys(world, "beer", round), self.local.lr_at(round)
        new = Tracks(dict(old.models), {}, {}, {}, {})

        async def slope(client: int) -> Model:
            if client not in living:
                raise Dropped(client, world.now())
            return await self.gradient(world, client, old.models[client])

        def step(client: int, gradient: Model) -> Model:
            row = rows[client]
            change = [(1.0, gradient), (-1.0, old.gradients[client])]
            v = combine([(1.0, old.trackers[client]), *self.pull(client, row, old.tracker_estimates), *change])
            x = combine([(1.0, old.models[client]), *self.pull(client, row, old.model_estimates), (-rate, v)])
            g, h = old.tracker_estimates[client], old.model_estimates[client]
            of_v, of_x = self.compressed(v - g, keys[client]), self.compressed(x - h, ~keys[client])
            new.trackers[client], new.models[client], new.gradients[client] = v, x, gradient
            new.tracker_estimates[client], new.model_estimates[client] = g + of_v, h + of_x
            return packed(of_x, of_x.nbytes + of_v.nbytes)

        await meet(world, hears, slope, step, wait=True)
        if lost := sorted(living - new.trackers.keys()):
            world.note(
                f"gone for good, and left out from now on: clients {', '.join(map(str, lost))};"
                " trackers start again from the last gradients of the others"
            )
            zero = world.initial_model() * 0.0
            return replace(new, trackers=new.gradients, tracker_estimates=dict.fromkeys(new.gradients, zero))
        return new

    def pull(self, own: int, row: dict[int, float], estimates: dict[int, Model]) -> Iterable[tuple[float, Model]]:
        """gamma times the weighted differences from the neighbours, as terms of a sum."""
        others = sorted(k for k in row if k != own)
        terms = [(self.gamma * row[k], estimates[k]) for k in others]
        return [*terms, (-sum(weight for weight, _ in terms), estimates[own])]

    async def gradient(self, world: World, client: int, model: Model) -> Model:
        """A client's gradient; one that is away is waited for."""
        if self.gradients == "batch":
            recipe = self.unit
            trained = await train_when_back(world, client, model, recipe)
            return combine([(1.0 / recipe.lr, model), (-1.0 / recipe.lr, trained)])
        while True:
            try:
                full = await world.probe(client, model, self.local)
            except Dropped as dropped:
                if dropped.gone:
                    raise
                continue
            return combine([(1.0, full), (self.local.weight_decay, model)])

    @cached_property
    def unit(self) -> LocalSGD:
        """The recipe whose movement, divided by its rate, is the gradient. A single step may have any rate, and at 1
        nothing is lost by rounding."""
        return replace(self.local, lr=1.0 if self.local.steps == 1 else self.local.lr, schedule="constant")

    def compressed(self, difference: Model, key: int) -> Model:
        """C, with its size on the wire."""
        size = difference.space.size
        if self.compressor == "gsgd":
            return packed(apply(partial(_gsgd, bits=self.bits, key=key), difference), size * self.bits / 8 + 4)
        if self.compressor == "top":
            kept = _kept(size, self.share)
            return packed(by_rows(_largest, difference, share=self.share), 8.0 * kept)
        return difference


def _gsgd(x_P: Tensor, *, bits: int, key: int) -> Tensor:
    """sign(x) floor(s |x|/|x|_2 + u) |x|_2 / (s tau) with s = 2^(bits-1) and u uniform.

    Random rounding alone may be longer than x by far; tau = 1 + min(d/s^2, sqrt(d)/s) makes it a contraction.
    (DA-DPFL's code draws u from a normal law.)
    """
    levels, count = 2.0 ** (bits - 1), x_P.numel()
    damping = 1.0 + min(count / levels**2, count**0.5 / levels)
    norm = x_P.norm().clamp(min=torch.finfo(x_P.dtype).tiny)
    whole: Tensor = (x_P.abs() / norm).mul_(levels).add_(noise(key, x_P)).floor_()
    return whole.mul_(x_P.sign()).mul_(norm / (levels * damping))


def _kept(size: int, share: float) -> int:
    return max(1, round(share * size))


def _largest(x_CP: Tensor, *, share: float) -> Tensor:
    place_CK = x_CP.abs().topk(_kept(x_CP.shape[1], share), dim=1).indices
    return torch.zeros_like(x_CP).scatter_(1, place_CK, x_CP.gather(1, place_CK))
