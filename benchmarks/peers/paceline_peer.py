"""Paceline by its plain API: ``paceline.run("fedavg", ...)`` with the cohort trainer, as it comes."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.peers.telling import Teller

teller = Teller("torch", "numpy")

import paceline  # noqa: E402
from benchmarks.peers.networks import started  # noqa: E402
from benchmarks.peers.workload import Workload, read  # noqa: E402

WARM = 6


def note(algorithm: str, seed: int, row: Any) -> None:
    """A row of metrics is known: a round is over and scored."""
    teller.round(row["loss"], row["accuracy"])


def federate(work: Workload, rounds: int, *callbacks: Any) -> None:
    """One run; seed 0 draws the workload's owners, participants and batches again."""
    told = work.federation
    paceline.run(
        "fedavg",
        data=((work.x_train, work.y_train), (work.x_test, work.y_test)),
        model=started(work),
        clients=told.clients,
        partition="iid",
        rounds=rounds,
        settings={
            "fedavg.participants": told.participants,
            "local.lr": told.lr,
            "local.batch": told.batch,
            "local.epochs": told.epochs,
        },
        callbacks=callbacks,
    )


def main() -> None:
    """The federation. Rounds' rows come together at its end, so visits a second are those of a second, warm run."""
    work = read(teller.path)
    told = work.federation
    if told.is_made_up:
        federate(work, WARM)
    begin = time.perf_counter()
    federate(work, told.rounds, note)
    if told.is_made_up:
        teller.rate = told.rounds * told.participants / (time.perf_counter() - begin)
    teller.tell("cohort trainer, all cores")


if __name__ == "__main__":
    main()
