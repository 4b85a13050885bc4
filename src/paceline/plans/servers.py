"""How many servers, and linked how: time, traffic and consensus of P-FedAvg, candidate by candidate.

A round's time is given twice. The closed form is PF-10 with models counted both ways, as Table III does: 2 K_i s/b
at the server, s/up + s/down on the client's own link, the longest local training, and T of Eq. 18 between servers,
one after the other. The simulation runs the shipped P-FedAvg on links that are shared fairly. There a transfer is as
fast as the slower of server and client instead of taking both times, and servers wait for their neighbours only, so
it is usually shorter than the formula.

How many rounds are needed is estimated from Theorem 2, whose terms with E²G² are in proportion to
128/p² + 64/p + sum 4/(M² K_i). With g for that, divided by its value at p = 1 and with the clients that were asked
for, a candidate needs 1 - drift + drift g times the rounds of FedAvg. The theorem is an upper bound, and drift, the
share of the error that these terms have at p = 1, depends on data and recipe: it is the user's guess. So the range of
drift in which a recommendation holds is given with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import networkx as nx

from paceline.algorithms.structure import expected_maximum
from paceline.errors import SettingError
from paceline.plans.capacities import Capacities
from paceline.plans.demand import Demand
from paceline.plans.overlay_design import designs
from paceline.plans.servers_families import SERVERS, TOPOLOGIES, asked, overlay
from paceline.system.traces import BYTES_PER_MBIT
from paceline.topology import Graph, make_mixing, parse_graph

ONE = "one server"
MOST_TRANSFERS = {False: 2000, True: 800}
"""A round with more is not simulated, with all visits alike and with a spread: it would take many seconds."""
TIE = 1e-3
"""Scores nearer to one another, as a share, are taken for equal."""
SMALL = 64
"""Graphs up to so many nodes are looked at for being the same."""


# -- formulas -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a round's closed form adds up, in seconds (PF-10)."""

    server: float
    """2 K_i Y¹: the models of all its clients through one server, down and up."""
    clients: float
    """Y²: one model over a client's own link, down and up."""
    training: float
    """The longest of all visits: E Z_(K) of PF-11."""
    backbone: float
    """T of Eq. 18, on the slowest link between servers."""
    nodes: bool
    """Whether that is slow because of the rate of a server, and not of the link."""

    @property
    def seconds(self) -> float:
        """All seconds of a round together."""
        return self.server + self.clients + self.training + self.backbone


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Some servers on a graph."""

    name: str
    graph: Graph
    each: int
    """K_i, clients of each server in a round."""
    p: float
    parts: Parts
    peak_bytes: float
    total_bytes: float
    rounds_factor: float
    """Rounds that it needs for as many of FedAvg; see above."""
    growth: float
    """By how much that grows with drift: g - 1."""
    time_simulated: float | None = None
    time_error: float = 0.0
    """Standard error of that, in seconds."""
    by_formula: bool = False
    """Whether it is judged by the formula: some candidate was not simulated, and all must be judged alike."""
    designed: bool = False
    """Whether its overlay was made for what servers and links can carry."""

    @property
    def servers(self) -> int:
        """How many servers there are, the paper's M."""
        return self.graph.nodes

    @property
    def clients(self) -> int:
        """Clients of a round, at all servers together."""
        return self.servers * self.each

    @property
    def degree(self) -> int:
        """Neighbours of the server that has most."""
        return max(self.graph.degrees)

    @property
    def time_closed_form(self) -> float:
        """Seconds of a round by PF-10."""
        return self.parts.seconds

    @property
    def seconds(self) -> float:
        """Seconds of a round: the time by which it is judged."""
        return self.parts.seconds if self.by_formula or self.time_simulated is None else self.time_simulated

    @property
    def score(self) -> float:
        """Seconds for as much progress as one round of FedAvg brings; the lowest is best."""
        return self.seconds * self.rounds_factor


def slowest_link(graph: Graph, demand: Demand) -> tuple[float, bool]:
    """The largest T_ii' of Eq. 18, and whether a server's own rate is the reason."""
    if not graph.edges:
        return 0.0, False
    if demand.network is not None:
        return demand.network.seconds(graph, demand.megabits)
    # All links and all servers are alike but for their degrees, so the busiest server has the slowest link.
    share = demand.node / max(graph.degrees)
    return demand.megabits / min(share, demand.link), share < demand.link


def closed_form(graph: Graph, each: int, demand: Demand) -> Parts:
    """PF-10 for a graph whose servers have so many clients each."""
    backbone, nodes = slowest_link(graph, demand)
    return Parts(
        server=2 * each * demand.megabits / demand.server,
        clients=demand.megabits / demand.client_up + demand.megabits / demand.client_down,
        training=_longest(graph.nodes * each, demand),
        backbone=backbone,
        nodes=nodes,
    )


def _longest(clients: int, demand: Demand) -> float:
    """Seconds of the longest of so many visits: E Z_(K) of PF-11, or the slowest of as many unequal devices."""
    if demand.devices is not None and demand.devices.seconds:
        return demand.devices.longest(clients)
    return demand.compute * (1.0 + demand.spread * expected_maximum(clients))


def traffic(graph: Graph, each: int, size: float) -> tuple[float, float]:
    """PF-9: bytes through the busiest server and bytes in all, of one round."""
    peak = 2 * (each + max(graph.degrees)) * size
    return peak, 2 * (graph.nodes * each + len(graph.edges)) * size


def error_growth(p: float, clients: int, participants: int) -> float:
    """g - 1: how much larger Theorem 2's E²G² terms are than at p = 1 with the clients asked for."""
    return (128 / p**2 + 64 / p + 4 / clients) / (128 + 64 + 4 / participants) - 1


# -- candidates ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Skipped:
    """A candidate that is none, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All candidates, the best first."""

    demand: Demand
    candidates: tuple[Candidate, ...]
    skipped: tuple[Skipped, ...]

    @property
    def best(self) -> Candidate:
        """The candidate to choose, which is the first."""
        return self.candidates[0]

    @property
    def one(self) -> Candidate:
        """The candidate with one server, which is FedAvg."""
        return next(one for one in self.candidates if one.servers == 1)


def plan_servers(
    demand: Demand,
    topologies: Sequence[str] = TOPOLOGIES,
    servers: Sequence[int] = SERVERS,
    *,
    simulate: bool = True,
    design: bool = False,
) -> Plan:
    """Judge every topology with every number of servers, and one server alone.

    With ``design`` also an overlay for each number of servers that is made for what servers and links can carry
    (``overlay_design.py``). A demand with a network has as many servers as that names, and is judged by the formula.
    """
    if demand.network is not None:
        servers, simulate = (demand.network.servers,), False
    found: list[Candidate] = [_candidate(ONE, parse_graph("complete:1"), demand)]
    skipped: list[Skipped] = []
    for name, lacking in asked(topologies, servers):
        try:
            graph = overlay(name, lacking)
            if graph.nodes > 1:
                _refuse(graph, found, demand)
                found.append(_candidate(name, graph, demand))
        except SettingError as problem:
            skipped.append(Skipped(name, str(problem)))
    if design:
        found += _designed(found, demand, servers)
    if skipped and len(found) == 1:
        reasons = "; ".join(f"{one.name}: {one.reason}" for one in skipped)
        raise SettingError(f"no candidate is left but one server; {reasons}")
    if simulate:
        found = _simulated(found, demand)
    return Plan(demand=demand, candidates=_ranked(found), skipped=tuple(skipped))


def _ranked(found: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The lowest score first; where several are as good as that, the one that moves fewest bytes."""
    order = sorted(found, key=lambda one: one.score)
    ties = [one for one in order if one.score <= order[0].score * (1 + TIE)]
    best = min(ties, key=lambda one: one.total_bytes)
    return best, *(one for one in order if one is not best)


def _designed(found: Sequence[Candidate], demand: Demand, servers: Sequence[int]) -> Iterator[Candidate]:
    """For each number of servers the best overlay of those made for it, by the formula, if it is not there yet."""
    for count in (count for count in dict.fromkeys(servers) if count > 1):
        if math.ceil(demand.participants / count) > demand.clients // count:
            continue
        capacities = demand.network or Capacities.alike(count, demand.node, demand.link)
        made = [_candidate(f"designed:{count}", graph, demand) for graph in designs(capacities, demand.megabits)]
        best = min(made, key=lambda one: (one.score, one.total_bytes), default=None)
        if best is not None and not any(_alike(best.graph, other.graph, demand) for other in found):
            yield replace(best, designed=True)


def _each(graph: Graph, demand: Demand) -> int:
    """K_i: as many at every server, and at least those asked for in all."""
    return math.ceil(demand.participants / graph.nodes)


def _refuse(graph: Graph, found: Sequence[Candidate], demand: Demand) -> None:
    each, fewest = _each(graph, demand), demand.clients // graph.nodes
    if each > fewest:
        raise SettingError(f"{demand.clients} clients leave {fewest} to some server, which needs {each} a round")
    if demand.network is not None:
        if graph.nodes != demand.network.servers:
            raise SettingError(f"{graph.nodes} servers, where {demand.network.file} has {demand.network.servers}")
        demand.network.require(graph)
    for other in found:
        if _alike(graph, other.graph, demand):
            raise SettingError(f"the same graph as {other.name}")


def _alike(one: Graph, other: Graph, demand: Demand) -> bool:
    """Whether two overlays are the same; where servers are unequal, also with the same servers at the same places."""
    return one.edges == other.edges if demand.network is not None else _same(one, other)


def _same(one: Graph, other: Graph) -> bool:
    if one.nodes != other.nodes or sorted(one.degrees) != sorted(other.degrees):
        return False
    return one.edges == other.edges or (one.nodes <= SMALL and nx.is_isomorphic(one.networkx(), other.networkx()))


def _candidate(name: str, graph: Graph, demand: Demand) -> Candidate:
    each = _each(graph, demand)
    p = 1.0 if graph.nodes == 1 else make_mixing(graph, demand.weights).p
    peak, total = traffic(graph, each, demand.megabits * BYTES_PER_MBIT)
    growth = error_growth(p, graph.nodes * each, demand.participants)
    return Candidate(
        name=name,
        graph=graph,
        each=each,
        p=p,
        parts=closed_form(graph, each, demand),
        peak_bytes=peak,
        total_bytes=total,
        rounds_factor=1 + demand.drift * growth,
        growth=growth,
    )


def _simulated(found: Sequence[Candidate], demand: Demand) -> list[Candidate]:
    # The formulas need no torch; who wants nothing else should not wait for it.
    from paceline.plans.servers_dry import measure

    def seen(one: Candidate) -> Candidate:
        if 2 * (one.clients + len(one.graph.edges)) > MOST_TRANSFERS[demand.spread > 0 or demand.devices is not None]:
            return one
        return replace(one, **asdict(measure(one.graph, one.each, demand)))

    told = [seen(one) for one in found]
    formula = any(one.time_simulated is None for one in told)
    return [replace(one, by_formula=formula) for one in told]
