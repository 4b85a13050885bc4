"""Nodes that average with their neighbours on a graph, also while nodes and links of it fail.

A node goes on as soon as its own neighbours have sent (PF-5): there is no barrier of all, and nodes may be as many
rounds apart as there are links between them. So when something fails, every round must be settled by itself, and in
every round the weights that nodes really use must form a symmetric, doubly stochastic matrix:

- From the first round that nobody has mixed yet, all use new weights, made for what is left of the graph.
- In rounds before it, a link that failed is used by both of its ends or by neither. If neither has mixed, neither
  will use it: its weight goes to their own models. If one has, the other is sent what it lacks by way of others.
- What a node that failed had sent is used by those who got it. The rest put its weight on their own models.

One case cannot be mended: if the link was the last path between its ends and only one of them has used it, that
round's matrix is not symmetric. The overlay has then fallen apart, and the note says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from paceline.algorithms.aggregate import aggregated
from paceline.algorithms.base import Dropped, Event, Model, World, combine
from paceline.errors import site_name
from paceline.topology import Graph, Mixing, consensus_rate, weigh_parts

Weigh = Callable[[Graph], Mixing]
PASSING = ("failed", "severed", "lost", "refused")
"""Reasons for which a message that must not be missed is sent again, by another way if need be."""


@dataclass(frozen=True)
class Weights:
    """The weights of all nodes, and the first round in which they hold."""

    first: int
    mixing: Mixing


class Overlay:
    """Who is linked with whom, what has arrived where, and which weights hold in which round."""

    def __init__(self, world: World, graph: Graph, sites: Sequence[int], weigh: Weigh) -> None:
        """Nodes of the graph are at these sites: servers, or clients that average among themselves."""
        self.world = world
        self.sites = sites
        self.living = set(range(graph.nodes))
        self.away: set[int] = set()
        """Nodes of these that the others do not wait for at present."""
        self.rounds = [0] * graph.nodes
        """The round that each node is in, not mixed yet."""
        self.on_loss: Callable[[int], str] = lambda node: ""
        """Called when a node has failed; what it says goes into the note."""
        self.rows: dict[int, dict[int, dict[int, float]]] = {}
        """The weights that were used: by round, node and other node; of rounds that are not complete."""
        self._weigh = weigh
        self._weights = [Weights(0, weigh_parts(graph, weigh))]
        self._inbox: dict[tuple[int, int, int], asyncio.Future[Model | None]] = {}
        """By target, source and round; None: it will not come, or must not be used."""
        self._own: dict[tuple[int, int], Model] = {}
        """What each node had before it mixed, by node and round, while somebody may lack it."""
        self._mixed: dict[int, dict[int, Model]] = {}
        self._at_work: set[int] = set()
        """Servers that still compute the average of their previous round."""
        self._change: asyncio.Future[None] | None = None
        self._watch(graph)

    @property
    def graph(self) -> Graph:
        """What is left of the links; nodes that failed have none."""
        return self._weights[-1].mixing.graph

    # -- one round of one node -------------------------------------------------------------------------------------

    async def mix(self, node: int, round: int, own: Model) -> Model:
        """PF-5: send to the neighbours, wait for theirs, average; ``Dropped`` if this node fails meanwhile."""
        self._require(node)
        self._own[node, round] = own
        for other in self._weights_in(round).mixing.graph.neighbours[node]:
            self.world.spawn(self._deliver(node, other, round, own))
        while (missing := self._missing(node, round)) is not None:
            arrival = self._slot(node, missing, round)
            await self.world.wait(self.sites[node], arrival, self.sites[missing])
            self._require(node)
        mixed = self._average(node, round, own)
        self.rounds[node] = round + 1
        if self.sites[node] < 0:
            mixed = await self._worked(node, mixed, len(self.rows[round][node]))
        self._mixed.setdefault(round, {})[node] = mixed
        self._changed()
        return mixed

    async def _worked(self, node: int, mixed: Model, count: int) -> Model:
        """Charge a server for its average. Failures in the meantime do not change what is averaged."""
        self._at_work.add(node)
        try:
            return await aggregated(self.world, mixed, count, self.sites[node])
        finally:
            self._at_work.discard(node)

    async def completed(self, round: int) -> Mapping[int, Model]:
        """All that living nodes have mixed in this round, once the last of them has; empty if none is left."""
        while self.living and self._incomplete(round):
            self._change = self._change or asyncio.get_running_loop().create_future()
            await self._change
        self._forget(round)
        models = self._mixed.pop(round, {})
        return {node: models[node] for node in sorted(self.living) if node in models}

    def _incomplete(self, round: int) -> bool:
        """Whether somebody who is there has not mixed this round, or nobody has done it at all."""
        behind = any(self.rounds[node] - (node in self._at_work) <= round for node in self.living - self.away)
        return behind or not self._mixed.get(round, {}).keys() & self.living

    def _missing(self, node: int, round: int) -> int | None:
        """A neighbour that has not sent yet; the weights may have changed while others were waited for."""
        for other in self._weights_in(round).mixing.graph.neighbours[node]:
            if self._slot(node, other, round).done():
                continue
            if other in self.away and self.rounds[other] <= round:
                self._without(node, other, round)
                continue
            return other
        return None

    def _average(self, node: int, round: int, own: Model) -> Model:
        """The row of this round's matrix; the weight of what did not come stays at home."""
        mixing = self._weights_in(round).mixing
        row, terms = {node: 1.0}, []
        for other in mixing.graph.neighbours[node]:
            model, weight = self._slot(node, other, round).result(), float(mixing.matrix[node, other])
            if model is not None and weight:
                row[other] = weight
                terms.append((weight, model))
        row[node] -= sum(weight for weight, _ in terms)
        self.rows.setdefault(round, {})[node] = row
        return combine([(row[node], own), *terms])

    async def _deliver(self, node: int, other: int, round: int, model: Model) -> None:
        try:
            arrived = await self.world.send(model, self.sites[node], self.sites[other], waits=False)
        except Dropped as dropped:
            self._undelivered(node, other, round, dropped)
            return
        self._settle(other, node, round, arrived)

    def _undelivered(self, node: int, other: int, round: int, dropped: Dropped) -> None:
        """One of both was away, or they never meet; who waits for a server or a link that failed has been told."""
        if dropped.reason in ("failed", "severed") or not self.living >= {node, other}:
            return
        if dropped.gone:
            self.cut(node, other)
        else:
            self._settle_link(node, other, round)

    # -- nodes that are away ---------------------------------------------------------------------------------------

    def step_out(self, node: int) -> None:
        """A node is away: from its present round on nobody waits for it."""
        self.away.add(node)
        self._wake(lambda target, source, round: source == node and round >= self.rounds[node])
        self._changed()

    def step_in(self, node: int) -> None:
        """It is back, and goes on in the round that its neighbours have come to; what it missed is given up."""
        self.away.discard(node)
        others = self.graph.neighbours[node]
        missed, self.rounds[node] = self.rounds[node], max([self.rounds[node], *(self.rounds[k] for k in others)])
        for round in range(missed, self.rounds[node]):
            for other in others:
                self._without(node, other, round)
        self._changed()

    def _without(self, node: int, other: int, round: int) -> None:
        """Neither of both uses what the other has in this round."""
        self._give_up(node, other, round)
        self._give_up(other, node, round)

    # -- slots -----------------------------------------------------------------------------------------------------

    def _slot(self, target: int, source: int, round: int) -> asyncio.Future[Model | None]:
        key = (target, source, round)
        if key not in self._inbox:
            self._inbox[key] = asyncio.get_running_loop().create_future()
        return self._inbox[key]

    def _settle(self, target: int, source: int, round: int, model: Model | None) -> None:
        """Something has come, unless it was given up before."""
        slot = self._slot(target, source, round)
        if not slot.done():
            slot.set_result(model)

    def _give_up(self, target: int, source: int, round: int) -> None:
        """Whether it has come or not, it will not be used."""
        self._settle(target, source, round, None)
        if self._slot(target, source, round).result() is not None:
            del self._inbox[target, source, round]
            self._settle(target, source, round, None)

    def _forget(self, round: int) -> None:
        """All have mixed this round: nobody lacks anything of it."""
        self._inbox = {key: slot for key, slot in self._inbox.items() if key[2] > round}
        self._own = {key: model for key, model in self._own.items() if key[1] > round}
        self.rows = {key: row for key, row in self.rows.items() if key > round}

    def _changed(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)
        self._change = None

    # -- failures --------------------------------------------------------------------------------------------------

    def _watch(self, graph: Graph) -> None:
        if not self.world.failures.possible:
            return
        for node in range(graph.nodes):
            self.world.spawn(self._watch_node(node))
        for i, j in graph.edges:
            self.world.spawn(self._watch_link(i, j))

    async def _watch_node(self, node: int) -> None:
        await self.world.failures.breakdown(self.sites[node])
        self.lose(node)

    async def _watch_link(self, one: int, other: int) -> None:
        await self.world.failures.breakdown(self.sites[one], self.sites[other])
        if self.living >= {one, other}:
            self.cut(one, other)

    def lose(self, node: int) -> None:
        """A node has failed, or left for good."""
        if node not in self.living:
            return
        self.living.discard(node)
        old = self.graph
        first = self._reweigh([edge for edge in old.edges if node not in edge])
        for other in old.neighbours[node]:
            for round in range(self.rounds[other], first):
                self._settle(other, node, round, None)
        self._wake(lambda target, source, round: node in (target, source))
        self._changed()
        self._tell(self._name(node), (node,), first, self.on_loss(node))

    def cut(self, one: int, other: int) -> None:
        """A link between two living nodes has failed."""
        if (min(one, other), max(one, other)) not in self.graph.edges:
            return
        first = self._reweigh([edge for edge in self.graph.edges if set(edge) != {one, other}])
        for round in range(min(self.rounds[one], self.rounds[other]), first):
            self._settle_link(one, other, round)
        self._wake(lambda target, source, round: {target, source} == {one, other} and round >= first)
        self._tell(f"the link between {self._name(one)} and {self._name(other)}", (one, other), first)

    def _wake(self, concerns: Callable[[int, int, int], bool]) -> None:
        """Whoever waits for something that these failures concern waits no longer, and finds out what is."""
        for key in [key for key, slot in self._inbox.items() if not slot.done() and concerns(*key)]:
            self._settle(*key, None)

    def _settle_link(self, one: int, other: int, round: int) -> None:
        """A round that was weighed with a link that is gone: both ends use it, or neither."""
        done = self.rounds[one] > round, self.rounds[other] > round
        if not any(done):
            self._without(one, other, round)
        elif not all(done):
            ahead, behind = (one, other) if done[0] else (other, one)
            if behind not in self.rows.get(round, {}).get(ahead, {}):  # it had given it up, or was away
                self._give_up(behind, ahead, round)
            elif not self._slot(behind, ahead, round).done():
                self.world.spawn(self._relay(ahead, behind, round))

    async def _relay(self, source: int, target: int, round: int) -> None:
        """By way of others, on the shortest path that there is; if that breaks too, on another."""
        model, at = self._own[source, round], source
        while at != target:
            path = self.graph.path(at, target)
            if path is None or target not in self.living:
                self._settle(target, source, round, None)
                return
            try:
                model = await self.world.send(model, self.sites[at], self.sites[path[1]], waits=False)
            except Dropped as dropped:
                if dropped.reason not in PASSING:  # somebody on the way is away
                    self._settle(target, source, round, None)
                    return
                await self.world.settled()  # until a failure is known here, too; what was lost is sent again
                at = at if at in self.living else source
                continue
            at = path[1]
        self._settle(target, source, round, model)

    def _reweigh(self, edges: Sequence[tuple[int, int]]) -> int:
        """New weights for what is left, from the first round that nobody has mixed; that round."""
        first = max((self.rounds[node] for node in self.living), default=0)
        graph = Graph.of(self.graph.nodes, edges, self.graph.names)
        self._weights.append(Weights(first, weigh_parts(graph, self._weigh)))
        return first

    def _weights_in(self, round: int) -> Weights:
        return next(weights for weights in reversed(self._weights) if weights.first <= round)

    def _require(self, node: int) -> None:
        if node not in self.living:
            raise Dropped(self.sites[node], self.world.now())

    def _tell(self, what: str, nodes: tuple[int, ...], first: int, more: str = "") -> None:
        parts = [part for part in self.graph.components if set(part) <= self.living]
        text = f"{what} has failed; new weights from round {first + 1}{more}"
        if len(parts) > 1:
            names = " and ".join("{" + ", ".join(map(self._name, part)) + "}" for part in parts)
            text += f"; the overlay has fallen apart into {names}, which cannot agree any more"
        sites = tuple(self.sites[node] for node in nodes)
        short = what if len(nodes) == 1 else "link " + "–".join(str(abs(site)) for site in sites)
        figures = {"nodes": len(self.living), "parts": len(parts), "p": self._rate()}
        self.world.log.tell(Event(kind="failure", text=text, sites=sites, name=short, figures=figures))

    def _name(self, node: int) -> str:
        name, names = site_name(self.sites[node]), self._weights[0].mixing.graph.names
        return f"{name} ({names[node]})" if names else name

    def _rate(self) -> float:
        """p of the living nodes alone; 0 when they have fallen apart."""
        alive = sorted(self.living)
        parts = sum(set(part) <= self.living for part in self.graph.components)
        return consensus_rate(self._weights[-1].mixing.matrix[alive][:, alive]) if parts == 1 else 0.0
