"""PSFL's warm-up: how noisy and how different the clients' gradients are, and how long clients take (PS-9, PS-10).

For K rounds every client computes its full gradient at the server's model, and the noise of its samples' gradients;
the server takes a step along the mean gradient. Each estimate is a mean over clients. Its 95 % interval takes them
for a random sample of many more clients: that is about right where a part of the fleet takes part, and rather too
wide where all of it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.algorithms.aggregate import aggregated
from paceline.algorithms.base import Comparison, Model, World, came_back, draw_clients, require, total
from paceline.algorithms.seen_times import Kappa, SeenTimes
from paceline.algorithms.time_order import TimeOrder
from paceline.bounds import bounded, check_bounds
from paceline.errors import SettingError
from paceline.learn.recipe import LocalSGD
from paceline.statistics import half_width

Column = NDArray[np.float64]
FEWEST = 3
"""Clients without which nothing can be compared: two gradients are equally far from their mean, whatever they are."""


NOTHING = 1e-9
"""A spread of times below this share of their mean is a rounding error."""


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """The warm-up's length, who takes part in it, what its noise σ² is of, and the constant of the bound."""

    rounds: int = bounded(5, least=2, most=10_000)
    """K: two are needed to see a client's times vary."""
    clients: int | None = bounded(None, least=FEWEST, most=10_000_000)
    """How many take part, the same in every round; all when not given, as in the paper."""
    noise: Literal["sample", "batch"] = "sample"
    """σ² of a gradient from one sample, as Eq. 24 has it, or from one batch of the recipe's size."""
    kappa: Kappa = "mean"
    """κ of the bound on time: the root of the clients' mean variance, as Eq. 26 and Algorithm 1 have it, or the
    largest of a client, as Assumption 5 needs it and Table I fits (PS-E10)."""
    c0: float = bounded(0.1, above=0, below=0.2)
    """The bound's constant, between 0 and 0.2 (PS-4)."""

    def __post_init__(self) -> None:
        check_bounds(self, "psfl.warmup.")

    def check(self, clients: int) -> None:
        """Enough clients must take part, and be there."""
        count = clients if self.clients is None else self.clients
        require(
            FEWEST <= count <= clients,
            f"psfl.warmup.clients is {count} and there are {clients} clients; {FEWEST} or more must take part to be"
            " compared: change it, raise `clients`, or give the structure (psfl.width, psfl.length)",
        )


class Estimate(NamedTuple):
    """A mean over clients and half its 95 % interval."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ± {self.error:.1g}"


@dataclass(frozen=True, kw_only=True)
class Heterogeneity:
    """What the warm-up found out about gradients and times."""

    sigma2: Estimate
    """σ², the noise of a client's gradient."""
    B: Estimate
    """The clients' squared distance from the mean gradient."""
    time_mean: Estimate
    """t̄, the mean of the clients' times: training, and sending the model onward (PS-E11)."""
    kappa2: Estimate
    """κ², a client's own variance of the time from visit to visit, on average (Eq. 26)."""
    time_std: float
    """κ as ``WarmUp.kappa`` chooses it."""
    times: SeenTimes
    """All times that were seen."""
    by_round: tuple[tuple[float, float], ...]
    """(σ², B) of every warm-up round: they change as the model does."""
    clients: int
    """How many clients answered in a round; the most, where rounds differ."""
    seconds: float
    """How long the whole warm-up took."""

    def text(self) -> str:
        """A line for the log."""
        return (
            f"warm-up: {len(self.by_round)} rounds of {self.clients} clients took {self.seconds:.4g} s;"
            f" gradient noise σ² = {self.sigma2}, heterogeneity B = {self.B},"
            f" a visit takes {self.time_mean} s with {self._variance()}"
        )

    def _variance(self) -> str:
        """κ² in words; what is rounding error of equal times is none."""
        if self.kappa2.value <= (NOTHING * self.time_mean.value) ** 2:
            return "variance κ² = 0: every client always takes the same time"
        return f"variance κ² = {self.kappa2} (of one client at most {self.times.spread('max') ** 2:.3g})"

    def figures(self) -> dict[str, float | list[float]]:
        """Return what was found as numbers, for the log's readers."""
        named = {"sigma2": self.sigma2, "B": self.B, "time_mean": self.time_mean, "kappa2": self.kappa2}
        return {
            **{name: one.value for name, one in named.items()},
            **{f"{name}_error": one.error for name, one in named.items()},
            "kappa2_max": self.times.spread("max") ** 2,
            "sigma2_by_round": [sigma2 for sigma2, _ in self.by_round],
            "B_by_round": [B for _, B in self.by_round],
            "seconds": self.seconds,
        }


class Seen(NamedTuple):
    """One client's part in one warm-up round."""

    seconds: float
    """What a visit would take, with the way of the model onward."""
    gradient: Model


@dataclass(frozen=True)
class Round:
    """A warm-up round's figures by client."""

    variance: Mapping[int, float]
    distance: Mapping[int, float]
    seconds: Mapping[int, float]


async def warm_up(
    world: World, model: Model, local: LocalSGD, settings: WarmUp, times: TimeOrder
) -> tuple[Model, Heterogeneity]:
    """K rounds of PS-9 and PS-10; returned are the model they end with, and what was estimated."""
    begin = world.now()
    rounds: list[Round] = []
    chosen = world.clients if settings.clients is None else draw_clients(world, settings.clients, "warm-up")
    for k in range(settings.rounds):
        came = await came_back(world, {client: _timed_probe(world, client, model, local) for client in chosen})
        seen = [*came.values()]
        if len(seen) < FEWEST:
            raise SettingError(
                f"{len(seen)} of {len(chosen)} clients came back from warm-up round {k + 1}; {FEWEST} are needed"
                " to compare gradients: give the structure (psfl.width, psfl.length), or let devices stay"
                " longer (fleet.availability)"
            )
        spread = await world.observe(Comparison([one.gradient for one in seen]))
        timed = {client: one.seconds for client, one in came.items()}
        for client, seconds in timed.items():
            times.observe(client, seconds)
        variance = {
            client: _gradient_variance(world, local, settings, client, of_sample)
            for client, of_sample in zip(came, spread.variance, strict=True)
        }
        distance = _unbiased(spread.distance, len(world.clients))
        rounds.append(Round(variance, dict(zip(came, distance, strict=True)), timed))
        step = -local.lr_at(0) / len(seen)
        model = await aggregated(world, total([model, *(step * one.gradient for one in seen)]), len(seen))
    return model, _estimates(rounds, settings.kappa, world.now() - begin)


async def _timed_probe(world: World, client: int, model: Model, local: LocalSGD) -> Seen:
    """The server sends, the client computes its gradient and sends it back.

    A client's time is its training and the way of the model onward (PS-E11); a gradient is as large as a model. A
    probe is other work than a visit, so its seconds are multiplied by the mean time of a visit on this device divided
    by that of a probe.
    """
    await world.presence.reach([client])  # all take part (PS-9): who is away is waited for
    received = await world.send(model, world.server, client)
    started = world.now()
    gradient = await world.learning.probe(client, received, local)
    probed = world.now()
    returned = await world.send(gradient, client, world.server)
    seconds = (probed - started) * world.learning.visits_per_probe(client, local) + (world.now() - probed)
    return Seen(seconds, returned)


def _gradient_variance(world: World, local: LocalSGD, settings: WarmUp, client: int, of_sample: float) -> float:
    """The variance of one sample's gradient, or of that of a batch drawn without replacement."""
    if settings.noise == "sample":
        return of_sample
    samples = world.samples(client)
    batch = min(local.batch, samples)
    return of_sample / batch * (samples - batch) / max(1, samples - 1)


def _unbiased(distance: Sequence[float], clients: int) -> list[float]:
    """Squared distances from the mean gradient, scaled so that their mean estimates B without bias.

    B is about the mean gradient of all N clients. Of n clients drawn from them, the squared distances from their own
    mean are smaller in the mean, by the factor (n - 1)/n * N/(N - 1).
    """
    n = len(distance)
    factor = n / (n - 1) * (clients - 1) / clients
    return [factor * d for d in distance]


def _estimates(rounds: Sequence[Round], kappa: Kappa, seconds: float) -> Heterogeneity:
    times = SeenTimes(_series([r.seconds for r in rounds]))
    kappa2 = _mean(times.variances)
    return Heterogeneity(
        sigma2=_mean(_over_rounds([r.variance for r in rounds])),
        B=_mean(_over_rounds([r.distance for r in rounds])),
        time_mean=_mean(times.means),
        kappa2=kappa2,
        time_std=times.spread(kappa),
        times=times,
        by_round=tuple((_plain_mean(r.variance), _plain_mean(r.distance)) for r in rounds),
        clients=max(len(r.variance) for r in rounds),
        seconds=seconds,
    )


def _plain_mean(column: Mapping[int, float]) -> float:
    return float(np.mean([*column.values()]))


def _series(columns: Sequence[Mapping[int, float]]) -> dict[int, list[float]]:
    """Each client's figures, round by round, of the rounds it took part in."""
    clients = {client: None for column in columns for client in column}
    return {client: [column[client] for column in columns if client in column] for client in clients}


def _over_rounds(columns: Sequence[Mapping[int, float]]) -> Column:
    """Each client's mean over the rounds that it has a figure of."""
    return np.array([np.mean(values) for values in _series(columns).values()])


def _mean(values: Column) -> Estimate:
    """The mean over clients with its interval."""
    if len(values) < FEWEST:
        raise SettingError(
            f"{len(values)} clients could be timed often enough in the warm-up; {FEWEST} are needed, each in two"
            " rounds or more: raise psfl.warmup.rounds, give the structure (psfl.width, psfl.length), or let devices"
            " stay longer (fleet.availability)"
        )
    return Estimate(float(values.mean()), float(half_width(values)))
