"""Scores of several models at once; shapes: C models, R rows of each, padded."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.learn.job import EvalJob, Score
from paceline.learn.programs.program import Program

SLICE = 8192
"""Samples (over all models) that go through the network at a time."""


@torch.no_grad()
def score_jobs(program: Program, jobs: list[EvalJob], device: torch.device, rows: int = 0) -> list[Score]:
    """Accuracy and mean loss of each job's model on its own rows, padded to ``rows``; all read the same x and y."""
    params = program.pack([job.value.to(device) for job in jobs])
    hits_C = torch.zeros(len(jobs), dtype=torch.int64, device=device)
    loss_C = torch.zeros(len(jobs), dtype=torch.float64, device=device)
    for x, target, real in _slices(jobs, device, rows):
        loss, hit = _losses_and_hits(program.outputs(params, x), target)
        hits_C += (hit.view_as(real) & real).sum(dim=1)
        loss_C += (loss.view_as(real) * real).sum(dim=1).double()
    counts = [len(job.y) if job.rows is None else len(job.rows) for job in jobs]
    # One transfer: each makes the host wait for the device.
    hits, losses = torch.stack([hits_C.double(), loss_C]).tolist()
    if jobs[0].y.is_floating_point():
        hits = [float("nan")] * len(jobs)
    return [Score(h / n, s / n, n) for h, s, n in zip(hits, losses, counts, strict=True)]


def _slices(jobs: list[EvalJob], device: torch.device, rows: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Merged samples (C*R, ...), their targets, and which of the (C, R) are real, some rows at a time."""
    x, y, models = jobs[0].x, jobs[0].y, len(jobs)
    width = max(1, SLICE // models)
    if rows <= len(y) and all(job.rows is None for job in jobs):
        for at in range(0, len(y), width):
            part, target = x[at : at + width], y[at : at + width]
            real = torch.ones(models, len(target), dtype=torch.bool, device=device)
            yield _again(part, models), _again(target, models), real
        return
    rows_CR, real_CR = _padded(jobs, device, rows)
    for at in range(0, rows_CR.shape[1], width):
        some = rows_CR[:, at : at + width].reshape(-1)
        yield x[some], y[some], real_CR[:, at : at + width]


def _again(samples: Tensor, times: int) -> Tensor:
    """The same samples for every model."""
    return samples if times == 1 else samples.repeat(times, *[1] * (samples.dim() - 1))


def _losses_and_hits(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if target.is_floating_point():
        return 0.5 * (output - target).square().sum(dim=1), torch.zeros(
            len(target), dtype=torch.bool, device=output.device
        )
    return F.cross_entropy(output, target, reduction="none"), output.argmax(dim=1) == target


def _padded(jobs: list[EvalJob], device: torch.device, least: int) -> tuple[Tensor, Tensor]:
    rows = [torch.arange(len(job.y)) if job.rows is None else job.rows for job in jobs]
    longest = max(least, *(len(r) for r in rows))
    table = torch.zeros(len(jobs), longest, dtype=torch.int64)
    real = torch.zeros(len(jobs), longest, dtype=torch.bool)
    for k, r in enumerate(rows):
        table[k, : len(r)] = r
        real[k, : len(r)] = True
    return table.to(device), real.to(device)
