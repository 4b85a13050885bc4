"""Probes of a cohort: full gradients and variances, part by part; ``reference.probe_one`` is the specification."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paceline.learn.cohort.step import in_order
from paceline.learn.job import Probed
from paceline.learn.programs.blocks import empty_blocks
from paceline.learn.programs.program import Batch, Program
from paceline.learn.recipe import Loss


@dataclass(frozen=True, eq=False, slots=True)
class DrawnParts:
    """All parts of a cohort's samples; shapes: C clients, S parts, B samples of a part."""

    loss: Loss
    rows_CSB: Tensor
    real_CSB: Tensor
    parts_C: list[int]
    sizes_C: list[int]
    x: Tensor
    y: Tensor

    def some(self, clients: slice) -> DrawnParts:
        """Some of the clients, with as many parts as the one with most of them has."""
        parts_C = self.parts_C[clients]
        most = max(parts_C)
        rows, real = self.rows_CSB[clients, :most], self.real_CSB[clients, :most]
        return DrawnParts(self.loss, rows, real, parts_C, self.sizes_C[clients], self.x, self.y)


@torch.no_grad()
def probe_cohort(program: Program, params: list[Tensor], drawn: DrawnParts) -> list[Probed]:
    """One pass over all parts: the full gradient is their mean, and Σ m ‖g_part - g‖² = Σ m ‖g_part‖² - n ‖g‖²."""
    grads = [empty_blocks(p) for p in params]
    full = [torch.zeros_like(p) for p in params]
    size_C = torch.tensor(drawn.sizes_C, dtype=torch.float64, device=drawn.x.device)
    squares_C = torch.zeros_like(size_C)
    for part in range(drawn.rows_CSB.shape[1]):
        rows, real_CB = drawn.rows_CSB[:, part].reshape(-1), drawn.real_CSB[:, part]
        count_C = real_CB.sum(dim=1)
        weight_CB = real_CB.to(drawn.x.dtype) / count_C.clamp(min=1)[:, None]
        batch = Batch(drawn.x.index_select(0, rows), drawn.y.index_select(0, rows), weight_CB)
        program.gradients(params, grads, batch, drawn.loss)
        squares_C += count_C * _squares(grads)
        share_C = (count_C / size_C).to(drawn.x.dtype)
        for total, g in zip(full, grads, strict=True):
            total.addcmul_(g, share_C.view(-1, *[1] * (g.dim() - 1)))
    apart_C = (squares_C - size_C * _squares(full)).clamp(min=0.0)
    fewer_C = torch.tensor([max(1, p - 1) for p in drawn.parts_C], device=drawn.x.device)
    variance_C = apart_C * (size_C - 1) / (size_C * fewer_C)
    return [
        Probed(value, variance) for value, variance in zip(program.unpack(full), variance_C.unbind(0), strict=True)
    ]


def _squares(tensors: list[Tensor]) -> Tensor:
    """Each client's squared norm in double precision: a small difference of two of them is wanted."""
    return in_order([t.flatten(1).square().sum(dim=1, dtype=torch.float64) for t in tensors])
