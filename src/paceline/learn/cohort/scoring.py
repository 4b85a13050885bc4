"""Scores of several models at once; shapes: C models, R rows of each, padded."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.learn.cohort.cutting import chunks
from paceline.learn.job import EvalJob, Score
from paceline.learn.programs.program import Program

SLICE = 8192
"""Samples (over all models) that go through the network at a time."""
ALONE_SLICE = 128
"""Of a network that goes alone on a CPU: images then stay in the cache (LeNet is scored 1.6 times as fast as with
8192, the CNN of PSFL 1.4 times as fast as with 1024), and take little room. Of others so few would have other bits
beside more models."""


@torch.no_grad()
def score_jobs(
    program: Program,
    jobs: list[EvalJob],
    device: torch.device,
    rows: int = 0,
    models: int | None = None,
    samples: int = SLICE,
) -> list[Score]:
    """Accuracy and mean loss of each job's model on its own rows, padded to ``rows``; all read the same x and y.

    So many ``models``, and over all of them so many ``samples``, go through the network at a time. However few these
    are, losses are added up as if all jobs went through it together, ``SLICE`` samples at a time: to the same bits.
    """
    same = rows <= len(jobs[0].y) and all(job.rows is None for job in jobs)
    padded = None if same else _padded(jobs, device, rows)
    parts = [_losses(program, jobs, padded, some, samples) for some in chunks(len(jobs), models or len(jobs))]
    loss_CR, hit_CR, real_CR = (torch.cat(each) if parts[1:] else each[0] for each in zip(*parts, strict=True))
    hits_C = torch.zeros(len(jobs), dtype=torch.int64, device=device)
    loss_C = torch.zeros(len(jobs), dtype=torch.float64, device=device)
    width = max(1, SLICE // len(jobs))
    for at in range(0, loss_CR.shape[1], width):
        some = (slice(None), slice(at, at + width))
        hits_C += (hit_CR[some] & real_CR[some]).sum(dim=1)
        loss_C += (loss_CR[some] * real_CR[some]).sum(dim=1).double()
    counts = [len(job.y) if job.rows is None else len(job.rows) for job in jobs]
    # One transfer: each makes the host wait for the device.
    hits, losses = torch.stack([hits_C.double(), loss_C]).tolist()
    if jobs[0].y.is_floating_point():
        hits = [float("nan")] * len(jobs)
    return [Score(h / n, s / n, n) for h, s, n in zip(hits, losses, counts, strict=True)]


Padded = tuple[Tensor, Tensor]
"""Each job's rows, and which of them are real: both (C, R)."""


def _losses(
    program: Program, jobs: list[EvalJob], rows: Padded | None, some: slice, samples: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Of some of the jobs, on all of their rows: losses, hits, and which are real: all (C, R)."""
    chosen = jobs[some]
    their = None if rows is None else (rows[0][some], rows[1][some])
    longest = len(jobs[0].y) if rows is None else rows[0].shape[1]
    params = program.pack([job.value.to(jobs[0].x.device) for job in chosen])
    width, most = (max(1, many // of) for many, of in ((SLICE, len(jobs)), (samples, len(chosen))))
    parts = [part for at in range(0, longest, width) for part in _evenly(at, min(at + width, longest), most)]
    found = [_part(program, params, chosen, their, part) for part in parts]
    loss, hit, real = (torch.cat(each, dim=1) if parts[1:] else each[0] for each in zip(*found, strict=True))
    return loss, hit, real


def _evenly(first: int, last: int, most: int) -> list[slice]:
    """Cut a range into parts of at most so many, alike in size: none is left with a single sample."""
    parts = -(-(last - first) // most)
    edges = [first + (last - first) * k // parts for k in range(parts + 1)]
    return [slice(*edge) for edge in pairwise(edges)]


def _part(
    program: Program, params: list[Tensor], jobs: list[EvalJob], rows: Padded | None, part: slice
) -> tuple[Tensor, Tensor, Tensor]:
    """Losses and hits of each model on a part of its rows, and which of them are real: all (C, R)."""
    x, y, models = jobs[0].x, jobs[0].y, len(jobs)
    if rows is None:
        samples, target = _again(x[part], models), _again(y[part], models)
        real = torch.ones(models, len(target) // models, dtype=torch.bool, device=target.device)
    else:
        chosen, real = rows[0][:, part].reshape(-1), rows[1][:, part]
        samples, target = x[chosen], y[chosen]
    loss, hit = _losses_and_hits(program.outputs(params, samples), target)
    return loss.view_as(real), hit.view_as(real), real


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
