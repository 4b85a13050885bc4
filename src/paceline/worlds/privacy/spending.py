"""What has been spent of privacy: ε at δ for the client that has given most, as ``dp-accounting`` computes it.

Neighbours are two fleets of which one client's data are *replaced*, by whatever data. What that client sends then
moves by at most 2C, so a sum with noise of standard deviation z*C is a Gaussian mechanism of multiplier z/2. Two
bounds hold, and the smaller one is reported:

- *composition*: who took part when is taken to be known. A client is in some sums, the Gaussian mechanisms compose
  exactly, and the client with the largest loss counts.
- *sampled*: where the participants of every sum are drawn anew, uniformly and without replacement, among clients that
  are always there, and who was drawn is kept secret.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.algorithms.base import Sums
from paceline.worlds.privacy.settings import Privacy


class Spending:
    """The books of one run: which client's uploads are in which sums, and what ε that makes."""

    def __init__(self, privacy: Privacy, sums: Sums, clients: int, *, steady: bool) -> None:
        assert privacy.clip is not None
        self.clip = privacy.clip
        self.delta = privacy.delta_for(clients)
        self.uploads: Counter[int] = Counter()
        """How many uploads of each client the server has had."""
        self._noise = privacy.noise
        self._sums = sums
        self._clients = clients
        self._sampled = sums.drawn and steady
        """Whether all sums so far were of as many clients as were drawn, among all."""
        self._waiting: dict[int, Counter[int]] = {}
        """By round, the uploads of sums that are not complete yet."""
        self._losses: dict[int, float] = {}
        """Σ 1/multiplier² of each client."""
        self._most = 0.0
        self._done = 0

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in one upload, coordinate by coordinate: z*C/sqrt(m)."""
        return self._noise * self.clip / math.sqrt(self._sums.together)

    @property
    def summed(self) -> bool:
        """Whether an upload is protected only together with others: in two sums it tells more than in one."""
        return self._sums.together > 1

    def arrived(self, client: int, round: int) -> None:
        """The server has an upload of a client, made in this round."""
        self.uploads[client] += 1
        if not self.summed:
            self._book(Counter([client]), 1)
        if self.summed or self._sampled:  # a draw of one client is a draw, too: its rounds are counted
            self._waiting.setdefault(round, Counter())[client] += 1

    def epsilon(self, rounds: int) -> float | None:
        """ε after so many rounds; None where there is no noise, and so no bound."""
        for round in [round for round in self._waiting if round < rounds]:
            uploads = self._waiting.pop(round)
            self._sampled = self._sampled and len(uploads) == uploads.total() == self._sums.together
            if self.summed:
                self._book(uploads, self._sums.together)
            self._done += 1
        return min(self.bounds().values(), default=None)

    def bounds(self) -> dict[str, float]:
        """All bounds that hold for what is booked, by name."""
        if not self._noise:
            return {}
        found = {"composition": composed(self._most, self.delta)}
        if self._sampled:
            loss = sampled(self._clients, self._sums.together, self._noise / 2, self._done, self.delta)
            found["sampled"] = loss
        return {name: loss for name, loss in found.items() if math.isfinite(loss)}

    def plain(self, rounds: int) -> dict[str, Any]:
        """For the summary: settings, ε and how it was found."""
        epsilon, bounds = self.epsilon(rounds), self.bounds()
        return {
            "epsilon": epsilon,
            "delta": self.delta,
            "neighbours": "one client replaced",
            "bounds": bounds,
            "clip": self.clip,
            "noise": self._noise,
            "together": self._sums.together,
            "most_uploads": max(self.uploads.values(), default=0),
        }

    def text(self) -> str:
        """For the log: what is done to uploads."""
        many = self._sums.together
        why = f"its share of what a sum of {many} has" if many > 1 else "so that each is protected by itself"
        return (
            f"differential privacy: every client's update is clipped to a length of {self.clip:g} and gets Gaussian"
            f" noise of standard deviation {self.deviation:.4g}, {why}"
        )

    def _book(self, uploads: Counter[int], together: int) -> None:
        """A sum: noise of variance z²C²/m from each upload; a client that is in it k times moves it by 2kC."""
        if not self._noise:
            return
        variance = self._noise**2 * uploads.total() / together
        for client, times in uploads.items():
            loss = self._losses[client] = self._losses.get(client, 0.0) + 4.0 * times**2 / variance
            self._most = max(self._most, loss)


def composed(loss: float, delta: float) -> float:
    """ε of Gaussian mechanisms whose 1/multiplier² add up to ``loss``: as of one, exactly."""
    from dp_accounting import get_epsilon_gaussian

    return float(get_epsilon_gaussian(1.0 / math.sqrt(loss), delta)) if loss else 0.0


def sampled(clients: int, drawn: int, multiplier: float, times: int, delta: float) -> float:
    """ε of so many sums, each of clients drawn without replacement; infinite where no bound is found."""
    from dp_accounting.rdp import compute_epsilon

    if not times:
        return 0.0
    orders, curve = _curve(clients, drawn, multiplier)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # that an order beyond those tried might be better
        found = float(compute_epsilon(orders, times * curve, delta)[0])
    return math.inf if math.isnan(found) else found


@lru_cache(maxsize=256)
def _curve(clients: int, drawn: int, multiplier: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The Rényi divergences of one such sum, by order: half a second's work, and n sums have n times as much."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    class Curve(RdpAccountant):  # type: ignore[misc]
        def read(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            return self._orders, self._rdp

    found = Curve(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    gaussian = dp_accounting.GaussianDpEvent(multiplier)
    with np.errstate(all="ignore"):
        found.compose(dp_accounting.SampledWithoutReplacementDpEvent(clients, drawn, gaussian))
    return found.read()
