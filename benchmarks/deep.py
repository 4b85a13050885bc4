"""One SGD step of one client of a deep network on CUDA: torch's own group normalisation against the Triton kernels.

``python -m benchmarks.deep [--model resnet18] [--batches 32 128] [--repetitions 5]``. The step is that of a sparse
model (masked, with weight decay), captured as a CUDA graph as in training. The two ways take turns; times
are medians.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from benchmarks.convolutions import captured, milliseconds
from paceline.learn import normalising
from paceline.learn.models import build
from paceline.learn.program import Batch, Program
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space
from paceline.learn.step import CohortState, sgd_step
from paceline.learn.trace import compile_program

DEVICE = "cuda"
SHAPE = (3, 32, 32)
WAYS = ("torch", "kernels")


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


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--repetitions", type=int, default=5)
    wanted = parser.parse_args()
    space = Space(wanted.model, lambda: build(wanted.model, SHAPE, 10), SHAPE)
    program = compile_program(space)
    print(f"{wanted.model} on {torch.cuda.get_device_name()}, one client with a mask")
    for batch in wanted.batches:
        replays = {}
        for name in WAYS:
            with way(name):
                replays[name] = captured(step(program, space, batch))
        times: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(wanted.repetitions):
            for name in WAYS:
                times[name].append(milliseconds(replays[name], 30))
        old, new = (statistics.median(times[name]) for name in WAYS)
        print(f"batch {batch:4d}: torch {old:6.2f} ms, kernels {new:6.2f} ms, {1e3 / new:5.0f} client-steps/s")


if __name__ == "__main__":
    main()
