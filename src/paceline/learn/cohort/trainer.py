"""The default trainer: many clients' visits as few batched programs.

A wave of visits that agree in space and recipe is cut into cohorts. How many clients share a cohort depends on the
program and the device, by rules that ``make bench`` measures and that never depend on the clock, so that a repeated
run computes the same bits. On a CPU a visit's bits are its own, whoever shares the cohort (``programs/blocks.py``):

- CPU, matrix products: as many clients as keep the cohort's weights in cache, one cohort a thread.
- CPU, convolutions: one client a cohort (grouping does not pay, and has other bits), one cohort a thread.
- CUDA: as many as memory allows for small networks, captured as a CUDA graph; one for large networks, of which
  several run side by side in streams.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.errors import SettingError
from paceline.learn.cohort.captured import CaptureCache
from paceline.learn.cohort.probing import ProbePlan, probe_cohort
from paceline.learn.cohort.scoring import SLICE, score_jobs
from paceline.learn.cohort.scripted import scripts_of
from paceline.learn.cohort.step import CohortState, StepPlan
from paceline.learn.cohort.streams import Streams, streams_of
from paceline.learn.determinism import same_bits
from paceline.learn.draws import Batches, draw_batches, draw_parts, largest_part
from paceline.learn.job import EvalJob, Probed, Score, Trained, TrainJob
from paceline.learn.programs.blocks import aligned_rows, empty_blocks, rounded_rows
from paceline.learn.programs.program import Program
from paceline.learn.programs.reading import compile_program
from paceline.learn.space import Space

T = TypeVar("T")
R = TypeVar("R")

CACHE_BYTES = 4 << 20
"""Weights of a CPU cohort: about an L2 cache, where the batched product stays fast."""
LARGEST = 512
SCORED_TOGETHER = 32
GPU_STEP_FLOPS = 5e9
"""Forward FLOPs of one client's batch beyond which one client fills a GPU."""


class CohortTrainer:
    """Train and score visits in batched cohorts on one device."""

    def __init__(self, device: str = "cpu", cohort: int | None = None, threads: int | None = None) -> None:
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise SettingError(
                f"executor.device is {device!r} but torch sees no CUDA device; use executor.device=cpu"
            )
        if cohort is not None and cohort < 1:
            raise SettingError(f"executor.cohort is {cohort}; it must be 1 or more")
        self.device = torch.device(device)
        self.cohort = cohort
        self.threads = threads or int(os.environ.get("PACELINE_THREADS", "0")) or os.cpu_count() or 1
        self._resident: dict[tuple[object, ...], tuple[Tensor, Tensor, Tensor, Tensor]] = {}
        self._streams: Streams | None = None
        self._captures: dict[int, CaptureCache] = defaultdict(CaptureCache)  # by stream: each has its own buffers
        self._pool: ThreadPoolExecutor | None = None

    # -- training -------------------------------------------------------------------------------------------

    def train(self, jobs: list[TrainJob]) -> list[Trained]:
        """Cut the wave into cohorts of similar length and run them."""
        program = self.program(jobs[0].space)
        steps = [job.recipe.steps_for(job.size) for job in jobs]
        # Clients with as many steps to go share a cohort, longest first; ties keep their order.
        order = sorted(range(len(jobs)), key=lambda k: -steps[k])
        jobs = [jobs[k] for k in order]
        plan = self._plan(program, jobs)
        size = self._cohort_size(program, jobs, jobs[0].recipe.batch)
        cohorts = self._each(
            lambda stream, part: self._train_cohort(program, jobs[part], plan.part(part), stream),
            _chunks(len(jobs), size),
            side_by_side=size == 1,
        )
        trained = [one for cohort in cohorts for one in cohort]
        return [one for _, one in sorted(zip(order, trained, strict=True), key=lambda pair: pair[0])]

    def prepare(self, space: Space) -> None:
        """Compile the program; an architecture that cannot be batched is refused here."""
        self.program(space)

    def program(self, space: Space) -> Program:
        """The compiled program of a space, made once a process."""
        name = f"program on {self.device}"
        if name not in space.derived:
            space.derived[name] = compile_program(space)
            if self.device.type == "cuda":
                space.module.to(self.device)
        found: Program = space.derived[name]
        return found

    def fills(self, space: Space, batch: int) -> bool:
        """Whether one client's step keeps a GPU busy."""
        return self.device.type == "cuda" and not batch * space.flops <= GPU_STEP_FLOPS  # larger, or not known

    def _cohort_size(self, program: Program, jobs: list[TrainJob], batch: int) -> int:
        if not program.groupable or self._alone(program):
            return 1
        if self.cohort is not None:
            return self.cohort
        space = jobs[0].space
        if self.device.type == "cuda":
            return _even(len(jobs), self._gpu_most(space, batch), 1)
        itemsize = torch.empty(0, dtype=space.dtype).element_size()
        return _even(len(jobs), min(CACHE_BYTES // (space.size * itemsize), LARGEST), self.threads)

    def _alone(self, program: Program) -> bool:
        """Whether clients go one by one whatever is asked: of several, convolutions would have other bits, later."""
        return self.device.type == "cpu" and not program.batches_convolutions

    def _gpu_most(self, space: Space, batch: int) -> int:
        """Most clients of a cohort on a GPU: one if one fills it, else what an eighth of its memory holds."""
        if self.fills(space, batch):
            return 1
        flops = batch * space.flops
        # An unfolded convolution holds about FLOPs / (2 * output channels) numbers; 16 channels is a small network.
        unfolded = 4 * flops / 32
        memory = torch.cuda.get_device_properties(self.device).total_memory
        return int(min(LARGEST, memory / 8 // (unfolded + 20 * space.size)))

    def _train_cohort(self, program: Program, jobs: list[TrainJob], plan: StepPlan, stream: int) -> list[Trained]:
        state = self._state(program, jobs)
        run = self._captures[stream].run if self.device.type == "cuda" else scripts_of(program.space).run
        with same_bits(self.device):
            loss_C = run(program, state, plan)
        return [
            Trained(value, loss) for value, loss in zip(program.unpack(state.params), loss_C.unbind(0), strict=True)
        ]

    def _plan(self, program: Program, jobs: list[TrainJob]) -> StepPlan:
        recipe = jobs[0].recipe
        keys = [job.key for job in jobs]
        rows = self._rows(program, recipe.batch, common=True)
        batches = draw_batches(keys, [job.size for job in jobs], recipe, rows)
        x, y = self._data(jobs[0].shards.x, jobs[0].shards.y, jobs[0].space.dtype)
        real_CSB = torch.from_numpy(batches.real_CSB).to(self.device)
        weight_CSB = real_CSB.to(x.dtype)
        weight_CSB /= weight_CSB.sum(dim=2, keepdim=True).clamp_(min=1.0)
        return StepPlan(
            recipe=recipe,
            key_C=torch.tensor(keys, device=self.device),
            rows_CSB=torch.from_numpy(_rows(jobs, batches)).to(self.device),
            weight_CSB=weight_CSB,
            steps_C=batches.steps_C,
            left_C=torch.tensor(batches.steps_C, device=self.device),
            lr_C=torch.tensor([job.lr for job in jobs], dtype=x.dtype, device=self.device),
            x=x,
            y=y,
            drops=program.drops,
        )

    def _state(self, program: Program, jobs: list[TrainJob]) -> CohortState:
        def packed(values: list[Tensor | None]) -> list[Tensor] | None:
            given = [v for v in values if v is not None]
            return program.pack(self._moved(given)) if given else None

        recipe = jobs[0].recipe
        masks = self._moved([job.mask for job in jobs if job.mask is not None])
        starts = self._moved([job.start for job in jobs])
        if masks:  # all or none: visits of one wave agree in this
            starts = [start * mask for start, mask in zip(starts, masks, strict=True)]
        params = program.pack(starts)
        anchors = [start if job.anchor is None else job.anchor for start, job in zip(starts, jobs, strict=True)]
        return CohortState(
            params=params,
            grads=[empty_blocks(p) for p in params],
            velocity=[torch.zeros_like(p) for p in params] if recipe.momentum else None,
            anchor=packed([*anchors]) if recipe.prox else None,
            correction=packed([job.correction for job in jobs]),
            mask=packed([*masks]),
        )

    def _data(self, x: Tensor, y: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Samples on the device, moved once."""
        key = (id(x), id(y), dtype)
        held = self._resident.get(key)
        if held is None:
            # The originals are held too: a freed tensor's id would come back with other data.
            held = self._resident[key] = (x.to(self.device, dtype), y.to(self.device), x, y)
        return held[0], held[1]

    # -- probes ---------------------------------------------------------------------------------------------

    def probe(self, jobs: list[TrainJob]) -> list[Probed]:
        """Full gradients of many clients in a few cohorts."""
        program = self.program(jobs[0].space)
        found: dict[int, Probed] = {}
        for rows, places in self._alike([self._rows(program, largest_part(job.size)) for job in jobs]).items():
            some = [jobs[k] for k in places]
            found |= dict(zip(places, self._probe_alike(program, some, rows), strict=True))
        return [found[k] for k in range(len(jobs))]

    def _probe_alike(self, program: Program, jobs: list[TrainJob], rows: int) -> list[Probed]:
        sizes = [job.size for job in jobs]
        parts = draw_parts([job.key for job in jobs], sizes, rows)
        x, y = self._data(jobs[0].shards.x, jobs[0].shards.y, jobs[0].space.dtype)
        plan = ProbePlan(
            jobs[0].recipe.loss,
            torch.from_numpy(_rows(jobs, parts)).to(self.device),
            torch.from_numpy(parts.real_CSB).to(self.device),
            parts.steps_C,
            sizes,
            x,
            y,
        )
        chunks = _chunks(len(jobs), self._cohort_size(program, jobs, rows))
        cohorts = self._map(lambda some: self._probe_cohort(program, jobs[some], plan.some(some)), chunks)
        return [one for cohort in cohorts for one in cohort]

    def _rows(self, program: Program, own: int, *, common: bool = False) -> int:
        """Rows that somebody gets who has so many, or whom all have in common: on a CPU a matter of nobody else."""
        if self.device.type != "cpu" or self._alone(program):
            return own
        return aligned_rows(program.space, own) if common else rounded_rows(own)

    def _alike(self, rows: list[int]) -> dict[int, list[int]]:
        """Who may share a cohort, by the rows that all of them get; on a GPU everybody, with most of all."""
        if self.device.type != "cpu":
            return {max(rows): [*range(len(rows))]}
        found = defaultdict(list)
        for k, own in enumerate(rows):
            found[own].append(k)
        return found

    def _probe_cohort(self, program: Program, jobs: list[TrainJob], plan: ProbePlan) -> list[Probed]:
        with same_bits(self.device):
            return probe_cohort(program, program.pack(self._moved([job.start for job in jobs])), plan)

    def _moved(self, values: list[Tensor]) -> list[Tensor]:
        """On this device; a tensor that many clients share is moved once, and stays one tensor."""
        moved = {id(value): value for value in values}
        moved = {key: value.to(self.device) for key, value in moved.items()}
        return [moved[id(value)] for value in values]

    # -- evaluation -----------------------------------------------------------------------------------------

    def evaluate(self, jobs: list[EvalJob]) -> list[Score]:
        """Score models, several at a time where test sets are small (digits, or clients' own)."""
        program = self.program(jobs[0].space)
        x, y = self._data(jobs[0].x, jobs[0].y, jobs[0].space.dtype)
        jobs = [replace(job, x=x, y=y) for job in jobs]
        lengths = [len(job.y) if job.rows is None else len(job.rows) for job in jobs]
        padded = [self._rows(program, n, common=job.rows is None) for n, job in zip(lengths, jobs, strict=True)]
        groups = []
        for rows, alike in self._alike(padded).items():
            order = sorted(alike, key=lambda k: lengths[k])  # similar lengths together: little padding
            size = self._scored_together(program, rows)
            groups += [(rows, order[k : k + size]) for k in range(0, len(order), size)]
        scored = self._map(lambda g: score_jobs(program, [jobs[k] for k in g[1]], self.device, g[0]), groups)
        places = [k for _, group in groups for k in group]
        flat = [score for group in scored for score in group]
        return [score for _, score in sorted(zip(places, flat, strict=True), key=lambda pair: pair[0])]

    def _scored_together(self, program: Program, samples: int) -> int:
        """How many models of one call: one where one fills the device, or where grouping does not pay."""
        alone = self._alone(program) or self.fills(program.space, min(samples, SLICE))
        return 1 if alone else max(1, min(SCORED_TOGETHER, SLICE // samples))

    # -- threads and streams --------------------------------------------------------------------------------

    def _each(self, function: Callable[[int, T], R], items: list[T], *, side_by_side: bool) -> list[R]:
        """``function(stream's number, item)`` of every item; of those that run alone several at once on a GPU.

        0 is the main stream, in which nothing runs side by side: its graphs share nothing with the others'.
        """
        if self.device.type == "cpu" or not side_by_side:
            return self._map(lambda item: function(0, item), items)
        if self._streams is None:
            self._streams = Streams(self.device, streams_of(self.device))
        return self._streams.map(function, items)

    def _map(self, function: Callable[[T], R], items: list[T]) -> list[R]:
        """On a CPU one item a thread, with one core each.

        Torch's own threads inside an operation are not used: they meet after every operation, and on a machine with
        one other busy process each meeting waits for the scheduler (measured: up to 100 times slower).
        """
        if self.device.type != "cpu":
            return [function(item) for item in items]
        torch.set_num_threads(1)
        if len(items) == 1 or self.threads == 1:
            return [function(item) for item in items]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, "paceline", initializer=lambda: torch.set_num_threads(1))
        return list(self._pool.map(function, items))


def _chunks(count: int, size: int) -> list[slice]:
    return [slice(k, min(k + size, count)) for k in range(0, count, size)]


def _even(count: int, most: int, multiple: int) -> int:
    """The size of equal parts of at most ``most``, their number a multiple of ``multiple``."""
    parts = -(-count // max(1, most))
    return -(-count // (-(-parts // multiple) * multiple))


def _rows(jobs: list[TrainJob], batches: Batches) -> NDArray[np.int64]:
    """Positions in each client's own list to rows of the data set."""
    owned = np.zeros((len(jobs), max(job.size for job in jobs)), np.int64)
    for k, job in enumerate(jobs):
        owned[k, : job.size] = job.shards.rows(job.client)
    index = batches.index_CSB.reshape(len(jobs), -1)
    return np.take_along_axis(owned, index, axis=1).reshape(batches.index_CSB.shape)
