"""DA-DPFL (TNNLS): the figures with training, 5, 6 and 7: more neighbours, long runs, and how many are waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from paceline.papers.claims import (
    Claim,
    Runs,
    above,
    ahead,
    best,
    between,
    by_seed,
    gap,
    percentage,
    ratio,
    shown,
)
from paceline.papers.crossings import EARLY, WAYS, arrived, evenly_spaced
from paceline.papers.dadpfl.printed import FIGURE_6, FIGURE_7
from paceline.papers.dadpfl.scores import draw_both, pruning_rows
from paceline.papers.dadpfl.setups import Setup, setups
from paceline.papers.dadpfl.trained import NO_WORSE, NO_WORSE_NOTE, NOTE, draw, judged, per_round, zeros
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Finished, Laboratory, trained
from paceline.statistics import mean_interval

# -- Figure 5 -------------------------------------------------------------------------------------------------------

NEIGHBOURS = (5, 10, 20)
MORE = (10, 20)
"""The two that the paper compares."""


@trained
def fig5(request: Request, laboratory: Laboratory) -> Reproduction:
    """DA-T4: score and sparsity over rounds; more neighbours M, all of which may be waited for."""
    rows, panels = list[Row](), dict[str, Runs]()
    for setup in setups(request):
        words = {M: (*setup.linked("random", M), f"da-dpfl.wait={M}") for M in NEIGHBOURS}
        variants = setup.ladder("M", words)
        runs = panels[setup.data] = setup.ablate(laboratory, request.seeds, variants)
        times = {name: by_seed(those, per_round("time")) for name, those in runs.items()}
        rows += pruning_rows(setup.data, runs[f"M = {setup.degree}"], setup.threshold)
        rows += _fig5_rows(setup.data, runs, times)
    own = {setup.data: panels[setup.data][f"M = {setup.degree}"] for setup in setups(request)}
    return Reproduction(rows=rows, note=f"{NOTE} {FIG5_NOTE}", figure=lambda: draw_both(own, panels))


def _fig5_rows(data: str, runs: Runs, times: Mapping[str, Mapping[int, float]]) -> list[Row]:
    rows = []
    for name, those in runs.items():
        case = f"{data}, {name.replace('=', '= N =')}"
        rows += [
            Row(f"{case}: accuracy", None, percentage(by_seed(those, best)), "%"),
            Row(f"{case}: time", None, shown(times[name]), "s a round"),
        ]
    few, many = (f"M = {M}" for M in MORE)
    claim = Claim(many, few, "slightly above", NO_WORSE, note=NO_WORSE_NOTE)
    longer = ratio(times[many], times[few])
    name, ok = f"{data}: time of {many} / {few}", between(longer, 1.5, 2.5)
    return [*rows, *judged(data, runs, best, [claim]), Row(name, "about 2", str(longer), "", ok, "ok: 1.5 to 2.5")]


# -- Figure 6 -------------------------------------------------------------------------------------------------------

SHORT: dict[str, Any] = {"clients": 20, "degree": 5, "batch": 24, "rounds": 24}
"""At the small scale, where fifty runs of 100 clients and twice the rounds would take half an hour."""
FIXED = "never pruned"
"""The paper's *: half of the weights throughout."""
STEPS = (0.5, 1.0, 1.5)
"""Thresholds of the vote, relative to the setup's: the paper's 0.01, 0.02 and 0.03."""


@trained
def fig6(request: Request, laboratory: Laboratory) -> Reproduction:
    """DA-T4: twice the rounds, pruning to 80 % zeros by several thresholds or never; DisPFL has 80 % at first."""
    rows, panels = list[Row](), dict[str, Runs]()
    for setup, split in product(setups(request, ("cifar10",)), ("dir", "pat")):
        long = replace(setup, **SHORT) if request.scale == "small" else replace(setup, rounds=2 * setup.rounds)
        levels = [setup.threshold * step for step in STEPS]
        words = {
            f"threshold {level:g}": (f"long-{level:g}", f"da-dpfl.pruning.threshold={level:g}") for level in levels
        }
        words[FIXED] = ("long-fixed", "da-dpfl.pruning.target=0")
        variants = [long.variant(name, *more, split=split, method="da-dpfl") for name, more in words.items()]
        dense = f"dispfl.sparsity={setup.stop:g}"
        variants.append(long.variant("dispfl", "long", dense, split=split, method="dispfl"))
        runs = long.ablate(laboratory, request.seeds, variants)
        panels[f"{setup.data}, {split.title()}"] = runs
        rows += _fig6_rows(long, split, runs)
    return Reproduction(rows=rows, note=f"{NOTE} {FIG6_NOTE}", figure=lambda: draw(panels, "Figure 6"))


def _fig6_rows(setup: Setup, split: str, runs: Runs) -> list[Row]:
    data = f"{setup.data}, {split.title()}"
    paper = FIGURE_6 if (setup.data, split) == ("cifar10", "dir") else {}
    rows, ours = list[Row](), {name: one for name, one in runs.items() if name.startswith("threshold")}
    for name, one in ours.items():
        rows.append(Row(f"{data}, {name}: accuracy", paper.get("da-dpfl"), percentage(by_seed(one, best)), "%"))
        rows.append(Row(f"{data}, {name}: sparsity", None, shown(by_seed(one, zeros)), "zeros"))
        rows.append(_first_row(f"{data}, {name}: first pruning", one, setup.rounds))
    rows.append(Row(f"{data}, {FIXED}: accuracy", None, percentage(by_seed(runs[FIXED], best)), "%"))
    rows.append(Row(f"{data}, {FIXED}: sparsity", None, shown(by_seed(runs[FIXED], zeros)), "zeros"))
    rows.append(Row(f"{data}, dispfl: accuracy", paper.get("dispfl"), percentage(by_seed(runs["dispfl"], best)), "%"))
    least, *larger = sorted(ours, key=lambda name: float(name.split()[1]))
    gain = paper["da-dpfl"] - paper["dispfl"] if paper else None
    better, range_ = _top(runs, larger), "the paper: 0.02 to 0.03 of 0.01 to 0.03"
    claims = [
        ahead(_top(runs, ours), "dispfl", gain, note="the threshold is chosen on the same seeds"),
        ahead(better, least, name=f"{better} - the least threshold", note=range_),
        Claim(
            _top(runs, ours),
            FIXED,
            "no worse",
            NO_WORSE,
            note=f"{NO_WORSE_NOTE}; pruned on the way to {setup.stop:g} zeros",
        ),
    ]
    return [*rows, *judged(data, runs, best, claims)]


def _top(runs: Runs, names: Sequence[str] | Mapping[str, object]) -> str:
    """The one with the best mean accuracy."""
    return max(names, key=lambda name: mean_interval([*by_seed(runs[name], best).values()]).value)


def _first_row(name: str, runs: Sequence[Finished], rounds: int) -> Row:
    """t* as a share of all rounds."""
    firsts = [note["figures"]["first"] / rounds for run in runs for note in run.notes if "first" in note["figures"]]
    ours = str(mean_interval(firsts)) if firsts else "never"
    return Row(name, "0.3 to 0.4", ours, "of all rounds", None, f"{len(firsts)} of {len(runs)} seeds voted for it")


# -- Figure 7 -------------------------------------------------------------------------------------------------------

WAITS = (0, 1, 2, 5, 10)


@trained
def fig7(request: Request, laboratory: Laboratory) -> Reproduction:
    """DA-T4: how many neighbours are waited for."""
    rows, panels = list[Row](), dict[str, Runs]()
    for setup in setups(request):
        variants = setup.ladder("N", {N: (f"da-dpfl.wait={N}",) for N in WAITS})
        variants.append(setup.variant("dispfl", method="dispfl"))
        runs = panels[setup.data] = setup.ablate(laboratory, request.seeds, variants)
        times = {name: by_seed(those, per_round("time")) for name, those in runs.items()}
        rows += _fig7_rows(setup, runs, times)
    return Reproduction(rows=rows, note=f"{NOTE} {FIG7_NOTE}", figure=lambda: draw(panels, "Figure 7"))


def _fig7_rows(setup: Setup, runs: Runs, times: Mapping[str, Mapping[int, float]]) -> list[Row]:
    data, every = setup.data, f"N = {WAITS[-1]}"
    both = {every: runs[every], "N = 0": runs["N = 0"]}
    longer = [
        arrivals_row(
            f"{data}: {every} - N = 0, rounds to {100 * target:g} %, {way}", runs[every], runs["N = 0"], target, way
        )
        for target in setup.targets
        for way in WAYS
    ]
    longer += [row for target in setup.targets for row in time_rows(data, both, target)]
    return [
        *(Row(f"{data}, {name}: accuracy", None, percentage(by_seed(one, best)), "%") for name, one in runs.items()),
        *judged(data, runs, best, [ahead(every, "N = 0", FIGURE_7.get(data))]),
        *longer,
        *(Row(f"{data}, {name}: time", None, shown(one), "s a round") for name, one in times.items()),
        Row(f"{data}: time of {every} / N = 0", None, str(ratio(times[every], times["N = 0"])), "times", None, COST),
        *judged(data, runs, best, [ahead("N = 0", "dispfl")]),
    ]


def arrivals_row(
    name: str, one: Sequence[Finished], other: Sequence[Finished], target: float, way: str = "first"
) -> Row:
    """Rounds to a target of two settings, pair by pair; ok if the first needs fewer for certain."""
    tried = [arrived(runs, target, way) for runs in (one, other)]
    mine, theirs = (found.rounds for found in tried)
    counts, both = [found.tried for found in tried], len(set(mine) & set(theirs))
    note = f"rounds to {100 * target:g} %; {len(mine)} of {counts[0]} seeds arrived, and {len(theirs)} of {counts[1]}"
    if not both:
        return Row(name, "fewer", "no seed has both", "rounds", None, note)
    saved = gap(theirs, mine)
    fewer = -saved
    return Row(name, "fewer", str(fewer), "rounds", above(saved) if [both] * 2 == counts else None, note)


def time_rows(data: str, both: Runs, target: float) -> list[Row]:
    """Virtual seconds to a target, both scored at like intervals, smoothed and first; the paper has no such row."""
    (every, _), (runs, interval) = both, evenly_spaced(both)
    rows = []
    for way in WAYS:
        mine, other = (arrived(those, target, way) for those in runs.values())
        known = set(mine.seconds) & set(other.seconds)
        ours = str(ratio(mine.seconds, other.seconds)) if known else "no seed has both"
        counts = f"{len(mine.crossings)} and {len(other.crossings)} of {mine.tried} seeds arrived"
        early = f"; {EARLY}" if mine.early or other.early else ""
        name = f"{data}: time of {every} / N = 0 to {100 * target:g} %, {way}"
        rows.append(Row(name, None, ours, "times", None, f"scored every {interval:.3g} s; {counts}{early}"))
    return rows


COST = "what the accuracy above costs: whoever waits for more neighbours has longer rounds"
FIG5_NOTE = (
    "N = M; the paper's delay is compared with a whole round's time, transfers included. The score is how much a"
    " client's distance from its start changed in a round, relative to that of the first round (Eq. 4), on average;"
    " it is measured until enough clients vote for pruning."
)
FIG6_NOTE = (
    "Twice the rounds of Table I, in both splits; at the small scale 24 rounds of 20 clients. DA-DPFL begins with"
    " half of the weights, DisPFL has the target's share of zeros from the start. Thresholds are half,"
    " once and one and a half times the scene's."
)
FIG7_NOTE = "At the small scale clients have two classes each, elsewhere the split is Dir."
