"""The small runs of the laboratory: eight unequal devices that learn to read digits, in under a second."""

from __future__ import annotations

SIMULATED = (
    "clients=8", "rounds=12", "every=1", "local.steps=5", "partition=dirichlet:1", "model=logistic", "public=0.1",
    "fleet.times=uniform:0.5,2", "fleet.links=seconds:0.1,0.1", "executor.threads=1", "executor.device=cpu",
    "fedbuff.concurrency=4", "fedbuff.buffer=2", "fedbuff.rounds=40",
    "fedasync.concurrency=4", "fedasync.rounds=80", "apfl.rounds=60",
    "p-fedavg.topology=ring:4", "p-fedavg.participants=2", "hierfavg.servers=4", "hierfavg.participants=2",
    "beer.degree=4", "da-dpfl.neighbours.degree=3", "psfl.participants=6", "psfl.warmup.rounds=2",
    "feddf.distillation.steps=10",
)  # fmt: skip
"""The settings of every run; rounds as many as learn something worth losing."""


def words(more: tuple[str, ...] = (), *, local: bool = False) -> list[str]:
    """The settings of a run, then those that a user adds; real processes are not told of a simulated fleet."""
    return [word for word in (*SIMULATED, *more) if not (local and word.startswith("fleet."))]
