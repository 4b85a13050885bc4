"""DA-DPFL: decentralised, personal, sparse to sparser, with scheduled reuse of fresh models (TNNLS; DA-1 ... DA-12).

In every round each client averages the sparse models of its neighbours under its own mask, trains, and moves its
mask. A random order says who may wait for whom: a client waits for at most ``wait`` of its neighbours that come
before it and uses what they have trained in this very round; from the others it takes the models of the round's
start. When enough clients vote that learning has settled, masks become sparser, again and again. DisPFL is the same
without waiting and without pruning.

A round's steps are in ``DADPFL.peer`` by their numbers: DA-2 ... DA-5 are in ``reuse``, DA-6 in ``sparse``, DA-8 ...
DA-10 in ``sparser``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from paceline.algorithms.base import Assumption, Dropped, Model, Progress, Traits, World, apply, by_rows, somebody
from paceline.algorithms.neighbourhoods import Neighbourhoods
from paceline.algorithms.reuse import End, Rule, Turn
from paceline.algorithms.sparse import Accounting, Peer, Spread, Swarm, average
from paceline.algorithms.sparser import Cut, Pruning, Timing
from paceline.bounds import bounded, check_bounds
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Slot
from paceline.learn.sparsity import cosine_fraction, layer_words, random_growth, rigl
from paceline.seeds import address

__all__ = ["DADPFL", "Pruning"]


UNPRUNED = Assumption(
    "models are taken to keep their first sparsity, for when clients prune is learned (da-dpfl.pruning.target=0 says"
    " the same, da-dpfl.sparsity another first sparsity)",
    {"pruning": {"target": 0.0}},
)


@dataclass(frozen=True, kw_only=True)
class DADPFL:
    """Peers that reuse what was trained in the same round."""

    rounds: int = bounded(100, least=1)
    neighbours: Neighbourhoods = field(default_factory=Neighbourhoods)
    wait: int = bounded(10, least=0)
    """At most so many neighbours are waited for (N); 0: everybody starts at once."""
    rule: Rule = "fastest"
    """Those that finish first, or those with the lowest index as in the reference code (DA-E7)."""
    decay: bool = False
    """Let the wait cap fall to 0 step by step, as the reference code does (DA-E7)."""
    sparsity: float = bounded(0.5, least=0, below=1)
    """The share of zeros at the start (s_0)."""
    spread: Spread = "erk"
    dense: str = "none"
    """Layers that are never masked: parts of their names, joined by ``+``. The reference code has ``shortcut``
    (DA-E11)."""
    same_masks: bool = False
    """All clients begin with the same mask."""
    pruning: Pruning = field(default_factory=Pruning)
    regrow: float = bounded(0.3, least=0, most=1)
    """alpha_0: the share of active weights that the first round moves; 0: masks stay."""
    growth: Literal["gradient", "random"] = "gradient"
    """Where weights grow: at the largest gradients of one batch (RigL), or anywhere (DisPFL's script)."""
    accounting: Accounting = "full"
    """Bytes of a model: with its mask where that is not known, or weights only, as in the paper's tables."""
    local: LocalSGD = field(
        default_factory=lambda: LocalSGD(lr=0.1, epochs=5, weight_decay=5e-4, schedule="exponential:0.998")
    )

    def check(self, clients: int) -> None:
        """Numbers must lie within their bounds, and every client must have its neighbours."""
        check_bounds(self)
        layer_words(self.dense)
        self.neighbours.check(clients)

    @property
    def prunes(self) -> bool:
        """Whether masks ever become sparser."""
        return self.pruning.target > self.sparsity

    def traits(self, clients: int) -> Traits:
        """How sparse models become is learned, and seconds and bytes depend on it; the paper knows no absence."""
        return Traits(
            rounds=self.rounds,
            local=self.local,
            absence="skip",
            servers=0,
            outlives_servers=True,
            paced_by_rounds=True,
            assumption=UNPRUNED if self.prunes else None,
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Round by round, all clients side by side."""
        swarm = Swarm(
            world,
            density=1.0 - self.sparsity,
            spread=self.spread,
            same_masks=self.same_masks,
            accounting=self.accounting,
            dense=self.dense,
        )
        timing = Timing(self.pruning if self.prunes else None, self.rounds, swarm)
        for round in range(self.rounds):
            await somebody(world, round, self.rounds)
            near = self.neighbours.draw(world, round)  # DA-1
            turn = Turn(world, round, near, cap=self.cap(round), rule=self.rule)  # DA-2
            prunes = timing.prunes(round)
            ends = await world.gather(self.peer(world, swarm, turn, client, prunes) for client in world.clients)
            swarm.peers = [await swarm.known(world, end.peer) for end in ends]
            await timing.detect(world, round, ends)  # DA-8, DA-9
            yield Progress([end.trained for end in ends], {"sparsity": swarm.mean_sparsity, **timing.figures})

    def cap(self, round: int) -> int:
        """DA-3: how many are waited for in this round; with ``decay`` one less every T div (N+1) rounds (DA-E7)."""
        return max(0, self.wait - round // max(1, self.rounds // (self.wait + 1))) if self.decay else self.wait

    async def peer(self, world: World, swarm: Swarm, turn: Turn, client: int, prunes: bool) -> End:
        """One client's round, step by step; one that drops out keeps what it had."""
        own = swarm.peers[client]
        try:
            heard = await turn.hear(world, swarm, client)  # DA-3 ... DA-5
            start = average(own, heard)  # DA-6
            share = cosine_fraction(self.regrow, turn.round + 1, self.rounds)  # rounds count from 1 there
            cut = self.cut(swarm, own, prunes)
            trained, slope = await self.train(world, swarm, client, start, share, cut)  # DA-7, with DA-10 in it
            mask = self.regrown(world, swarm, turn, client, cut, slope, share)  # DA-11
            end = End(client, self.carried_on(world, own, cut, mask, share), trained, world.now())  # DA-12
        except Dropped:
            end = End(client, own, own.weights, world.now(), took_part=False)
        turn.finish(end)
        return end

    def cut(self, swarm: Swarm, own: Peer, prunes: bool) -> Cut:
        """DA-10: in a round that prunes, those who are not as sparse as they shall be lose weights."""
        due = prunes and swarm.sparsity(own.counts) < self.pruning.target
        return Cut(swarm.slots, own.mask, self.pruning if due else None)

    async def train(
        self, world: World, swarm: Swarm, client: int, start: Model, share: float, cut: Cut
    ) -> tuple[Model, Model | None]:
        """DA-7: train under the own mask; where gradients decide what grows, also the gradient of one batch.

        That gradient is taken at what the pruning leaves of the trained model, in the same visit.
        """
        own, flops = swarm.peers[client], swarm.flops(swarm.peers[client].counts)
        if share and self.growth == "gradient":
            return await world.learning.train_then_gradient(
                client, start, self.local, at=cut, mask=own.mask, flops=flops
            )
        trained = await world.train(client, start, self.local, mask=own.mask, flops=flops)
        cut(trained)
        return trained, None

    def regrown(
        self, world: World, swarm: Swarm, turn: Turn, client: int, cut: Cut, slope: Model | None, share: float
    ) -> Model:
        """DA-11: drop the smallest weights, grow as many at the largest gradients of one batch, or anywhere."""
        if not share:
            return cut.support
        if slope is not None:
            return by_rows(rigl, cut.weights, cut.support, slope, slots=swarm.slots, fraction=share)
        key = address(int(world.stream("growth", client, turn.round).integers(1 << 62)), "growth") >> 1
        return apply(_grown, cut.weights, cut.support, key=key, slots=swarm.slots, fraction=share)

    def carried_on(self, world: World, own: Peer, cut: Cut, mask: Model, share: float) -> Peer:
        """DA-12: the trained weights less what was pruned, and the mask that takes effect in the next round."""
        known: dict[int, Model] = {} if own.moved or cut.prunes else own.known
        return Peer(cut.weights, mask, cut.support, own.counts, known, share > 0, cut.read_counts(world))


def _grown(weights: Tensor, old: Tensor, *, key: int, slots: Sequence[Slot], fraction: float) -> Tensor:
    keys = torch.tensor([key], device=weights.device)
    return random_growth(weights[None], old[None], keys, slots, fraction)[0]
