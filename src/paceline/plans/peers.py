"""DA-DPFL's order of reuse (DA-1 to DA-4), without learning: who waits for whom, and how long a round takes.

Every client has neighbours and, in each round, a random index. Neighbours with a lower index are its prior set; it
waits for at most so many of them and then trains. Many rounds are drawn at once: D draws of K clients with M
neighbours each are arrays of shape (D, K, M).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import SettingError, nearest
from paceline.plans.neighbours import Peers, degree
from paceline.seeds import stream

Array = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Booleans = NDArray[np.bool_]

RULES = {
    "fastest": "those of the prior set that finish first",
    "lowest": "those of the prior set with the lowest indices (DA-E7: the reference code)",
}
NO_NEIGHBOUR = -1
"""Stands for no neighbour, where clients have different numbers of them."""
FLOOR = 0.05
"""The least share of its mean time that a visit takes, as in ``system``'s jitter."""
_ELEMENTS, _PAIRS = 2_000_000, 50_000_000
"""Numbers in the largest arrays of one chunk of draws: (draw, client, neighbour), and (draw, client, client)."""


# -- one schedule ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Schedule:
    """When everybody starts and finishes, and whom it has waited for."""

    starts: Array
    """(..., K)."""
    finishes: Array
    """(..., K)."""
    awaited: Booleans
    """(..., K, M): whether a client waits for the neighbour in this place of its list (A* of DA-3)."""


def schedule(
    neighbours: Integers, order: Integers, times: Array | float = 1.0, cap: int | None = None, rule: str = "fastest"
) -> Schedule:
    """DA-2 to DA-4 for given neighbours (..., K, M), indices (..., K) and training times (..., K).

    ``order`` holds the index of each client, a permutation of 0 to K-1. A client waits for at most ``cap`` (N) of the
    prior set, None for all of it; of several that finish at the same time the lower index comes first. A place that
    holds ``NO_NEIGHBOUR`` is no neighbour.
    """
    shape, places = order.shape, neighbours.shape[-1]
    limit = _check(neighbours, order, cap, rule)
    order_DK = order.reshape(-1, shape[-1])
    times_DK = np.broadcast_to(np.asarray(times, float), shape).reshape(order_DK.shape)
    index_DKM, place_DKM = _by_index(neighbours.reshape(*order_DK.shape, places), order_DK)
    starts_DK, awaited_DKM = _start_in_order(index_DKM, order_DK, times_DK, limit, rule)
    awaited = np.zeros_like(awaited_DKM)
    np.put_along_axis(awaited, place_DKM, awaited_DKM, axis=2)
    return Schedule(starts_DK.reshape(shape), (starts_DK + times_DK).reshape(shape), awaited.reshape(*shape, places))


def _check(neighbours: Integers, order: Integers, cap: int | None, rule: str) -> int:
    """The cap as a number."""
    if neighbours.shape[:-1] != order.shape:
        raise SettingError(
            f"neighbours have the shape {neighbours.shape} and indices {order.shape}; give (..., K, M) and (..., K)"
        )
    if rule not in RULES:
        raise SettingError(f"the rule is {rule!r}; {nearest(rule, RULES)}")
    if cap is not None and cap < 0:
        raise SettingError(f"the wait cap is {cap}; give 0 (all start at once) or more, or None for no cap")
    return neighbours.shape[-1] if cap is None else cap


def _by_index(neighbours_DKM: Integers, order_DK: Integers) -> tuple[Integers, Integers]:
    """The neighbours' indices, lowest first, and the places where they were; nobody has an index above all."""
    draws, clients, _ = neighbours_DKM.shape
    flat = np.take_along_axis(order_DK, neighbours_DKM.reshape(draws, -1), axis=1).reshape(neighbours_DKM.shape)
    index = np.where(neighbours_DKM == NO_NEIGHBOUR, clients, flat)
    place = np.argsort(index, axis=2, kind="stable")
    return np.take_along_axis(index, place, axis=2), place


def _start_in_order(
    index_DKM: Integers, order_DK: Integers, times_DK: Array, cap: int, rule: str
) -> tuple[Array, Booleans]:
    """Go through the indices: whoever has index i depends on lower ones only, so all draws take a step together."""
    draws, clients, places = index_DKM.shape
    who_DK = np.argsort(order_DK, axis=1)
    starts_DK = np.zeros((draws, clients))
    finish_DI = np.full((draws, clients + 1), math.inf)
    awaited_DKM = np.zeros(index_DKM.shape, bool)
    row = np.arange(draws)
    for i in range(clients):
        who_D = who_DK[:, i]
        near_DM = index_DKM[row, who_D]
        finish_DM = np.take_along_axis(finish_DI, near_DM, axis=1)
        wait_DM = near_DM < i
        if cap < places:
            wait_DM &= _first(finish_DM, cap) if rule == "fastest" else np.arange(places) < cap
        start_D = np.max(finish_DM, axis=1, where=wait_DM, initial=0.0)
        starts_DK[row, who_D] = start_D
        awaited_DKM[row, who_D] = wait_DM
        finish_DI[row, i] = start_D + times_DK[row, who_D]
    return starts_DK, awaited_DKM


def _first(finish_DM: Array, count: int) -> Booleans:
    """Where the earliest so many stand; columns are in the order of indices, which decides between equals.

    Nobody with a higher index has finished yet, so they stand at infinity and come last.
    """
    earliest = np.argsort(finish_DM, axis=1, kind="stable")[:, :count]
    chosen = np.zeros(finish_DM.shape, bool)
    np.put_along_axis(chosen, earliest, True, axis=1)
    return chosen


# -- draws ----------------------------------------------------------------------------------------------------------


def draw_order(clients: int, draws: int, generator: np.random.Generator) -> Integers:
    """DA-2: a random index for each client, (D, K)."""
    return generator.permuted(np.tile(np.arange(clients), (draws, 1)), axis=1)


def draw_neighbours(
    topology: str, clients: int, neighbours: int, draws: int, generator: np.random.Generator
) -> Integers:
    """DA-1: the neighbours of each client, (D, K, M), none twice and nobody its own."""
    places = degree(topology, clients, neighbours)
    if topology == "random":
        return _draw_random(clients, places, draws, generator)
    away = np.array([-1, 1]) if topology == "ring" else np.arange(1, clients)
    near: Integers = (np.arange(clients)[:, None] + away) % clients
    return np.broadcast_to(near, (draws, clients, places))


def _draw_random(clients: int, places: int, draws: int, generator: np.random.Generator) -> Integers:
    """Floyd's sampling, all rows abreast; where most others are neighbours, it draws who is not."""
    others, rows = clients - 1, draws * clients
    fewer = min(places, others - places)
    chosen = np.zeros((rows, others), bool)
    row = np.arange(rows)
    for top in range(others - fewer, others):
        drawn = generator.integers(0, top + 1, rows)
        chosen[row, np.where(chosen[row, drawn], top, drawn)] = True
    if fewer < places:
        chosen = ~chosen
    picked = np.nonzero(chosen)[1].reshape(rows, places)
    picked += picked >= (row % clients)[:, None]  # nobody is its own neighbour
    return picked.reshape(draws, clients, places)


# -- many rounds ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rounds:
    """What came out, one number a draw."""

    share: Array
    """Of clients that start at once."""
    mean_wait: Array
    """Over clients, in seconds."""
    max_wait: Array
    seconds: Array
    """Until the last has finished."""
    awaited: Array
    """Models a client waits for, mean over clients."""


def simulate(
    peers: Peers, caps: Sequence[int | None], *, rule: str = "fastest", draws: int = 2000, seed: int = 0
) -> list[Rounds]:
    """The same draws under each wait cap; None is no cap."""
    if draws < 1:
        raise SettingError(f"draws is {draws}; give 1 or more")
    generator = stream(seed, "peers")
    found: list[list[Rounds]] = [[] for _ in caps]
    for count in _chunks(peers, draws):
        near = draw_neighbours(peers.topology, peers.clients, peers.degree, count, generator)
        order = draw_order(peers.clients, count, generator)
        noise = generator.standard_normal(order.shape) if peers.spread else np.zeros(order.shape)
        times = peers.fetch + peers.time * np.maximum(1 + peers.spread * noise, FLOOR)
        index, _ = _by_index(near, order)
        for cap, rounds in zip(caps, found, strict=True):
            limit = _check(near, order, cap, rule)
            rounds.append(_measure(times, *_start_in_order(index, order, times, limit, rule)))
    return [_joined(rounds) for rounds in found]


def _chunks(peers: Peers, draws: int) -> Iterator[int]:
    each = max(1, min(_ELEMENTS // (peers.clients * peers.degree), _PAIRS // peers.clients**2))
    yield from [each] * (draws // each)
    if draws % each:
        yield draws % each


def _measure(times_DK: Array, starts_DK: Array, awaited_DKM: Booleans) -> Rounds:
    return Rounds(
        share=np.mean(starts_DK == 0, axis=1),
        mean_wait=starts_DK.mean(axis=1),
        max_wait=starts_DK.max(axis=1),
        seconds=(starts_DK + times_DK).max(axis=1),
        awaited=awaited_DKM.sum(axis=2).mean(axis=1),
    )


def _joined(rounds: Sequence[Rounds]) -> Rounds:
    return Rounds(*(np.concatenate([getattr(one, each.name) for one in rounds]) for each in fields(Rounds)))


# -- closed forms ---------------------------------------------------------------------------------------------------


def prior_chances(clients: int, neighbours: int, index: int) -> list[float]:
    """Proposition 1: P(|A_k| = m) for m = 0 to M, of the client with index k = 1 to K, in a random topology."""
    if not 1 <= index <= clients:
        raise SettingError(f"the index is {index}; give 1 to {clients}")
    ways = math.comb(clients - 1, neighbours)
    lower, higher = index - 1, clients - index
    return [math.comb(lower, m) * math.comb(higher, neighbours - m) / ways for m in range(neighbours + 1)]


def parallel_share(neighbours: int, cap: int | None = None) -> float:
    """The expected share of clients that start at once: those whose index is the lowest among M + 1.

    Proposition 1 averaged over indices, but true for any neighbours drawn independently of the indices.
    """
    return 1.0 if cap == 0 else 1 / (neighbours + 1)


def mean_awaited(neighbours: int, cap: int | None = None) -> float:
    """The expected size of A*: a client's place among itself and its M neighbours is uniform, and N cuts it off."""
    limit = neighbours if cap is None else cap
    return sum(min(m, limit) for m in range(neighbours + 1)) / (neighbours + 1)


def work_factor(neighbours: int, cap: int | None = None) -> float:
    """How much local work a mean of M + 1 models holds, relative to all in parallel: (3M+2)/(2M+2) without a cap."""
    return 1 + mean_awaited(neighbours, cap) / (neighbours + 1)


def longest_wait(clients: int, neighbours: int, cap: int | None = None) -> float | None:
    """The longest wait of a round, in visits that all take the same time; None where it is a matter of chance.

    Where everybody is everybody's neighbour, the first N + 1 go one after the other and all later ones wait for N.
    """
    if cap == 0:
        return 0.0
    if neighbours < clients - 1:
        return None
    return float(neighbours if cap is None else min(cap, neighbours))
