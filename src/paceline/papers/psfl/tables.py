"""Rows of PSFL's trained figures from finished trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from paceline.papers.claims import gap, ratio
from paceline.papers.crossings import Arrivals, arrivals
from paceline.papers.result import Row
from paceline.papers.trials import Finished
from paceline.statistics import Interval, mean_interval

LESS = 0.67
"""The paper's "approximately 33 % less time" as a ratio of times."""
Place = tuple[str, float]
"""A method and a rate."""
Tried = Mapping[Place, Sequence[Finished]]


def case_rows(case: str, tried: Tried, horizon: float | None) -> list[Row]:
    """Time to the target at every rate, shared; then with each method's best rate; then the ratios."""
    arrived = {place: arrivals(runs) for place, runs in tried.items()}
    names = list(dict.fromkeys(method for method, _ in tried))
    rivals = [method for method in names if method != "psfl"]
    rows = [_structure_row(case, [run for runs in tried.values() for run in runs])]
    for rate in dict.fromkeys(rate for _, rate in tried):
        rows += [_time_row(case, (m, rate), arrived[m, rate], tried[m, rate], horizon) for m in names]
        rows += [_ratio_row(f"{case}, all at rate {rate:g}", arrived, ("psfl", rate), (m, rate)) for m in rivals]
    best = {method: _best(arrived, method) for method in names}
    for rival in rivals:
        mine, other = best["psfl"], best[rival]
        if mine is not None and other is not None:
            rows.append(_ratio_row(f"{case}, each at its best rate", arrived, mine, other))
    return rows


def _best(arrived: Mapping[Place, Arrivals], method: str) -> Place | None:
    """The rate with the shortest mean time among those at which every seed arrived."""
    full = [place for place, one in arrived.items() if place[0] == method and one.complete]
    return min(full, key=lambda place: arrived[place].mean.value, default=None)


def _structure_row(case: str, runs: Sequence[Finished]) -> Row:
    chosen = [run.structure for run in runs if run.structure is not None]
    counts = {pair: chosen.count(pair) for pair in sorted(set(chosen))}
    text = ", ".join(f"W={w} S={s} ({n} runs)" for (w, s), n in counts.items())
    ratios = [note["figures"]["ratio"] for run in runs for note in run.notes if "ratio" in note.get("figures", {})]
    note = f"α/β estimated by the warm-ups: {min(ratios):.3g} to {max(ratios):.3g}" if ratios else ""
    return Row(f"{case}: structure", None, text or None, "", None, note)


def _time_row(case: str, place: Place, one: Arrivals, runs: Sequence[Finished], horizon: float | None) -> Row:
    name = f"{case}, rate {place[1]:g}: {place[0]}"
    if not one.crossings:
        why = "diverged" if any("Diverged" in run.status for run in runs) else f"not within {horizon:g} s"
        return Row(name, None, why, "s", None, f"{one.tried} seed" + "s" * (one.tried > 1))
    note = "" if one.complete else f"{len(one.crossings)} of {one.tried} seeds arrived"
    return Row(name, None, str(one.mean), "s", None, note)


def _ratio_row(what: str, arrived: Mapping[Place, Arrivals], ours: Place, theirs: Place) -> Row:
    mine, other = arrived[ours], arrived[theirs]
    name = f"{what}: time of psfl / {theirs[0]}"
    seeds = len(set(mine.seconds) & set(other.seconds))
    if not seeds:
        return Row(name, LESS, _one_sided(mine, other, theirs[0]), "", None)
    found = ratio(mine.seconds, other.seconds)
    note = f"{seeds} seed{'s' * (seeds > 1)}; rates {ours[1]:g} and {theirs[1]:g}"
    if not (mine.complete and other.complete):
        return Row(name, LESS, str(found), "", None, f"{note}; of seeds in which both arrived")
    return Row(name, LESS, str(found), "", _agrees(found), note)


def _agrees(found: Interval) -> bool | None:
    """Yes if less time is needed for certain, and a third less is possible; no if that is not; else nobody knows."""
    if found.low > LESS:
        return False
    return True if found.high < 1.0 else None


def _one_sided(mine: Arrivals, other: Arrivals, rival: str) -> str:
    if mine.crossings:
        return f"only psfl arrived (not {rival})"
    return f"only {rival} arrived (not psfl)" if other.crossings else "neither arrived"


# -- at equal time --------------------------------------------------------------------------------------------------


def at_best_rate(tried: Tried, method: str) -> Sequence[Finished]:
    """The seeds of a method at the rate that served it best."""
    mine = {place: runs for place, runs in tried.items() if place[0] == method}
    winner = _best({place: arrivals(runs) for place, runs in mine.items()}, method)
    return mine[winner] if winner else max(mine.values(), key=_last)


def _last(runs: Sequence[Finished]) -> float:
    finals = [run.accuracy[-1] for run in runs if len(run.accuracy) and run.status == "done"]
    return float(np.mean(finals)) if finals else -1.0


def equal_time_rows(case: str, tried: Tried, at: float | None = None) -> list[Row]:
    """Accuracy and loss of each method, at its best rate, at one virtual time.

    The time is given, or that of the first run to reach the target.
    """
    best = {method: at_best_rate(tried, method) for method, _ in tried}
    # Runs stop at the target: until the first of them does, all are still there to be compared.
    reached = [run.reached for runs in best.values() for run in runs if run.reached is not None]
    when = min(reached, default=None) if at is None else at
    if when is None:
        return []
    rows, levels = [], {}
    for method, runs in best.items():
        there = [run for run in runs if np.isfinite(run.at(when, run.accuracy))]
        levels[method] = {run.trial.seed: run.at(when, run.accuracy) for run in there}
        loss = mean_interval([run.at(when, run.loss) for run in there])
        rate = runs[0].trial.rate
        note = f"rate {rate:g}{_edge(rate, [r for _, r in tried])}, {len(there)} of {len(runs)} seeds"
        for what, ours in (("accuracy", mean_interval([*levels[method].values()], within=(0, 1))), ("loss", loss)):
            rows.append(Row(f"{case}: {what} of {method} at {when:.0f} s", None, str(ours), "", None, note))
    return [*rows, _winner_row(f"{case}: psfl most accurate at equal time", levels)]


def _edge(rate: float, rates: Sequence[float]) -> str:
    """A word of warning: beyond the end of the grid there may be a better rate."""
    return ", an end of the grid" if min(rates) < max(rates) and rate in (min(rates), max(rates)) else ""


def _winner_row(name: str, levels: Mapping[str, Mapping[int, float]]) -> Row:
    """Whether psfl is above both others by more than chance, seed by seed."""
    gaps = {method: gap(levels["psfl"], theirs) for method, theirs in levels.items() if method != "psfl"}
    note = "; ".join(f"psfl - {method}: {lead}" for method, lead in gaps.items())
    if any(np.isnan(lead.low) for lead in gaps.values()):
        return Row(name, "yes", "one seed cannot tell", "", None, note)
    if any(lead.high < 0 for lead in gaps.values()):
        return Row(name, "yes", "no", "", False, note)
    above = all(lead.low > 0 for lead in gaps.values())
    return Row(name, "yes", "yes" if above else "undecided", "", True if above else None, note)
