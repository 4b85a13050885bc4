"""PSFL (Zhou et al., INFOCOM 2025): is the structure that the warm-up chooses the best one?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from paceline.algorithms.structure import Structure, bounded, choose_structure
from paceline.papers.claims import ratio, shown
from paceline.papers.crossings import OVER, WAYS, Arrivals, arrived
from paceline.papers.pictures import new_figure, plain
from paceline.papers.psfl.contestants import PARTICIPANTS, Arena, Contestant, arena, choose, compete
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Finished, Laboratory, trained
from paceline.papers.tuning import EDGE, TUNING
from paceline.statistics import Interval, ratio_interval


@trained
def contest(request: Request, laboratory: Laboratory) -> Reproduction:
    """Every structure, then the runs that choose for themselves."""
    here = arena(request)
    found = compete(laboratory, here, [*here.middles], request.seeds)
    chosen = choose(laboratory, here, found, request.seeds)
    rows = contest_rows(found, chosen, here.target)
    return Reproduction(rows=rows, note=_note(here), figure=lambda: _draw(found, chosen, here.target))


def contest_rows(found: Sequence[Contestant], chosen: Sequence[Finished], target: float) -> list[Row]:
    """By structure: rates and times, ratios to S = 1 with what the bound says; then the choice and its price."""
    rows = [row for one in found for row in _time_rows(one, target)]
    rows += _ratio_rows(found, bounds_of(chosen), target)
    return [*rows, *_choice_rows(found, chosen, target)]


def _time_rows(one: Contestant, target: float) -> list[Row]:
    rows = []
    for quarter, runs in one.reported.items():
        what = f"{one.name}, rate {runs[0].trial.rate:g}" + (" (tuned)" if quarter == one.best else "")
        for way in WAYS:
            here = arrived(runs, target, way)
            note = f"{len(here.crossings)} of {here.tried} seeds arrived"
            if quarter == one.best and not one.tuned.inside:
                note += f"; {EDGE}"
            ours = shown(here.seconds, "not reached")
            rows.append(Row(f"{what}: time to target, {way}", None, ours, "s", None, note))
    return rows


def bounds_of(chosen: Sequence[Finished]) -> list[Structure]:
    """The bounds' best structure by each seed's warm-up, estimates included."""
    structures = []
    for one in chosen:
        told = {key: value for note in one.notes for key, value in note.get("figures", {}).items()}
        known = {"time_mean": told["time_mean"], "time_std": math.sqrt(told["kappa2"]), "ratio": told["ratio"]}
        structures.append(choose_structure(participants=one.trial.settings().algorithm.participants, **known))
    return structures


def predicted(structures: Sequence[Structure], S: int, base: int, part: str = "time") -> Interval:
    """What the bounds say of S relative to the base, over the seeds' warm-ups: of time, rounds or seconds."""
    return ratio_interval(
        [getattr(bounded(one, S), part) for one in structures],
        [getattr(bounded(one, base), part) for one in structures],
    )


def _ratio_rows(found: Sequence[Contestant], structures: Sequence[Structure], target: float) -> list[Row]:
    base, rows = found[0], []
    below, first_below = (arrived(base.reported[base.best], target, way) for way in WAYS)
    for one in found[1:]:
        above, first = (arrived(one.reported[one.best], target, way) for way in WAYS)
        what = f"{one.name} / {base.name}"
        for part, a, b in (
            ("time, smoothed", above.seconds, below.seconds),
            ("time, first", first.seconds, first_below.seconds),
            ("rounds", above.rounds, below.rounds),
            ("seconds of a round", _lengths(above), _lengths(below)),
        ):
            known = len(a) == len(b) == above.tried
            rows.append(Row(f"{what}: {part}", None, str(ratio(a, b)) if known else "not all arrived"))
        if structures:
            told = {part: predicted(structures, one.S, base.S, part).value for part in ("time", "rounds", "seconds")}
            note = f"rounds {told['rounds']:.3g} times seconds of a round {told['seconds']:.3g}"
            rows.append(Row(f"{what}: time by the bound", None, told["time"], "", None, note))
    return rows


def _lengths(found: Arrivals) -> dict[int, float]:
    return {seed: one.time / one.round for seed, one in found.crossings.items()}


def _choice_rows(found: Sequence[Contestant], chosen: Sequence[Finished], target: float) -> list[Row]:
    """Which structure was chosen, which was fastest, and what choosing cost."""
    pairs = [one.structure for one in chosen if one.structure is not None]
    automatic = shown(arrived(chosen, target).seconds, "not reached")
    rows = [
        Row("chosen by the warm-up, (W, S)", None, ", ".join(map(str, pairs)), "", None, f"{len(pairs)} seeds"),
        Row("automatic, warm-up included: time to target, smoothed", None, automatic, "s"),
    ]
    full = {one.S: here for one in found if (here := arrived(one.reported[one.best], target)).complete}
    if not full or not pairs:
        return rows
    best = min(full, key=lambda S: full[S].mean.value)
    against = {S: ratio(here.seconds, full[best].seconds) for S, here in full.items() if best != S}
    alike = sorted([best, *(S for S, times in against.items() if times.low <= 1.0)])
    note = "time over the fastest's: " + "; ".join(f"S={S} {times}" for S, times in against.items())
    rows.append(Row("fastest structure when trained, S", None, float(best), "", None, note))
    return [*rows, _judged(best, alike, {S for _, S in pairs}, len(chosen))]


def _judged(best: int, alike: Sequence[int], choices: set[int], seeds: int) -> Row:
    what, note = "the automatic choice is the fastest", f"not to be told from the fastest at 95 %: S in {alike}"
    if seeds < 2:
        return Row(what, "yes", "one seed cannot tell", "", None, note)
    if choices == {best}:
        return Row(what, "yes", "yes" if [*alike] == [best] else "yes, with others alike", "", True, note)
    if choices <= set(alike):
        return Row(what, "yes", "not to be told from it", "", None, note)
    return Row(what, "yes", "no", "", False, note)


def _draw(found: Sequence[Contestant], chosen: Sequence[Finished], target: float) -> Any:
    """Time relative to S = 1 over the length: as trained, with intervals, and by the bound."""
    figure = new_figure((6.5, 4), "PSFL: time to the target relative to S = 1")
    axes, structures, lengths = figure.subplots(), bounds_of(chosen), [one.S for one in found]
    times = {one.S: arrived(one.reported[one.best], target) for one in found}
    below = times[lengths[0]]
    ratios = {S: ratio(here.seconds, below.seconds) for S, here in times.items() if here.complete and below.complete}
    if ratios:
        ends = [[r.value - r.low for r in ratios.values()], [r.high - r.value for r in ratios.values()]]
        middles, label = [r.value for r in ratios.values()], "trained, each at its best rate"
        axes.errorbar([*ratios], middles, ends, fmt="o-", capsize=3, label=label)
    if structures:
        bound = [predicted(structures, S, lengths[0]).value for S in lengths]
        axes.plot(lengths, bound, "s--", color="C1", label="by the bound, from the warm-ups")
    axes.axhline(1.0, color="0.8", linewidth=0.8, zorder=0)
    axes.set_xscale("log")
    axes.set_xticks(lengths, [str(S) for S in lengths])
    axes.minorticks_off()
    axes.set(xlabel="clients in a sequence, S", ylabel="time / time of S = 1")
    axes.legend(frameon=False)
    plain(axes)
    return figure


def _note(here: Arena) -> str:
    return (
        f"Virtual seconds to {here.target:.0%} test accuracy, mean and 95 % interval over seeds (Student's t; ratios"
        " on the logarithms of pairs with the same seed: the same split, fleet and initial model). Rates are quarter"
        f" decades, chosen with seeds {', '.join(map(str, TUNING))}, which are not reported. Evaluated about every"
        f" {here.interval:g} s; 'smoothed' is where the mean of {OVER} evaluations in a row, taken at the middle of"
        " them, crosses the target, 'first' the first evaluation that does. The bound is PS-7's objective with what"
        f" each seed's warm-up estimated, W = ⌊{PARTICIPANTS}/S⌋; structures are trained without a warm-up, automatic"
        " runs with it.\n" + " ".join(here.scene.words)
    )
