"""What two habits of the CPU trainer bring: whole vectors of channels or of pairs, and freed memory that is kept.

``python -m benchmarks.forms``. Both sides take turns within every repetition; each ratio is the median over them.
Layers run in one thread, in seconds of the processor.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from unittest import mock

import torch
from torch import Tensor

from benchmarks.visits import CPU_CASES, make_jobs
from paceline.learn.allocation import KEPT, LARGEST, MAPPED, TRIM
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.programs import single

LAYERS = ((1, 5, 28, 5), (1, 6, 28, 5), (3, 6, 32, 5), (3, 6, 32, 3), (3, 7, 32, 5), (3, 8, 32, 5), (3, 4, 32, 5))
"""Channels in and out, side of the image, side of the window."""


def seconds(work: Callable[[], object], calls: int, clock: Callable[[], float]) -> float:
    begin = clock()
    for _ in range(calls):
        work()
    return (clock() - begin) / calls


def turns(
    one: Callable[[], object],
    other: Callable[[], object],
    repetitions: int,
    calls: int,
    clock: Callable[[], float] = time.process_time,
) -> tuple[float, float]:
    """Median seconds of the second, and the median ratio of the first to it."""
    one(), other()
    pairs = [(seconds(one, calls, clock), seconds(other, calls, clock)) for _ in range(repetitions)]
    return statistics.median(b for _, b in pairs), statistics.median(a / b for a, b in pairs)


def layer(inputs: int, outputs: int, side: int, window: int, *, plain: bool, paired: bool) -> Callable[[], object]:
    """Forward and the weight's derivative of a first layer with max pooling behind it."""
    wide = single.wide_vectors() and paired
    x, w, b = torch.randn(20, inputs, side, side), torch.randn(outputs, window, window, inputs), torch.randn(outputs)
    shape = single.Shape((1, 1), (0, 0), (1, 1), 1, widened=not plain)

    def step() -> Tensor:
        with mock.patch.object(single, "wide_vectors", return_value=wide):
            form = single.formed(shape, w, b, x)
        out = single.convolve(shape, form)
        pooled, where = torch.ops.aten.max_pool2d_with_indices(out, [2, 2])
        g = torch.ops.aten.max_pool2d_with_indices_backward(pooled, out, [2, 2], [2, 2], [0, 0], [1, 1], False, where)
        return single.derivatives(shape, form, w, g, False)[0]

    return step


def memory(clients: int, threads: int) -> tuple[float, float]:
    """A cohort of the MLP, with memory given back and with memory kept; milliseconds a visit."""
    limits = ctypes.CDLL(None).mallopt
    jobs, trainer = make_jobs(CPU_CASES[0], clients), CohortTrainer("cpu", threads=threads)

    def train(mapped: int, kept: int) -> None:
        limits(MAPPED, mapped), limits(TRIM, kept)
        trainer.train(jobs)

    for _ in range(5):
        trainer.train(jobs)
    # glibc's own limits move with what is freed: for pieces of a model's size to these.
    given_back, ratio = 1 << 20, 2 << 20
    found = turns(lambda: train(given_back, ratio), lambda: train(LARGEST, KEPT), 40, 1, time.perf_counter)
    return found[0] / clients * 1e3, found[1]


def main() -> None:
    torch.set_num_threads(1)
    print("a first convolution and its pooling, batch of 20, one thread: torch's form against ours")
    for case in LAYERS:
        ours = layer(*case, plain=False, paired=True)
        spent, ratio = turns(layer(*case, plain=True, paired=False), ours, 15, 10)
        _, of_pairs = turns(layer(*case, plain=False, paired=False), ours, 15, 10)
        print(f"  {case[0]} to {case[1]} channels, {case[2]}x{case[2]}, window {case[3]}: {ratio:5.2f} times as fast"
              f" ({spent * 1e3:.2f} ms); of that {of_pairs:5.2f} by pairs")  # fmt: skip
    print("the MLP's visits: freed memory given back against kept")
    for clients, threads in ((20, 1), (20, 2)):
        spent, ratio = memory(clients, threads)
        print(f"  {clients} clients, {threads} threads: {ratio:5.2f} times as fast ({spent:.2f} ms a visit)")


if __name__ == "__main__":
    main()
