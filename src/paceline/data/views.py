"""Per-client test sets, for personalised evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.data.shares import Partition, offsets_of


def personal_test_sets(
    train: Partition,
    y_train: NDArray[Any],
    y_test: NDArray[Any],
    classes: int,
    rng: np.random.Generator,
    per_class: int = 100,
) -> Partition:
    """Test indices for each client in its own label proportions.

    Of each class a client gets ⌈share · per_class⌉ test samples, or all there are if these are fewer, drawn
    without repetition but independently of other clients, so that clients may overlap.
    """
    counts = train.label_counts(y_train, classes)
    sizes = np.maximum(train.sizes, 1)[:, None]
    # Integers: in floating point ⌈0.07 · 100⌉ would be 8.
    wanted = -(-counts * per_class // sizes)
    stock = [np.flatnonzero(np.asarray(y_test) == c) for c in range(classes)]
    taken = np.minimum(wanted, [len(own) for own in stock])
    drawn = [
        stock[c][rng.choice(len(stock[c]), taken[k, c], replace=False, shuffle=False)]
        for k, c in zip(*np.nonzero(taken), strict=True)
    ]
    indices = np.concatenate([np.empty(0, np.int64), *drawn])
    return Partition(indices, offsets_of(taken.sum(axis=1)))


def group_test_sets(train: Partition, group_train: NDArray[Any], group_test: NDArray[Any]) -> Partition:
    """Test indices for each client of a natural partition: the test samples of its own writers or sites.

    A client none of whose groups occurs in the test part gets an empty set.
    """
    names, member = np.unique(np.concatenate([group_train, group_test]), return_inverse=True)
    owner_of = np.full(len(names), -1)
    owner_of[member[: len(group_train)][train.indices]] = train.owners
    owner = owner_of[member[len(group_train) :]]
    kept = np.flatnonzero(owner >= 0)
    order = kept[np.argsort(owner[kept], kind="stable")]
    return Partition(order, offsets_of(np.bincount(owner[kept], minlength=len(train))))
