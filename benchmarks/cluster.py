"""One Ray worker and two, beside each other: ``python -m benchmarks.cluster``.

A compute-bound workload (40 clients of an MLP, 20 epochs each) is trained by turns with one actor, with two, and in
this process with two threads; medians of several turns, in visits a second. Results must be equal to the last bit.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.crew.cluster import RayCrew, start_crew
from paceline.learn.crew.trainer import CrewTrainer
from paceline.learn.job import Shards, Trained, TrainJob
from paceline.learn.recipe import LocalSGD
from paceline.runs.problem import make_space

CLIENTS, SAMPLES, TURNS, THREADS = 40, 60, 5, 2


def jobs() -> list[TrainJob]:
    """The visits."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(CLIENTS * SAMPLES, 784, generator=generator)
    y = torch.randint(0, 10, (CLIENTS * SAMPLES,), generator=generator)
    shards = Shards(x, y, np.arange(len(y)), np.arange(0, len(y) + 1, SAMPLES))
    space = make_space("mlp:200", (784,), 10, "float32")
    start, recipe = space.initial(1), LocalSGD(epochs=20, batch=20, lr=0.05)
    return [TrainJob(space, start, recipe, 0.05, shards, client, client) for client in range(CLIENTS)]


def timed(train: Callable[[list[TrainJob]], list[Trained]], visits: list[TrainJob]) -> tuple[float, list[Trained]]:
    """Visits a second, and what came out."""
    begin = time.perf_counter()
    found = train(visits)
    return len(visits) / (time.perf_counter() - begin), found


def main() -> None:
    """Print a table and JSON."""
    visits, crew = jobs(), start_crew(None, 2)
    trainers = {
        "one worker": CrewTrainer(RayCrew(crew._ray, crew._actors[:1]), None, THREADS),
        "two workers": CrewTrainer(crew, None, THREADS),
        "this process, two threads": CohortTrainer("cpu", None, THREADS),
    }
    rates: dict[str, list[float]] = {name: [] for name in trainers}
    for turn in range(TURNS + 1):  # the first is for warming up
        found = {}
        for name, trainer in trainers.items():
            rate, found[name] = timed(trainer.train, visits)
            if turn:
                rates[name].append(rate)
        first, *others = found.values()
        same = all(torch.equal(a.value, b.value) for other in others for a, b in zip(first, other, strict=True))
        assert same, "the results differ"
    crew.close()
    medians = {name: statistics.median(some) for name, some in rates.items()}
    for name, rate in medians.items():
        print(f"{name:<28}{rate:>8.1f} visits/s{rate / medians['one worker']:>8.2f}")
    json.dump(medians, sys.stdout)
    print()


if __name__ == "__main__":
    main()
