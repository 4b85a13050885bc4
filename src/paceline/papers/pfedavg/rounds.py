"""The model of P-FedAvg's Theorem 3 in the scheduler: all times exponential, rounds by the shipped algorithms.

Theorem 3 (PF-11) adds up the expectations of four separate maxima, over servers, clients' links, clients' steps and
links between servers. A round takes at most as long as that, since its slowest path need not be the slowest in all
four. So two things are simulated with the shipped algorithms in dry runs:

- *sums of maxima*: the mean over rounds of the sum of the four maxima, which the formula must give within the
  sampling error. That the scheduler really used these draws is checked besides: every round that came out must be
  Definition 5.1's of its own draws, to rounding.
- *rounds as they come*: what a round takes if all servers wait for all (Definition 5.1), and if they wait for their
  neighbours only, as P-FedAvg does.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from paceline.algorithms.base import Algorithm
from paceline.algorithms.pfedavg import PFedAvg
from paceline.algorithms.psfl import PSFL
from paceline.ledger import Ledger
from paceline.runs.dry import dry
from paceline.seeds import stream
from paceline.system import AlwaysOn, Cost, Fleet, FreeServer
from paceline.system.cost import FREE
from paceline.topology import Graph

Array = NDArray[np.float64]

# -- by formula -----------------------------------------------------------------------------------------------------


def harmonic(count: int, power: int = 1) -> float:
    """H_n: the mean of the largest of n independent draws from Exp(1); with the power 2, its variance."""
    return math.fsum(1.0 / k**power for k in range(1, count + 1))


@dataclass(frozen=True)
class Point:
    """One point of the figure: all times are Exp(1), but an SGD step has the mean β."""

    clients: int
    steps: int
    beta: float = 1.0

    @property
    def name(self) -> str:
        """As the rows call it."""
        if self.beta == 1:
            return f"E={self.steps}, β=1, K={self.clients}"
        return f"E={self.steps}, K={self.clients}, β={self.beta:g}"

    def bound(self, graph: Graph) -> float:
        """Theorem 3 with clients spread evenly; one server alone is FedAvg."""
        slowest = harmonic(self.clients)
        client = slowest + self.steps * self.beta * slowest
        links = harmonic(2 * len(graph.edges))  # each counts in both directions
        return math.ceil(self.clients / graph.nodes) * harmonic(graph.nodes) + client + links


ALONE = Graph.of(1, [])
"""One server without links, which is FedAvg."""

# -- the same model in the scheduler --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Draws:
    """All times of a run: rows are rounds.

    Rounds are stratified in what varies most, the largest of the servers' draws: its quantile lies in each of as many
    equal parts of (0, 1) once, in random order. Every round by itself has exactly the distribution of independent
    draws, so means are those of Theorem 3, with a smaller error than so few independent rounds would have.
    """

    graph: Graph
    point: Point
    server: Array
    """Y_i¹ of every server."""
    client: Array
    """Y_j² of every client."""
    step: Array
    """Z_j of every client, its mean β."""
    link: Array
    """T_ii' of every directed link."""

    @classmethod
    def make(cls, graph: Graph, point: Point, rounds: int, seed: int) -> Draws:
        """At the address of the point; clients draw the same whether they have one server or many."""
        place = point.clients, point.steps, str(point.beta)
        servers = stream(seed, "fig2", "servers", graph.nodes, *place)
        clients = stream(seed, "fig2", "clients", *place)
        return cls(
            graph,
            point,
            stratified(servers, rounds, graph.nodes),
            clients.exponential(size=(rounds, point.clients)),
            point.beta * clients.exponential(size=(rounds, point.clients)),
            servers.exponential(size=(rounds, 2 * len(graph.edges))),
        )

    @property
    def rounds(self) -> int:
        """How many rounds were drawn."""
        return len(self.server)

    @property
    def links(self) -> list[tuple[int, int]]:
        """Directed, in the order of the columns of ``link``."""
        return [*self.graph.edges, *((j, i) for i, j in self.graph.edges)]

    @property
    def load(self) -> NDArray[np.int64]:
        """K_i, clients of every server: each M-th."""
        return np.bincount(np.arange(self.point.clients) % self.graph.nodes)

    def sums(self) -> Array:
        """Of every round, the sum of the four maxima of Theorem 3."""
        total = self.load.max() * self.server.max(axis=1) + self.client.max(axis=1)
        total += self.point.steps * self.step.max(axis=1)
        if self.graph.edges:
            total += self.link.max(axis=1)
        return np.asarray(total, float)

    def standard_error(self) -> float:
        """Of the mean of ``sums``, known from the laws."""
        client = harmonic(self.point.clients, 2) * (1 + (self.point.steps * self.point.beta) ** 2)
        independent = client + harmonic(2 * len(self.graph.edges), 2)
        largest = int(self.load.max()) ** 2 * stratified_variance(self.rounds, self.graph.nodes)
        return math.sqrt(largest + independent / self.rounds)

    def averaged(self) -> Array:
        """By round and server: from the round's begin until the last client's model has arrived (PF-10)."""
        home = np.arange(self.point.clients) % self.graph.nodes
        there = (self.load * self.server)[:, home] + self.client + self.point.steps * self.step
        return np.stack([there[:, home == i].max(axis=1) for i in range(self.graph.nodes)], axis=1)

    def delays(self) -> Array:
        """α of Definition 5.1: the largest d_ii' of every round."""
        here = self.averaged()
        if not self.graph.edges:
            return here[:, 0]
        sent = [here[:, i] + self.link[:, k] for k, (i, _) in enumerate(self.links)]
        return np.asarray(np.max(sent, axis=0), float)

    def end(self) -> float:
        """When the last server has done all rounds, waiting for its neighbours only."""
        ready, here = np.zeros(self.graph.nodes), self.averaged()
        for r in range(self.rounds):
            done = ready + here[r]
            ready = done.copy()
            for k, (i, j) in enumerate(self.links):
                ready[j] = max(ready[j], done[i] + self.link[r, k])
        return float(ready.max())


def stratified(rng: np.random.Generator, rounds: int, count: int) -> Array:
    """Rows of ``count`` independent Exp(1) draws; the quantiles of the rows' maxima are spread over the rows."""
    quantile = (rng.permutation(rounds) + rng.random(rounds)) / rounds
    top = quantile ** (1 / count)
    parts = top[:, None] * rng.random((rounds, count))  # below the largest of uniform draws the others are uniform
    parts[np.arange(rounds), rng.integers(count, size=rounds)] = top
    found: Array = -np.log1p(-parts)
    return found


@lru_cache(maxsize=64)
def stratified_variance(rounds: int, count: int, nodes: int = 2000) -> float:
    """Of the mean of the rows' maxima."""
    quantile = (np.arange(rounds * nodes) + 0.5) / (rounds * nodes)
    largest = -np.log1p(-(quantile ** (1 / count))).reshape(rounds, nodes)
    return float(largest.var(axis=1).sum()) / rounds**2


class StepTimes:
    """A visit's E steps; all clients take part in every round, so a visit's number is the round."""

    def __init__(self, draws: Draws) -> None:
        self._seconds = (draws.point.steps * draws.step).tolist()

    def cost(self, device: int, visit: int, flops: float) -> Cost:
        """E Z_j of that round."""
        return Cost(self._seconds[visit][device], 0.0)

    def mean_seconds(self, device: int, flops: float) -> float:
        """The mean of all rounds; nobody plans with it here."""
        return float(np.mean([round[device] for round in self._seconds]))


class LinkTimes:
    """T_ij = K_i Y_i¹ + Y_j² upward, nothing downward (PF-10 counts no download), T_ii' between servers.

    Of every round it remembers how long a server's model was on its way (d_ii'): from when the server first sent to
    its clients until its average arrives at another server.
    """

    def __init__(self, draws: Draws) -> None:
        self._server = (draws.load * draws.server).tolist()
        self._client = draws.client.tolist()
        self._between = draws.link.tolist()
        self._column = {(-1 - i, -1 - j): k for k, (i, j) in enumerate(draws.links)}
        self._sent: Counter[tuple[int, int]] = Counter()
        """How often one has sent to the other, which is the round."""
        self._begun: dict[tuple[int, int], float] = {}
        self.alpha: dict[int, float] = {}
        """The largest d_ii' by round."""

    def cost(self, source: int, target: int, size: float, now: float) -> Cost:
        """What was drawn for this transfer."""
        round = self._sent[source, target]
        self._sent[source, target] += 1
        if target >= 0:
            self._begun.setdefault((source, round), now)
            return FREE
        if source >= 0:
            return Cost(self._server[round][-1 - target] + self._client[round][source], 0.0)
        seconds = self._between[round][self._column[source, target]]
        self.alpha[round] = max(self.alpha.get(round, 0.0), now + seconds - self._begun[source, round])
        return Cost(seconds, 0.0)


@dataclass(frozen=True)
class Simulated:
    """What a run of one algorithm gave."""

    draws: Draws
    rounds: Array
    """Seconds of every round: of FedAvg as it came, of P-FedAvg with a barrier of all."""
    pace: float
    """Seconds per round over the whole run."""

    @property
    def off(self) -> float:
        """The largest relative difference between the scheduler's times and those of the draws."""
        ends = abs(self.pace * self.draws.rounds / self.draws.end() - 1)
        return max(ends, float(np.abs(self.rounds / self.draws.delays() - 1).max()))

    def far(self) -> float:
        """How many standard errors the mean sum of maxima is off Theorem 3's."""
        bound = self.draws.point.bound(self.draws.graph)
        return float((self.draws.sums().mean() - bound) / self.draws.standard_error())


def simulate(graph: Graph, point: Point, rounds: int, seed: int = 0) -> Simulated:
    """FedAvg where there is one server, else P-FedAvg, dry."""
    draws = Draws.make(graph, point, rounds, seed)
    links = LinkTimes(draws)
    steps, always, server = StepTimes(draws), AlwaysOn(), FreeServer()
    fleet = Fleet(size=point.clients, compute=steps, links=links, availability=always, server=server)
    alone = graph.nodes == 1
    algorithm: Algorithm = PFedAvg(rounds=rounds, topology=f"ring:{graph.nodes}", participants=None)
    if alone:
        clients = point.clients
        algorithm = PSFL(rounds=rounds, participants=clients, width=clients, length=1, sampler="uniform")
    ends = dry(algorithm, fleet, seed=seed, ledger=Ledger(keep=False)).times
    alpha = np.diff(ends, prepend=0.0) if alone else np.array([links.alpha[r] for r in range(rounds)])
    return Simulated(draws, alpha, ends[-1] / rounds)
