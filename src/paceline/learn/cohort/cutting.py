"""How a wave is cut into cohorts, and which rows of the data set its clients see."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from paceline.learn.draws import Batches
from paceline.learn.job import Shards, TrainJob


def chunks(count: int, size: int) -> list[slice]:
    """Parts of this size, the last one maybe smaller."""
    return [slice(k, min(k + size, count)) for k in range(0, count, size)]


def even(count: int, most: int, multiple: int) -> int:
    """The size of equal parts of at most ``most``, their number a multiple of ``multiple``."""
    parts = -(-count // max(1, most))
    return -(-count // (-(-parts // multiple) * multiple))


def rows_of(jobs: list[TrainJob], batches: Batches) -> NDArray[np.int64]:
    """Positions in each client's own list to rows of the data set."""
    places: dict[Shards, list[int]] = defaultdict(list)  # of several seeds, when those share the data
    for k, job in enumerate(jobs):
        places[job.shards].append(k)
    rows_CSB = np.empty_like(batches.index_CSB)
    for shards, some in places.items():
        first_C = shards.offsets[[jobs[k].client for k in some]]
        which = slice(None) if len(some) == len(jobs) else some
        rows_CSB[which] = shards.indices[first_C[:, None, None] + batches.index_CSB[which]]
    return rows_CSB
