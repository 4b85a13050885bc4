"""A cohort of visits, or of models to score, as plain arrays that another process can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.learn.job import EvalJob, Probed, Score, Shards, Trained, TrainJob
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space

EXTRAS = ("mask", "correction", "anchor")
Array = NDArray[Any]
Act = Literal["train", "probe", "score"]


@dataclass(frozen=True)
class Vectors:
    """Flat vectors, each once however many clients have it."""

    distinct: list[Array]
    which: list[int]

    @classmethod
    def of(cls, values: Sequence[Tensor]) -> Vectors:
        """As arrays of the CPU."""
        places: dict[int, int] = {}
        distinct: list[Array] = []
        for value in values:
            if id(value) not in places:
                places[id(value)] = len(distinct)
                distinct.append(value.detach().cpu().numpy())
        return cls(distinct, [places[id(value)] for value in values])

    def tensors(self) -> list[Tensor]:
        """As they were: what was shared is one tensor again, and nobody else's memory."""
        made = [torch.from_numpy(array.copy()) for array in self.distinct]
        return [made[k] for k in self.which]


@dataclass(frozen=True)
class Parcel:
    """One cohort: what is to be done, with whose data (by their names), from which models."""

    act: Act
    space: str
    data: str
    models: Vectors
    rows: list[Array | None]
    """Of each client's samples, or of the samples that a model is scored on; None: of all."""
    recipe: LocalSGD | None = None
    rates: tuple[float, ...] = ()
    keys: tuple[int, ...] = ()
    extras: tuple[tuple[str, Vectors], ...] = ()
    width: int = 0
    """Rows of the largest part of all that are probed in this wave."""


Results = tuple[list[Array], list[Any]]
"""A vector and a figure for each visit; of scores there are figures alone."""


def train_parcel(act: Act, space: str, data: str, jobs: Sequence[TrainJob], width: int) -> Parcel:
    """Visits that make one cohort."""
    extras = []
    for name in EXTRAS:
        given = [extra for job in jobs if (extra := getattr(job, name)) is not None]
        if given:  # all or none: visits of one wave agree in this
            extras.append((name, Vectors.of(given)))
    return Parcel(
        act,
        space,
        data,
        Vectors.of([job.start for job in jobs]),
        [job.shards.rows(job.client) for job in jobs],
        jobs[0].recipe,
        tuple(job.lr for job in jobs),
        tuple(job.key for job in jobs),
        tuple(extras),
        width,
    )


def score_parcel(space: str, data: str, jobs: Sequence[EvalJob]) -> Parcel:
    """Models that are scored together."""
    rows = [None if job.rows is None else job.rows.cpu().numpy() for job in jobs]
    return Parcel("score", space, data, Vectors.of([job.value for job in jobs]), rows)


def train_jobs(parcel: Parcel, space: Space, x: Tensor, y: Tensor) -> list[TrainJob]:
    """The visits of a parcel again."""
    assert parcel.recipe is not None
    rows = [row for row in parcel.rows if row is not None]
    shards = Shards(x, y, np.concatenate(rows), np.cumsum([0, *map(len, rows)]))
    starts = parcel.models.tensors()
    extras = {name: vectors.tensors() for name, vectors in parcel.extras}
    return [
        TrainJob(
            space, start, parcel.recipe, rate, shards, k, key, **{name: some[k] for name, some in extras.items()}
        )
        for k, (start, rate, key) in enumerate(zip(starts, parcel.rates, parcel.keys, strict=True))
    ]


def score_jobs(parcel: Parcel, space: Space, x: Tensor, y: Tensor) -> list[EvalJob]:
    """The models of a parcel again."""
    values = parcel.models.tensors()
    rows = [None if row is None else torch.from_numpy(row.copy()) for row in parcel.rows]
    return [EvalJob(space, value, x, y, some) for value, some in zip(values, rows, strict=True)]


def packed(results: Sequence[Trained | Probed | Score]) -> Results:
    """What came out, as arrays."""
    vectors: list[Array] = []
    figures: list[Any] = []
    for result in results:
        if isinstance(result, Score):
            figures.append((result.accuracy, result.loss, result.samples))
        else:
            vectors.append(result.value.cpu().numpy())
            figures.append((result.loss if isinstance(result, Trained) else result.variance).cpu().numpy())
    return vectors, figures


def unpacked(act: Act, results: Results) -> list[Trained] | list[Probed] | list[Score]:
    """Read the results of a parcel that a worker has sent back."""
    vectors, figures = results
    if act == "score":
        return [Score(*figure) for figure in figures]
    # Each with memory of its own: what came may belong to a store that wants it back.
    pairs = [
        (torch.from_numpy(v.copy()), torch.from_numpy(np.array(f))) for v, f in zip(vectors, figures, strict=True)
    ]
    return [Trained(v, f) for v, f in pairs] if act == "train" else [Probed(v, f) for v, f in pairs]
