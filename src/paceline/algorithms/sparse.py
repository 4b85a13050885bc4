"""Clients with sparse models of their own: what each has, what it costs to train and to send, who knows which mask.

Masks and weights are promises; how many weights each layer has is known to the schedule, because seconds and bytes
depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from paceline.algorithms.base import Model, Reading, World, apply, packed, those, unless_dropped
from paceline.learn.codecs import Codec, Dense, Masked, mask_codec
from paceline.learn.graph import Ghost
from paceline.learn.space import Slot
from paceline.learn.sparsity import layer_counts, layer_words, maskable, masked_mean, sparse_flops, wire_bytes
from paceline.learn.sparsity.erk import masks_like
from paceline.seeds import address

Accounting = Literal["full", "weights"]
Spread = Literal["erk", "uniform"]


@dataclass(slots=True)
class Peer:
    """One client's sparse model. (Not frozen, though nobody changes one: ten are made a visit, which takes time.)"""

    weights: Model
    mask: Model
    """What it trains next."""
    support: Model
    """The mask under which its weights were trained, less what was pruned: others average these (DA-5, DA-12)."""
    counts: tuple[int, ...]
    """Active weights by layer, of both."""
    version: int = 0
    """How often its support has changed."""
    moved: bool = False
    """Whether its mask is another one than its support."""
    reading: Reading[tuple[int, ...]] | None = None
    """Where ``counts`` are not known yet: how many they are is learned, and asked for when it matters."""


class Wires(NamedTuple):
    """How a sparse model and its mask are sent, and the bytes that are charged; a dense one's mask is not sent."""

    values: Codec
    mask: Codec | None
    charge: float
    mask_charge: float


class Swarm:
    """All clients' sparse models, and their costs."""

    def __init__(
        self,
        world: World,
        *,
        density: float,
        spread: Spread = "erk",
        same_masks: bool = False,
        accounting: Accounting = "full",
        dense: str = "none",
    ) -> None:
        """Draw everybody's first mask; ``dense`` says which layers have none (``layer_words``)."""
        start = world.initial_model()
        self.space = start.space
        self.slots: tuple[Slot, ...] = maskable(self.space, layer_words(dense))
        self.start = start
        self._accounting = accounting
        self._known: dict[tuple[int, int], tuple[int, Model]] = {}
        """By source and target: which support of the source the target has, and that support."""
        self._ghosts: dict[int, tuple[Peer, list[Model]]] = {}
        """By source, in a dry run: what it was last, and what it sends to all who do not know its mask."""
        self._flops: dict[tuple[int, ...], float] = {}
        self._maskable = sum(slot.stop - slot.start for slot in self.slots)
        self._always = self.space.size - self._maskable
        """Weights that no mask concerns."""
        self._wires: dict[tuple[int, ...], Wires] = {}
        counts = tuple(layer_counts(self.slots, density, spread))
        masks = [self._first_mask(world, 0 if same_masks else client, counts) for client in world.clients]
        self.peers = [Peer(apply(_times, start, mask), mask, mask, counts) for mask in masks]

    def _first_mask(self, world: World, client: int, counts: tuple[int, ...]) -> Model:
        key = address(int(world.stream("masks").integers(1 << 62)), "mask")

        return apply(_drawn, self.start, slots=self.slots, counts=counts, key=key, client=client)

    # -- costs ------------------------------------------------------------------------------------------------------

    def flops(self, counts: tuple[int, ...]) -> float:
        """Return the FLOPs of one sample's forward pass through a model with so many weights."""
        if counts not in self._flops:
            self._flops[counts] = float(sparse_flops(self.space, torch.tensor([counts]), self.slots)[0])
        return self._flops[counts]

    def sparsity(self, counts: tuple[int, ...]) -> float:
        """The share of zeros among the weights that can be masked (DA-E2)."""
        return 1.0 - sum(counts) / self._maskable

    @property
    def mean_sparsity(self) -> float:
        """Return the share of weights that are 0, as a mean over all clients."""
        return sum(self.sparsity(peer.counts) for peer in self.peers) / len(self.peers)

    def wires(self, counts: tuple[int, ...]) -> Wires:
        """How a model with so many weights by layer, and its mask, are sent."""
        if counts not in self._wires:
            row, dense = torch.tensor([counts]), self.sparsity(counts) == 0
            own = self._accounting == "weights"  # DA-DPFL's own count: as if all could be masked, and no mask
            charge = float(wire_bytes(self.space, row, self.slots, changed=False, accounting="weights")[0])
            values: Codec = Dense() if dense else Masked(self._always + sum(counts))
            mask = None if dense else mask_codec(self.space, sum(counts), self.slots)
            self._wires[counts] = Wires(
                values,
                mask,
                charge if own else float(values.size(self.space)),
                0.0 if own or mask is None else float(mask.size(self.space)),
            )
        return self._wires[counts]

    def parcel(self, weights: Model, support: Model, counts: tuple[int, ...], known: Model | None) -> list[Model]:
        """What is sent: the weights under a support, and before them the support, if the receiver does not know it.

        ``known`` is the support as the receiver has it.
        """
        wires = self.wires(counts)
        if wires.mask is None:
            return [packed(weights, wires.values, charge=wires.charge)]
        sent = packed(weights, wires.values, context=support, known=known, charge=wires.charge)
        if known is not None:
            return [sent]
        return [packed(support, wires.mask, charge=wires.mask_charge), sent]

    def _parcel_of(self, source: int, peer: Peer, known: Model | None) -> list[Model]:
        """What a peer sends. Ghosts weigh the same for everybody, so one parcel does for all who know no mask."""
        if known is not None or not isinstance(peer.weights, Ghost):
            return self.parcel(peer.weights, peer.support, peer.counts, known)
        last = self._ghosts.get(source)
        if last is None or last[0] is not peer:
            last = self._ghosts[source] = peer, self.parcel(peer.weights, peer.support, peer.counts, None)
        return last[1]

    # -- averaging ---------------------------------------------------------------------------------------------------

    async def known(self, world: World, peer: Peer) -> Peer:
        """A peer whose size is known, if need be after a look."""
        if peer.reading is None:
            return peer
        return replace(peer, counts=await world.observe(peer.reading), reading=None)

    async def fetch(self, world: World, peer: Peer, source: int, target: int) -> Peer:
        """A neighbour's model, and its mask unless it is known."""
        if peer.reading is not None:
            peer = await self.known(world, peer)
        version, support = self._known.get((source, target), (-1, None))
        known = support if version == peer.version else None
        sent = self._parcel_of(source, peer, known)
        # Whatever else it waits for meanwhile: standing in line for a link is waiting for its owner.
        *masks, weights = await world.wait(target, world.send_all(sent, source, target, waits=False), source)
        known = masks[0] if masks else known
        if known is None:  # it is dense: the first mask is everybody's, all ones, and never moves
            known = peer.support
        self._known[source, target] = peer.version, known
        return Peer(weights, peer.mask, known, peer.counts, peer.version, peer.moved)

    async def hear(self, world: World, others: Mapping[int, Peer], client: int) -> dict[int, Peer]:
        """Fetch from several: the nearest number after one's own comes first, as in ``gossip``.

        With one order for all, everybody would stand in line for the same few. Who is away is not in the answer.
        """
        order = sorted(others, key=lambda source: (source - client) % len(self.peers))
        moves = (self.fetch(world, others[source], source, client) for source in order)
        return those(order, await world.transfers(unless_dropped(move) for move in moves))


def average(own: Peer, others: Sequence[Peer]) -> Model:
    """DA-6: the mean of those who have a weight, under one's own mask; 0 where nobody has."""
    everyone = [own, *others]
    return apply(_average, own.mask, *[peer.weights for peer in everyone], *[peer.support for peer in everyone])


def _average(mask: Tensor, *rest: Tensor) -> Tensor:
    half = len(rest) // 2
    return masked_mean(rest[:half], rest[half:], mask)


def _drawn(like: Tensor, *, slots: Sequence[Slot], counts: Sequence[int], key: int, client: int) -> Tensor:
    return masks_like(like, slots, counts, key, [client])[0]


def _times(values: Tensor, mask: Tensor) -> Tensor:
    return values * mask


def masked(model: Model, mask: Model) -> Model:
    """A model's weights where the mask has ones."""
    return apply(_times, model, mask)
