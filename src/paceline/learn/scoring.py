"""Scores of several models at once; shapes: C models, R rows of each, padded."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.learn.job import EvalJob, Score
from paceline.learn.program import Program

SLICE = 8192
"""Samples (over all models) that go through the network at a time."""


@torch.no_grad()
def score_jobs(program: Program, jobs: list[EvalJob], device: torch.device) -> list[Score]:
    """Accuracy and mean loss of each job's model on its own rows; all jobs read the same x and y."""
    x, y = jobs[0].x, jobs[0].y
    params = program.pack([job.value.to(device) for job in jobs])
    rows_CR, real_CR = _padded(jobs, device)
    hits_C = torch.zeros(len(jobs), dtype=torch.int64, device=device)
    loss_C = torch.zeros(len(jobs), dtype=torch.float64, device=device)
    width = max(1, SLICE // len(jobs))
    for at in range(0, rows_CR.shape[1], width):
        rows, real = rows_CR[:, at : at + width], real_CR[:, at : at + width]
        target = y[rows.reshape(-1)]
        output = program.outputs(params, x[rows.reshape(-1)])
        loss, hit = _losses_and_hits(output, target)
        hits_C += (hit.view_as(real) & real).sum(dim=1)
        loss_C += (loss.view_as(real) * real).sum(dim=1).double()
    counts = real_CR.sum(dim=1)
    accuracy = [h / n for h, n in zip(hits_C.tolist(), counts.tolist(), strict=True)]
    mean_loss = (loss_C / counts).tolist()
    if y.is_floating_point():
        accuracy = [float("nan")] * len(jobs)
    return [Score(a, m, int(n)) for a, m, n in zip(accuracy, mean_loss, counts.tolist(), strict=True)]


def _losses_and_hits(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if target.is_floating_point():
        return 0.5 * (output - target).square().sum(dim=1), torch.zeros(
            len(target), dtype=torch.bool, device=output.device
        )
    return F.cross_entropy(output, target, reduction="none"), output.argmax(dim=1) == target


def _padded(jobs: list[EvalJob], device: torch.device) -> tuple[Tensor, Tensor]:
    rows = [torch.arange(len(job.y)) if job.rows is None else job.rows for job in jobs]
    longest = max(len(r) for r in rows)
    table = torch.zeros(len(jobs), longest, dtype=torch.int64)
    real = torch.zeros(len(jobs), longest, dtype=torch.bool)
    for k, r in enumerate(rows):
        table[k, : len(r)] = r
        real[k, : len(r)] = True
    return table.to(device), real.to(device)
