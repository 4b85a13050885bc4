"""Partitions that skew labels: Dirichlet, ExDir, pathological."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.data.counting import draw_counts
from paceline.data.holders import even_holders, leave_none_out, random_holders
from paceline.data.schemes import even_sizes, require_positive, require_whole, share_out
from paceline.data.shares import Groups, Labels, Partition, by_class, deal, from_owners, offsets_of, require_enough
from paceline.errors import PartitionError, SettingError

TRIES = 1000


@dataclass(frozen=True)
class Dirichlet:
    """Each class is shared among all clients by a draw from Dir(α); small α means strong skew.

    The whole draw is repeated until the smallest client has ``minimum`` samples. Left to itself, the
    minimum is min(10, samples / (2 clients)), and if that never happens the best draw stands, unless it
    leaves a client empty. With ``equal`` all clients are equally large and each draws its own law of labels
    from Dir(α), as in the experiments of DisPFL and DA-DPFL: draw a class, take its next sample, draw again
    if it is exhausted.
    """

    alpha: float = 0.3
    equal: bool = False
    minimum: int | None = None

    def __post_init__(self) -> None:
        require_positive("dirichlet", "alpha", self.alpha)
        _check_minimum("dirichlet", self.minimum)

    def split(
        self, labels: Labels, clients: int, rng: np.random.Generator, groups: Groups | None = None
    ) -> Partition:
        """Draw shares of classes and deal the samples."""
        require_enough(len(labels), clients)
        which, stock = by_class(labels)
        if self.equal:
            prior = rng.dirichlet(np.full(len(stock), self.alpha), clients)
            return deal(which, draw_counts(even_sizes(len(labels), clients), prior, stock, rng), rng)
        holders = np.ones((clients, len(stock)), bool)
        return deal(which, _balanced_counts(holders, self.alpha, stock, self.minimum, rng), rng)


@dataclass(frozen=True)
class ExDir:
    """ExDir(C, α) of Li and Lyu 2023: a client holds C classes, a class is shared by Dir(α) among holders.

    A client that already has its fair share of samples gets nothing of later classes, which keeps sizes near
    each other. ``minimum`` is as in ``Dirichlet``.
    """

    classes: int = 2
    alpha: float = 10.0
    minimum: int | None = None

    def __post_init__(self) -> None:
        require_whole("exdir", "classes", self.classes)
        require_positive("exdir", "alpha", self.alpha)
        _check_minimum("exdir", self.minimum)

    def split(
        self, labels: Labels, clients: int, rng: np.random.Generator, groups: Groups | None = None
    ) -> Partition:
        """Draw holders, then shares, then deal the samples."""
        require_enough(len(labels), clients)
        which, stock = by_class(labels)
        floor = max(self.classes * clients // len(stock) // 5, 1)
        holders = random_holders(clients, self.classes, len(stock), rng, floor=floor, tries=TRIES)
        return deal(which, _balanced_counts(holders, self.alpha, stock, self.minimum, rng), rng)


@dataclass(frozen=True)
class Pathological:
    """Each client holds exactly ``classes`` classes (McMahan et al. 2017 have 2 of MNIST's 10).

    A class is cut into equal shares for its holders, and has as many holders as its size asks; every sample
    is used exactly once. With ``equal`` (DisPFL, DA-DPFL) clients are equally large and draw uniformly from
    classes chosen at random; a class that nobody chose replaces one that several clients have, so that
    nothing is asked of models that no client could teach them. A class that is exhausted is used again from
    its start, so that samples can be owned more than once and some not at all.
    """

    classes: int = 2
    equal: bool = False

    def __post_init__(self) -> None:
        require_whole("pathological", "classes", self.classes)

    def split(
        self, labels: Labels, clients: int, rng: np.random.Generator, groups: Groups | None = None
    ) -> Partition:
        """Choose holders and cut the classes among them."""
        require_enough(len(labels), clients)
        which, stock = by_class(labels)
        if not self.equal:
            holders = even_holders(clients, self.classes, stock, rng)
            return deal(which, share_out(holders, np.ones(clients), stock), rng)
        drawn = random_holders(clients, self.classes, len(stock), rng, floor=0, tries=1)
        holders = leave_none_out(drawn, rng)
        counts = rng.multinomial(even_sizes(len(labels), clients), holders / self.classes)
        return _deal_again(which, counts, rng)


def _check_minimum(scheme: str, minimum: int | None) -> None:
    if minimum is not None and minimum < 0:
        raise SettingError(f"{scheme}: minimum is {minimum}, wanted 0 or more")


def _balanced_counts(
    holders: NDArray[np.bool_],
    alpha: float,
    stock: NDArray[np.int64],
    minimum: int | None,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Share out all classes by Dir(α) until the smallest client has the minimum."""
    clients, samples = len(holders), int(stock.sum())
    wanted = min(10, samples // (2 * clients)) if minimum is None else minimum
    if wanted * clients > samples:
        raise PartitionError(
            f"a minimum of {wanted} samples for each of {clients} clients needs {wanted * clients}, "
            f"but there are {samples}; lower the minimum or the number of clients"
        )
    best, best_size = None, -1
    # Huge fleets get fewer draws: what matters there is to end.
    tries = max(20, min(TRIES, 20_000_000 // holders.size))
    for _ in range(tries):
        counts = _share_classes(holders, alpha, stock, rng)
        smallest = int(counts.sum(axis=1).min())
        if smallest > best_size:
            best, best_size = counts, smallest
        if smallest >= wanted:
            return counts
    if best is not None and minimum is None and best_size >= 1:
        return best
    raise PartitionError(
        f"{tries} draws with alpha={alpha:g} over {clients} clients and {samples} samples left the smallest "
        f"client with {best_size} samples at best, wanted {wanted if minimum else 1}; raise alpha, lower the "
        "number of clients, lower the minimum, or use an equal-size partition"
    )


def _share_classes(
    holders: NDArray[np.bool_], alpha: float, stock: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    clients, classes = holders.shape
    counts = np.zeros((clients, classes), np.int64)
    sizes = np.zeros(clients, np.int64)
    fair = stock.sum() / clients
    for c in range(classes):
        share = rng.dirichlet(np.full(clients, alpha)) * holders[:, c]
        # All holders may be full already, or so small a share may have vanished in rounding.
        laws = share * (sizes < fair), share, holders[:, c].astype(float)
        counts[:, c] = _cut(next(law for law in laws if law.sum() > 0), int(stock[c]))
        sizes += counts[:, c]
    return counts


def _cut(share: NDArray[np.float64], samples: int) -> NDArray[np.int64]:
    """Whole samples by cumulated shares; what rounding leaves goes to the last with a share."""
    last = int(np.flatnonzero(share)[-1])
    ends = np.floor(np.cumsum(share / share.sum()) * samples).astype(np.int64)
    ends[last:] = samples
    counts: NDArray[np.int64] = np.diff(np.minimum(ends, samples), prepend=0)
    return counts


def _deal_again(which: NDArray[np.int64], counts: NDArray[np.int64], rng: np.random.Generator) -> Partition:
    """Deal counts of each class from a shuffled stock that starts again when it is used up."""
    drawn, owner = [], []
    for c in range(counts.shape[1]):
        pack = rng.permutation(np.flatnonzero(which == c))
        drawn.append(pack[np.arange(counts[:, c].sum()) % len(pack)])
        owner.append(np.repeat(np.arange(len(counts)), counts[:, c]))
    part = from_owners(np.concatenate(owner), len(counts), rng)
    return Partition(np.concatenate(drawn)[part.indices], offsets_of(counts.sum(axis=1)))
