"""CUDA graphs of a cohort's SGD step: one launch instead of a hundred.

A graph is captured once per (program, recipe, cohort size, batch) on buffers of its own and replayed for every
step of every later cohort of that form. Smaller cohorts are padded to the next size in ``ROUNDED``; a padded client,
or one that has no steps left, trains with rate 0 and is thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from paceline.learn.cohort.step import CohortState, DrawnSteps, make_batch, sgd_step
from paceline.learn.programs.program import Program
from paceline.learn.recipe import LocalSGD

ROUNDED = (
    1,
    2,
    3,
    4,
    5,
    6,
    8,
    10,
    12,
    16,
    20,
    24,
    32,
    40,
    48,
    64,
    80,
    100,
    128,
    160,
    200,
    256,
    320,
    400,
    512,
)
WARM_UP = 3


def rounded(clients: int) -> int:
    """The size of the graph that will run this many clients."""
    return next((size for size in ROUNDED if size >= clients), clients)


@dataclass(eq=False)
class CapturedStep:
    """One captured step and the buffers it reads and writes."""

    state: CohortState
    key_C: Tensor
    rows_CB: Tensor
    weight_CB: Tensor
    lr_C: Tensor
    step: Tensor
    loss_C: Tensor
    graph: torch.cuda.CUDAGraph = field(default_factory=torch.cuda.CUDAGraph)

    def reset(self, key_C: Tensor) -> None:
        """Before a new cohort: its keys, step 0, and nothing left over for padded clients."""
        self.key_C[: len(key_C)] = key_C
        for buffer in (self.step, self.weight_CB, self.lr_C):
            buffer.zero_()


@dataclass(eq=False)
class CaptureCache:
    """Steps that were captured as CUDA graphs, by the form of what they compute."""

    steps: dict[tuple[object, ...], CapturedStep] = field(default_factory=dict)

    @torch.no_grad()
    def run(self, program: Program, state: CohortState, drawn: DrawnSteps) -> Tensor:
        """Train one cohort in place; returns each client's mean loss."""
        clients, (_, steps, batch) = len(drawn.steps_C), drawn.rows_CSB.shape
        size = rounded(clients)
        form = (
            id(program),
            recipe_form(drawn.recipe),
            size,
            batch,
            state_form(state),
            drawn.x.data_ptr(),
            drawn.x.dtype,
        )
        captured = self.steps.get(form)
        if captured is None:
            captured = self.steps[form] = capture(program, state, drawn, size)
        _load(captured.state, state, clients)
        captured.reset(drawn.key_C)
        total_C = torch.zeros_like(drawn.lr_CS[:, 0])
        for step in range(steps):
            captured.rows_CB[:clients] = drawn.rows_CSB[:, step]
            captured.weight_CB[:clients] = drawn.weight_CSB[:, step]
            captured.lr_C[:clients] = drawn.lr_CS[:, step]
            captured.graph.replay()
            total_C += captured.loss_C[:clients]
        torch._foreach_copy_(state.params, [p[:clients] for p in captured.state.params])
        return drawn.mean_loss(total_C)


def recipe_form(recipe: LocalSGD) -> tuple[object, ...]:
    """What of a recipe is baked into a graph; rates and lengths are not."""
    return (
        recipe.momentum, recipe.weight_decay, recipe.clip, recipe.prox, recipe.sam, recipe.augment, recipe.loss,
        recipe.batch,
    )  # fmt: skip


def state_form(state: CohortState) -> tuple[bool, ...]:
    """Which optional parts a state has."""
    return tuple(part is not None for part in state.parts())


def _load(target: CohortState, source: CohortState, clients: int) -> None:
    for name in ("params", "velocity", "anchor", "correction", "mask"):
        into, given = getattr(target, name), getattr(source, name)
        if given is not None:
            torch._foreach_copy_([t[:clients] for t in into], given)


def capture(program: Program, like: CohortState, drawn: DrawnSteps, size: int) -> CapturedStep:
    """Record one step on fresh buffers."""
    x, batch = drawn.x, drawn.rows_CSB.shape[2]

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
    made = CapturedStep(
        state=state,
        key_C=torch.zeros(size, dtype=torch.int64, device=x.device),
        rows_CB=torch.zeros(size, batch, dtype=torch.int64, device=x.device),
        weight_CB=torch.zeros(size, batch, dtype=x.dtype, device=x.device),
        lr_C=torch.zeros(size, dtype=x.dtype, device=x.device),
        step=torch.zeros((), dtype=torch.int64, device=x.device),
        loss_C=torch.zeros(size, dtype=x.dtype, device=x.device),
    )

    def one_step() -> None:
        sample_batch = make_batch(drawn, made.rows_CB, made.weight_CB, made.key_C, made.step)
        made.loss_C.copy_(sgd_step(program, state, sample_batch, drawn.recipe, made.lr_C))
        made.step.add_(1)

    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # torch asks for a warm-up on a side stream before a capture
        for _ in range(WARM_UP):
            one_step()
    current = torch.cuda.current_stream()
    current.wait_stream(aside)
    # A captured product keeps the workspace of the stream that it was captured in: two streams must not share one.
    own = None if current == torch.cuda.default_stream() else current
    with torch.cuda.graph(made.graph, stream=own):
        one_step()
    return made
