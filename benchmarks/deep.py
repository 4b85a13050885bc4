"""Clients of a deep network on CUDA, each with a mask: one step by itself, and many clients' visits by streams.

``python -m benchmarks.deep [--model resnet18] [--batches 32 128] [--repetitions 5]``. First one SGD step of one
client (masked, with weight decay), captured as a CUDA graph as in training: torch's own group normalisation against
the Triton kernels. Then the trainer's visits of 24 clients, in one stream and in several. The ways take turns; times
are medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from benchmarks.convolutions import captured, milliseconds
from paceline.learn.cohort.step import CohortState, sgd_step
from paceline.learn.cohort.streams import Streams
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.job import Shards, TrainJob
from paceline.learn.kernels import normalising
from paceline.learn.models import build
from paceline.learn.programs.program import Batch, Program
from paceline.learn.programs.reading import compile_program
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space

DEVICE = "cuda"
SHAPE = (3, 32, 32)
WAYS = ("torch", "kernels")
STREAMS = (1, 2, 3, 4, 6)
VISITS, STEPS = 24, 16


@contextmanager
def way(name: str) -> Iterator[None]:
    """Normalise in one of the two ways."""
    usable, add = normalising.usable, normalising.add_rectified
    if name == "torch":
        normalising.usable, normalising.add_rectified = lambda *_: False, lambda *_: None
    try:
        yield
    finally:
        normalising.usable, normalising.add_rectified = usable, add


def step(program: Program, space: Space, batch: int) -> Callable[[], list[Tensor]]:
    """One step of one client on samples of noise."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    params = program.pack([space.initial(0).to(DEVICE)])
    mask = [(torch.rand(p.shape, device=DEVICE, generator=generator) < 0.5).to(p.dtype) for p in params]
    state = CohortState(params, [torch.empty_like(p) for p in params], None, None, None, mask)
    x = torch.randn(batch, *space.shape, device=DEVICE, generator=generator)
    y = torch.randint(0, 10, (batch,), device=DEVICE, generator=generator)
    samples = Batch(x, y, torch.full((1, batch), 1 / batch, device=DEVICE))
    recipe, lr_C = LocalSGD(lr=0.1, batch=batch, weight_decay=5e-4), torch.full((1,), 0.01, device=DEVICE)

    @torch.no_grad()
    def work() -> list[Tensor]:
        return [sgd_step(program, state, samples, recipe, lr_C)]

    return work


def steps_alone(program: Program, space: Space, batch: int, repetitions: int) -> str:
    """One step, in the two ways."""
    replays = {}
    for name in WAYS:
        with way(name):
            replays[name] = captured(step(program, space, batch))
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(repetitions):
        for name in WAYS:
            times[name].append(milliseconds(replays[name], 30))
    old, new = (statistics.median(times[name]) for name in WAYS)
    return f"torch {old:6.2f} ms, kernels {new:6.2f} ms, {1e3 / new:5.0f} client-steps/s"


def visits_by_streams(space: Space, batch: int, repetitions: int) -> str:
    """Client-steps a second of the trainer with one stream and with several."""
    jobs = make_jobs(space, batch)
    trainers = {}
    for count in STREAMS:
        trainers[count] = CohortTrainer(DEVICE, cohort=1)
        trainers[count]._streams = Streams(torch.device(DEVICE), count)
        trainers[count].train(jobs)
    rates: dict[int, list[float]] = {count: [] for count in STREAMS}
    for _ in range(repetitions):
        for count, trainer in trainers.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            trainer.train(jobs)
            torch.cuda.synchronize()
            rates[count].append(VISITS * STEPS / (time.perf_counter() - began))
    return ", ".join(f"{n} streams {statistics.median(found):5.0f}" for n, found in rates.items()) + " client-steps/s"


def make_jobs(space: Space, batch: int) -> list[TrainJob]:
    """Visits of as many clients, each with a model and a mask of its own, on samples of noise."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(STEPS * batch, *space.shape, generator=generator)
    y = torch.randint(0, 10, (len(x),), generator=generator)
    shards = Shards(x, y, np.tile(np.arange(len(x)), VISITS), len(x) * np.arange(VISITS + 1))
    recipe = LocalSGD(lr=0.01, batch=batch, steps=STEPS, weight_decay=5e-4)
    return [
        TrainJob(
            space=space,
            start=space.initial(client).to(DEVICE),
            recipe=recipe,
            lr=recipe.lr,
            shards=shards,
            client=client,
            key=client,
            mask=(torch.rand(space.size, generator=generator) < 0.5).float().to(DEVICE),
        )
        for client in range(VISITS)
    ]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--repetitions", type=int, default=5)
    wanted = parser.parse_args()
    space = Space(wanted.model, lambda: build(wanted.model, SHAPE, 10), SHAPE)
    program = compile_program(space)
    print(f"{wanted.model} on {torch.cuda.get_device_name()}, clients with masks")
    for batch in wanted.batches:
        print(f"batch {batch:4d}: {steps_alone(program, space, batch, wanted.repetitions)}")
    for batch in wanted.batches:
        print(f"batch {batch:4d}: {visits_by_streams(space, batch, wanted.repetitions)}")


if __name__ == "__main__":
    main()
