"""What a server can make of uploads besides their mean: robust means, and a screening on public data.

Long vectors are taken in pieces of coordinates, so that no second copy of all uploads is held.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.bounds import bounded, check_bounds
from paceline.learn.job import EvalJob, Trainer
from paceline.learn.space import Space

PIECE = 1 << 18
"""Coordinates that are looked at together."""
PEERS = 4
"""Uploads from which on they are compared with each other; fewer have no majority, and each stands for itself."""
AGREEMENT = 0.2
"""Median cosine from which on a direction is something to deviate from; near an optimum uploads share none."""
LEAST_SPREAD = 0.01
"""Spread of the losses taken for granted, as a share of the present loss: almost equal uploads are no outliers."""
NORMAL = 1.4826
"""Makes a median absolute deviation a standard deviation, for normal numbers."""


# -- robust means -----------------------------------------------------------------------------------------------


def median(*vectors: Tensor) -> Tensor:
    """The coordinate-wise median; for an even number the middle between the two in the middle."""
    return trimmed(*vectors, cut=(len(vectors) - 1) // 2)


def trimmed(*vectors: Tensor, cut: int) -> Tensor:
    """The coordinate-wise mean without the ``cut`` smallest and the ``cut`` largest (Yin et al., ICML 2018)."""
    kept = slice(cut, len(vectors) - cut)
    return torch.cat([piece.sort(dim=0).values[kept].mean(dim=0) for piece in _pieces(vectors)])


def krum(*vectors: Tensor, hostile: int, picks: int) -> Tensor:
    """The mean of the ``picks`` vectors that lie closest to their neighbours (Blanchard et al., NeurIPS 2017).

    With n vectors of which ``hostile`` = f are taken to be hostile, a vector's score is the sum of its squared
    distances from the n - f - 2 others next to it (from one at least), and the smallest scores win. Krum is
    ``picks`` = 1, multi-Krum more.
    """
    if len(vectors) == 1:
        return vectors[0].clone()
    neighbours = max(1, len(vectors) - hostile - 2)
    distance = squared_distances(vectors).nan_to_num(nan=math.inf, posinf=math.inf)
    distance.fill_diagonal_(math.inf)
    score = distance.sort(dim=1).values[:, :neighbours].sum(dim=1)
    best = score.sort(stable=True).indices[:picks].tolist()
    return average([vectors[k] for k in sorted(best)])


def squared_distances(vectors: Sequence[Tensor]) -> Tensor:
    """(n, n) squared distances, in double precision; by differences, since products would cancel."""
    total = torch.zeros(len(vectors), len(vectors), dtype=torch.float64, device=vectors[0].device)
    for piece in _pieces(vectors):
        total += torch.stack([(piece - one).square().sum(dim=1) for one in piece]).double()
    return total


def average(vectors: Sequence[Tensor]) -> Tensor:
    """The plain mean, summed in the given order."""
    total = vectors[0].clone()
    for vector in vectors[1:]:
        total += vector
    return total.div_(len(vectors))


def _pieces(vectors: Sequence[Tensor]) -> Iterator[Tensor]:
    """(n, piece) tensors that together hold all coordinates."""
    for at in range(0, len(vectors[0]), PIECE):
        yield torch.stack([vector[at : at + PIECE] for vector in vectors])


# -- screening --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Screening:
    """How uploads are told apart by what they do on the server's public data.

    Let w be the server's model, d_i the n uploads (updates), L the loss on the public data, l_i = L(w + d_i) and
    l_0 = L(w). With four uploads or more they are compared with each other, and upload i is rejected if

    - *length*: |d_i| > ``longest`` * median |d_j|; or
    - *loss*: l_i > l_0 and l_i > m + ``deviations`` * s, where m = median l_j and
      s = max(1.4826 median |l_j - m|, l_0 / 100): worse than its peers, and worse than doing nothing; or
    - *direction*: a_i < ``direction`` * a, where a_i is the cosine between d_i and the coordinate-wise median of the
      other uploads, and a = median a_j; only if a > 0.2, for near an optimum honest uploads agree on no direction.

    Fewer have no majority (asynchronous servers often see one alone, NI-7), and upload i is rejected if

    - *loss*: l_i > ``tolerance`` * l_0; or
    - *reverse*: l_i > l_0 > L(w - d_i): it does harm, and its opposite would do good.

    What is not finite is rejected. Medians hold as long as fewer than half of the uploads are hostile. Near an
    optimum reversed and random updates change the loss as little as honest ones do, and are not found.
    """

    deviations: float = bounded(5.0, above=0, most=math.inf)
    """How many standard deviations worse than its peers an upload may be."""
    longest: float = bounded(5.0, above=0, most=math.inf)
    """How many times the median length an update may have."""
    direction: float = bounded(0.25, least=-1, below=1)
    """Least share of the usual agreement in direction; 0 still rejects opposite directions."""
    tolerance: float = bounded(2.0, least=1)
    """How many times the present loss a lone upload's may be; raise it where clients' data differ very much."""

    def __post_init__(self) -> None:
        check_bounds(self, "screening.")

    def passes(self, uploads: int) -> int:
        """How many models are scored on the public data: the server's, every upload's, few ones' reverse."""
        return 1 + uploads + (uploads if uploads < PEERS else 0)


def screen(
    rule: Screening, trainer: Trainer, space: Space, model: Tensor, updates: Sequence[Tensor], x: Tensor, y: Tensor
) -> list[int]:
    """The numbers of the updates that are rejected; all models are scored in one call."""
    alone = len(updates) < PEERS
    candidates = [model, *(model + update for update in updates)]
    candidates += [model - update for update in updates] if alone else []
    scores = trainer.evaluate([EvalJob(space, value, x, y) for value in candidates])
    losses = _finite([score.loss for score in scores])
    present, there, reverse = losses[0], losses[1 : len(updates) + 1], losses[len(updates) + 1 :]
    if alone:
        bad = (there > rule.tolerance * present) | ((there > present) & (reverse < present)) | np.isinf(there)
    else:
        bad = _worse(rule, present, there) | _longer(rule, updates) | _elsewhere(rule, updates)
    return [int(k) for k in np.flatnonzero(bad)]


def screened_mean(updates: Sequence[Tensor], rejected: Sequence[int]) -> Tensor:
    """The mean of the others; no move at all where none is left."""
    kept = [update for k, update in enumerate(updates) if k not in rejected]
    return average(kept) if kept else torch.zeros_like(updates[0])


def _worse(rule: Screening, present: float, losses: NDArray[np.float64]) -> NDArray[np.bool_]:
    middle = np.median(losses)
    if np.isinf(middle):
        return np.isinf(losses)
    spread = max(NORMAL * float(np.median(np.abs(losses - middle))), LEAST_SPREAD * present)
    bad: NDArray[np.bool_] = (losses > present) & (losses > middle + rule.deviations * spread)
    return bad | np.isinf(losses)


def _longer(rule: Screening, updates: Sequence[Tensor]) -> NDArray[np.bool_]:
    length = _finite([float(torch.linalg.vector_norm(update, dtype=torch.float64)) for update in updates])
    bad: NDArray[np.bool_] = (length > rule.longest * np.median(length)) | np.isinf(length)
    return bad


def _elsewhere(rule: Screening, updates: Sequence[Tensor]) -> NDArray[np.bool_]:
    cosine = np.array(agreements(updates).tolist())
    cosine[~np.isfinite(cosine)] = -1.0
    usual = np.median(cosine)
    if not usual > AGREEMENT:
        return np.zeros(len(cosine), bool)
    bad: NDArray[np.bool_] = cosine < rule.direction * usual
    return bad


def agreements(vectors: Sequence[Tensor]) -> Tensor:
    """(n,) the cosine between each vector and the coordinate-wise median of the others; 0 where one is zero."""
    products, own, others = torch.zeros(3, len(vectors), dtype=torch.float64, device=vectors[0].device)
    for piece in _pieces(vectors):
        middle = _medians_of_others(piece)
        products += (piece * middle).sum(dim=1)
        own += piece.square().sum(dim=1)
        others += middle.square().sum(dim=1)
    cosines: Tensor = products / (own * others).sqrt().clamp(min=torch.finfo(torch.float64).tiny)
    return cosines


def _medians_of_others(piece: Tensor) -> Tensor:
    """(n, piece) the median of each coordinate without that row: one sort serves all rows."""
    ordered, count = piece.sort(dim=0).values, len(piece) - 1

    def without_own(place: int) -> Tensor:
        # Where the own value comes at or before this place, taking it out moves the next one up.
        return torch.where(piece <= ordered[place], ordered[place + 1], ordered[place])

    lower, upper = (count - 1) // 2, count // 2
    return without_own(lower) if lower == upper else (without_own(lower) + without_own(upper)) / 2


def _finite(numbers: Sequence[float]) -> NDArray[np.float64]:
    """NaN is as bad as infinity, and infinity has a place in an order."""
    return np.nan_to_num(np.array(numbers, np.float64), nan=np.inf, posinf=np.inf)
