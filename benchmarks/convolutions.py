"""Convolutions and pooling of many clients on CUDA: torch's own operations against the Triton kernels.

``python -m benchmarks.convolutions [--repetitions 15] [--json FILE]``. The two convolutions of ``cnn-psfl`` (batch
20, 3x32x32), its two max poolings with ReLU, and its whole SGD step, each captured as a CUDA graph. Torch's own
operations (the unfolded path) are a batched product of unfolded images, and max pooling followed by ReLU. The two
paths take turns within every repetition, and times are medians of CUDA events. Differences are the largest, relative
to the largest number, from the unfolded path without TF32: of the kernels without TF32, of the kernels with it, and
of the unfolded path with it. For the whole step the last two are large alike, because pooling chooses otherwise among
nearly equal numbers.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from paceline.learn.cohort.step import CohortState, sgd_step
from paceline.learn.kernels import convolution as kernels
from paceline.learn.kernels import pooling
from paceline.learn.kernels.lane import Descent, Lane
from paceline.learn.models import build
from paceline.learn.programs.convolution import Convolution
from paceline.learn.programs.layers import MaxPool
from paceline.learn.programs.program import Batch, Program
from paceline.learn.programs.reading import compile_program
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space

DEVICE = "cuda"
COHORTS = (5, 20, 100, 512)
PATHS = ("unfold", "kernels")
BATCH = 20
SHAPES = {"conv 3-64": (3, 32, 64), "conv 64-64": (64, 14, 64)}
"""Input channels, side, output channels; 5x5 without padding."""
POOLS = {"relu-pool 28": (64, 28), "relu-pool 10": (64, 10)}
"""Channels, side; 2x2."""
RECIPE = LocalSGD(lr=0.1, batch=BATCH, weight_decay=1e-4)
Work = Callable[[], list[Tensor]]
Measured = dict[str, float | str | int]


@contextmanager
def path(name: str, tf32: bool = True) -> Iterator[None]:
    """Run convolutions and pooling in one of the two ways."""
    usable, pools, before = kernels.usable, pooling.usable, torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = tf32
    if name == "unfold":
        kernels.usable = pooling.usable = lambda *_: False
    try:
        yield
    finally:
        kernels.usable, pooling.usable, torch.backends.cudnn.allow_tf32 = usable, pools, before


def captured(work: Work) -> Callable[[], None]:
    """The work as a CUDA graph; what it allocates lives as long as the graph."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()

    def replay(held: Work = work) -> None:  # the graph reads tensors that only the work holds
        graph.replay()

    return replay


def milliseconds(replay: Callable[[], None], calls: int) -> float:
    """One measurement."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / calls


def difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest, relative to the largest number."""
    pairs = zip(ours, theirs, strict=True)
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-30)) for a, b in pairs)


def measure(name: str, clients: int, make: Callable[[], Work], repetitions: int) -> Measured:
    """One row: ``make`` gives the work on fresh copies of the same numbers."""
    with path("unfold", tf32=False):
        exact = make()()
    apart = {}
    for key, one, tf32 in (("exact", "kernels", False), ("tf32", "kernels", True), ("unfold_tf32", "unfold", True)):
        with path(one, tf32):
            apart[f"difference_{key}"] = difference(make()(), exact)
    del exact
    with path("kernels"):
        same = difference(make()(), make()()) == 0.0
    replays = {}
    for one in PATHS:
        with path(one):
            replays[one] = captured(make())
    calls = 3 if clients > 100 else 10
    times: dict[str, list[float]] = {one: [] for one in PATHS}
    for _ in range(repetitions):
        for one in PATHS:
            times[one].append(milliseconds(replays[one], calls))
    old, new = (statistics.median(times[one]) for one in PATHS)
    row: Measured = {"case": name, "cohort": clients, "unfold_ms": old, "kernels_ms": new, "ratio": old / new}
    return {**row, **apart, "repeats": str(same)}


def one_pass(shape: tuple[int, int, int], clients: int, which: str) -> Callable[[], Work]:
    """The forward pass of one convolution, or its backward pass with an SGD step."""
    channels, side, outputs = shape
    generator = torch.Generator(DEVICE).manual_seed(0)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, device=DEVICE, generator=generator)

    x = normal(clients * BATCH, side, side, channels).permute(0, 3, 1, 2)
    g = normal(clients * BATCH, side - 4, side - 4, outputs).permute(0, 3, 1, 2) / (BATCH * (side - 4))
    start = [normal(clients, outputs, 5, 5, channels) / (5 * channels**0.5), normal(clients, outputs)]
    layer = Convolution(0, 1, (1, 1), (0, 0), (1, 1), 1)
    wanted = channels > 3  # nothing lies before the first one

    def make() -> Work:
        lane = Lane(clients, [p.clone() for p in start], [], None, Descent(torch.ones(clients, device=DEVICE)))
        _, saved = layer.forward(lane, x)

        def backward() -> list[Tensor]:
            (gx,) = layer.backward(lane, saved, g, wanted)
            return [*lane.params, *([] if gx is None else [gx])]

        return backward if which == "backward" else lambda: [layer.forward(lane, x)[0]]

    return make


def one_pooling(shape: tuple[int, int], clients: int, which: str) -> Callable[[], Work]:
    """The forward pass of one max pooling with ReLU, or its backward pass."""
    channels, side = shape
    generator = torch.Generator(DEVICE).manual_seed(0)

    def normal(high: int) -> Tensor:
        size = (clients * BATCH, high, high, channels)
        return torch.randn(size, device=DEVICE, generator=generator).permute(0, 3, 1, 2)

    x, g = normal(side), normal(side // 2)
    layer = MaxPool((2, 2), (2, 2), (0, 0), (1, 1), False, rectified=True)

    def make() -> Work:
        lane = Lane(clients, [], [])
        _, saved = layer.forward(lane, x)

        def backward() -> list[Tensor]:
            (gx,) = layer.backward(lane, saved, g, True)
            return [] if gx is None else [gx]

        return backward if which == "backward" else lambda: [layer.forward(lane, x)[0]]

    return make


def whole_step(program: Program, space: Space, clients: int) -> Callable[[], Work]:
    """One SGD step of ``cnn-psfl`` for a cohort."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    x = torch.randn(clients * BATCH, *space.shape, device=DEVICE, generator=generator)
    y = torch.randint(0, 10, (clients * BATCH,), device=DEVICE, generator=generator)
    batch = Batch(x, y, torch.full((clients, BATCH), 1 / BATCH, device=DEVICE))
    lr_C = torch.full((clients,), RECIPE.lr, device=DEVICE)
    start = space.initial(0).to(DEVICE)
    before = program.pack([start] * clients)

    def make() -> Work:
        params = program.pack([start] * clients)
        state = CohortState(params, [], None, None, None, None)

        taken = []

        def step() -> list[Tensor]:
            sgd_step(program, state, batch, RECIPE, lr_C)
            if taken:  # timed steps only step
                return []
            taken.append(True)
            return [new - old for new, old in zip(params, before, strict=True)]

        return step

    return make


def main() -> None:
    """Measure, print a table, then JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--json", help="also write the JSON to this file")
    options = parser.parse_args()
    space = Space("cnn-psfl", lambda: build("cnn-psfl", (3, 32, 32), 10), (3, 32, 32))
    program = compile_program(space)
    rows = []
    heads = ("torch ms", "kernels ms", "ratio", "exact", "tf32", "old tf32")
    print(f"{'case':<22}{'cohort':>7}" + "".join(f"{head:>11}" for head in heads) + "  repeats")
    for clients in COHORTS:
        passes = ("forward", "backward")
        cases = {
            f"{name} {which}": one_pass(shape, clients, which) for name, shape in SHAPES.items() for which in passes
        }
        for name, sides in POOLS.items():
            cases |= {f"{name} {which}": one_pooling(sides, clients, which) for which in passes}
        cases["SGD step"] = whole_step(program, space, clients)
        while cases:
            name = next(iter(cases))
            with torch.no_grad():
                row = measure(name, clients, cases.pop(name), options.repetitions)
            torch.cuda.empty_cache()
            rows.append(row)
            print(
                f"{name:<22}{clients:>7}{row['unfold_ms']:>11.3f}{row['kernels_ms']:>11.3f}{row['ratio']:>11.2f}"
                f"{row['difference_exact']:>11.1e}{row['difference_tf32']:>11.1e}{row['difference_unfold_tf32']:>11.1e}"
                f"  {row['repeats']}",
                flush=True,
            )
    result = json.dumps({"hardware": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows})
    print(result)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(result + "\n")


if __name__ == "__main__":
    main()
