"""Clients with sparse models of their own: what each has, what it costs to train and to send, who knows which mask.

Masks and weights are promises; how many weights each layer has is known to the schedule, because seconds and bytes
depend on it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from paceline.algorithms.base import Model, Reading, World, apply, packed
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
    """One client's sparse model. (Not frozen, though nobody changes one: many are made, and freezing takes time.)"""

    weights: Model
    mask: Model
    """What it trains next."""
    support: Model
    """The mask under which its weights were trained, less what was pruned: others average these (DA-5, DA-12)."""
    counts: tuple[int, ...]
    """Active weights by layer, of both."""
    known: dict[int, Model] = field(default_factory=dict)
    """By client: its support, as those have it who were told."""
    moved: bool = False
    """Whether its mask is another one than its support."""
    reading: Reading[tuple[int, ...]] | None = None
    """Where ``counts`` are not known yet: how many they are is learned, and asked for when it matters."""
    ghosts: list[Model] | None = field(default=None, init=False)
    """In a dry run: what it sends to all who do not know its support."""


Heard = tuple[Model, Model]
"""What a client has of a neighbour: its weights, and the mask that they are under. (A plain tuple: ten are made a
visit.)"""


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

    def parcel_for(self, client: int, peer: Peer) -> list[Model]:
        """What a peer sends to a client. Ghosts weigh the same for all who do not know its support."""
        known = peer.known.get(client)
        if known is None and peer.ghosts is not None:
            return peer.ghosts
        sent = self.parcel(peer.weights, peer.support, peer.counts, known)
        if known is None and isinstance(peer.weights, Ghost):
            peer.ghosts = sent
        return sent

    # -- averaging ---------------------------------------------------------------------------------------------------

    async def known(self, world: World, peer: Peer) -> Peer:
        """A peer whose size is known, if need be after a look."""
        if peer.reading is None:
            return peer
        return replace(peer, counts=await world.observe(peer.reading), reading=None)

    async def hear(self, world: World, others: Mapping[int, Peer], client: int) -> dict[int, Heard]:
        """Fetch models from several peers of known sizes, and their masks unless they are known.

        The nearest number after one's own comes first, as in ``gossip``: with one order for all, everybody would
        stand in line for the same few. Who is away is not in the answer.
        """
        order = sorted(others)
        after = bisect_left(order, client)
        parcels = {k: self.parcel_for(client, others[k]) for k in order[after:] + order[:after]}
        heard: dict[int, Heard] = {}
        for source, models in (await world.fetch(parcels, client)).items():
            peer = others[source]
            if len(models) > 1:
                peer.known[client] = models[0]
            # Where none is known either, it is dense: the first mask is everybody's, all ones, and never moves.
            heard[source] = models[-1], peer.known.setdefault(client, peer.support)
        return heard


def average(own: Peer, others: Sequence[Heard]) -> Model:
    """DA-6: the mean of those who have a weight, under one's own mask; 0 where nobody has."""
    if isinstance(own.mask, Ghost):
        return own.mask
    weights, supports = zip((own.weights, own.support), *others, strict=True)
    return apply(_average, own.mask, *weights, *supports)


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
