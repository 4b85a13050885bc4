"""Who rides in which sequence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from paceline.algorithms.base import World, draw_clients
from paceline.algorithms.time_order import TimeOrder
from paceline.errors import SettingError, nearest

TRIES = 50
"""Draws per wanted client before offline ones are taken: waited for or skipped, as the rule for absence says."""
TIMELY = 1e-9
"""Weights do not grow further below this share of the mean time: a time of 0 would have an infinite weight."""


class Sampler(Protocol):
    """Draws a round's sequences; no client appears twice in a round."""

    @property
    def learns_times(self) -> bool:
        """Whether it looks at time estimates; if not, nobody need keep them."""
        ...

    def draw(self, world: World, times: TimeOrder, round: int, width: int, length: int) -> list[list[int]]:
        """``width`` lists of ``length`` clients."""
        ...


@dataclass(frozen=True)
class UniformSampler:
    """Every client with the same probability in every place."""

    learns_times: ClassVar[bool] = False

    def draw(self, world: World, times: TimeOrder, round: int, width: int, length: int) -> list[list[int]]:
        """A uniform draw without replacement, cut into sequences."""
        check_fit(len(world.clients), width, length)
        return _cut(draw_clients(world, width * length, "cohort", round), width, length)


@dataclass(frozen=True)
class TimePartition:
    """Every sequence has one client of each of S groups by time, so that all take about as long (PS-13, PS-14)."""

    learns_times: ClassVar[bool] = True

    def draw(self, world: World, times: TimeOrder, round: int, width: int, length: int) -> list[list[int]]:
        """W clients of each group without replacement; each sequence takes one of each, in random order."""
        clients = len(world.clients)
        check_fit(clients, width, length)
        rng = world.stream("cohort", round)
        edges = [group * clients // length for group in range(length + 1)]  # sizes are floor or ceil of N / S
        groups = [_draw_group(world, rng, width, low, high, times.at) for low, high in itertools.pairwise(edges)]
        table = rng.permuted(np.array(groups).T, axis=1)  # row w: the w-th of each group
        sequences: list[list[int]] = table.tolist()
        return sequences


@dataclass(frozen=True)
class Weighted:
    """Successive draws with probability in proportion to t̂_n^(-1/2) among those not yet drawn (PS-T2)."""

    learns_times: ClassVar[bool] = True

    def draw(self, world: World, times: TimeOrder, round: int, width: int, length: int) -> list[list[int]]:
        """Draw clients by their weights, no one twice, and cut them into sequences."""
        clients, count = len(world.clients), width * length
        check_fit(clients, width, length)
        if not times.known or not times.mean:
            return _cut(draw_clients(world, count, "cohort", round), width, length)
        rng = world.stream("cohort", round)
        taken: dict[int, None] = {}
        late: dict[int, None] = {}
        if 4 * count < clients:  # else a look at all of them costs no more than the draws
            for client in _proposals(times, rng, TRIES * count):
                (taken if world.presence.online(client) else late)[client] = None
                if len(taken) == count:
                    return _cut(list(taken), width, length)
        # Hardly anyone is online, or the weights are so uneven that the same clients are drawn again and again.
        if len(taken) + len(late) < count:
            for client in itertools.islice(_race(times, rng), TRIES * count):
                if client not in late:
                    (taken if world.presence.online(client) else late).setdefault(client)
                if len(taken) == count:
                    break
        return _cut([*taken, *late][:count], width, length)


SAMPLERS: dict[str, Sampler] = {"partition": TimePartition(), "uniform": UniformSampler(), "weighted": Weighted()}


def sampler_named(name: str) -> Sampler:
    """The sampler of this name."""
    if name not in SAMPLERS:
        raise SettingError(f"no sampler is called {name!r}; {nearest(name, SAMPLERS)}")
    return SAMPLERS[name]


def check_fit(clients: int, width: int, length: int) -> None:
    """Refuse a structure that needs a client twice: W may be at most floor(N / S) (PS-14)."""
    need = width * length
    if need > clients:
        raise SettingError(
            f"a round needs width*length = {width}*{length} = {need} clients but there are {clients}, and none may"
            " ride twice; lower algorithm.width or algorithm.length, or raise `clients`"
        )


def _cut(chosen: list[int], width: int, length: int) -> list[list[int]]:
    return [chosen[k * length : (k + 1) * length] for k in range(width)]


def _draw_group(
    world: World, rng: np.random.Generator, count: int, low: int, high: int, client_at: Callable[[int], int]
) -> list[int]:
    """Clients drawn uniformly without replacement from ranks, among those online as far as there are enough."""
    chosen = [client_at(low + int(k)) for k in rng.choice(high - low, count, replace=False)]
    taken = {client: None for client in chosen if world.presence.online(client)}
    if len(taken) == count:
        return chosen
    for rank in rng.integers(low, high, size=TRIES * count):
        client = client_at(int(rank))
        if world.presence.online(client):
            taken[client] = None
        if len(taken) == count:
            return list(taken)
    return [*taken, *(client for client in chosen if client not in taken)][:count]


def _proposals(times: TimeOrder, rng: np.random.Generator, tries: int) -> Iterator[int]:
    """Independent draws with probability exactly in proportion to t̂_n^(-1/2), about half as many as tries or more.

    A class of clients is those whose times differ by less than a factor of 4. A class is drawn by its size times its
    greatest weight, then a client of it uniformly, who is kept with its own weight over the greatest: at least half
    of the draws are kept, however much faster the fastest client is than the others.
    """
    least = max(times.fastest, TIMELY * times.mean)
    classes = 1 + max(0, math.floor(math.log(times.slowest / least, 4)))
    floors = least * 4.0 ** np.arange(classes)
    edges = np.array([0, *(times.below(floor) for floor in floors[1:]), len(times)])
    shares = np.cumsum(np.diff(edges) * floors**-0.5)
    while tries > 0:
        size = min(tries, 256)
        tries -= size
        group = np.searchsorted(shares[:-1], rng.random(size) * shares[-1], "right")
        for rank, floor, bar in zip(
            rng.integers(edges[group], edges[group + 1]), floors[group], rng.random(size), strict=True
        ):
            client = times.at(int(rank))
            if bar * bar * max(times.estimate(client), floor) < floor:
                yield client


def _race(times: TimeOrder, rng: np.random.Generator) -> Iterator[int]:
    """All clients in the order of successive weighted draws: of clocks whose rates are the weights."""
    seconds = np.maximum(times.estimates(), TIMELY * times.mean)
    order = np.argsort(rng.standard_exponential(len(times)) * np.sqrt(seconds), kind="stable")
    return (int(client) for client in order)
