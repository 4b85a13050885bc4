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
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from paceline.errors import SettingError
from paceline.learn.allocation import keep_freed_memory
from paceline.learn.cohort.captured import CaptureCache, recipe_form
from paceline.learn.cohort.cutting import rows_of
from paceline.learn.cohort.probing import DrawnParts, probe_cohort
from paceline.learn.cohort.rules import Part, Rules
from paceline.learn.cohort.scoring import ALONE_SLICE, SLICE, score_jobs
from paceline.learn.cohort.scripted import scripts_of
from paceline.learn.cohort.shrinking import Done, Shrinking
from paceline.learn.cohort.step import CohortState, DrawnSteps, is_plain
from paceline.learn.cohort.streams import Streams, streams_of
from paceline.learn.cohort.threads import Threads
from paceline.learn.determinism import same_bits
from paceline.learn.draws import draw_batches, draw_parts
from paceline.learn.job import EvalJob, Probed, Score, Trained, TrainJob
from paceline.learn.memory import Budget
from paceline.learn.programs.blocks import empty_blocks
from paceline.learn.programs.program import Program
from paceline.learn.programs.reading import compile_program
from paceline.learn.space import Space

T = TypeVar("T")
R = TypeVar("R")


class CohortTrainer:
    """Train and score visits in batched cohorts on one device."""

    def __init__(
        self,
        device: str = "cpu",
        cohort: int | None = None,
        threads: int | None = None,
        limit: float | None = None,
    ) -> None:
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise SettingError(
                f"executor.device is {device!r} but torch sees no CUDA device; use executor.device=cpu"
            )
        if cohort is not None and cohort < 1:
            raise SettingError(f"executor.cohort is {cohort}; it must be 1 or more")
        self.device = torch.device(device)
        self.threads = threads or int(os.environ.get("PACELINE_THREADS", "0")) or os.cpu_count() or 1
        self.budget = None if limit is None else Budget(limit, self.device, self.threads)
        """How much memory may be taken; None: as much as there is."""
        on_gpu = self.device.type == "cuda"
        if not on_gpu:
            keep_freed_memory()
        whole = torch.cuda.get_device_properties(self.device).total_memory if on_gpu else 0
        if limit is not None and on_gpu:  # what the accounts do not know ends there too
            torch.cuda.set_per_process_memory_fraction(min(1.0, limit / whole), self.device.index)
        self.rules = Rules(on_gpu, whole, cohort, self.threads, self.budget)
        self._shrinking = Shrinking(self._let_go)
        self._undivided: set[object] = set()
        """Programs of which a client needs the whole device: none run side by side."""
        self._samples = SLICE
        self._resident: dict[tuple[object, ...], tuple[Tensor, Tensor, Tensor, Tensor]] = {}
        self._streams: Streams | None = None
        self._captures: dict[int, CaptureCache] = defaultdict(CaptureCache)  # by stream: each has its own buffers
        self._threads = Threads(self.threads)
        self.finished: list[int] = []
        """The visits of each cohort that is done, of the wave that is under way."""

    # -- training -------------------------------------------------------------------------------------------

    def train(self, jobs: list[TrainJob]) -> list[Trained]:
        """Cut the wave into cohorts of similar length and run them."""
        program = self.program(jobs[0].space)
        parts = self.rules.visits(program, jobs)
        order, cuts = laid_out(parts)
        jobs = [jobs[k] for k in order]
        drawn = self._drawn_steps(program, jobs)
        alone = len(parts[0].places) == 1

        def cohort(stream: int, part: slice, done: Done[Trained]) -> None:
            done(part, self._train_cohort(program, jobs[part], drawn.part(part), stream))
            self.finished.append(part.stop - part.start)  # whole, whichever thread does it

        def cohorts(cuts: list[slice], done: Done[Trained]) -> None:
            self._each(
                lambda stream, part: cohort(stream, part, done),
                cuts,
                side_by_side=alone and id(program) not in self._undivided,
            )

        kind, name = (id(program), recipe_form(jobs[0].recipe)), f"training of {program.space.name!r}"
        try:
            return in_their_order(
                order, self._shrinking.run(kind, name, cuts, cohorts, lambda: self._goes_alone(program))
            )
        finally:
            self.finished.clear()

    def _goes_alone(self, program: Program) -> bool:
        before = len(self._undivided)
        self._undivided.add(id(program))
        return self._streams is not None and len(self._undivided) > before

    def _let_go(self) -> None:
        """Of all on the device that can be made again: graphs with their buffers, the allocator's reserve."""
        self._captures.clear()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

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
        return self.rules.fills(space, batch)

    def _train_cohort(self, program: Program, jobs: list[TrainJob], drawn: DrawnSteps, stream: int) -> list[Trained]:
        state = self._state(program, jobs)
        run = self._captures[stream].run if self.device.type == "cuda" else scripts_of(program.space).run
        with same_bits(self.device):
            loss_C = run(program, state, drawn)
        return [
            Trained(value, loss) for value, loss in zip(program.unpack(state.params), loss_C.unbind(0), strict=True)
        ]

    def _drawn_steps(self, program: Program, jobs: list[TrainJob]) -> DrawnSteps:
        recipe = jobs[0].recipe
        keys = [job.key for job in jobs]
        rows = self.rules.rows(program, recipe.batch, common=True)
        batches = draw_batches(keys, [job.size for job in jobs], recipe, rows)
        x, y = self._data(jobs[0].shards.x, jobs[0].shards.y, jobs[0].space.dtype)
        steps_C = np.array(batches.steps_C)
        rate_CS = np.array([job.lr for job in jobs])[:, None] * (np.arange(steps_C[0]) < steps_C[:, None])
        weight_CSB = batches.real_CSB / np.maximum(batches.real_CSB.sum(axis=2, keepdims=True), 1)
        return DrawnSteps(
            recipe=recipe,
            key_C=torch.from_numpy(np.array(keys)).to(self.device),
            rows_CSB=torch.from_numpy(rows_of(jobs, batches)).to(self.device),
            weight_CSB=torch.from_numpy(weight_CSB).to(self.device, x.dtype),
            steps_C=batches.steps_C,
            left_C=torch.from_numpy(steps_C).to(self.device),
            lr_CS=torch.from_numpy(rate_CS).to(self.device, x.dtype),
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
        state = CohortState(
            params=params,
            grads=[],
            velocity=[torch.zeros_like(p) for p in params] if recipe.momentum else None,
            anchor=packed([*anchors]) if recipe.prox else None,
            correction=packed([job.correction for job in jobs]),
            mask=packed([*masks]),
        )
        if not is_plain(program, state, recipe):
            state.grads = [empty_blocks(p) for p in params]
        return state

    def _data(self, x: Tensor, y: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Samples on the device, moved once."""
        key = (id(x), id(y), dtype)
        held = self._resident.get(key)
        if held is None:
            # The originals are held too: a freed tensor's id would come back with other data.
            held = self._resident[key] = (x.to(self.device, dtype), y.to(self.device), x, y)
            if self.budget is not None:
                self.budget.see(*(held if self.device.type == "cpu" else held[:2]))
        return held[0], held[1]

    def hold(self, x: Tensor, y: Tensor, space: Space) -> None:
        """Have samples on the device before anything is learned from them, so that their room is known."""
        self._data(x, y, space.dtype)

    # -- probes ---------------------------------------------------------------------------------------------

    def probe(self, jobs: list[TrainJob], width: int | None = None) -> list[Probed]:
        """Full gradients of many clients in a few cohorts."""
        program = self.program(jobs[0].space)
        parts = self.rules.probes(program, jobs, width or 0)
        order, cuts = laid_out(parts)
        wide = [part.rows for part in parts for _ in part.places]

        def probed(cut: slice) -> list[Probed]:
            return self._probe_cohort(program, [jobs[k] for k in order[cut]], wide[cut.start])

        def cohorts(cuts: list[slice], done: Done[Probed]) -> None:
            self._map(lambda cut: done(cut, probed(cut)), cuts)

        name = f"probing of {program.space.name!r}"
        return in_their_order(order, self._shrinking.run((id(program), "probe"), name, cuts, cohorts))

    def _drawn_parts(self, jobs: list[TrainJob], rows: int) -> DrawnParts:
        sizes = [job.size for job in jobs]
        parts = draw_parts([job.key for job in jobs], sizes, rows)
        x, y = self._data(jobs[0].shards.x, jobs[0].shards.y, jobs[0].space.dtype)
        return DrawnParts(
            jobs[0].recipe.loss,
            torch.from_numpy(rows_of(jobs, parts)).to(self.device),
            torch.from_numpy(parts.real_CSB).to(self.device),
            parts.steps_C,
            sizes,
            x,
            y,
        )

    def _probe_cohort(self, program: Program, jobs: list[TrainJob], rows: int) -> list[Probed]:
        drawn = self._drawn_parts(jobs, rows)
        with same_bits(self.device):
            return probe_cohort(program, program.pack(self._moved([job.start for job in jobs])), drawn)

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
        parts = self.rules.scores(program, jobs)
        order, cuts = laid_out(parts)
        wide = [part.rows for part in parts for _ in part.places]
        models, samples = (None, SLICE) if self.budget is None else self.budget.scored(program.space)
        if self.rules.go_alone(program):
            samples = min(samples, ALONE_SLICE)

        def score(cut: slice) -> list[Score]:
            some = [jobs[k] for k in order[cut]]
            return score_jobs(program, some, self.device, wide[cut.start], models, min(samples, self._samples))

        def groups(cuts: list[slice], done: Done[Score]) -> None:
            self._map(lambda cut: done(cut, score(cut)), cuts)

        name = f"scoring of {program.space.name!r}"
        return in_their_order(order, self._shrinking.run((id(program), "score"), name, cuts, groups, self._fewer))

    def _fewer(self) -> bool:
        """Fewer samples at a time, if there are several."""
        self._samples //= 2
        return self._samples > 0

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
        """On a CPU one item a thread."""
        if self.device.type != "cpu":
            return [function(item) for item in items]
        return self._threads.map(function, items)


def laid_out(parts: list[Part]) -> tuple[list[int], list[slice]]:
    """All places one after the other, and where each part is among them."""
    edges = [0, *accumulate(len(part.places) for part in parts)]
    return [k for part in parts for k in part.places], [slice(*edge) for edge in pairwise(edges)]


def in_their_order(order: list[int], found: list[R]) -> list[R]:
    """Results of places in this order, in the order of the places."""
    return [one for _, one in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]
