"""FedDST: one sparse model for all, whose mask clients move and a server decides (Bibikar et al., AAAI 2022).

A round is FedAvg's with a sparse model: the clients drawn train under the server's mask. Every ``interval`` rounds
each of them also moves its own mask: the smallest weights go, as many grow where the gradient of one batch is
largest. The server averages every weight over the samples of those who have it. Together they have more weights than
the model may, so it keeps, layer by layer, as many of the largest averages as there were before (so far as in the
authors' ``dst.py``). That is how clients vote: who drops a weight has no part in its average.

Three things are ours. The first mask is drawn at random; theirs holds the largest initial weights. The share that
moves falls by a cosine; their code computes one too, but only asks whether it is above 0, and moves a constant share.
Of equal averages, as of weights that have just grown and are all 0, the server keeps those that most clients have,
then any at random; theirs keeps what ``topk`` happens to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from paceline.algorithms.aggregate import aggregated
from paceline.algorithms.base import (
    BY_OBJECTIVE,
    Model,
    Progress,
    Traits,
    World,
    apply,
    by_rows,
    came_back,
    draw_clients,
    require,
    somebody,
)
from paceline.algorithms.gossip import draws, rival_recipe
from paceline.algorithms.sparse import Accounting, Peer, Spread, Swarm, masked
from paceline.bounds import bounded, check_bounds
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Slot
from paceline.learn.sparsity import cosine_fraction, counts, layer_words, rigl
from paceline.learn.sparsity.choosing import least


class Update(NamedTuple):
    """What a client sends back."""

    weights: Model
    mask: Model
    weight: int


@dataclass(frozen=True, kw_only=True)
class FedDST:
    """A server, some clients a round, one sparse model."""

    rounds: int = bounded(100, least=1)
    participants: int = bounded(10, least=1)
    """Clients drawn in a round."""
    sparsity: float = bounded(0.5, least=0, below=1)
    """The share of zeros, from the start to the end."""
    spread: Spread = "erk"
    dense: str = "none"
    """Layers that are never masked: parts of their names, joined by ``+``, as in ``shortcut`` (DA-E11)."""
    interval: int = bounded(10, least=1)
    """Rounds from one readjustment to the next (1, 5, 10 or 20 in DA-DPFL's comparison), beginning with the second
    round; 1 is every round, the first too. Both as in the authors' code."""
    fraction: float = bounded(0.5, least=0, most=1)
    """The share of active weights that a readjustment moves at first. 0.5 is the default of the authors' code, which
    moves as many every time; their command for CIFAR-10 has 0.01. That it falls to 0 by a cosine is ours."""
    last: int | None = bounded(None, least=1, none="for half of all")
    """The round in which it comes to 0, and from which on nothing moves; half of all rounds unless given."""
    before: int | None = bounded(None, least=1, none="for all")
    """Epochs before a readjustment; the rest of ``local.epochs`` then trains what has grown. All unless given, as in
    the authors' code: grown weights are 0 when the server looks, and take the places that all have dropped; those
    that most clients have grown come first."""
    objective: Literal["samples", "clients"] = "samples"
    """Weights of clients in every average: by their samples, or all clients alike."""
    accounting: Accounting = "full"
    """Bytes of a model: with its mask where that is not known, or weights only, as in DA-DPFL's tables."""
    local: LocalSGD = field(default_factory=rival_recipe)

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds, and no more clients can be drawn than there are."""
        check_bounds(self)
        layer_words(self.dense)
        require(
            1 <= self.participants <= clients,
            f"participants is {self.participants}; with {clients} clients wanted 1 to {clients}",
        )

    def traits(self, clients: int) -> Traits:
        """Whoever leaves is not waited for."""
        return Traits(
            rounds=self.rounds,
            local=self.local,
            absence="skip",
            paced_by_rounds=self.last is None,
            private="clients send masks, which they choose by their gradients",
            weights="samples" if self.objective == "samples" else "equal",
            weighing=BY_OBJECTIVE,
        )

    def moved(self, round: int) -> float:
        """The share of weights that this round moves; 0 in most."""
        last = max(1, self.rounds // 2) if self.last is None else self.last
        due = (round - 1) % self.interval == 0 and round < last
        return cosine_fraction(self.fraction, round, last) if due else 0.0

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """In every round some clients train under the server's mask; now and then the mask moves."""
        swarm = Swarm(
            world,
            density=1.0 - self.sparsity,
            spread=self.spread,
            same_masks=True,
            accounting=self.accounting,
            dense=self.dense,
        )
        peer = swarm.peers[0]
        for round in range(self.rounds):
            await somebody(world, round, self.rounds)
            drawn = draw_clients(world, self.participants, "feddst", "draw", round)
            share = self.moved(round)
            came = await came_back(world, {client: self.visit(world, swarm, client, peer, share) for client in drawn})
            updates = [*came.values()]
            if updates:
                ties = int(world.stream("feddst", "ties", round).integers(2**63)) if share else None
                peer = aggregate(peer, updates, swarm.slots, ties)
            # Dense sums, as FedAvg's, also of the masks where they may differ; choosing the largest is not counted.
            sums = len(updates) * (2 if share else 1)
            peer = replace(peer, weights=await aggregated(world, peer.weights, sums))
            yield Progress(peer.weights, {"uploads": len(updates), "sparsity": swarm.sparsity(peer.counts)})

    async def visit(self, world: World, swarm: Swarm, client: int, peer: Peer, share: float) -> Update:
        """Download, train, upload; masks travel where they are news."""
        there = peer.known.get(client)
        down = swarm.parcel(peer.weights, peer.mask, peer.counts, there)
        *masks, start = await world.send_all(down, world.server, client)
        peer.known[client] = masks[0] if masks else there or peer.mask
        here = replace(peer, weights=start, mask=peer.known[client])
        weights, mask = await self.train(world, swarm, client, here, share)
        up = swarm.parcel(weights, mask, peer.counts, None if share else peer.mask)
        *masks, arrived = await world.send_all(up, client, world.server)
        counted = world.samples(client) if self.objective == "samples" else 1
        return Update(arrived, masks[0] if masks else peer.mask, counted)

    async def train(self, world: World, swarm: Swarm, client: int, peer: Peer, share: float) -> tuple[Model, Model]:
        """Local training, its mask moved on the way where it is time for that; the weights and their mask."""
        flops = swarm.flops(peer.counts)
        first, rest = self.parts(share)
        if not share:
            return await world.train(client, peer.weights, first, mask=peer.mask, flops=flops), peer.mask
        weights, slope = await world.learning.train_then_gradient(
            client, peer.weights, first, at=lambda trained: trained, mask=peer.mask, flops=flops
        )
        mask = by_rows(rigl, weights, peer.mask, slope, slots=swarm.slots, fraction=share)
        weights = masked(weights, mask)
        if rest is not None:
            weights = await world.train(client, weights, rest, mask=mask, flops=flops)
        return weights, mask

    def parts(self, share: float) -> tuple[LocalSGD, LocalSGD | None]:
        """The recipe before a readjustment and after it; recipes in steps are readjusted at their end."""
        epochs = self.local.epochs or 1
        if not share or self.before is None or self.local.steps is not None or self.before >= epochs:
            return self.local, None
        return replace(self.local, epochs=self.before), replace(self.local, epochs=epochs - self.before)


def aggregate(peer: Peer, updates: Sequence[Update], slots: Sequence[Slot], ties: int | None) -> Peer:
    """The server's next model: the average of those who have a weight, as many weights a layer as before.

    ``ties`` is where draws between equal weights are made; none where no mask has moved.
    """
    samples = tuple(float(update.weight) for update in updates)
    weights, masks = [update.weights for update in updates], [update.mask for update in updates]
    centre = apply(_mean, *weights, *masks, samples=samples)
    if ties is None:
        return replace(peer, weights=centre)
    mask = apply(_largest, centre, *masks, slots=tuple(slots), kept=peer.counts, ties=ties)
    return Peer(masked(centre, mask), mask, mask, peer.counts)


def _mean(*values: Tensor, samples: Sequence[float]) -> Tensor:
    """Weighted by samples over those whose mask has the weight; 0 where nobody has it."""
    total, count = torch.zeros_like(values[0]), torch.zeros_like(values[0])
    for number, weights, mask in zip(samples, values[: len(samples)], values[len(samples) :], strict=True):
        total.addcmul_(weights, mask, value=number)
        count.add_(mask, alpha=number)
    return total.div_(torch.where(count > 0, count, 1.0))


def _largest(centre: Tensor, *masks: Tensor, slots: Sequence[Slot], kept: Sequence[int], ties: int) -> Tensor:
    """Of the weights that somebody has, the so many largest of each layer.

    Of equal ones those that most have stay, then any: by index, a mask would drift to a layer's last rows.
    """
    votes_P = torch.stack(masks).sum(dim=0)
    mask_1P = (votes_P > 0).to(centre.dtype)[None]
    tied_1P, torn = torch.zeros_like(mask_1P, dtype=torch.float64), []
    lost_1L = counts(mask_1P, slots) - torch.tensor(kept, device=centre.device)
    for slot, lost_1N in zip(slots, least(centre[None], mask_1P, slots, lost_1L), strict=True):
        layer_1N, size_1N = mask_1P[:, slot.start : slot.stop], centre[None, slot.start : slot.stop].abs()
        bound = torch.where(lost_1N, size_1N, -1.0).amax()
        tie_1N = (size_1N == bound) & (layer_1N > 0)
        layer_1N.sub_((lost_1N & ~tie_1N).to(mask_1P.dtype))
        tied_1P[:, slot.start : slot.stop] = tie_1N
        torn.append((lost_1N & tie_1N).sum(dim=1))
    # Whole votes and a fraction: in double precision neither spoils the other.
    rank_1P = (votes_P.double() + draws(ties, centre).double())[None]
    for slot, lost_1N in zip(slots, least(rank_1P, tied_1P, slots, torch.stack(torn, dim=1)), strict=True):
        mask_1P[:, slot.start : slot.stop].sub_(lost_1N.to(mask_1P.dtype))
    return mask_1P[0]
