"""Client visits per second: the cohort trainer against a plain sequential PyTorch loop.

``python -m benchmarks.visits [--device cuda] [--json FILE]``. The plain loop is what a careful user would write: one
module, ``torch.optim.SGD``, data on the device, the same batches, one thread on a CPU. Loop and trainer take turns
within every repetition, and each ratio is the median over repetitions.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.draws import draw_batches
from paceline.learn.hashing import signed
from paceline.learn.job import Shards, TrainJob
from paceline.learn.models import build
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space
from paceline.seeds import address, stream

COHORTS = (1, 5, 20, 100)


@dataclass(frozen=True)
class Case:
    """A network, its data, and one visit's work."""

    name: str
    model: str
    shape: tuple[int, ...]
    samples: int
    recipe: LocalSGD


CPU_CASES = (
    Case("MLP 784-200-10", "mlp:200", (1, 28, 28), 60, LocalSGD(lr=0.05, batch=20, epochs=1)),
    Case("LeNet 3x32x32", "lenet", (3, 32, 32), 100, LocalSGD(lr=0.05, batch=20, epochs=1)),
)
GPU_CASES = (
    *CPU_CASES,
    Case("CNN 797,962", "cnn-psfl", (3, 32, 32), 100, LocalSGD(lr=0.05, batch=20, steps=5)),
)


def make_jobs(case: Case, clients: int) -> list[TrainJob]:
    """Visits of so many clients, each with its own data and start."""
    rng = stream(0, "bench", case.name)
    count = clients * case.samples
    x = torch.from_numpy(rng.normal(size=(count, *case.shape)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, 10, count))
    shards = Shards(x, y, np.arange(count), np.arange(0, count + 1, case.samples))
    space = Space(case.model, lambda: build(case.model, case.shape, 10), case.shape)
    start = space.initial(0)
    return [
        TrainJob(space, start, case.recipe, case.recipe.lr, shards, k, signed(address(0, k))) for k in range(clients)
    ]


def plain_loop(jobs: list[TrainJob], device: str) -> Callable[[], None]:
    """The baseline: set up outside, only the visits are timed."""
    space, recipe = jobs[0].space, jobs[0].recipe
    module = build(space.name, space.shape, 10).to(device)
    state = {name: value.to(device) for name, value in space.unflatten(jobs[0].start).items()}
    x, y = jobs[0].shards.x.to(device), jobs[0].shards.y.to(device)
    batches = []
    for job in jobs:
        drawn = draw_batches([job.key], [job.size], recipe)
        batches.append(torch.from_numpy(job.shards.rows(job.client)[drawn.index_CSB[0]]).to(device))

    def visits() -> None:
        if device == "cpu":
            torch.set_num_threads(1)
        for rows_SB in batches:
            module.load_state_dict(state)
            optimiser = torch.optim.SGD(module.parameters(), lr=recipe.lr)
            for rows in rows_SB:
                optimiser.zero_grad()
                F.cross_entropy(module(x[rows]), y[rows]).backward()
                optimiser.step()
        if device != "cpu":
            torch.cuda.synchronize()

    return visits


def cohort(jobs: list[TrainJob], trainer: CohortTrainer, device: str) -> Callable[[], None]:
    """Paceline's trainer on the same visits."""

    def visits() -> None:
        trainer.train(jobs)
        if device != "cpu":
            torch.cuda.synchronize()

    return visits


def timed(work: Callable[[], None], least: float = 0.25) -> float:
    """Seconds per call, repeated until the measurement is long enough to mean something."""
    calls, begin = 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < least or not calls:
        work()
        calls += 1
    return spent / calls if calls else 0.0


def measure(case: Case, clients: int, device: str, repetitions: int) -> dict[str, float | str | int]:
    """One row of the table."""
    jobs = make_jobs(case, clients)
    loop = plain_loop(jobs[: min(clients, 20)], device)
    ours = cohort(jobs, CohortTrainer(device), device)
    loop_jobs = min(clients, 20)
    for _ in range(6):  # both warm: caches filled, steps traced or captured
        loop()
        ours()
    pairs = [(timed(loop) / loop_jobs, timed(ours) / clients) for _ in range(repetitions)]
    return {
        "case": case.name,
        "cohort": clients,
        "loop_visits_per_second": 1 / statistics.median(a for a, _ in pairs),
        "cohort_visits_per_second": 1 / statistics.median(b for _, b in pairs),
        "ratio": statistics.median(a / b for a, b in pairs),
        "least_ratio": min(a / b for a, b in pairs),
    }


def main() -> None:
    """Measure, print a table, then JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--json", help="also write the JSON to this file")
    options = parser.parse_args()
    rows = []
    print(f"{'case':<16}{'cohort':>7}{'loop/s':>10}{'paceline/s':>12}{'ratio':>8}{'least':>8}")
    for case in CPU_CASES if options.device == "cpu" else GPU_CASES:
        for clients in COHORTS:
            row = measure(case, clients, options.device, options.repetitions)
            rows.append(row)
            print(
                f"{row['case']:<16}{row['cohort']:>7}{row['loop_visits_per_second']:>10.1f}"
                f"{row['cohort_visits_per_second']:>12.1f}{row['ratio']:>8.2f}{row['least_ratio']:>8.2f}",
                flush=True,
            )
    hardware = torch.cuda.get_device_name() if options.device != "cpu" else f"{platform.machine()} CPU"
    result = json.dumps({"hardware": hardware, "torch": torch.__version__, "rows": rows})
    print(result)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(result + "\n")


if __name__ == "__main__":
    main()
