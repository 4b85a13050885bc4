"""How a wave of visits, probes or scores is cut: by network and device, never by the clock or by who computes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.learn.cohort.cutting import chunks, even
from paceline.learn.cohort.scoring import SLICE
from paceline.learn.draws import largest_part
from paceline.learn.footprint import Need, model_bytes
from paceline.learn.job import EvalJob, TrainJob
from paceline.learn.memory import Budget
from paceline.learn.programs.blocks import aligned_rows, rounded_rows
from paceline.learn.programs.program import Program
from paceline.learn.space import Space

CACHE_BYTES = 4 << 20
"""Weights of a CPU cohort: about an L2 cache, where the batched product stays fast."""
LARGEST = 512
SCORED_TOGETHER = 32
GPU_STEP_FLOPS = 5e9
"""Forward FLOPs of one client's batch beyond which one client fills a GPU."""


@dataclass(frozen=True)
class Part:
    """Those of a wave who go together."""

    places: list[int]
    """In the wave."""
    rows: int = 0
    """That each of them gets, with padding; 0: as many as its recipe says."""


@dataclass(frozen=True)
class Rules:
    """What decides who goes together."""

    on_gpu: bool
    memory: float
    """Bytes of a GPU."""
    cohort: int | None
    """Most clients in one program, if somebody has said so."""
    threads: int
    budget: Budget | None = None

    def fills(self, space: Space, batch: int) -> bool:
        """Whether one client's step keeps a GPU busy."""
        return self.on_gpu and not batch * space.flops <= GPU_STEP_FLOPS  # larger, or not known

    def go_alone(self, program: Program) -> bool:
        """Whether clients go one by one whatever is asked: of several, convolutions would have other bits, later."""
        return not self.on_gpu and not program.batches_convolutions

    # -- cutting -------------------------------------------------------------------------------------------------

    def visits(self, program: Program, jobs: Sequence[TrainJob]) -> list[Part]:
        """Clients with as many steps to go share a cohort, longest first; ties keep their order."""
        steps = [job.recipe.steps_for(job.size) for job in jobs]
        order = sorted(range(len(jobs)), key=lambda k: -steps[k])
        size = self.size(program, [jobs[k] for k in order], jobs[0].recipe.batch)
        return [Part(order[part]) for part in chunks(len(jobs), size)]

    def probes(self, program: Program, jobs: Sequence[TrainJob], least: int = 0) -> list[Part]:
        """Clients whose largest parts have similar sizes share a cohort."""
        rows = [self.rows(program, largest_part(job.size)) for job in jobs]
        parts = []
        for wide, places in self.alike(rows, least).items():
            size = self.size(program, [jobs[k] for k in places], wide)
            parts += [Part(places[part], wide) for part in chunks(len(places), size)]
        return parts

    def scores(self, program: Program, jobs: Sequence[EvalJob]) -> list[Part]:
        """Models are scored several at a time where test sets are small (digits, or clients' own)."""
        lengths = [len(job.y) if job.rows is None else len(job.rows) for job in jobs]
        padded = [self.rows(program, n, common=job.rows is None) for n, job in zip(lengths, jobs, strict=True)]
        parts = []
        for wide, alike in self.alike(padded).items():
            order = sorted(alike, key=lambda k: lengths[k])  # similar lengths together: little padding
            parts += [Part(order[part], wide) for part in chunks(len(order), self.scored(program, wide))]
        return parts

    # -- sizes ---------------------------------------------------------------------------------------------------

    def size(self, program: Program, jobs: Sequence[TrainJob], batch: int) -> int:
        """How many clients share a cohort."""
        best = self._best_size(program, jobs, batch)
        if best == 1 or self.budget is None:
            return best
        job = jobs[0]
        extras = sum(extra is not None for extra in (job.mask, job.correction, job.anchor))
        need = Need(job.space, job.recipe, max(job.size for job in jobs), batch, extras)
        return min(best, self.budget.cohort(need))

    def _best_size(self, program: Program, jobs: Sequence[TrainJob], batch: int) -> int:
        """How many should where memory is no question."""
        if not program.groupable or self.go_alone(program):
            return 1
        if self.cohort is not None:
            return self.cohort
        space = jobs[0].space
        if self.on_gpu:
            return even(len(jobs), self._gpu_most(space, batch), 1)
        return even(len(jobs), min(CACHE_BYTES // model_bytes(space), LARGEST), self.threads)

    def _gpu_most(self, space: Space, batch: int) -> int:
        """Most clients of a cohort on a GPU: one if one fills it, else what an eighth of its memory holds."""
        if self.fills(space, batch):
            return 1
        flops = batch * space.flops
        # An unfolded convolution holds about FLOPs / (2 * output channels) numbers; 16 channels is a small network.
        unfolded = 4 * flops / 32
        memory = self.memory if self.budget is None else min(self.memory, self.budget.limit)
        return int(min(LARGEST, memory / 8 // (unfolded + 20 * space.size)))

    def scored(self, program: Program, samples: int) -> int:
        """How many models of one call: one where one fills the device, or where grouping does not pay."""
        alone = self.go_alone(program) or self.fills(program.space, min(samples, SLICE))
        return 1 if alone else max(1, min(SCORED_TOGETHER, SLICE // samples))

    def rows(self, program: Program, own: int, *, common: bool = False) -> int:
        """Rows that somebody gets who has so many, or whom all have in common: on a CPU a matter of nobody else."""
        if self.on_gpu or self.go_alone(program):
            return own
        return aligned_rows(program.space, own) if common else rounded_rows(own)

    def alike(self, rows: Sequence[int], least: int = 0) -> dict[int, list[int]]:
        """Who may share a cohort, by the rows that all of them get; on a GPU everybody, with most of all."""
        if self.on_gpu:
            return {max(least, *rows): [*range(len(rows))]}
        found = defaultdict(list)
        for k, own in enumerate(rows):
            found[own].append(k)
        return found
