"""PSFL (Zhou et al., INFOCOM 2025): who is most accurate at one virtual time, from finished trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from paceline.papers.claims import gap
from paceline.papers.crossings import Arrivals, arrivals
from paceline.papers.result import Row
from paceline.papers.trials import Finished
from paceline.statistics import mean_interval

Place = tuple[str, float]
"""A method and a rate."""
Tried = Mapping[Place, Sequence[Finished]]


def _best(arrived: Mapping[Place, Arrivals], method: str) -> Place | None:
    """The rate with the shortest mean time among those at which every seed arrived."""
    full = [place for place, one in arrived.items() if place[0] == method and one.complete]
    return min(full, key=lambda place: arrived[place].mean.value, default=None)


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
        note = f"rate {rate:g}{_edge(rate, [r for m, r in tried if m == method])}, {len(there)} of {len(runs)} seeds"
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
