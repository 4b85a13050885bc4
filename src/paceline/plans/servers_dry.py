"""A dry run of P-FedAvg for ``servers``: the shipped algorithm, with models of any size and nothing learned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from paceline.algorithms.pfedavg import PFedAvg
from paceline.ledger import Ledger
from paceline.plans.demand import Demand
from paceline.runs.dry import dry
from paceline.statistics import standard_error
from paceline.system.traces import BYTES_PER_MBIT
from paceline.topology import Graph

SKIPPED = 3
"""Rounds before servers of different degrees have found their pace."""
TRANSFERS = 4000
"""About so many are simulated for a candidate, if that makes enough rounds."""
FEWEST, MOST = 3, 60
MODEL = 16
"""Bytes of a dry run's model; links are as much slower as it is smaller."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a round took, on average."""

    time_simulated: float
    time_error: float
    """Standard error of the seconds: 0 where all visits are alike."""
    peak_bytes: float
    """Sent and received by the site that moved most."""
    total_bytes: float


def measure(graph: Graph, each: int, demand: Demand) -> Measured:
    """Mean seconds and bytes of a round in which each server of the graph has so many clients.

    Where devices are alike, all clients take part in all rounds: every visit's time is drawn anew, so that it makes
    no difference to draw them from many more. Unequal devices are drawn from all there are.
    """
    clients, jitter = graph.nodes * each, demand.spread > 0 or demand.devices is not None
    wanted = min(max(TRANSFERS // (2 * clients + 2 * len(graph.edges)), FEWEST), MOST if jitter else FEWEST)
    rounds = SKIPPED + wanted
    ledger = Ledger(keep=False)
    scaled = demand.with_models_of(MODEL / BYTES_PER_MBIT)
    fleet = scaled.fleet()
    with TemporaryDirectory(prefix="paceline-") as folder:  # a random graph must be the one that was looked at
        file = Path(folder) / "overlay.txt"
        file.write_text("".join(f"{i} {j}\n" for i, j in graph.edges), encoding="utf-8")
        topology = str(file) if graph.edges else "complete:1"
        algorithm = PFedAvg(rounds=rounds, topology=topology, participants=None, weights="uniform")
        if demand.devices is not None:
            listed = Path(folder) / "devices.csv"
            demand.devices.write(listed, scaled.megabits / demand.megabits)
            fleet = replace(fleet, file=str(listed), latency=demand.devices.latency)
            algorithm, clients = replace(algorithm, participants=each), demand.clients
        lengths = np.diff(dry(algorithm, fleet, clients=clients, ledger=ledger).times[SKIPPED - 1 :])
    totals, models = ledger.totals(), MODEL * rounds
    return Measured(
        time_simulated=float(lengths.mean()),
        time_error=standard_error(lengths) if jitter else 0.0,
        peak_bytes=totals.busiest_bytes / models * demand.megabits * BYTES_PER_MBIT,
        total_bytes=totals.bytes / models * demand.megabits * BYTES_PER_MBIT,
    )
