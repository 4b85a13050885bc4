"""The default executor: many clients' visits as few batched programs.

A wave of visits that agree in space and recipe is cut into cohorts. How many clients share a cohort depends on the
program and the device, by rules that ``make bench`` measures and that never depend on the clock, so that a repeated
run computes the same bits:

- CPU, matrix products: as many clients as keep the cohort's weights in cache, one cohort a thread.
- CPU, convolutions: one client a cohort (grouping convolutions does not pay), one cohort a thread.
- CUDA: as many as memory allows for small networks, captured as a CUDA graph; one for networks that fill the GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from paceline.errors import SettingError
from paceline.learn.draws import Batches, crop_and_flip, draw_batches, draw_crops, dropout_key
from paceline.learn.flops import forward_flops
from paceline.learn.graphed import GraphCache
from paceline.learn.job import EvalJob, Score, Shards, Trained, TrainJob
from paceline.learn.program import Batch, Program
from paceline.learn.scoring import score_jobs
from paceline.learn.space import Space
from paceline.learn.step import CohortState, sgd_step
from paceline.learn.trace import compile_program

T = TypeVar("T")
R = TypeVar("R")

CACHE_BYTES = 4 << 20
"""Weights of a CPU cohort: about an L2 cache, where the batched product stays fast."""
LARGEST = 512
GPU_STEP_FLOPS = 5e9
"""Forward FLOPs of one client's batch beyond which one client fills a GPU."""
GPU_UNFOLD_BYTES = 6 << 30


class CohortTrainer:
    """Train and score visits in batched cohorts on one device."""

    def __init__(self, device: str = "cpu", cohort: int | None = None, threads: int | None = None) -> None:
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise SettingError(f"executor.device is {device!r} but torch sees no CUDA device; use executor.device=cpu")
        if cohort is not None and cohort < 1:
            raise SettingError(f"executor.cohort is {cohort}; it must be 1 or more")
        self.device = torch.device(device)
        self.cohort = cohort
        self.threads = threads or os.cpu_count() or 1
        self._programs: dict[Space, Program] = {}
        self._resident: dict[int, tuple[Tensor, Tensor]] = {}
        self._graphs = GraphCache()
        self._pool: ThreadPoolExecutor | None = None
        self.waves = 0
        self.visits = 0

    # -- training -------------------------------------------------------------------------------------------

    def train(self, jobs: list[TrainJob]) -> list[Trained]:
        """Cut the wave into cohorts of similar length and run them."""
        program = self.program(jobs[0].space)
        self.waves += 1
        self.visits += len(jobs)
        steps = [job.recipe.steps_for(job.size) for job in jobs]
        # Clients with as many steps to go share a cohort, longest first; ties keep their order.
        order = sorted(range(len(jobs)), key=lambda k: -steps[k])
        size = self._cohort_size(program, jobs)
        chunks = [order[k : k + size] for k in range(0, len(order), size)]
        results = self._map(lambda chunk: self._train_cohort(program, [jobs[k] for k in chunk]), chunks)
        out: list[Trained | None] = [None] * len(jobs)
        for chunk, trained in zip(chunks, results, strict=True):
            for k, one in zip(chunk, trained, strict=True):
                out[k] = one
        return [one for one in out if one is not None]

    def program(self, space: Space) -> Program:
        """The compiled program of a space, made once."""
        if space not in self._programs:
            self._programs[space] = compile_program(space)
            if self.device.type == "cuda":
                space.module.to(self.device)
        return self._programs[space]

    def _cohort_size(self, program: Program, jobs: list[TrainJob]) -> int:
        if not getattr(program, "groupable", True):
            return 1
        if self.cohort is not None:
            return self.cohort
        space, recipe = jobs[0].space, jobs[0].recipe
        if self.device.type == "cuda":
            flops = sum(forward_flops(space.module, space.shape).values()) * recipe.batch
            if flops > GPU_STEP_FLOPS:
                return 1
            # An unfolded convolution holds about FLOPs / (2 * output channels) numbers; 16 is a small network's.
            per_client = flops / 32 * 4
            return int(max(1, min(LARGEST, GPU_UNFOLD_BYTES // max(per_client, 1))))
        if not program.batches_convolutions:
            return 1
        share = -(-len(jobs) // self.threads)
        itemsize = torch.empty(0, dtype=space.dtype).element_size()
        return max(1, min(share, CACHE_BYTES // (space.size * itemsize), LARGEST))

    def _train_cohort(self, program: Program, jobs: list[TrainJob]) -> list[Trained]:
        recipe = jobs[0].recipe
        key_C = torch.tensor([job.key for job in jobs], device=self.device)
        batches = draw_batches(key_C, [job.size for job in jobs], recipe)
        x, y = self._data(jobs[0].shards, jobs[0].space)
        rows_CSB = self._rows(jobs, batches)
        weight_CSB = batches.real_CSB.to(x.dtype)
        weight_CSB /= weight_CSB.sum(dim=2, keepdim=True).clamp_(min=1.0)
        state = self._state(program, jobs)
        if self.device.type == "cuda":
            loss_C = self._graphs.run(program, state, jobs, recipe, key_C, rows_CSB, weight_CSB, batches.steps_C, x, y)
        else:
            loss_C = _run_steps(program, state, jobs, key_C, rows_CSB, weight_CSB, batches.steps_C, x, y)
        values = program.unpack(state.params)
        return [Trained(value, loss) for value, loss in zip(values.unbind(0), loss_C.unbind(0), strict=True)]

    def _rows(self, jobs: list[TrainJob], batches: Batches) -> Tensor:
        """Positions in each client's own list to rows of the data set."""
        longest = max(job.size for job in jobs)
        owned = np.zeros((len(jobs), longest), np.int64)
        for k, job in enumerate(jobs):
            owned[k, : job.size] = job.shards.rows(job.client)
        owned_CN = torch.from_numpy(owned).to(self.device)
        return owned_CN.gather(1, batches.index_CSB.flatten(1)).view_as(batches.index_CSB)

    def _state(self, program: Program, jobs: list[TrainJob]) -> CohortState:
        def packed(values: list[Tensor | None]) -> list[Tensor] | None:
            given = [v for v in values if v is not None]
            if not given:
                return None
            return program.pack(torch.stack([v.to(self.device) for v in given]))

        recipe = jobs[0].recipe
        starts = [job.start if job.mask is None else job.start * job.mask for job in jobs]
        params = packed(list(starts)) or []
        anchors = [start if job.anchor is None else job.anchor for start, job in zip(starts, jobs, strict=True)]
        return CohortState(
            params=params,
            grads=[torch.empty_like(p) for p in params],
            velocity=[torch.zeros_like(p) for p in params] if recipe.momentum else None,
            anchor=packed(list(anchors)) if recipe.prox else None,
            correction=packed([job.correction for job in jobs]),
            mask=packed([job.mask for job in jobs]),
        )

    def _data(self, shards: Shards, space: Space) -> tuple[Tensor, Tensor]:
        """The shards' samples on the device, moved once."""
        held = self._resident.get(id(shards.x))
        if held is None or held[0].dtype != space.dtype:
            held = (shards.x.to(self.device, space.dtype), shards.y.to(self.device))
            self._resident[id(shards.x)] = held
        return held

    # -- evaluation -----------------------------------------------------------------------------------------

    def evaluate(self, jobs: list[EvalJob]) -> list[Score]:
        """Score models: whole test sets model by model, clients' own test sets several clients at a time."""
        program = self.program(jobs[0].space)
        groups = [[job] for job in jobs if job.rows is None]
        personal = sorted((k for k, job in enumerate(jobs) if job.rows is not None), key=lambda k: len(_rows(jobs[k])))
        size = 1 if self.device.type == "cpu" and not program.batches_convolutions else 32
        personal_groups = [personal[k : k + size] for k in range(0, len(personal), size)]
        order = [k for k, job in enumerate(jobs) if job.rows is None] + personal
        groups += [[jobs[k] for k in group] for group in personal_groups]
        scored = self._map(lambda group: score_jobs(program, group, self.device), groups)
        flat = [score for group in scored for score in group]
        return [score for _, score in sorted(zip(order, flat, strict=True), key=lambda pair: pair[0])]

    # -- threads --------------------------------------------------------------------------------------------

    def _map(self, function: Callable[[T], R], items: list[T]) -> list[R]:
        """On a CPU, one item a thread with one core each; a single item gets all cores."""
        if self.device.type != "cpu" or len(items) == 1 or self.threads == 1:
            torch.set_num_threads(self.threads)
            return [function(item) for item in items]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, "paceline", initializer=lambda: torch.set_num_threads(1))
        torch.set_num_threads(1)
        return list(self._pool.map(function, items))


def _rows(job: EvalJob) -> Tensor:
    assert job.rows is not None
    return job.rows


@torch.no_grad()
def _run_steps(
    program: Program,
    state: CohortState,
    jobs: list[TrainJob],
    key_C: Tensor,
    rows_CSB: Tensor,
    weight_CSB: Tensor,
    steps_C: list[int],
    x: Tensor,
    y: Tensor,
) -> Tensor:
    """All steps of a cohort; clients are ordered by their number of steps, so those still running come first."""
    recipe = jobs[0].recipe
    rates = [job.lr for job in jobs]
    same_rate = len(set(rates)) == 1
    lr_C = torch.tensor(rates, dtype=x.dtype)
    total_C = torch.zeros(len(jobs), dtype=x.dtype)
    for step in range(steps_C[0]):
        active = sum(s > step for s in steps_C)
        part = state if active == len(jobs) else state.first(active)
        rows = rows_CSB[:active, step].reshape(-1)
        samples = x[rows]
        if recipe.augment == "crop-flip":
            samples = crop_and_flip(samples, draw_crops(key_C[:active], step, recipe.batch))
        batch = Batch(samples, y[rows], weight_CSB[:active, step], dropout_key(key_C[:active], step))
        lr = rates[0] if same_rate else lr_C[:active]
        total_C[:active] += sgd_step(program, part, batch, recipe, lr)
    return total_C / torch.tensor(steps_C, dtype=x.dtype)
