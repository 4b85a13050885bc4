"""PSFL (Zhou et al., INFOCOM 2025): the trained halves of Figure 1, Figure 7 and Table I.

Structures are compared as they are given, without a warm-up: what is asked is which of them is fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.papers.psfl.trained import COMMON, DIGITS, PAPER
from paceline.papers.result import Request, Row
from paceline.papers.trials import Finished, Laboratory, Trial
from paceline.runs.until import Until
from paceline.statistics import mean_interval, ratio_interval

RATES = (0.1, 0.316)
"""Two rates that all structures reach the target with; each structure has the better one."""
ENOUGH = 3
"""Seeds below which nothing is judged."""
LENGTHS = (1, 2, 3, 4, 5, 7, 10, 16, 20, 25, 50, 100, 200)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where structures are compared."""

    overrides: tuple[str, ...]
    target: float
    horizon: float
    rates: tuple[float, ...]
    clients_between: int = 1
    """Clients in a row between evaluations: about the same time for all structures, and 1 is every round."""

    def every(self, S: int) -> int:
        """Rounds between evaluations."""
        return max(1, self.clients_between // S)


def setting(request: Request) -> Setting:
    """Digits on two cores, or CIFAR-10 as in the paper."""
    if request.scale == "small":
        digits = (*DIGITS, "partition=exdir:2,10", "local.steps=5")
        return Setting(overrides=digits, target=0.9, horizon=1500.0, rates=RATES)
    cifar = PAPER["cifar10"]
    overrides = (*COMMON, *cifar.overrides, "local.steps=5")
    return Setting(
        overrides=overrides, target=cifar.target, horizon=15_000.0, rates=(0.0316, 0.1), clients_between=10
    )


@dataclass(frozen=True)
class Result:
    """One structure at its better rate."""

    S: int
    W: int
    runs: tuple[Finished, ...]

    @property
    def times(self) -> list[float]:
        """Seconds to the target of the seeds that arrived."""
        return [run.reached for run in self.runs if run.reached is not None]

    @property
    def arrived(self) -> bool:
        """Whether all seeds did."""
        return len(self.times) == len(self.runs)


def compare_structures(request: Request, participants: int, lengths: Sequence[int] = ()) -> list[Result]:
    """Every structure S with W = floor(N0/S), at every rate with one seed, at its better one with the others."""
    here = setting(request)
    lengths = lengths or [S for S in LENGTHS if participants >= S]

    def trial(S: int, rate: float, seed: int) -> Trial:
        structure = (f"psfl.length={S}", f"psfl.width={participants // S}")
        return Trial(
            case=f"participants-{participants}-length-{S}",
            method="psfl",
            rate=rate,
            seed=seed,
            overrides=(*here.overrides, *structure, "rounds=1000000", f"every={here.every(S)}"),
            until=Until(accuracy=here.target, time=here.horizon),
        )

    with Laboratory(request) as laboratory:
        first = laboratory.carry_out([trial(S, rate, 0) for S in lengths for rate in here.rates])
        best = {
            S: min((one for one in first if one.trial.case.endswith(f"length-{S}")), key=_soonest) for S in lengths
        }
        again = laboratory.carry_out(
            [trial(S, best[S].trial.rate, seed) for S in lengths for seed in range(1, request.seeds)]
        )
    return [
        Result(S, participants // S, (best[S], *(one for one in again if one.trial.case == best[S].trial.case)))
        for S in lengths
    ]


def _soonest(one: Finished) -> float:
    return one.reached if one.reached is not None else float("inf")


def structure_rows(results: Sequence[Result], paper_best: tuple[int, int]) -> list[Row]:
    """Time to the target by structure, and which was the shortest; the paper's best is (S, W)."""
    rows = []
    participants = max(one.S for one in results)
    for one in results:
        name = f"N0={participants}, S={one.S}, W={one.W}: time to target"
        note = f"rate {one.runs[0].trial.rate:g}, {len(one.times)} of {len(one.runs)} seeds arrived"
        rows.append(Row(name, None, str(mean_interval(one.times)) if one.times else "not reached", "s", None, note))
    full = [one for one in results if one.arrived]
    if not full:
        return rows
    best = min(full, key=lambda one: mean_interval(one.times).value)
    alike = [one.S for one in full if one is best or ratio_interval(one.times, best.times).low <= 1.0]
    note = f"ok: the paper's is among those not to be told from the best at 95 %, S in {alike}"
    name = f"N0={participants}: trained optimum S"
    ok = None if len(best.runs) < ENOUGH else paper_best[0] in alike
    rows.append(Row(name, float(paper_best[0]), float(best.S), "", ok, note))
    return rows


def round_rows(results: Sequence[Result]) -> list[Row]:
    """Rounds to the target of FedAvg (S = 1) and sequential FL (W = 1), and their ratio."""
    named = {"FedAvg" if one.S == 1 else "SFL" if one.W == 1 else "PSFL": one for one in results}
    rows = [
        Row(f"{name}: rounds to target", None, str(mean_interval(rounds)), "rounds", None, f"{len(rounds)} seeds")
        for name, one in named.items()
        if (rounds := _rounds(one))
    ]
    if all(_rounds(named[name]) and named[name].arrived for name in ("FedAvg", "SFL")):
        ratio = ratio_interval(_rounds(named["FedAvg"]), _rounds(named["SFL"]))
        ok = None if len(named["SFL"].runs) < ENOUGH else ratio.low <= 4.0 <= ratio.high
        rows.append(Row("FedAvg rounds / SFL rounds", 4.0, str(ratio), "", ok, "the paper: about 4"))
    return rows


def _rounds(one: Result) -> list[float]:
    return [run.rounds for run in one.runs if run.rounds is not None]
