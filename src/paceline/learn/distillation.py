"""Ensemble distillation: one student learns what many teachers say together about unlabelled public samples.

FedDF (Lin et al., NeurIPS 2020). The teachers may be of other architectures than the student and each other, as long
as all answer with the same classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.bounds import bounded, check_bounds
from paceline.errors import SettingError
from paceline.learn.cohort.scoring import SLICE
from paceline.learn.determinism import same_bits
from paceline.learn.draws import draw_batches
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """Adam with a rate that falls to zero along half a cosine; a fixed number of steps, without early stopping.

    A step's loss is T² KL(p ‖ q), the mean over the batch, where p = softmax(mean of the teachers' outputs / T) and
    q = softmax(student's outputs / T). No dropout.
    """

    steps: int = bounded(200, least=1, most=1_000_000)
    batch: int = bounded(128, least=1, most=1_000_000)
    lr: float = bounded(1e-3, above=0)
    temperature: float = bounded(1.0, above=0)
    """T."""

    def __post_init__(self) -> None:
        check_bounds(self, "distillation.")

    @property
    def recipe(self) -> LocalSGD:
        """The batches are those of a visit with as many steps to a client who owns the public data."""
        return LocalSGD(steps=self.steps, batch=self.batch)

    def samples(self, public: int) -> int:
        """Samples that the steps see: steps * batch, less where the last batch of an epoch is short."""
        return self.recipe.samples_for(public)


def distil(
    rule: Distillation,
    space: Space,
    start: Tensor,
    teachers: Sequence[tuple[Space, Tensor]],
    x: Tensor,
    key: int,
) -> Tensor:
    """The student after its steps, on the device of its start; the same bits for the same key."""
    x = x.to(start.device)
    target = F.softmax(ensemble(teachers, x) / rule.temperature, dim=1).to(space.dtype)
    weights = {name: w.clone().requires_grad_() for name, w in space.unflatten(start).items()}
    optimiser = torch.optim.Adam(list(weights.values()), lr=rule.lr)
    batches = draw_batches([key], [len(x)], rule.recipe)
    module = space.module.eval()
    x = x.to(space.dtype)
    with same_bits(x.device), torch.enable_grad():
        for step in range(rule.steps):
            rows = torch.from_numpy(batches.index_CSB[0, step][batches.real_CSB[0, step]]).to(x.device)
            output = torch.func.functional_call(module, weights, (x[rows],))
            loss = divergence(target[rows], output, rule.temperature)
            optimiser.param_groups[0]["lr"] = rule.lr * 0.5 * (1 + math.cos(math.pi * step / rule.steps))
            gradients = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, materialize_grads=True)
            for w, gradient in zip(weights.values(), gradients, strict=True):
                w.grad = gradient
            optimiser.step()
    return space.flatten(weights)


def divergence(target: Tensor, output: Tensor, temperature: float) -> Tensor:
    """T² KL(target ‖ softmax(output / T)), the mean over samples; T² keeps gradients as large at any temperature."""
    return F.kl_div(F.log_softmax(output / temperature, dim=1), target, reduction="batchmean") * temperature**2


@torch.no_grad()
def ensemble(teachers: Sequence[tuple[Space, Tensor]], x: Tensor) -> Tensor:
    """The mean of the teachers' outputs, in double precision: teachers may differ in theirs."""
    total = torch.zeros((), dtype=torch.float64, device=x.device)
    for space, value in teachers:
        found = outputs(space, value.to(x.device), x).double()
        if total.ndim and total.shape != found.shape:
            raise SettingError(
                f"teacher {space.name} answers with {found.shape[1]} outputs, others with {total.shape[1]};"
                " an ensemble needs the same classes for all"
            )
        total = total + found
    return total / len(teachers)


@torch.no_grad()
def outputs(space: Space, value: Tensor, x: Tensor) -> Tensor:
    """One model's outputs on all samples, a slice at a time."""
    module, weights = space.module.eval(), space.unflatten(value)
    parts = [torch.func.functional_call(module, weights, (part.to(space.dtype),)) for part in torch.split(x, SLICE)]
    return torch.cat(parts)
