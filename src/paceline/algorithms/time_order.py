"""The clients in the order of their times, as far as the server has learned these (PS-12).

An estimate is the mean of a client's observed times. A round observes a hundred clients or so of perhaps a
million, so nothing here looks at all clients: the order is kept in blocks, and an observation moves one key from one
block to another.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paceline.errors import SettingError
from paceline.seeds import mix_array

BLOCK = 1024
"""Keys that a block may hold; it starts half full."""


class SortedKeys:
    """Distinct numbers in ascending order, in blocks: a change costs a block's length, not the number of keys."""

    __slots__ = ("_ends", "_fences", "_rows", "_sizes")

    def __init__(self, keys: NDArray[Any]) -> None:
        """From an ascending array, real or complex; complex keys are ordered by real part, then imaginary part."""
        half = BLOCK // 2
        table = np.empty((max(1, -(-len(keys) // half)), BLOCK), keys.dtype)
        full, rest = divmod(len(keys), half)
        table[:full, :half] = keys[: full * half].reshape(full, half)
        table[full : full + 1, :rest] = keys[full * half :]
        self._rows = list(table)
        self._fences: NDArray[Any] = table[1:, 0].copy()
        """The least key that belongs into each block but the first."""
        self._sizes = np.full(len(table), half)
        self._sizes[full : full + 1] = rest
        self._ends: NDArray[np.int64] | None = None
        """How many keys there are up to the end of each block; None after a change, until ``_count`` counts anew."""

    def __len__(self) -> int:
        return int(self._count()[-1])

    def __getitem__(self, rank: int) -> Any:
        """The key of this rank, from 0."""
        ends = self._count()
        block = int(ends.searchsorted(rank, "right"))
        return self._rows[block][rank - ends[block] + self._sizes[block]]

    def below(self, key: complex) -> int:
        """How many keys are less than this one."""
        block = int(self._fences.searchsorted(key, "right"))
        size = self._sizes[block]
        return int(self._count()[block] - size + self._rows[block][:size].searchsorted(key))

    def add(self, key: complex) -> None:
        """Put in a key that is not there yet."""
        block = int(self._fences.searchsorted(key, "right"))
        row, size = self._rows[block], int(self._sizes[block])
        place = int(row[:size].searchsorted(key))
        row[place + 1 : size + 1] = row[place:size]
        row[place] = key
        self._sizes[block] = size + 1
        self._ends = None
        if size + 1 == BLOCK:
            self._split(block)

    def remove(self, key: complex) -> None:
        """Take out a key that is there."""
        block = int(self._fences.searchsorted(key, "right"))
        row, size = self._rows[block], int(self._sizes[block])
        place = int(row[:size].searchsorted(key))
        row[place : size - 1] = row[place + 1 : size]
        self._sizes[block] = size - 1
        self._ends = None
        if size == 1 and len(self._rows) > 1:
            del self._rows[block]
            self._sizes = np.delete(self._sizes, block)
            self._fences = np.delete(self._fences, max(block - 1, 0))

    def _split(self, block: int) -> None:
        half = BLOCK // 2
        row = self._rows[block]
        upper = np.empty_like(row)
        upper[:half] = row[half:]
        self._rows.insert(block + 1, upper)
        self._sizes[block] = half
        self._sizes = np.insert(self._sizes, block + 1, half)
        self._fences = np.insert(self._fences, block, upper[0])

    def _count(self) -> NDArray[np.int64]:
        """The number of keys up to the end of each block; counted anew once after a run of changes."""
        if self._ends is None:
            self._ends = np.cumsum(self._sizes)
        return self._ends


class TimeOrder:
    """The running mean t̂_n of each client's observed times, and the clients in the order of it (PS-12).

    Equally fast clients are ordered by a hash of their numbers under ``key``, so that a client's number has nothing
    to do with the group it falls into. Clients that were never observed (strangers) stand together, in the order of
    their hashes, where the mean of the known estimates has its place. The order is a function of the estimates and
    the key alone. A known client is kept in it as one complex number, estimate + i * rank by hash: numpy sorts those
    by the real part, then by the imaginary part, so that ties are broken and no two keys are equal. Memory is taken
    at the first observation, or the first question for a rank: a run that needs no estimates pays nothing.
    """

    def __init__(self, clients: int, key: int) -> None:
        if clients < 1:
            raise SettingError(f"time estimates of {clients} clients; wanted 1 or more")
        self._clients = clients
        self._key = key
        self._mean = math.nan
        self._ready = False
        self._first_stranger: int | None = None
        """The rank of the first client never observed; None after an observation, until somebody asks."""

    def __len__(self) -> int:
        return self._clients

    @property
    def known(self) -> int:
        """How many clients have been observed."""
        return self._clients - len(self._strangers) if self._ready else 0

    @property
    def mean(self) -> float:
        """The mean over the known clients of their estimates; nan if nobody is known."""
        return self._mean

    @property
    def fastest(self) -> float:
        """The least estimate; nan if nobody is known."""
        return float(self._order[0].real) if self.known else math.nan

    @property
    def slowest(self) -> float:
        """The greatest estimate; nan if nobody is known."""
        return float(self._order[self.known - 1].real) if self.known else math.nan

    def estimate(self, client: int) -> float:
        """The mean of the client's observed times; of one never observed, the mean of the others."""
        return float(self._estimates[client]) if self._ready and self._counts[client] else self._mean

    def estimates(self) -> NDArray[np.float64]:
        """Every client's estimate, as ``estimate`` gives it: this one does look at all clients."""
        if not self._ready:
            return np.full(self._clients, math.nan)
        return np.where(self._counts > 0, self._estimates, self._mean)

    def observe(self, client: int, seconds: float) -> None:
        """Count a time that a client has taken, and move it to its new place."""
        if not 0 <= client < self._clients:
            raise IndexError(f"client {client} of {self._clients} clients")
        if not 0 <= seconds < math.inf:
            raise SettingError(f"client {client} took {seconds!r} seconds; wanted a finite number of 0 or more")
        self._prepare()
        count, place, old = int(self._counts[client]), int(self._places[client]), float(self._estimates[client])
        self._counts[client] = count + 1
        if count:
            estimate = old + (seconds - old) / (count + 1)
            if estimate == old:
                return
            self._order.remove(complex(old, place))
            self._mean += (estimate - old) / self.known
        else:
            estimate = float(seconds)
            self._strangers.remove(place)
            before = self._mean if self.known > 1 else estimate
            self._mean = before + (estimate - before) / self.known
        self._estimates[client] = estimate
        self._order.add(complex(estimate, place))
        self._first_stranger = None

    def observe_all(self, seconds: ArrayLike) -> None:
        """Count a time of every client at once, or several: an array [clients] or [times, clients], nan for none."""
        given: NDArray[np.float64] = np.atleast_2d(np.asarray(seconds, np.float64))
        if given.ndim != 2 or given.shape[1] != self._clients:
            raise SettingError(
                f"times of shape {np.shape(seconds)}; wanted one for each of {self._clients} clients, or rows of them"
            )
        if np.any(given < 0) or np.any(np.isinf(given)):
            raise SettingError("there are times that are negative or infinite; wanted finite seconds of 0 or more")
        self._prepare()
        for row in given:
            seen = ~np.isnan(row)
            self._counts += seen
            step = (row - self._estimates) / np.maximum(self._counts, 1)
            self._estimates += np.where(seen, step, 0.0)
        self._sort()

    def at(self, rank: int) -> int:
        """The client of this rank, from 0, in ascending order of the estimates."""
        if not 0 <= rank < self._clients:
            raise IndexError(f"rank {rank} of {self._clients} clients")
        self._prepare()
        first, strangers = self._strangers_start(), len(self._strangers)
        if rank < first:
            place = self._order[rank].imag
        elif rank < first + strangers:
            place = self._strangers[rank - first]
        else:
            place = self._order[rank - strangers].imag
        return int(self._hashed[int(place)])

    def below(self, seconds: float) -> int:
        """How many clients have an estimate under this; those are the first ranks."""
        if not self.known:
            return 0
        unknown = len(self._strangers) if seconds > self._mean else 0
        return self._order.below(complex(seconds, -1)) + unknown

    def _strangers_start(self) -> int:
        """The rank of the first client never observed."""
        if self._first_stranger is None:
            self._first_stranger = self._order.below(complex(self._mean, -1)) if self.known else 0
        return self._first_stranger

    def _prepare(self) -> None:
        if self._ready:
            return
        numbers = np.arange(self._clients)
        self._hashed = np.argsort(mix_array(self._key, numbers), kind="stable").astype(np.int32)
        """The clients in the order of their hashes."""
        self._places = np.empty(self._clients, np.int32)
        """A client's rank by hash, which is also the imaginary part of its key: it makes keys distinct."""
        self._places[self._hashed] = numbers
        self._counts = np.zeros(self._clients, np.int32)
        self._estimates = np.zeros(self._clients)
        self._strangers = SortedKeys(numbers.astype(np.float64))
        """Ranks by hash of the clients never observed: at first all of them."""
        self._order = SortedKeys(np.empty(0, np.complex128))
        self._ready = True

    def _sort(self) -> None:
        """Rebuild the order, and the mean, from the estimates."""
        by_hash = self._counts[self._hashed] > 0
        places = np.flatnonzero(by_hash)
        if not len(places):
            return
        keys = self._estimates[self._hashed[places]] + 1j * places
        keys.sort()
        self._order = SortedKeys(keys)
        self._strangers = SortedKeys(np.flatnonzero(~by_hash).astype(np.float64))
        # The least and the mean of what exceeds it: so the mean of equal times is exactly that time, as in `observe`.
        least = float(keys[0].real)
        self._mean = least + float((keys.real - least).mean())
        self._first_stranger = None
