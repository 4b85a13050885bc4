"""DA-DPFL: decentralised, personal, sparse to sparser, with scheduled reuse of fresh models (TNNLS; DA-1 ... DA-12).

In every round each client averages the sparse models of its neighbours under its own mask, trains, and moves its
mask. A random order says who may wait for whom: a client waits for at most ``wait`` of its neighbours that come
before it and uses what they have trained in this very round; from the others it takes the models of the round's
start. When enough clients vote that learning has settled, masks become sparser, again and again. DisPFL is the same
without waiting and without pruning.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from paceline.algorithms.base import (
    Dropped,
    Event,
    LocalReadings,
    Model,
    Progress,
    Reading,
    Traits,
    World,
    apply,
    by_rows,
    require,
    somebody,
)
from paceline.algorithms.neighbourhoods import Neighbourhoods
from paceline.algorithms.sparse import Accounting, Peer, Spread, Swarm, average, masked
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Slot
from paceline.learn.sparsity import (
    Sap,
    agreed,
    cosine_fraction,
    counts,
    detection,
    prune,
    pruning_rounds,
    random_growth,
    rigl,
    votes,
)
from paceline.seeds import address

SCORED = 20
"""Models whose distance from the start is measured together: one is too few for a GPU, all are copied at once."""


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """When masks become sparser, and how much (DA-8 ... DA-10)."""

    target: float = 0.8
    """The share of zeros at which a client stops (s*); not above the first sparsity: nobody prunes."""
    threshold: float = 0.02
    """A client votes for it when its detection score changes by less than this, relative to the first (delta_pr)."""
    share: float = 0.5
    """Votes that start it (delta_v)."""
    delay: float = 0.0
    """b of Eq. 6."""
    scale: float = 1.3
    """c of Eq. 6: the gaps between prunings shrink by it."""
    norm: Literal["tensors", "global"] = "tensors"
    """Of the detection score: as the reference code has it, or as Eq. 4 (DA-E6)."""
    first: int | None = None
    """The round t* itself, instead of a vote."""
    sap: Sap = field(default_factory=Sap)

    def check(self) -> None:
        """Raise ``SettingError`` if these values are impossible, before anything is learned."""
        require(self.target < 1, f"pruning.target is {self.target}; wanted a share below 1")
        require(0 <= self.threshold < math.inf, f"pruning.threshold is {self.threshold}; wanted 0 or more, as 0.02")
        require(0 < self.share <= 1, f"pruning.share is {self.share}; wanted a share above 0 and at most 1")
        require(0 <= self.delay < math.inf, f"pruning.delay is {self.delay}; wanted rounds, 0 or more")
        require(0 < self.scale < math.inf, f"pruning.scale is {self.scale}; wanted a number above 0, as 1.3")
        require(self.first is None or self.first >= 1, f"pruning.first is {self.first}; wanted a round, 1 or more")


@dataclass(frozen=True, kw_only=True)
class DADPFL:
    """Peers that reuse what was trained in the same round."""

    rounds: int = 100
    neighbours: Neighbourhoods = field(default_factory=Neighbourhoods)
    wait: int = 10
    """At most so many neighbours are waited for (N); 0: everybody starts at once."""
    rule: Literal["fastest", "lowest"] = "fastest"
    """Those that finish first, or those with the lowest index as in the reference code (DA-E7)."""
    decay: bool = False
    """Let the wait cap fall to 0 step by step, as the reference code does (DA-E7)."""
    sparsity: float = 0.5
    """The share of zeros at the start (s_0)."""
    spread: Spread = "erk"
    same_masks: bool = False
    """All clients begin with the same mask."""
    pruning: Pruning = field(default_factory=Pruning)
    regrow: float = 0.3
    """alpha_0: the share of active weights that the first round moves; 0: masks stay."""
    growth: Literal["gradient", "random"] = "gradient"
    """Where weights grow: at the largest gradients of one batch (RigL), or anywhere (DisPFL's script)."""
    accounting: Accounting = "full"
    """Bytes of a model: with its mask where that is not known, or weights only, as in the paper's tables."""
    local: LocalSGD = field(
        default_factory=lambda: LocalSGD(lr=0.1, epochs=5, weight_decay=5e-4, schedule="exponential:0.998")
    )

    def check(self, clients: int) -> None:
        """Raise ``SettingError`` if these settings are impossible with so many clients."""
        require(self.rounds >= 1, f"rounds is {self.rounds}; it must be 1 or more")
        require(self.wait >= 0, f"wait is {self.wait}; it must be 0 or more")
        require(0 <= self.sparsity < 1, f"sparsity is {self.sparsity}; wanted a share of zeros from 0 to below 1")
        require(0 <= self.regrow <= 1, f"regrow is {self.regrow}; wanted a share from 0 to 1")
        self.pruning.check()
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
            observes="set da-dpfl.pruning.target=0, so that nobody prunes" if self.prunes else "",
        )

    async def run(self, world: World) -> AsyncIterator[Progress]:
        """Round by round, all clients side by side."""
        swarm = Swarm(
            world,
            density=1.0 - self.sparsity,
            spread=self.spread,
            same_masks=self.same_masks,
            accounting=self.accounting,
        )
        timing = Timing(self, swarm)
        for round in range(self.rounds):
            await somebody(world, round, self.rounds)
            turn = Turn(world, round, self.neighbours, timing.prunes(round))
            ends = await world.gather(self.peer(world, swarm, turn, client) for client in world.clients)
            swarm.peers = [await swarm.known(world, end.peer) for end in ends]
            await timing.detect(world, round, ends)
            yield Progress([end.trained for end in ends], {"sparsity": swarm.mean_sparsity})

    async def peer(self, world: World, swarm: Swarm, turn: Turn, client: int) -> End:
        """One client's round: wait, average, train, prune, move the mask; one that drops out keeps what it had."""
        own = swarm.peers[client]
        try:
            heard = await self.hear(world, swarm, turn, client)
            end = await self.train(world, swarm, turn, client, average(own, heard))
        except Dropped:
            end = End(client, own, own.weights, took_part=False)
        end = replace(end, time=world.now())
        turn.finish(end)
        return end

    async def hear(self, world: World, swarm: Swarm, turn: Turn, client: int) -> list[Peer]:
        """DA-2 ... DA-5: of some of those before what they have trained in this round, of the rest what they had.

        Models of the round's start come while it waits, a fresh one as soon as there is one.
        """
        near, cap = turn.near[client], self.cap(turn.round)
        before = [j for j in near if turn.order[j] < turn.order[client] and world.presence.online(j)]
        if self.rule == "lowest" or not cap:
            before = sorted(before, key=lambda j: turn.order[j])[:cap]
        others = {j: swarm.peers[j] for j in near if j not in before}
        old, fresh = await asyncio.gather(
            swarm.hear(world, others, client), self.hear_first(world, swarm, turn, client, before)
        )
        heard = old | fresh
        return [heard[j] for j in near if j in heard]

    def cap(self, round: int) -> int:
        """DA-3: how many are waited for in this round; with ``decay`` one less every T div (N+1) rounds (DA-E7)."""
        return max(0, self.wait - round // max(1, self.rounds // (self.wait + 1))) if self.decay else self.wait

    async def hear_first(
        self, world: World, swarm: Swarm, turn: Turn, client: int, before: Sequence[int]
    ) -> dict[int, Peer]:
        """DA-3, DA-4: the first so many of these to finish; the rest counts as not waited for.

        Who goes away in mid-round has nothing fresh, and takes nobody's place.
        """
        cap, waiting = self.cap(turn.round), {turn.ends[j] for j in before}
        fresh: list[int] = []
        heard: dict[int, Peer] = {}
        while waiting and len(fresh) < cap:
            event = asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done, waiting = await world.wait(client, event, lambda found: turn.in_order(found[0])[0].client)
            trained = [end for end in turn.in_order(done) if end.took_part]
            for end in trained[: cap - len(fresh)]:  # several, if they finished while one was fetched
                fresh.append(end.client)
                heard |= await swarm.hear(world, {end.client: end.peer}, client)
        return heard | await swarm.hear(world, {j: swarm.peers[j] for j in before if j not in fresh}, client)

    async def train(self, world: World, swarm: Swarm, turn: Turn, client: int, start: Model) -> End:
        """DA-7, DA-10 ... DA-12: train under the own mask; perhaps fewer weights; as many elsewhere from then on."""
        own, flops = swarm.peers[client], swarm.flops(swarm.peers[client].counts)
        fraction = cosine_fraction(self.regrow, turn.round, self.rounds)
        prunes = turn.prunes and swarm.sparsity(own.counts) < self.pruning.target

        cut = Cut(swarm, own.mask, self.pruning if prunes else None)
        slope: Model | None = None
        if fraction and self.growth == "gradient":
            trained, slope = await world.learning.train_then_gradient(
                client, start, self.local, at=cut, mask=own.mask, flops=flops
            )
        else:
            trained = await world.train(client, start, self.local, mask=own.mask, flops=flops)
            cut(trained)
        mask = self.moved(world, swarm, turn, client, cut, slope, fraction)
        version = own.version + (own.moved or prunes)
        reading = self.read_counts(world, swarm, cut.support) if prunes else None
        peer = Peer(cut.weights, mask, cut.support, own.counts, version, fraction > 0, reading)
        return End(client, peer, trained)

    def read_counts(self, world: World, swarm: Swarm, support: Model) -> Reading[tuple[int, ...]]:
        """How many weights a pruning has left: sizes and times depend on it from the next round on."""
        reading = Reading([support], lambda values: tuple(counts(values[0][None], swarm.slots)[0].tolist()))
        world.learning.expect(reading)
        return reading

    def moved(
        self,
        world: World,
        swarm: Swarm,
        turn: Turn,
        client: int,
        cut: Cut,
        slope: Model | None,
        fraction: float,
    ) -> Model:
        """DA-11: drop the smallest weights, grow as many at the largest gradients of one batch, or anywhere."""
        if not fraction:
            return cut.support
        if slope is not None:
            return by_rows(rigl, cut.weights, cut.support, slope, slots=swarm.slots, fraction=fraction)
        key = address(int(world.stream("growth", client, turn.round).integers(1 << 62)), "growth") >> 1
        return apply(_grown, cut.weights, cut.support, key=key, slots=swarm.slots, fraction=fraction)


class Cut:
    """DA-10: what a round's pruning, if there is one, leaves of a trained model."""

    def __init__(self, swarm: Swarm, mask: Model, pruning: Pruning | None) -> None:
        self.support = mask
        """The mask under which the weights are."""
        self.weights = mask
        self._slots = swarm.slots
        self._pruning = pruning

    def __call__(self, trained: Model) -> Model:
        """The weights that are left."""
        self.weights, rule = trained, self._pruning
        if rule is not None:
            self.support = by_rows(prune, trained, self.support, slots=self._slots, rule=rule.sap, target=rule.target)
            self.weights = masked(trained, self.support)
        return self.weights


def _grown(weights: Tensor, old: Tensor, *, key: int, slots: Sequence[Slot], fraction: float) -> Tensor:
    keys = torch.tensor([key], device=weights.device)
    return random_growth(weights[None], old[None], keys, slots, fraction)[0]


@dataclass(frozen=True)
class End:
    """What a client has at the end of its round."""

    client: int
    peer: Peer
    trained: Model
    """As it was trained, before its mask moved: what is scored."""
    time: float = 0.0
    """When its round ended."""
    took_part: bool = True
    """It did not go away."""


class Turn:
    """One round: who hears whom, in which order, who has finished."""

    def __init__(self, world: World, round: int, neighbours: Neighbourhoods, prunes: bool) -> None:
        self.round = round
        self.prunes = prunes
        self.near = neighbours.draw(world, round)
        self.order = [int(place) for place in world.stream("reuse order", round).permutation(len(world.clients))]
        loop = asyncio.get_running_loop()
        self.ends: list[asyncio.Future[End]] = [loop.create_future() for _ in world.clients]

    def finish(self, end: End) -> None:
        """A client has done its round."""
        self.ends[end.client].set_result(end)

    def in_order(self, done: Iterable[asyncio.Future[End]]) -> list[End]:
        """Who finished first; at one instant, who comes first in the order."""
        return sorted((end.result() for end in done), key=lambda end: (end.time, self.order[end.client]))


class Timing:
    """In which rounds masks become sparser (DA-8, DA-9); rounds are counted from 1 there and from 0 here."""

    def __init__(self, settings: DADPFL, swarm: Swarm) -> None:
        self._settings = settings
        self._slots = swarm.space.slots
        self._rounds: frozenset[int] = frozenset()
        self._starts = [peer.weights for peer in swarm.peers]
        """Each client's own model at the start, sparse as it was."""
        self._scores: tuple[Tensor, Tensor] | None = None
        """The first of each client, and the last."""
        self._found = not settings.prunes
        if settings.prunes and settings.pruning.first is not None:
            self._set(settings.pruning.first)

    def prunes(self, round: int) -> bool:
        """Whether this round does."""
        return round + 1 in self._rounds

    def _set(self, first: int) -> None:
        rule = self._settings.pruning
        times = pruning_rounds(first, self._settings.rounds, delay=rule.delay, scale=rule.scale)
        self._rounds, self._found, self._scores = frozenset(times), True, None

    async def detect(self, world: World, round: int, ends: Sequence[End]) -> None:
        """Ask all who took part how far they have come; if enough find that it changes little, the times are set."""
        if self._found:
            self._starts = []
            return
        own = [(start, end.trained) for start, end in zip(self._starts, ends, strict=True)]
        now = await world.observe(LocalReadings(own, self._distances))
        first, before = self._scores or (now, torch.zeros_like(now))
        first = torch.where(first == 0, now, first)  # of one that was away until now
        self._scores = first, now
        here = torch.tensor([end.took_part for end in ends])
        settled = votes(now, before, first, self._settings.pruning.threshold) & (before > 0)  # from t = 2 on
        for_it = settled[here]
        if len(for_it) and agreed(for_it, self._settings.pruning.share):
            self._set(round + 1)
            text = (
                f"{int(for_it.sum())} of {len(for_it)} clients vote for pruning in round {round + 1};"
                f" rounds that prune: {_few(sorted(self._rounds))}"
            )
            world.log.tell(Event(text=text, figures={"first": round + 1, "rounds": sorted(self._rounds)}))

    def _distances(self, values: Sequence[Tensor]) -> Tensor:
        """Each client's detection score."""
        found = []
        for k in range(0, len(values), 2 * SCORED):
            some = values[k : k + 2 * SCORED]
            starts, models = torch.stack(list(some[0::2])), torch.stack(list(some[1::2]))
            found.append(detection(models, starts.to(models), self._slots, self._settings.pruning.norm).cpu())
        return torch.cat(found)


def _few(rounds: Sequence[int], most: int = 6) -> str:
    """The first of them, and how many there are."""
    if not rounds:
        return "none is left"
    named = ", ".join(map(str, rounds[:most]))
    return named if len(rounds) <= most else f"{named}, ... {rounds[-1]}, {len(rounds)} in all"
