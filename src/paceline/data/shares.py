"""Who owns which samples, and how unequal that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import PartitionError

Labels = NDArray[np.int64]
"""The class of every sample."""
Groups = NDArray[Any]
"""Where every sample comes from: a writer, a site."""


@dataclass(frozen=True)
class Skew:
    """How far the clients are from equal shares of one population."""

    distance: float
    """Mean total-variation distance of a client's label law to the global one: 0 is iid, near 1 extreme."""
    classes: float
    """Mean number of classes a client holds."""
    effective_classes: float
    """Mean of exp(entropy) of a client's labels: classes that count, rather than classes that occur."""
    smallest: int
    mean_size: float
    largest: int
    size_variation: float
    """Standard deviation of the sizes over their mean."""

    def __str__(self) -> str:
        return (
            f"label distance {self.distance:.2f}, {self.classes:.1f} classes per client "
            f"({self.effective_classes:.1f} effective), sizes {self.smallest} to {self.largest} "
            f"(mean {self.mean_size:.1f}, variation {self.size_variation:.2f})"
        )


@dataclass(frozen=True, eq=False)
class Partition:
    """Indices of samples, client after client; in test sets a client may be empty and clients may overlap."""

    indices: NDArray[np.int64]
    """Concatenated: client k owns ``indices[offsets[k]:offsets[k + 1]]``."""
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        steps = np.diff(self.offsets)
        if len(self.offsets) < 2 or self.offsets[0] != 0 or (steps < 0).any():
            raise PartitionError(f"offsets must rise from 0 and have one entry more than clients: {self.offsets}")
        if self.offsets[-1] != len(self.indices):
            raise PartitionError(f"offsets end at {self.offsets[-1]} but there are {len(self.indices)} indices")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, k: int) -> NDArray[np.int64]:
        if not -len(self) <= k < len(self):
            raise IndexError(f"client {k} of {len(self)}")
        k %= len(self)
        return self.indices[self.offsets[k] : self.offsets[k + 1]]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each client owns."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> NDArray[np.int64]:
        """For each entry of ``indices``, the client that owns it."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def covers(self, samples: int) -> bool:
        """Whether each index below ``samples`` is owned exactly once, and no other is."""
        return len(self.indices) == samples and bool((np.sort(self.indices) == np.arange(samples)).all())

    def label_counts(self, labels: NDArray[Any], classes: int) -> NDArray[np.int64]:
        """How many samples of each class each client owns, (clients, classes)."""
        cells = self.owners * classes + np.asarray(labels)[self.indices]
        return np.bincount(cells, minlength=len(self) * classes).reshape(len(self), classes)

    def skew(self, labels: NDArray[Any], classes: int) -> Skew:
        """How skewed labels and sizes are, over the clients that own anything."""
        counts = self.label_counts(labels, classes)
        counts = counts[counts.sum(axis=1) > 0]
        share = counts / counts.sum(axis=1, keepdims=True)
        overall = counts.sum(axis=0) / counts.sum()
        entropy = -(share * np.log(np.where(share > 0, share, 1.0))).sum(axis=1)
        sizes = self.sizes
        return Skew(
            distance=float(0.5 * np.abs(share - overall).sum(axis=1).mean()),
            classes=float((counts > 0).sum(axis=1).mean()),
            effective_classes=float(np.exp(entropy).mean()),
            smallest=int(sizes.min()),
            mean_size=float(sizes.mean()),
            largest=int(sizes.max()),
            size_variation=float(sizes.std() / sizes.mean()),
        )


def from_owners(owner: NDArray[np.int64], clients: int, rng: np.random.Generator) -> Partition:
    """The partition that gives sample i to client owner[i], each client's samples in random order."""
    order = rng.permutation(len(owner))
    order = order[np.argsort(owner[order], kind="stable")]
    return Partition(order, offsets_of(np.bincount(owner, minlength=clients)))


def offsets_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each client begins, given how much each owns."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def by_class(labels: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each sample's class as 0, 1, ... among the classes that occur, and how many samples each class has."""
    _, which, stock = np.unique(labels, return_inverse=True, return_counts=True)
    return which.astype(np.int64), stock.astype(np.int64)


def deal(which: NDArray[np.int64], counts: NDArray[np.int64], rng: np.random.Generator) -> Partition:
    """Hand out random samples so that client k gets counts[k, c] of class c; every class must be used up."""
    assert (counts.sum(axis=0) == np.bincount(which)).all(), "counts must use up every class"
    clients = len(counts)
    shuffled = rng.permutation(len(which))
    shuffled = shuffled[np.argsort(which[shuffled], kind="stable")]  # class by class, random within
    owner = np.empty(len(which), np.int64)
    owner[shuffled] = np.repeat(np.tile(np.arange(clients), counts.shape[1]), counts.T.reshape(-1))
    return from_owners(owner, clients, rng)


def require_enough(samples: int, clients: int) -> None:
    """Raise ``PartitionError`` if there are no clients, or fewer samples than clients."""
    if clients < 1:
        raise PartitionError(f"{clients} clients; wanted at least 1")
    if samples < clients:
        raise PartitionError(
            f"{clients} clients but only {samples} samples; lower the number of clients or take more data"
        )
