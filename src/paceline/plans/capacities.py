"""What servers and the links between them carry: B_i and A_ii' of PF-10, alike for all, or from a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from paceline.bounds import LONGEST
from paceline.errors import DataError, SettingError
from paceline.system.tables import read_table
from paceline.topology import Graph

Pair = tuple[int, int]
COLUMNS = ("server", "neighbour", "mbps")
MOST_NAMED = 100
"""Servers that a file may name: more are not compared."""


@dataclass(frozen=True)
class Capacities:
    """Mbit/s, each way: of every server with all its neighbours together, and of every link that can be had."""

    nodes: tuple[float, ...]
    links: Mapping[Pair, float]
    """By pairs i < j; two servers that are not among them cannot be neighbours."""
    names: tuple[str, ...] = ()
    file: str = ""
    """Where they were read; empty where all are alike."""

    @staticmethod
    def alike(servers: int, node: float, link: float) -> Capacities:
        """So many servers with one rate, and the same link between any two of them."""
        pairs = ((i, j) for j in range(servers) for i in range(j))
        return Capacities((node,) * servers, dict.fromkeys(pairs, link))

    @property
    def servers(self) -> int:
        """How many servers there are."""
        return len(self.nodes)

    def seconds(self, graph: Graph, megabits: float) -> tuple[float, bool]:
        """The largest T_ii' of Eq. 18 on an overlay, and whether a server's own rate is the reason."""
        slowest = (0.0, False)
        for i, j in graph.edges:
            share = min(self.nodes[i] / graph.degrees[i], self.nodes[j] / graph.degrees[j])
            link = self.links[i, j]
            slowest = max(slowest, (megabits / min(share, link), share < link))
        return slowest

    def require(self, graph: Graph) -> Graph:
        """This overlay, if all of its links can be had."""
        for i, j in graph.edges:
            if (i, j) not in self.links:
                raise SettingError(f"there is no link between {self.called(i)} and {self.called(j)}")
        return graph

    def called(self, server: int) -> str:
        """The name of a server, or its number where it has none."""
        return self.names[server] if self.names else f"server {server + 1}"


def read_capacities(file: str) -> Capacities:
    """A CSV file with the columns ``server``, ``neighbour`` and ``mbps``.

    A row with a neighbour is a link that can be had; one without is what a server can move to all its neighbours
    together. A server without such a row is unlimited.
    """
    places: dict[str, int] = {}
    nodes: dict[int, float] = {}
    links: dict[Pair, float] = {}
    for row in read_table(file, COLUMNS):
        rate = row.number("mbps", positive=True, most=LONGEST)
        one = places.setdefault(row.text("server"), len(places))
        if row.blank("neighbour"):
            if one in nodes:
                raise row.wrong(f"the rate of {row.text('server')} stands there twice")
            nodes[one] = rate
            continue
        other = places.setdefault(row.text("neighbour"), len(places))
        pair = (min(one, other), max(one, other))
        if one == other or pair in links:
            raise row.wrong("a link with itself" if one == other else "this link stands there twice")
        links[pair] = rate
    if not 2 <= len(places) <= MOST_NAMED:
        raise DataError(f"{file} names {len(places)} servers; wanted 2 to {MOST_NAMED}, with the links between them")
    rates = tuple(nodes.get(place, math.inf) for place in range(len(places)))
    found = Capacities(rates, links, tuple(places), file)
    Graph.of(len(places), links, found.names).require_connected()
    return found
