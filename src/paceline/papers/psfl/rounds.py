"""PSFL (Zhou et al., INFOCOM 2025), Figures 1 and 6: how long rounds take, without training.

Rounds of the shipped samplers on the shipped client times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from paceline.algorithms.base import World
from paceline.algorithms.samplers import sampler_named
from paceline.algorithms.time_order import TimeOrder
from paceline.papers.pictures import new_figure, plain
from paceline.papers.psfl.printed import REFERENCE_FIG1, REFERENCE_FIG6, SLOWER
from paceline.papers.result import Reproduction, Request, Row, by_reference, claimed, compared
from paceline.seeds import Address, stream
from paceline.statistics import standard_error
from paceline.system import LawTimes, parse_law
from paceline.system.laws import Discrete

Array = NDArray[np.float64]
Seconds = Callable[[int, int], float]
"""What a client's training number so and so takes."""

CLIENTS = 500
JITTER = 0.2
TIMED = 5
"""Rounds in which all clients are timed before the first draw."""
FLEETS = {"discrete": 16, "gaussian": 10, "uniform": 6, "exponential": 6}
"""Fleets simulated for each seed asked for; only the discrete ones have something to be compared with."""
ROUNDS = {"partition": 8, "uniform": 32, "weighted": 20}
"""Rounds simulated on each fleet; more where they spread more, so that five seeds give errors of about 0.05 s."""


PRINTED_PICTURE = (
    "the paper shows a picture and no number; the reference is from an independent simulation of the"
    " same setting, and ok means within 3 standard errors (of ours and its own, taken as equal) and its rounding"
)
FAST_CLIENTS = (
    "PS-E5: weighted sampling prefers fast clients, so with few sequences its rounds are shorter, however long the"
    " wait within them; partition sampling takes all clients equally often and is the faster one only from about"
    " W = 5 to 10 on, with exponential times not even with 20"
)


# -- the simulation ---------------------------------------------------------------------------------------------


class Crowd:
    """All that a sampler asks of a world: clients that are always there, and random streams."""

    def __init__(self, seed: int) -> None:
        self.clients = range(CLIENTS)
        self.presence = self
        self._seed = seed

    def stream(self, *path: Address) -> np.random.Generator:
        """The stream at an address."""
        return stream(self._seed, *path)

    def online(self, client: int) -> bool:
        """Tell that a client is there, as all are always."""
        return True


class Case(NamedTuple):
    """A way of sampling and a structure."""

    sampling: str
    S: int
    W: int


@dataclass(frozen=True)
class Measured:
    """Round times of one case: a row per fleet, a column per round."""

    seconds: Array

    @property
    def mean(self) -> float:
        """Mean over all rounds of all fleets."""
        return float(self.seconds.mean())

    @property
    def error(self) -> float:
        """Standard error of the mean; fleets are independent, rounds of one fleet are not."""
        return standard_error(self.seconds.mean(axis=1))

    @property
    def spread(self) -> float:
        """Standard deviation from round to round on one fleet."""
        return math.sqrt(float(self.variances.mean()))

    @property
    def variances(self) -> Array:
        """Variance from round to round, per fleet."""
        return np.asarray(self.seconds.var(axis=1, ddof=1))


def simulate(law: str, cases: Sequence[Case], seeds: int) -> dict[Case, Measured]:
    """Round times (PS-3) of several cases on the same fleets."""
    found: dict[Case, list[list[float]]] = {case: [] for case in cases}
    for seed in range(seeds * FLEETS[law]):
        seconds = _seconds(law, seed)
        timed = _timed(seconds)
        for case, times in found.items():
            times.append(_rounds(case, Crowd(seed), seconds, deepcopy(timed)))
    return {case: Measured(np.array(times)) for case, times in found.items()}


class EvenShares:
    """The discrete law's values in turn, each for exactly as many clients.

    The paper's five times are equally probable, and with 500 clients a hundred of each is what that means; fleets
    drawn at random differ in their mean by more than round times do by sampling.
    """

    law = Discrete()
    mean, variance = law.mean, law.variance

    def draw(self, key: int, site: int) -> float:
        """Return the value whose turn it is: each site gets the one after that of the site before."""
        return self.law.values[site % len(self.law.values)]


def _seconds(law: str, seed: int) -> Seconds:
    """A fleet's times; all cases meet the same ones, so each is computed once."""
    compute = LawTimes(law=EvenShares() if law == "discrete" else parse_law(law), seed=seed, jitter=JITTER)
    return cache(lambda client, visit: compute.cost(client, visit, 0.0).seconds)


def _timed(seconds: Seconds) -> TimeOrder:
    """t̂ after rounds in which every client was timed (PS-10)."""
    times = TimeOrder(CLIENTS, key=0)
    times.observe_all([[seconds(n, visit) for n in range(CLIENTS)] for visit in range(TIMED)])
    return times


def _rounds(case: Case, crowd: Crowd, seconds: Seconds, times: TimeOrder) -> list[float]:
    """PS-12 to PS-15: the times of some rounds, t̂ following what was seen."""
    sampler, world = sampler_named(case.sampling), cast(World, crowd)
    rounds = ROUNDS[case.sampling] // (2 if case.S * case.W > 50 else 1)  # many sequences spread less and cost more
    visits = [TIMED] * CLIENTS
    found: list[float] = []
    for r in range(rounds):
        seen = np.full(CLIENTS, np.nan)
        longest = 0.0
        for sequence in sampler.draw(world, times, r, case.W, case.S):
            taken = [seconds(client, visits[client]) for client in sequence]
            seen[sequence] = taken
            longest = max(longest, sum(taken))
            for client in sequence:
                visits[client] += 1
        found.append(longest)
        if sampler.learns_times:
            times.observe_all(seen)
    return found


# -- Figure 6 ---------------------------------------------------------------------------------------------------

SAMPLINGS = ("partition", "uniform", "weighted")


def fig6(request: Request) -> Reproduction:
    """PS-T2: the round time under three ways of sampling, four structures, all four laws of the paper's setup."""
    cases = [Case(sampling, S, W) for S, W in REFERENCE_FIG6 for sampling in SAMPLINGS]
    found = {law: simulate(law, cases, request.seeds) for law in FLEETS}
    rows = [_mean_row(law, case, measured[case]) for law, measured in found.items() for case in cases]
    rows += [_spread_row(law, case, measured[case]) for law, measured in found.items() for case in cases]
    for law, measured in found.items():
        rows += [row for S, W in REFERENCE_FIG6 for row in _claims(law, S, W, measured)]
    errors = [measured.error for each in found.values() for measured in each.values()]
    fleets = ", ".join(f"{request.seeds * count} {law}" for law, count in FLEETS.items())
    note = (
        f"{CLIENTS} clients, jitter {JITTER:g}, t̂ from {TIMED} timed rounds of all clients and updated after every"
        f" round; fleets: {fleets}; standard errors of the means: {min(errors):.2f} to {max(errors):.2f} s. The"
        " paper's figure has the first two laws and says the same of all four; its structures have about 20 clients a"
        " round, the one with 80 is ours. A claim counts as holding if the"
        " difference is more than 2 standard errors."
    )
    return Reproduction(rows=rows, note=note, figure=lambda: _draw_rounds(found))


def _mean_row(law: str, case: Case, measured: Measured) -> Row:
    name = f"{law}, S={case.S}, W={case.W}: {case.sampling}, mean"
    if law != "discrete":
        return Row(name, None, measured.mean, "s")
    reference = REFERENCE_FIG6[case.S, case.W][case.sampling]
    within = 3 * math.sqrt(2) * measured.error + 0.05  # the reference is rounded to one decimal
    return by_reference(compared(name, reference, measured.mean, within=within, unit="s", note=PRINTED_PICTURE))


def _spread_row(law: str, case: Case, measured: Measured) -> Row:
    return Row(f"{law}, S={case.S}, W={case.W}: {case.sampling}, standard deviation", None, measured.spread, "s")


def _claims(law: str, S: int, W: int, measured: dict[Case, Measured]) -> list[Row]:
    """What the paper says of partition sampling; all three were measured on the same fleets."""
    partition, uniform, weighted = (measured[Case(sampling, S, W)] for sampling in SAMPLINGS)
    name = f"{law}, S={S}, W={W}: partition"
    calm = all(_below(partition.variances, other.variances) for other in (uniform, weighted))
    spreads = f"{partition.spread:.2f} s against {uniform.spread:.2f} and {weighted.spread:.2f} s"
    return [
        _lower(f"{name} lower than uniform", partition, uniform),
        _lower(f"{name} lower than weighted", partition, weighted, FAST_CLIENTS),
        claimed(f"{name} most stable", "smallest spread", spreads, calm),
    ]


def _lower(name: str, one: Measured, other: Measured, otherwise: str = "") -> Row:
    lower = other.seconds.mean(axis=1) - one.seconds.mean(axis=1)
    holds = _below(one.seconds.mean(axis=1), other.seconds.mean(axis=1))
    gap = float(lower.mean())
    ours = f"{abs(gap):.2f} ± {standard_error(lower):.2f} s {'lower' if gap > 0 else 'higher'}"
    return claimed(name, "lower", ours, holds, "" if holds else otherwise)


def _below(one: Array, other: Array) -> bool:
    """Whether one is less than the other by more than 2 standard errors, fleet by fleet."""
    return float((other - one).mean()) > 2 * standard_error(other - one)


def _draw_rounds(found: dict[str, dict[Case, Measured]]) -> Any:
    title = f"PSFL, round time under three ways of sampling, {CLIENTS} clients"
    figure = new_figure((11, 7.6), title)
    panels = [*figure.subplots(2, 2, sharey="row").flat]
    for axes, (law, measured) in zip(panels, found.items(), strict=True):
        for place, sampling in enumerate(SAMPLINGS):
            bars = [measured[Case(sampling, S, W)] for S, W in REFERENCE_FIG6]
            heights, spreads = [bar.mean for bar in bars], [bar.spread for bar in bars]
            look = {"color": f"C{place}", "error_kw": {"ecolor": "0.3", "elinewidth": 1, "capsize": 2}}
            places = np.arange(len(bars)) + 0.27 * (place - 1)
            axes.bar(places, heights, 0.25, yerr=spreads, label=sampling, **look)
        axes.set_title(f"{law} client times", loc="left", fontsize=10)
        axes.set_xticks(range(len(REFERENCE_FIG6)), [f"S={S}, W={W}" for S, W in REFERENCE_FIG6])
        plain(axes)
    for axes in panels[::2]:
        axes.set_ylabel("round time / s (bars: standard deviation)")
    panels[0].legend(frameon=False, ncols=3, loc="upper left")
    panels[0].set_ylim(top=1.12 * panels[0].get_ylim()[1])
    return figure


# -- Figure 1 ---------------------------------------------------------------------------------------------------


def fig1(request: Request, law: str = "discrete") -> Reproduction:
    """PS-T6, the half without training: the times of a round with 9 clients."""
    fedavg, psfl = Case("uniform", 1, 9), Case("partition", 3, 3)
    found = simulate(law, [fedavg, psfl], request.seeds)
    sequential = 9 * parse_law(law).mean
    ratio = sequential / found[fedavg].mean
    errors = {"FedAvg": found[fedavg].error, "PSFL": found[psfl].error}
    errors["ratio"] = ratio * errors["FedAvg"] / found[fedavg].mean
    slower = "a round of SFL is more than 4 times as long as one of FedAvg"
    ours = f"{ratio:.2f} ± {errors['ratio']:.2f} times"
    rows = [
        by_reference(
            compared(
                "SFL: round time", REFERENCE_FIG1["SFL"], sequential, within=0.005, unit="s", note=PRINTED_PICTURE
            )
        ),
        _against("FedAvg: round time", "FedAvg", found[fedavg].mean, errors, "s"),
        _against("PSFL, S=3, W=3: round time", "PSFL", found[psfl].mean, errors, "s"),
        _against("SFL over FedAvg", "ratio", ratio, errors, "times"),
        claimed(slower, f"more than {SLOWER:g} times", ours, ratio - 2 * errors["ratio"] > SLOWER),
    ]
    note = (
        f"SFL exactly, as 9 mean times; the others simulated with standard errors of {errors['FedAvg']:.3f} and"
        f" {errors['PSFL']:.3f} s. That FedAvg needs about 4 times the rounds takes --scale small or paper."
    )
    return Reproduction(rows=[*rows, *_trained(request)], note=note)


def _trained(request: Request) -> list[Row]:
    """PS-T6, the other half: rounds to a target."""
    if request.scale not in ("small", "paper"):
        return []
    from paceline.papers.psfl.structures import compare_structures, round_rows

    return round_rows(*compare_structures(request, 9, (1, 3, 9)))


def _against(name: str, key: str, ours: float, errors: dict[str, float], unit: str) -> Row:
    within = 3 * math.sqrt(2) * errors[key] + 0.005  # the reference is rounded to two decimals
    return by_reference(compared(name, REFERENCE_FIG1[key], ours, within=within, unit=unit, note=PRINTED_PICTURE))
