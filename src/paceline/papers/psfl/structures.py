"""PSFL (Zhou et al., INFOCOM 2025): the trained halves of Figure 1, Figure 7 and Table I.

Structures are compared as they are given, without a warm-up: what is asked is which of them is fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.papers.claims import ratio, shown
from paceline.papers.crossings import Arrivals, arrivals
from paceline.papers.psfl.scenes import structured
from paceline.papers.result import Request, Row
from paceline.papers.trials import Finished, Laboratory, Trial

ENOUGH = 3
"""Seeds below which nothing is judged."""
LENGTHS = (1, 2, 3, 4, 5, 7, 10, 16, 20, 25, 50, 100, 200)


@dataclass(frozen=True)
class Result:
    """One structure at its better rate."""

    S: int
    W: int
    rate: float
    arrived: Arrivals


def compare_structures(request: Request, participants: int, lengths: Sequence[int] = ()) -> list[Result]:
    """Every structure S with W = floor(N0/S), at every rate with one seed, at its better one with the others."""
    here = structured(request)
    lengths = lengths or [S for S in LENGTHS if participants >= S]

    def trial(S: int, rate: float, seed: int) -> Trial:
        words = (f"psfl.length={S}", f"psfl.width={participants // S}", f"every={max(1, here.every // S)}")
        return here.trial(f"participants-{participants}-length-{S}", "psfl", seed, *words, rate=rate)

    with Laboratory(request) as laboratory:
        first = iter(laboratory.carry_out([trial(S, rate, 0) for S in lengths for rate in here.rates]))
        runs = {S: [min((next(first) for _ in here.rates), key=_soonest)] for S in lengths}
        trials = {S: [trial(S, runs[S][0].trial.rate, seed) for seed in range(1, request.seeds)] for S in lengths}
        again = iter(laboratory.carry_out([one for those in trials.values() for one in those]))
        for S, those in trials.items():
            runs[S] += [next(again) for _ in those]
    return [Result(S, participants // S, those[0].trial.rate, arrivals(those)) for S, those in runs.items()]


def _soonest(one: Finished) -> float:
    return math.inf if one.reached is None else one.reached


def structure_rows(results: Sequence[Result], paper_best: tuple[int, int]) -> list[Row]:
    """Time to the target by structure, and which was the shortest; the paper's best is (S, W)."""
    rows = []
    participants = max(one.S for one in results)
    for one in results:
        name = f"N0={participants}, S={one.S}, W={one.W}: time to target"
        note = f"rate {one.rate:g}, {len(one.arrived.crossings)} of {one.arrived.tried} seeds arrived"
        rows.append(Row(name, None, shown(one.arrived.seconds, "not reached"), "s", None, note))
    full = {one.S: one.arrived for one in results if one.arrived.complete}
    if not full:
        return rows
    best = min(full, key=lambda S: full[S].mean.value)
    alike = [S for S, here in full.items() if best == S or ratio(here.seconds, full[best].seconds).low <= 1.0]
    note = f"ok: the paper's is among those not to be told from the best at 95 %, S in {alike}"
    ok = None if full[best].tried < ENOUGH else paper_best[0] in alike
    return [*rows, Row(f"N0={participants}: trained optimum S", float(paper_best[0]), float(best), "", ok, note)]


def round_rows(results: Sequence[Result]) -> list[Row]:
    """Rounds to the target of FedAvg (S = 1) and sequential FL (W = 1), and their ratio."""
    named = {"FedAvg" if one.S == 1 else "SFL" if one.W == 1 else "PSFL": one.arrived for one in results}
    rows = [
        Row(f"{name}: rounds to target", None, shown(one.rounds), "rounds", None, f"{len(one.rounds)} seeds")
        for name, one in named.items()
        if one.crossings
    ]
    fedavg, sfl = named["FedAvg"], named["SFL"]
    if fedavg.complete and sfl.complete:
        found = ratio(fedavg.rounds, sfl.rounds)
        ok = None if sfl.tried < ENOUGH else found.low <= 4.0 <= found.high
        rows.append(Row("FedAvg rounds / SFL rounds", 4.0, str(found), "", ok, "the paper: about 4"))
    return rows
