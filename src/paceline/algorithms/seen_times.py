"""Times that were seen of clients, and how long rounds of PSFL would take with them: simulated, without learning."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError
from paceline.seeds import stream
from paceline.system.tables import read_table

Column = NDArray[np.float64]
Kappa = Literal["mean", "max"]

MOST_ROUNDS, LEAST_ROUNDS = 400, 30
"""Rounds that are simulated of one structure; the fewer the more clients a round has, since the work is the same."""
DRAWS = 200_000
"""Visits that one structure's rounds have in all, about."""


class SeenTimes:
    """Seconds of several visits of each of some clients.

    What a client's next visit takes is drawn from those that were seen of it: nothing is assumed of how times are
    distributed, neither between clients nor from visit to visit.
    """

    def __init__(self, seen: Mapping[Any, Sequence[float]]) -> None:
        self._seen = {client: list(times) for client, times in seen.items() if len(times)}
        rows = [*self._seen.values()]
        self._counts = np.array([len(row) for row in rows], np.int64)
        self._table = np.zeros((len(rows), max(map(len, rows), default=0)))
        for place, row in enumerate(rows):
            self._table[place, : len(row)] = row
        self.means: Column = np.array([np.mean(row) for row in rows])
        """Of each client."""
        self.variances: Column = np.array([np.var(row, ddof=1) for row in rows if len(row) > 1])
        """Of each client's own times, where two or more were seen of it (Eq. 26)."""
        self._order = np.argsort(self.means, kind="stable")

    def __len__(self) -> int:
        return len(self.means)

    @classmethod
    def read(cls, path: str | Path) -> SeenTimes:
        """Read a CSV file with the columns device and seconds, one row a visit."""
        rows: dict[str, list[float]] = defaultdict(list)
        for row in read_table(path, ("device", "seconds")):
            rows[row.text("device")].append(row.number("seconds", positive=True))
        if not rows:
            raise DataError(
                f"{path} has no rows; wanted measured times, one row a visit, with columns device,seconds"
            )
        seen = cls(rows)
        if not len(seen.variances):
            raise DataError(
                f"{path} has {len(rows)} devices with one row each; a device's spread from round to round takes at"
                " least two rows of the same device, so measure again or give the mean and the spread yourself"
            )
        return seen

    def moved(self, mean: Callable[[Any], float]) -> SeenTimes:
        """The same clients with other means: every time of a client is scaled, so that its mean is this one."""
        factors = {client: mean(client) / (sum(times) / len(times) or 1.0) for client, times in self._seen.items()}
        return SeenTimes({client: [factors[client] * one for one in times] for client, times in self._seen.items()})

    @property
    def mean(self) -> float:
        """t̄: the mean over clients of their means."""
        return float(self.means.mean())

    def spread(self, kappa: Kappa = "mean") -> float:
        """κ: of Eq. 26, the root of the clients' mean variance; or of Assumption 5, the largest of a client (PS-E10).

        What clients differ by among themselves is no part of either.
        """
        return math.sqrt(float(self.variances.mean() if kappa == "mean" else self.variances.max()))

    def round_seconds(self, S: int, W: int) -> float:
        """The mean seconds of simulated rounds: W sequences of S clients, time-partition sampling (PS-3, PS-13).

        The same question always has the same answer. Where fewer clients were seen than a round needs, some are
        drawn twice.
        """
        rng = stream(0, "simulated rounds", S, W)
        rounds = min(MOST_ROUNDS, max(LEAST_ROUNDS, DRAWS // (S * W)))
        sums, known = np.zeros((rounds, W)), len(self._order)
        for g in range(S):
            first = min(g * known // S, known - 1)
            group = self._order[first : max(first + 1, (g + 1) * known // S)]
            chosen = group[_draw(rng, len(group), rounds, W)]
            visit = (rng.random((rounds, W)) * self._counts[chosen]).astype(np.int64)
            sums += self._table[chosen, visit]
        return float(sums.max(axis=1).mean())


def _draw(rng: np.random.Generator, size: int, rounds: int, count: int) -> NDArray[np.int64]:
    """So many distinct places of a group in every round; with repetition where a group is too small or very large."""
    if size < count or size > 50 * count:
        return rng.integers(size, size=(rounds, count))
    return np.argsort(rng.random((rounds, size)), axis=1)[:, :count]
