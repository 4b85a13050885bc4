"""Partitions that skew sizes or sources: IID, power law, dominant class, natural."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from paceline.bounds import Bounds
from paceline.data.counting import apportion, draw_counts, grant
from paceline.data.holders import even_holders
from paceline.data.shares import Groups, Labels, Partition, by_class, deal, from_owners, offsets_of, require_enough
from paceline.errors import PartitionError, SettingError


class Scheme(Protocol):
    """A way to split labelled samples among clients."""

    def split(
        self, labels: Labels, clients: int, rng: np.random.Generator, groups: Groups | None = None
    ) -> Partition:
        """Give samples to clients; groups say where each sample comes from, for those who ask."""


@dataclass(frozen=True)
class Iid:
    """Everyone draws from the same population; sizes differ by at most one."""

    def split(
        self, labels: Labels, clients: int, rng: np.random.Generator, groups: Groups | None = None
    ) -> Partition:
        """Shuffle all samples and cut them into parts of equal size."""
        require_enough(len(labels), clients)
        return Partition(rng.permutation(len(labels)), offsets_of(even_sizes(len(labels), clients)))


@dataclass(frozen=True)
class PowerLaw:
    """Sizes follow a power law: P(size > s) falls as s^-exponent (smaller is wilder); labels are iid.

    With ``classes`` each client holds that many classes, as in the MNIST split of FedProx: holders of a class
    share it in proportion to their power-law weights, so that sizes follow the law nearly, not exactly.
    """

    exponent: float = 1.5
    classes: int | None = None

    def __post_init__(self) -> None:
        require_positive("powerlaw", "exponent", self.exponent)
        if self.classes is not None:
            require_whole("powerlaw", "classes", self.classes)

    def split(
        self, labels: Labels, clients: int, rng: np.random.Generator, groups: Groups | None = None
    ) -> Partition:
        """Draw a Pareto weight for each client and share the samples by it, at least one each."""
        require_enough(len(labels), clients)
        weights = 1.0 + rng.pareto(self.exponent, clients)
        if self.classes is None:
            sizes = apportion(weights, len(labels), 1, len(labels))
            return Partition(rng.permutation(len(labels)), offsets_of(sizes))
        which, stock = by_class(labels)
        holders = even_holders(clients, self.classes, stock, rng)
        return deal(which, share_out(holders, weights, stock), rng)


@dataclass(frozen=True)
class Dominant:
    """Client i takes the share μ of its data from class i mod classes, the rest uniformly from the others.

    Clients are equally large and every sample is used exactly once, which the classes may not allow to the
    letter: a dominant class that runs out is shared at random among those who want it, and who finds the
    other classes exhausted takes what is left, its own class included.
    """

    share: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise SettingError(f"dominant: the share is {self.share:g}, wanted 0 to 1, as in 'dominant:0.3'")

    def split(
        self, labels: Labels, clients: int, rng: np.random.Generator, groups: Groups | None = None
    ) -> Partition:
        """Grant the dominant shares first, then fill up."""
        require_enough(len(labels), clients)
        which, stock = by_class(labels)
        sizes = even_sizes(len(labels), clients)
        own = np.arange(clients)[:, None] % len(stock) == np.arange(len(stock))
        wish = np.floor(self.share * sizes + 0.5).astype(np.int64)
        first = grant(own * wish[:, None], stock, rng)
        rest = draw_counts(sizes - first.sum(axis=1), (~own).astype(float), stock - first.sum(axis=0), rng)
        return deal(which, first + _exchange(rest, rng), rng)


@dataclass(frozen=True)
class Natural:
    """A client is a writer, a site: whatever the dataset's groups are.

    With fewer clients than groups, groups are merged at random so that all samples are used; with ``choose``
    each client is instead one whole group, chosen at random, and the other groups are left out.
    """

    choose: bool = False

    def split(
        self, labels: Labels, clients: int, rng: np.random.Generator, groups: Groups | None = None
    ) -> Partition:
        """Give whole groups to clients."""
        if groups is None:
            raise PartitionError("natural: this dataset has no groups (writers, sites); use another partition")
        require_enough(len(labels), clients)
        names, member = np.unique(groups, return_inverse=True)
        if clients > len(names):
            raise PartitionError(
                f"natural: {clients} clients but only {len(names)} groups; a client needs at least one, "
                f"so lower the number of clients to {len(names)}"
            )
        owner_of = np.full(len(names), -1)
        used = clients if self.choose else len(names)
        owner_of[rng.permutation(len(names))[:used]] = np.arange(used) * clients // used
        owner = owner_of[member]
        kept = np.flatnonzero(owner >= 0)
        part = from_owners(owner[kept], clients, rng)
        return Partition(kept[part.indices], part.offsets)


def even_sizes(samples: int, clients: int) -> NDArray[np.int64]:
    """Sizes that differ by at most one."""
    return samples // clients + (np.arange(clients) < samples % clients)


def _exchange(rest: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Let who got its own class among the rest, because others ran out, change it with who can use it."""
    rest = rest.copy()
    clients, classes = rest.shape
    for k in np.flatnonzero(rest[np.arange(clients), np.arange(clients) % classes]):
        own = k % classes
        for other in rng.permutation(clients)[:200]:  # enough to find a partner if there are many
            theirs = rest[other].copy()
            theirs[[own, other % classes]] = 0
            moved = min(rest[k, own], theirs.sum()) if other % classes != own else 0
            if moved:
                taken = rng.multivariate_hypergeometric(theirs, moved)
                rest[k] += taken
                rest[other] -= taken
                rest[k, own] -= moved
                rest[other, own] += moved
            if not rest[k, own]:
                break
    return rest


def share_out(
    holders: NDArray[np.bool_], weights: NDArray[np.float64], stock: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Counts (clients, classes): each class among its holders by their weights, at least one each."""
    counts = np.zeros(holders.shape, np.int64)
    for c, have in enumerate(stock):
        who = np.flatnonzero(holders[:, c])
        counts[who, c] = apportion(weights[who], int(have), 1, int(have))
    return counts


def require_positive(scheme: str, key: str, value: float) -> None:
    """Raise ``SettingError`` if a parameter of a scheme is not above 0."""
    if not Bounds(above=0).hold(value):
        raise SettingError(f"{scheme}: {key} is {value:g}, wanted a number above 0")


def require_whole(scheme: str, key: str, value: float) -> None:
    """Raise ``SettingError`` if a parameter of a scheme is not a whole number of at least 1."""
    if value < 1 or value != int(value):
        raise SettingError(f"{scheme}: {key} is {value:g}, wanted a whole number of at least 1")
