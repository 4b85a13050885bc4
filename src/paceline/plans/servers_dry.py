"""A dry run of P-FedAvg for ``servers``: the shipped algorithm, with models of any size and nothing learned."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from paceline.algorithms.pfedavg import PFedAvg
from paceline.learn.graph import Ghost, Model
from paceline.learn.space import Space
from paceline.ledger import Ledger
from paceline.runs.dry import dry
from paceline.runs.problem import make_space
from paceline.system.fleet import FleetSettings
from paceline.topology import Graph
from paceline.worlds.problem import Problem

SKIPPED = 3
"""Rounds before servers of different degrees have found their pace."""
TRANSFERS = 4000
"""About so many are simulated for a candidate, if that makes enough rounds."""
FEWEST, MOST = 3, 60


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a round took, on average."""

    seconds: float
    error: float
    """Standard error of ``seconds``: 0 where all visits are alike."""
    peak_bytes: float
    """Sent and received by the site that moved most."""
    total_bytes: float


class Parcel(Ghost):
    """A model of which nothing is known but its size."""

    __slots__ = ("_size",)

    def __init__(self, space: Space, size: float) -> None:
        super().__init__(space)
        self._size = size

    @property
    def nbytes(self) -> float:
        """Bytes of this model on the wire."""
        return self._size


@dataclass(eq=False)
class Freight(Problem):
    """Nothing to learn, but models that weigh something."""

    size: float = 0.0

    def initial_model(self, seed: int, kind: int = 0) -> Model:
        """A parcel."""
        return Parcel(self.space, self.size)


@dataclass(frozen=True, kw_only=True)
class Planned(PFedAvg):
    """P-FedAvg on a graph that is at hand: a random one must be the one that was looked at."""

    overlay: Graph

    def graph(self, seed: int) -> Graph:
        """This one, whatever the seed."""
        return self.overlay


def measure(graph: Graph, each: int, size: float, fleet: FleetSettings) -> Measured:
    """Mean seconds and bytes of a round in which each server of the graph has so many clients.

    All clients take part in all rounds: devices are alike and every visit's time is drawn anew, so that it makes no
    difference to draw them from many more.
    """
    clients = graph.nodes * each
    wanted = min(max(TRANSFERS // (2 * clients + 2 * len(graph.edges)), FEWEST), MOST if fleet.jitter else FEWEST)
    rounds = SKIPPED + wanted
    ledger = Ledger(keep=False)
    problem = Freight(make_space("logistic", (1,), 2, "float32"), "none", nominal=1, size=size)
    planned = Planned(rounds=rounds, overlay=graph, participants=None, weights="uniform")
    times = dry(planned, fleet, clients=clients, problem=problem, ledger=ledger).times
    lengths = np.diff(times[SKIPPED - 1 :])
    totals = ledger.totals()
    return Measured(
        seconds=float(lengths.mean()),
        error=float(lengths.std(ddof=1)) / math.sqrt(wanted) if fleet.jitter else 0.0,
        peak_bytes=totals.busiest_bytes / rounds,
        total_bytes=totals.bytes / rounds,
    )
