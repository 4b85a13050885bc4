"""How a wave is cut into cohorts, and which rows of the data set its clients see."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paceline.learn.draws import Batches
from paceline.learn.job import TrainJob


def chunks(count: int, size: int) -> list[slice]:
    """Parts of this size, the last one maybe smaller."""
    return [slice(k, min(k + size, count)) for k in range(0, count, size)]


def even(count: int, most: int, multiple: int) -> int:
    """The size of equal parts of at most ``most``, their number a multiple of ``multiple``."""
    parts = -(-count // max(1, most))
    return -(-count // (-(-parts // multiple) * multiple))


def rows_of(jobs: list[TrainJob], batches: Batches) -> NDArray[np.int64]:
    """Positions in each client's own list to rows of the data set."""
    owned = np.zeros((len(jobs), max(job.size for job in jobs)), np.int64)
    for k, job in enumerate(jobs):
        owned[k, : job.size] = job.shards.rows(job.client)
    index = batches.index_CSB.reshape(len(jobs), -1)
    return np.take_along_axis(owned, index, axis=1).reshape(batches.index_CSB.shape)
