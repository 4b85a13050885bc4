"""Scheduled reuse (DA-2 ... DA-5): a client waits for some neighbours, and takes what they trained in this round."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from paceline.algorithms.base import Model, World
from paceline.algorithms.sparse import Heard, Peer, Swarm

Rule = Literal["fastest", "lowest"]


@dataclass(slots=True)
class End:
    """What a client has at the end of its round. (Not frozen: one is made a visit, and freezing takes time.)"""

    client: int
    peer: Peer
    trained: Model
    """As it was trained, before its mask moved: what is scored."""
    time: float = 0.0
    """When its round ended."""
    took_part: bool = True
    """It did not go away."""


class Turn:
    """One round: who hears whom, in which order, for how many one waits, who has finished."""

    def __init__(
        self, world: World, round: int, near: Sequence[Sequence[int]], *, cap: int, rule: Rule = "fastest"
    ) -> None:
        self.round = round
        self.near = near
        """Every client's neighbours (DA-1)."""
        self.cap = cap
        """At most so many neighbours are waited for (N)."""
        self.rule = rule
        """Of those that finish first, or of those with the lowest index, as in the reference code (DA-E7)."""
        self.order = [int(place) for place in world.stream("reuse order", round).permutation(len(world.clients))]
        """Every client's index (DA-2)."""
        loop = asyncio.get_running_loop()
        self.ends: list[asyncio.Future[End]] = [loop.create_future() for _ in world.clients]

    def finish(self, end: End) -> None:
        """A client has done its round."""
        self.ends[end.client].set_result(end)

    def prior(self, world: World, client: int) -> list[int]:
        """DA-2: the neighbours that come before a client and can be reached; by the rule ``lowest`` the first."""
        before = [j for j in self.near[client] if self.order[j] < self.order[client] and world.presence.online(j)]
        if self.rule == "lowest":
            return sorted(before, key=lambda j: self.order[j])[: self.cap]
        return before

    async def hear(self, world: World, swarm: Swarm, client: int) -> list[Heard]:
        """DA-5: of some of those before what they have trained in this round, of the rest what they had.

        Models of the round's start come while it waits, a fresh one as soon as there is one.
        """
        near, peers = self.near[client], swarm.peers
        if not self.cap:  # nobody is waited for
            heard = await swarm.hear(world, {j: peers[j] for j in near}, client)
            return [heard[j] for j in near if j in heard]
        before = self.prior(world, client)
        others = {j: peers[j] for j in near if j not in before}
        old, fresh = await asyncio.gather(
            swarm.hear(world, others, client), self.hear_first(world, swarm, client, before)
        )
        heard = old | fresh
        return [heard[j] for j in near if j in heard]

    async def hear_first(self, world: World, swarm: Swarm, client: int, before: Sequence[int]) -> dict[int, Heard]:
        """DA-3, DA-4: wait for the first so many of these to finish; the rest counts as not waited for.

        Who goes away in mid-round has nothing fresh, and takes nobody's place.
        """
        waiting = {self.ends[j] for j in before}
        fresh: list[int] = []
        heard: dict[int, Heard] = {}
        while waiting and len(fresh) < self.cap:
            event = asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done, waiting = await world.wait(client, event, lambda found: self.in_order(found[0])[0].client)
            trained = [end for end in self.in_order(done) if end.took_part]
            for end in trained[: self.cap - len(fresh)]:  # several, if they finished while one was fetched
                fresh.append(end.client)
                heard |= await swarm.hear(world, {end.client: await swarm.known(world, end.peer)}, client)
        return heard | await swarm.hear(world, {j: swarm.peers[j] for j in before if j not in fresh}, client)

    def in_order(self, done: Iterable[asyncio.Future[End]]) -> list[End]:
        """Who finished first; at one instant, who comes first in the order."""
        return sorted((end.result() for end in done), key=lambda end: (end.time, self.order[end.client]))
