"""A cohort's SGD steps as TorchScript, on a CPU: one call instead of hundreds.

A scripted step runs outside Python: it holds no interpreter lock, so cohorts in several threads really run side by
side, and small steps are not dominated by Python. The same operations run in the same order, so the bits are those
of the plain step. Where TorchScript cannot trace a step, or is gone (``torchscript``), the plain step runs instead.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from paceline.learn.cohort.captured import ROUNDED, recipe_form, rounded, state_form
from paceline.learn.cohort.step import CohortState, DrawnSteps, make_batch, sgd_step
from paceline.learn.programs.blocks import empty_blocks
from paceline.learn.programs.program import Program
from paceline.learn.space import Space
from paceline.learn.torchscript import traced

WORTH = 3
"""A form is scripted when it comes up this often: that costs about ten plain runs."""
MOST = 256
"""Scripts of one architecture that are kept; a process that tries many recipes makes more than it needs again."""
UNROLLED = (8, 4, 3, 2, 1)
"""Steps that are scripted together."""

Steps = Callable[..., Tensor]


@dataclass(eq=False)
class ScriptCache:
    """Scripted steps by form; shared by all threads."""

    scripts: dict[tuple[object, ...], Steps] = field(default_factory=dict)
    seen: Counter[tuple[object, ...]] = field(default_factory=Counter)
    lock: Any = field(default_factory=threading.Lock)

    @torch.no_grad()
    def run(self, program: Program, state: CohortState, drawn: DrawnSteps) -> Tensor:
        """Train a cohort in place; returns each client's mean loss.

        Clients are ordered by their number of steps: those that are done fall out at the end, a few at a time, so
        that few sizes occur; until then they train at rate 0.
        """
        clients = len(drawn.steps_C)
        total_C = torch.zeros_like(drawn.lr_CS[:, 0])
        for first, count, size in pieces(drawn.steps_C):
            part = state if size == clients else state.first(size)
            block = slice(first, first + count)
            total_C[:size] = self._steps(program, part, drawn, count)(
                drawn.x,
                drawn.y,
                drawn.rows_CSB[:size, block],
                drawn.weight_CSB[:size, block],
                drawn.key_C[:size],
                number(first),
                drawn.lr_CS[:size, block],
                total_C[:size],
                *flat(part),
            )
        return drawn.mean_loss(total_C)

    def _steps(self, program: Program, state: CohortState, drawn: DrawnSteps, count: int) -> Steps:
        batch, sample = drawn.rows_CSB.shape[2], drawn.x.shape[1:]
        size = state.params[0].shape[0]
        form = (id(program), recipe_form(drawn.recipe), state_form(state), size, count, batch, sample, drawn.x.dtype)
        scripted = self.scripts.get(form)
        if scripted is not None:
            return scripted
        with self.lock:
            self.seen[form] += 1
            if form not in self.scripts and self.seen[form] >= WORTH:
                self.scripts[form] = script_steps(program, state, drawn, count)
            return self.scripts.get(form) or plain_steps(program, state, drawn, count)


def scripts_of(space: Space) -> ScriptCache:
    """The scripted steps of an architecture, for all trainers of this process: scripting takes long."""
    found: ScriptCache = space.derived.setdefault("scripts", ScriptCache())
    if len(found.scripts) > MOST:
        found.scripts.clear()
    return found


def pieces(steps_C: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Cut a cohort's steps into (first step, how many, how many clients): few different forms, none of them long."""
    first = 0
    while first < steps_C[0]:
        active = sum(s > first for s in steps_C)
        size = min(rounded(active), len(steps_C))
        # All steps for which this size is the right one, in powers of two.
        smaller = max((s for s in ROUNDED if s < size), default=0)
        same = (steps_C[smaller] if smaller < len(steps_C) else steps_C[0]) - first
        count = next(c for c in UNROLLED if c <= same)
        yield first, count, size
        first += count


@cache
def number(step: int) -> Tensor:
    """A step's number as a script takes it."""
    return torch.tensor(step)


def flat(state: CohortState) -> list[Tensor]:
    """All tensors of a state in one list."""
    return [t for part in state.parts() if part is not None for t in part]


def plain_steps(program: Program, like: CohortState, drawn: DrawnSteps, count: int) -> Steps:
    """So many steps as a function of tensors alone; what is not a tensor is taken from what was drawn.

    Losses are added to those of the steps before, one by one: how steps were cut into pieces depends on the company.
    """
    lengths = [None if part is None else len(part) for part in like.parts()]
    light = drawn.on(drawn.x[:0], drawn.y[:0]).part(slice(0, 1))  # a cached closure must not keep a wave's data

    def steps(
        x: Tensor, y: Tensor, rows_CSB: Tensor, weight_CSB: Tensor, key_C: Tensor, first: Tensor, lr_CS: Tensor,
        total_C: Tensor, *tensors: Tensor,
    ) -> Tensor:  # fmt: skip
        rest = iter(tensors)
        state = CohortState.of([None if n is None else [next(rest) for _ in range(n)] for n in lengths])
        for k in range(count):
            batch = make_batch(light.on(x, y), rows_CSB[:, k], weight_CSB[:, k], key_C, first + k)
            total_C = total_C + sgd_step(program, state, batch, light.recipe, lr_CS[:, k])
        return total_C

    return steps


def script_steps(program: Program, like: CohortState, drawn: DrawnSteps, count: int) -> Steps:
    """The scripted steps, or the plain ones where there is no script of them."""
    plain = plain_steps(program, like, drawn, count)
    if not program.scriptable:
        return plain
    size, batch = like.params[0].shape[0], drawn.rows_CSB.shape[2]
    # Tracing runs the steps: they run on copies, on the first sample, at rate 0.
    rows_CSB = torch.zeros(size, count, batch, dtype=torch.int64)
    weight_CSB = torch.zeros(size, count, batch, dtype=drawn.x.dtype)
    example = (drawn.x, drawn.y, rows_CSB, weight_CSB, drawn.key_C[:size], torch.tensor(0), weight_CSB[:, :, 0])
    tensors = [*example, weight_CSB[:, 0, 0], *(_twin(t) for t in flat(like))]
    return traced(plain, tensors, f"training of {program.space.name!r} on the CPU") or plain


def _twin(tensor: Tensor) -> Tensor:
    """A copy with the same distance between clients."""
    return empty_blocks(tensor).copy_(tensor)
