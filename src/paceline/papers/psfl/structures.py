"""PSFL (Zhou et al., INFOCOM 2025): the trained halves of Figure 1, Figure 7 and Table I.

Structures are compared as they are given, without a warm-up: what is asked is which of them is fastest, each at its
own tuned rate (``contestants``). For 20 participants they are psfl-structures' own runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.papers.claims import ratio, shown
from paceline.papers.crossings import WAYS, Arrivals, arrived
from paceline.papers.psfl.contestants import PARTICIPANTS, Contestant, arena, compete
from paceline.papers.result import Request, Row
from paceline.papers.trials import Laboratory
from paceline.statistics import Interval

ENOUGH = 3
"""Seeds below which nothing is judged."""
LENGTHS = (1, 2, 3, 4, 5, 7, 10, 16, 20, 25, 50, 100, 200)
FEW = {10: (1, 2, 3), 20: (1, 2, 4), 9: (1, 3, 9)}
"""At the small scale: the lengths whose rounds are short beside the time to the target."""


def compare_structures(
    request: Request, participants: int, lengths: Sequence[int] = ()
) -> tuple[list[Contestant], float]:
    """Structures S with W = floor(N0/S), each at its tuned rate with all seeds; and the accuracy that is aimed at."""
    small = request.scale == "small"
    usual = () if participants == PARTICIPANTS else [S for S in LENGTHS if participants >= S]
    here = arena(request, participants, lengths or (FEW[participants] if small else usual))
    with Laboratory(request) as laboratory:
        return compete(laboratory, here, [*here.middles], request.seeds, neighbours=0), here.target


def structure_rows(found: Sequence[Contestant], target: float, paper_best: tuple[int, int]) -> list[Row]:
    """Time to the target by structure, smoothed and first, and which was the shortest; the paper's best is (S, W)."""
    rows, participants = [], found[0].participants
    for one in found:
        for way in WAYS:
            here = arrived(one.runs, target, way)
            name = f"N0={participants}, {one.name}: time to target, {way}"
            note = f"rate {one.tuned.rate:g} {one.tuned.told}; {len(here.crossings)} of {here.tried} seeds arrived"
            rows.append(Row(name, None, shown(here.seconds, "not reached"), "s", None, note))
    return [*rows, *(row for way in WAYS for row in _optimum_rows(found, target, way, paper_best))]


def _optimum_rows(found: Sequence[Contestant], target: float, way: str, paper_best: tuple[int, int]) -> list[Row]:
    full = {one.S: here for one in found if (here := arrived(one.runs, target, way)).complete}
    if not full:
        return []
    best = min(full, key=lambda S: full[S].mean.value)
    alike = [S for S, here in full.items() if best == S or ratio(here.seconds, full[best].seconds).low <= 1.0]
    note = f"ok: the paper's is among those not to be told from the best at 95 %, S in {alike}"
    tried = {one.S for one in found}
    ok = None if full[best].tried < ENOUGH or paper_best[0] not in tried else paper_best[0] in alike
    name = f"N0={found[0].participants}: trained optimum S, {way}"
    return [Row(name, float(paper_best[0]), float(best), "", ok, note)]


def mean_times(found: Sequence[Contestant], target: float) -> dict[int, Interval]:
    """The smoothed time to the target by length, of structures whose seeds all arrived."""
    times = {one.S: arrived(one.runs, target) for one in found}
    return {S: here.mean for S, here in times.items() if here.complete}


def round_rows(found: Sequence[Contestant], target: float) -> list[Row]:
    """Rounds to the target of FedAvg (S = 1) and sequential FL (W = 1), and their ratio."""
    rows = []
    for way in WAYS:
        named = {_mode(one): arrived(one.runs, target, way) for one in found}
        for (name, here), one in zip(named.items(), found, strict=True):
            note = f"rate {one.tuned.rate:g} {one.tuned.told}; {len(here.rounds)} of {here.tried} seeds arrived"
            ours = shown(here.rounds, "not reached")
            rows.append(Row(f"{name}: rounds to target, {way}", None, ours, "rounds", None, note))
        rows += _four_times(named, way)
    return rows


def _mode(one: Contestant) -> str:
    return "FedAvg" if one.S == 1 else "SFL" if one.W == 1 else "PSFL"


def _four_times(named: dict[str, Arrivals], way: str) -> list[Row]:
    fedavg, sfl = named["FedAvg"], named["SFL"]
    if not (fedavg.complete and sfl.complete):
        return []
    found = ratio(fedavg.rounds, sfl.rounds)
    ok = None if sfl.tried < ENOUGH else found.low <= 4.0 <= found.high
    return [Row(f"FedAvg rounds / SFL rounds, {way}", 4.0, str(found), "", ok, "the paper: about 4")]
