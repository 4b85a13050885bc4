"""Linear algebra of middling matrices on one thread: its threads meet after every operation.

Beside another busy process, two of them took 250 times as long as one for the eigenvalues of 400 rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

SMALL, LARGE = 48, 1000
"""Rows below which libraries use one thread anyway, and from which several are worth their meetings."""


@contextmanager
def one_thread(rows: int) -> Iterator[None]:
    """One thread for what is done inside, if matrices have so many rows that several would be used and lose."""
    if not SMALL <= rows < LARGE:
        yield
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield


def eigenvalues(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The eigenvalues of a symmetric matrix, in ascending order."""
    with one_thread(len(matrix)):
        return np.asarray(np.linalg.eigvalsh(matrix), np.float64)
