"""One SGD step of a cohort: ``LocalSGD``'s order of things over lists of (C, ...) tensors.

``reference.train_one`` is the specification; shapes: C clients, B batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paceline.learn.draws import crop_and_flip, draw_crops, dropout_key
from paceline.learn.kernels.lane import Descent
from paceline.learn.programs.program import Batch, Program
from paceline.learn.recipe import LocalSGD


@dataclass(slots=True)
class CohortState:
    """The tensors of C clients in training, packed as the program wants them."""

    params: list[Tensor]
    grads: list[Tensor]
    """Empty where a step ``is_plain``: the layers step without storing a gradient."""
    velocity: list[Tensor] | None
    anchor: list[Tensor] | None
    correction: list[Tensor] | None
    mask: list[Tensor] | None

    def parts(self) -> tuple[list[Tensor] | None, ...]:
        """All lists of tensors, in the order of the fields."""
        return self.params, self.grads, self.velocity, self.anchor, self.correction, self.mask

    @classmethod
    def of(cls, parts: Sequence[list[Tensor] | None]) -> CohortState:
        """Make a state of lists of tensors, as ``parts`` gives them."""
        params, grads, *optional = parts
        assert params is not None and grads is not None
        return cls(params, grads, *optional)

    def first(self, count: int) -> CohortState:
        """The first clients only: views, so that what is written is seen."""
        return CohortState.of([None if part is None else [t[:count] for t in part] for part in self.parts()])


@dataclass(frozen=True, eq=False, slots=True)
class DrawnSteps:
    """All steps of a cohort's visit: which samples, at which rate; clients with more steps come first."""

    recipe: LocalSGD
    key_C: Tensor
    rows_CSB: Tensor
    weight_CSB: Tensor
    steps_C: list[int]
    left_C: Tensor
    """``steps_C`` on the device; made once for a wave, since every small transfer makes the host wait."""
    lr_CS: Tensor
    """0 where a client has no step any more."""
    x: Tensor
    y: Tensor
    drops: bool
    """Whether the model has dropout, so that batches need keys."""

    def part(self, clients: slice) -> DrawnSteps:
        """Some of the clients, with as many steps as the longest of them needs."""
        steps_C = self.steps_C[clients]
        return replace(
            self,
            key_C=self.key_C[clients],
            rows_CSB=self.rows_CSB[clients, : steps_C[0]],
            weight_CSB=self.weight_CSB[clients, : steps_C[0]],
            steps_C=steps_C,
            left_C=self.left_C[clients],
            lr_CS=self.lr_CS[clients, : steps_C[0]],
        )

    def on(self, x: Tensor, y: Tensor) -> DrawnSteps:
        """The same steps over these samples."""
        return replace(self, x=x, y=y)

    def mean_loss(self, total_C: Tensor) -> Tensor:
        """Each client's loss, summed over its steps, as a mean."""
        return total_C / self.left_C.to(total_C.dtype)


def make_batch(drawn: DrawnSteps, rows_CB: Tensor, weight_CB: Tensor, key_C: Tensor, step: int | Tensor) -> Batch:
    """Gather one step's samples, augmented, with the step's dropout keys."""
    rows = rows_CB.reshape(-1)
    samples = drawn.x.index_select(0, rows)
    keys = dropout_key(key_C, step) if drawn.drops else None
    if drawn.recipe.augment == "crop-flip":
        samples = crop_and_flip(samples, draw_crops(key_C, step, rows_CB.shape[1]))
    return Batch(samples, drawn.y.index_select(0, rows), weight_CB, keys)


def sgd_step(program: Program, state: CohortState, batch: Batch, recipe: LocalSGD, lr_C: Tensor) -> Tensor:
    """Update the parameters in place; return each client's batch loss before the step."""
    params, grads = state.params, state.grads
    if is_plain(program, state, recipe):
        keep_C = 1.0 - lr_C * recipe.weight_decay if recipe.weight_decay else None
        return program.gradients(params, grads, replace(batch, rate_C=lr_C), recipe.loss, Descent(keep_C))
    loss_C = program.gradients(params, grads, batch, recipe.loss)
    if recipe.sam:
        _gradients_at_worst(program, state, batch, recipe)
    if recipe.prox and state.anchor is not None:
        torch._foreach_add_(grads, torch._foreach_sub(params, state.anchor), alpha=recipe.prox)
    if state.correction is not None:
        torch._foreach_add_(grads, state.correction)
    if state.mask is not None:
        torch._foreach_mul_(grads, state.mask)
    scale_C = None if recipe.clip is None else (recipe.clip / (norms(grads) + 1e-6)).clamp(max=1.0)
    if state.velocity is None:
        _step(params, grads, lr_C, scale_C, recipe.weight_decay)
    else:
        if scale_C is not None:
            _scale_each(grads, scale_C)
        if recipe.weight_decay:
            torch._foreach_add_(grads, params, alpha=recipe.weight_decay)
        torch._foreach_mul_(state.velocity, recipe.momentum)
        torch._foreach_add_(state.velocity, grads)
        _step(params, state.velocity, lr_C, None, 0.0)
    if state.mask is not None:
        torch._foreach_mul_(params, state.mask)
    return loss_C


def _step(
    params: list[Tensor], direction: list[Tensor], lr_C: Tensor, scale_C: Tensor | None, weight_decay: float
) -> None:
    """w - lr (scale d + decay w) as (1 - lr decay) w - (lr scale) d: the direction is read once and never written."""
    factor_C = lr_C if scale_C is None else lr_C * scale_C
    if weight_decay:
        _scale_each(params, 1.0 - lr_C * weight_decay)
    for p, d in zip(params, direction, strict=True):
        p.addcmul_(d, factor_C.view(-1, *[1] * (d.dim() - 1)), value=-1)


def is_plain(program: Program, state: CohortState, recipe: LocalSGD) -> bool:
    """Whether a step is nothing but w - lr (g + decay w), so that the layers can take it without storing g."""
    extras = (state.velocity, state.anchor, state.correction, state.mask)
    return program.descends and not recipe.sam and recipe.clip is None and all(extra is None for extra in extras)


def _gradients_at_worst(program: Program, state: CohortState, batch: Batch, recipe: LocalSGD) -> None:
    """SAM: replace the gradients by those at w + rho g/|g|, and put the weights back exactly."""
    kept = [p.clone() for p in state.params]
    _scale_each(state.grads, recipe.sam / (norms(state.grads) + 1e-12))
    torch._foreach_add_(state.params, state.grads)
    program.gradients(state.params, state.grads, batch, recipe.loss)
    torch._foreach_copy_(state.params, kept)


def norms(tensors: list[Tensor]) -> Tensor:
    """Each client's norm over all its tensors."""
    return in_order([torch.linalg.vector_norm(t.flatten(1), dim=1).square() for t in tensors]).sqrt()


def in_order(terms_C: list[Tensor]) -> Tensor:
    """The sum of (C,) terms, first to last: ``sum`` over their stack would add in another order for the last few."""
    total_C = terms_C[0]
    for term_C in terms_C[1:]:
        total_C = total_C + term_C
    return total_C


def _scale_each(tensors: list[Tensor], factor_C: Tensor) -> None:
    for t in tensors:
        t.mul_(factor_C.view(-1, *[1] * (t.dim() - 1)))
