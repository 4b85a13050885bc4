"""CUDA graphs of a cohort's SGD step: one launch instead of a hundred.

A graph is captured once per (program, recipe, cohort size, batch) on buffers of its own and replayed for every
step of every later cohort of that form. Smaller cohorts are padded to the next size in ``ROUNDED``; a padded client,
or one that has no steps left, trains with rate 0 and is thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from paceline.learn.draws import crop_and_flip, draw_crops, dropout_key
from paceline.learn.job import TrainJob
from paceline.learn.program import Batch, Program
from paceline.learn.recipe import LocalSGD
from paceline.learn.step import CohortState, sgd_step

ROUNDED = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512)
WARM_UP = 3


def rounded(clients: int) -> int:
    """The size of the graph that will run this many clients."""
    return next((size for size in ROUNDED if size >= clients), clients)


@dataclass(eq=False)
class StepGraph:
    """One captured step and the buffers it reads and writes."""

    state: CohortState
    key_C: Tensor
    rows_CB: Tensor
    weight_CB: Tensor
    lr_C: Tensor
    step: Tensor
    loss_C: Tensor
    graph: torch.cuda.CUDAGraph = field(default_factory=torch.cuda.CUDAGraph)


@dataclass(eq=False)
class GraphCache:
    """Captured steps by form."""

    graphs: dict[tuple[object, ...], StepGraph] = field(default_factory=dict)

    @torch.no_grad()
    def run(
        self,
        program: Program,
        state: CohortState,
        jobs: list[TrainJob],
        recipe: LocalSGD,
        key_C: Tensor,
        rows_CSB: Tensor,
        weight_CSB: Tensor,
        steps_C: list[int],
        x: Tensor,
        y: Tensor,
    ) -> Tensor:
        """Train one cohort in place; returns each client's mean loss."""
        clients, size = len(jobs), rounded(len(jobs))
        form = (id(program), recipe_form(recipe), size, rows_CSB.shape[2], _parts(state), x.data_ptr(), x.dtype)
        captured = self.graphs.get(form)
        if captured is None:
            captured = self.graphs[form] = capture(program, state, recipe, size, rows_CSB.shape[2], x, y)
        _load(captured.state, state, clients)
        captured.key_C[:clients] = key_C
        captured.step.zero_()
        lr_CS = torch.tensor([job.lr for job in jobs], dtype=x.dtype, device=x.device)[:, None] * (
            torch.arange(rows_CSB.shape[1], device=x.device) < torch.tensor(steps_C, device=x.device)[:, None]
        )
        total_C = torch.zeros(clients, dtype=x.dtype, device=x.device)
        captured.weight_CB.zero_()
        captured.lr_C.zero_()
        for step in range(rows_CSB.shape[1]):
            captured.rows_CB[:clients] = rows_CSB[:, step]
            captured.weight_CB[:clients] = weight_CSB[:, step]
            captured.lr_C[:clients] = lr_CS[:, step]
            captured.graph.replay()
            total_C += captured.loss_C[:clients]
        torch._foreach_copy_(state.params, [p[:clients] for p in captured.state.params])
        return total_C / torch.tensor(steps_C, dtype=x.dtype, device=x.device)


def recipe_form(recipe: LocalSGD) -> tuple[object, ...]:
    """What of a recipe is baked into a graph; rates and lengths are not."""
    return (
        recipe.momentum, recipe.weight_decay, recipe.clip, recipe.prox, recipe.sam, recipe.augment, recipe.loss,
        recipe.batch,
    )  # fmt: skip


def _parts(state: CohortState) -> tuple[bool, ...]:
    return tuple(part is not None for part in (state.velocity, state.anchor, state.correction, state.mask))


def _load(target: CohortState, source: CohortState, clients: int) -> None:
    for name in ("params", "velocity", "anchor", "correction", "mask"):
        into, given = getattr(target, name), getattr(source, name)
        if given is not None:
            torch._foreach_copy_([t[:clients] for t in into], given)


def capture(
    program: Program, like: CohortState, recipe: LocalSGD, size: int, batch: int, x: Tensor, y: Tensor
) -> StepGraph:
    """Record one step on fresh buffers."""

    def buffers(tensors: list[Tensor] | None) -> list[Tensor] | None:
        return None if tensors is None else [t.new_zeros(size, *t.shape[1:]) for t in tensors]

    state = CohortState(
        buffers(like.params) or [],
        buffers(like.grads) or [],
        buffers(like.velocity),
        buffers(like.anchor),
        buffers(like.correction),
        buffers(like.mask),
    )
    integers = {"dtype": torch.int64, "device": x.device}
    made = StepGraph(
        state=state,
        key_C=torch.zeros(size, **integers),  # type: ignore[arg-type]
        rows_CB=torch.zeros(size, batch, **integers),  # type: ignore[arg-type]
        weight_CB=torch.zeros(size, batch, dtype=x.dtype, device=x.device),
        lr_C=torch.zeros(size, dtype=x.dtype, device=x.device),
        step=torch.zeros((), **integers),  # type: ignore[arg-type]
        loss_C=torch.zeros(size, dtype=x.dtype, device=x.device),
    )

    def one_step() -> None:
        rows = made.rows_CB.reshape(-1)
        samples = x[rows]
        if recipe.augment == "crop-flip":
            samples = crop_and_flip(samples, draw_crops(made.key_C, made.step, batch))
        sample_batch = Batch(samples, y[rows], made.weight_CB, dropout_key(made.key_C, made.step))
        made.loss_C.copy_(sgd_step(program, state, sample_batch, recipe, made.lr_C))
        made.step.add_(1)

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # torch asks for a warm-up on a side stream before a capture
        for _ in range(WARM_UP):
            one_step()
    torch.cuda.current_stream().wait_stream(aside)
    with torch.cuda.graph(made.graph):
        one_step()
    return made
