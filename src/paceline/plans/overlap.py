"""What it gains that devices and server work at the same time: the formulas of No One Idles, and a simulation.

Five methods are compared by their time per clock: a round of FedAvg, DGA, MIFA and SPFL, a device's cycle in APFL.
The formulas are the paper's (NI-E2 for SPFL); the simulation runs the shipped algorithms on the same fleet, dry.

*Simulated* means, with half of T_c upward and half downward:

- FedAvg, DGA, MIFA, SPFL: the mean time between two finished rounds, without the first few. At every visit number
  the whole part of dropout * devices devices vanish as soon as they have the model, for T_w seconds (NI-E5).
- APFL: the mean over devices of the mean time between two arrivals of their uploads, without the first few. Nobody
  vanishes, since the formula max(T_l + T_c, T_g) counts no T_w; the cycle with absences is given besides.

Devices of APFL must be out of step, else all uploads arrive together and are aggregated together, as the formula
silently takes for granted. Here device k of N starts k/N of T_l + T_c late. That, without jitter, comes nearest to an
independent simulation of ten devices (NI-E7): for (T_l + T_c, T_g) = (25, 10), (25, 19), (25, 40), (191, 185) it
found 25.1, 28.6, 40.1 and 277 s; staggered starts give 25, 28.5, 40 and 277.5 s, and a jitter of 2 % instead of them
25.0, 28.5, 40.0 and 275.3 s.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache

from paceline.algorithms.apfl import APFL
from paceline.algorithms.base import Algorithm
from paceline.algorithms.dga import DGA
from paceline.algorithms.mifa import MIFA
from paceline.algorithms.psfl import PSFL
from paceline.algorithms.spfl import SPFL
from paceline.ledger import Ledger
from paceline.plans.pace import Pace
from paceline.runs.dry import dry
from paceline.system import AlwaysOn, Availability, Combined, Constant, Cost, Fleet, FreeServer, LawTimes, Leave
from paceline.system.availability import Stragglers
from paceline.system.links import Links, SecondsLinks
from paceline.system.server import ConstantServer, ServerCosts

NAMES = {"fedavg": "FedAvg", "dga": "DGA", "mifa": "MIFA", "spfl": "SPFL", "apfl": "APFL"}
METHODS = tuple(NAMES)
VISITS = 3000
"""About so many visits are simulated for a method, if that is enough for each device."""
SKIPPED = 3
"""Rounds before things have settled."""
ENDLESS = 1 << 62


# -- formulas -----------------------------------------------------------------------------------------------------


def closed_forms(pace: Pace) -> dict[str, float]:
    """Seconds per clock of every method."""
    fedavg = pace.visit + pace.waited + pace.t_aggregate
    return {
        "fedavg": fedavg,
        "dga": fedavg,
        "mifa": pace.visit + pace.t_aggregate,
        "spfl": max(pace.visit + pace.waited, pace.t_aggregate),
        "apfl": max(pace.visit, pace.t_aggregate),
    }


def spfl_of_table1(pace: Pace) -> float:
    """The other form of SPFL's time (NI-E2): too long where the server is slower than T_l + T_c."""
    return max(pace.visit, pace.t_aggregate) + pace.waited


def apfl_bounds(pace: Pace) -> tuple[float, float]:
    """NI-E7: an upload waits for at most one running aggregation, then for its own."""
    return max(pace.visit, pace.t_aggregate), max(pace.visit, 2 * pace.t_aggregate)


# -- simulation ---------------------------------------------------------------------------------------------------


def simulated_round(pace: Pace, method: str) -> float:
    """Mean seconds of a round of FedAvg, DGA, MIFA or SPFL."""
    rounds = max(2, min(100 if pace.jitter else 20, VISITS // pace.devices))
    algorithm = _synchronous(method, pace.devices, SKIPPED + rounds)
    # FedAvg waits for stragglers in this comparison, as SPFL and DGA do by their own rule; MIFA does not.
    absence = "wait" if method == "fedavg" else None
    times = dry(algorithm, _fleet(pace, _stragglers(pace)), absence=absence, ledger=Ledger(keep=False)).times
    return (times[-1] - times[SKIPPED - 1]) / (len(times) - SKIPPED)


def simulated_cycle(pace: Pace, *, in_step: bool = False, absences: bool = False) -> float:
    """Mean seconds of a device's cycle in APFL; see the module's text."""
    parts: list[Availability] = [] if in_step else [LateStart(pace.visit / pace.devices)]
    parts += [_stragglers(pace)] if absences else []
    # A number with many divisors: held devices go through patterns of a few cycles, and whole ones are averaged.
    cycles = 120 if pace.devices * 120 <= VISITS else 12
    first = cycles // 4
    wanted = first + cycles + 1
    fleet = _fleet(pace, Combined(parts) if parts else AlwaysOn())
    links = WatchedLinks(fleet.links)
    seen = links.arrivals
    dry(
        APFL(rounds=ENDLESS),
        replace(fleet, links=links),
        ledger=Ledger(keep=False),
        enough=lambda: len(seen) == pace.devices and min(map(len, seen.values())) >= wanted,
    )
    return math.fsum(times[wanted - 1] - times[first] for times in seen.values()) / (cycles * pace.devices)


class LateStart:
    """Device k can first be reached after k times so many seconds, and then always."""

    __slots__ = ("_seconds",)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def next_online(self, device: int, now: float) -> float:
        """Now, or when the device starts."""
        return max(now, device * self._seconds)

    def online_until(self, device: int, now: float) -> float:
        """For ever, once it is there."""
        return math.inf

    def leaves(self, device: int, visit: int, start: float, seconds: float) -> Leave | None:
        """Return None: no device ever leaves."""
        return None


class WatchedLinks:
    """Links that remember when the uploads of each device arrive."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self.arrivals: defaultdict[int, list[float]] = defaultdict(list)

    def cost(self, source: int, target: int, size: float, now: float) -> Cost:
        """Return what a transfer costs, and note when an upload arrives."""
        cost = self._links.cost(source, target, size, now)
        if target < 0:
            self.arrivals[source].append(now + cost.seconds)
        return cost


def _stragglers(pace: Pace) -> Availability:
    if not pace.waited:
        return AlwaysOn()
    return Stragglers(pace.dropout, pace.t_wait, size=pace.devices, seed=0)


def _synchronous(method: str, devices: int, rounds: int) -> Algorithm:
    if method == "fedavg":
        return PSFL(rounds=rounds, width=devices, length=1, sampler="uniform")
    kinds: dict[str, type[DGA] | type[MIFA] | type[SPFL]] = {"dga": DGA, "mifa": MIFA, "spfl": SPFL}
    return kinds[method](rounds=rounds)


def _fleet(pace: Pace, availability: Availability) -> Fleet:
    compute = LawTimes(law=Constant(pace.t_local), seed=0, jitter=pace.jitter)
    links = SecondsLinks(up=pace.t_comm / 2, down=pace.t_comm / 2)
    server: ServerCosts = ConstantServer(pace.t_aggregate) if pace.t_aggregate else FreeServer()
    return Fleet(size=pace.devices, compute=compute, links=links, availability=availability, server=server)


# -- side by side -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """Seconds per clock and the speed-up over FedAvg, by formula and in the simulation."""

    closed_form: float
    simulated: float
    speedup: float
    speedup_simulated: float


@dataclass(frozen=True)
class Overlap:
    """All methods on one fleet."""

    pace: Pace
    methods: dict[str, Method]
    bounds: tuple[float, float]
    """Between which APFL's cycle lies (NI-E7), if nothing jitters."""
    in_step: float
    """APFL's cycle if all devices start together; without jitter they stay together."""
    with_absences: float
    """APFL's cycle, devices out of step, the stragglers' absences counted."""


@lru_cache(maxsize=64)
def compare(pace: Pace) -> Overlap:
    """Formula and simulation of every method."""
    formulas = closed_forms(pace)
    simulated = {method: simulated_round(pace, method) for method in METHODS if method != "apfl"}
    simulated["apfl"] = simulated_cycle(pace)
    base = formulas["fedavg"], simulated["fedavg"]
    both = {name: (formulas[name], simulated[name]) for name in METHODS}
    methods = {name: Method(*pair, base[0] / pair[0], base[1] / pair[1]) for name, pair in both.items()}
    absent = simulated_cycle(pace, absences=True) if pace.waited else simulated["apfl"]
    return Overlap(pace, methods, apfl_bounds(pace), simulated_cycle(pace, in_step=True), absent)


def explain(found: Overlap) -> list[str]:
    """What limits each method here, a sentence or two each."""
    return [_of_fedavg(found.pace), _of_dga(found.pace), _of_mifa(found.pace), _of_spfl(found.pace), _of_apfl(found)]


def _of_fedavg(pace: Pace) -> str:
    parts = {
        "local training": pace.t_local,
        "the transfers": pace.t_comm,
        "waiting for stragglers": pace.waited,
        "the server": pace.t_aggregate,
    }
    name = max(parts, key=lambda part: parts[part])
    share = parts[name] / math.fsum(parts.values())
    return f"FedAvg: all four times one after the other; the longest is {name}, {share:.0%} of a round."


def _of_dga(pace: Pace) -> str:
    text = "DGA: as long as FedAvg; it gains extra local training, not time."
    if pace.t_comm + pace.t_aggregate >= pace.t_local:
        return text
    return (
        f"{text} Here one more visit takes longer than transfers and server together: what is still under way when"
        " the average comes is the next round's visit, so that the simulated round may be shorter than the formula's."
    )


def _of_mifa(pace: Pace) -> str:
    if not pace.waited:
        return "MIFA: as FedAvg without stragglers, of which there are none here: nothing is gained."
    return "MIFA: training, transfers and server one after the other; nobody waits for stragglers."


def _of_spfl(pace: Pace) -> str:
    spare = pace.visit + pace.waited - pace.t_aggregate
    if spare < 0:
        return f"SPFL: the server sets the pace; devices wait for it for {-spare:.4g} s of a round."
    return f"SPFL: the slowest devices set the pace; the server waits for them for {spare:.4g} s of a round."


def _of_apfl(found: Overlap) -> str:
    pace, (least, most) = found.pace, found.bounds
    text = "APFL: the devices' own visits set the pace."
    if pace.t_aggregate > pace.visit:
        text = "APFL: the server sets the pace; devices are held until their last upload is aggregated."
    if most > least:
        text += (
            f" An upload that comes during an aggregation waits for the next one, so the cycle is between {least:.4g}"
            f" and {most:.4g} s: {found.methods['apfl'].simulated:.4g} s with devices out of step,"
            f" {found.in_step:.4g} s with all in step."
        )
    if pace.waited:
        text += f" With the stragglers' absences counted the cycle is {found.with_absences:.4g} s on average."
    return text
