"""Which clients hold which classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paceline.data.counting import apportion
from paceline.errors import PartitionError


def random_holders(
    clients: int, per_client: int, classes: int, rng: np.random.Generator, *, floor: int, tries: int
) -> NDArray[np.bool_]:
    """Each client draws distinct classes uniformly; all draw again until each class has ``floor`` holders."""
    check_holders(clients, per_client, classes)
    for _ in range(tries):
        chosen = rng.random((clients, classes)).argpartition(per_client - 1, axis=1)[:, :per_client]
        holders = np.zeros((clients, classes), bool)
        np.put_along_axis(holders, chosen, True, axis=1)
        if holders.sum(axis=0).min() >= floor:
            return holders
    raise PartitionError(
        f"{tries} draws of {per_client} of {classes} classes for each of {clients} clients never gave "
        f"every class {floor} holders; raise the number of clients or of classes per client"
    )


def leave_none_out(holders: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Give each class that nobody holds to some client, in place of one of its classes that others hold too.

    Where every class has a holder nothing is drawn and nothing changes.
    """
    mended = holders.copy()
    for c in np.flatnonzero(~holders.any(axis=0)):
        spare = np.argwhere(mended & (mended.sum(axis=0) > 1))
        client, other = spare[rng.integers(len(spare))]
        mended[client, [c, other]] = True, False
    return mended


def even_holders(
    clients: int, per_client: int, stock: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Each client gets distinct classes, and a class as many holders as its share of the samples asks."""
    classes = len(stock)
    check_holders(clients, per_client, classes)
    most = np.minimum(stock, clients)
    if most.sum() < clients * per_client:
        raise PartitionError(
            f"{clients} clients with {per_client} classes each need {clients * per_client} class shares, but "
            f"the {stock.sum()} samples allow only {most.sum()}; lower clients or classes each"
        )
    slots = apportion(stock.astype(np.float64), clients * per_client, 1, most)
    return _without_repeats(np.repeat(np.arange(classes), slots), clients, classes, rng)


def check_holders(clients: int, per_client: int, classes: int) -> None:
    """Raise ``PartitionError`` if clients cannot hold that many classes of this dataset."""
    if per_client > classes:
        raise PartitionError(f"{per_client} classes per client, but the labels have only {classes}")
    if clients * per_client < classes:
        raise PartitionError(
            f"{clients} clients with {per_client} classes each cannot hold all {classes} classes; "
            "raise the number of clients or of classes per client"
        )


def _without_repeats(
    deck: NDArray[np.int64], clients: int, classes: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Deal a deck of classes, none in it more often than there are clients; nobody gets one twice."""
    hands = rng.permutation(deck).reshape(clients, -1)
    for _ in range(1000):
        order = np.argsort(hands, axis=1, kind="stable")
        ranked = np.take_along_axis(hands, order, axis=1)
        row, column = np.nonzero(ranked[:, 1:] == ranked[:, :-1])
        if not len(row):
            break
        # Repeats change places with cards taken anywhere; one repeat fewer is likely, one more is not.
        wrong = row * hands.shape[1] + order[row, column + 1]
        other = rng.integers(hands.size, size=len(wrong))
        places = np.unique(np.concatenate([wrong, other]))
        flat = hands.reshape(-1)
        flat[places] = flat[rng.permutation(places)]
    else:
        # Too tight for chance (nearly all classes for all): dealing a sorted deck in turn has no repeats.
        hands = np.sort(deck).reshape(-1, clients).T[rng.permutation(clients)]
    holders = np.zeros((clients, classes), bool)
    np.put_along_axis(holders, hands, True, axis=1)
    return holders
