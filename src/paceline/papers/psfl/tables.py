"""Rows of PSFL's trained figures from finished trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Row
from paceline.papers.trials import Finished
from paceline.statistics import Interval, mean_interval, ratio_interval

LESS = 0.67
"""The paper's "approximately 33 % less time" as a ratio of times."""


@dataclass(frozen=True)
class Finding:
    """A finished trial, with short ways to ask."""

    finished: Finished

    @property
    def key(self) -> tuple[str, float]:
        """Method and rate."""
        return self.finished.trial.method, self.finished.trial.rate


@dataclass(frozen=True)
class Arrivals:
    """The seeds of one method at one rate."""

    method: str
    rate: float
    times: dict[int, float]
    """Seconds to the target by seed, of those that arrived."""
    tried: int
    diverged: int

    @property
    def all_arrived(self) -> bool:
        """Whether every seed reached the target."""
        return len(self.times) == self.tried and self.tried > 0

    @property
    def mean(self) -> Interval:
        """Over the seeds that arrived."""
        return mean_interval([*self.times.values()])


def case_rows(
    case: str, found: Sequence[Finding], methods: Sequence[str], rates: Sequence[float], horizon: float
) -> list[Row]:
    """Time to the target at every rate, shared; then with each method's best rate; then the ratios."""
    arrived = {
        (method, rate): _arrivals(method, rate, [f.finished for f in found if f.key == (method, rate)])
        for method in methods
        for rate in rates
    }
    rows = [_structure_row(case, found)]
    for rate in rates:
        rows += [_time_row(case, arrived[method, rate], horizon) for method in methods]
        rows += [
            _ratio_row(f"{case}, all at rate {rate:g}", arrived["psfl", rate], arrived[rival, rate])
            for rival in methods
            if rival != "psfl"
        ]
    best = {method: _best([arrived[method, rate] for rate in rates]) for method in methods}
    for rival in methods:
        mine, other = best["psfl"], best[rival]
        if rival != "psfl" and mine is not None and other is not None:
            rows.append(_ratio_row(f"{case}, each at its best rate", mine, other))
    return rows


def _arrivals(method: str, rate: float, runs: Sequence[Finished]) -> Arrivals:
    times = {run.trial.seed: run.reached for run in runs if run.reached is not None}
    return Arrivals(method, rate, times, len(runs), sum("Diverged" in run.status for run in runs))


def _best(candidates: Sequence[Arrivals]) -> Arrivals | None:
    """The rate with the shortest mean time among those at which every seed arrived."""
    full = [one for one in candidates if one.all_arrived]
    return min(full, key=lambda one: one.mean.value, default=None)


def _structure_row(case: str, found: Sequence[Finding]) -> Row:
    chosen = [f.finished.structure for f in found if f.finished.structure is not None]
    counts = {pair: chosen.count(pair) for pair in sorted(set(chosen))}
    text = ", ".join(f"W={w} S={s} ({n} runs)" for (w, s), n in counts.items())
    ratios = [n["figures"]["ratio"] for f in found for n in f.finished.notes if "ratio" in n.get("figures", {})]
    note = f"α/β estimated by the warm-ups: {min(ratios):.3g} to {max(ratios):.3g}" if ratios else ""
    return Row(f"{case}: structure", None, text or None, "", None, note)


def _time_row(case: str, arrivals: Arrivals, horizon: float) -> Row:
    name = f"{case}, rate {arrivals.rate:g}: {arrivals.method}"
    if not arrivals.times:
        why = "diverged" if arrivals.diverged else f"not within {horizon:g} s"
        return Row(name, None, why, "s", None, f"{arrivals.tried} seed" + "s" * (arrivals.tried > 1))
    note = "" if arrivals.all_arrived else f"{len(arrivals.times)} of {arrivals.tried} seeds arrived"
    return Row(name, None, str(arrivals.mean), "s", None, note)


def _ratio_row(what: str, mine: Arrivals, other: Arrivals) -> Row:
    name = f"{what}: time of psfl / {other.method}"
    seeds = sorted(set(mine.times) & set(other.times))
    if not seeds:
        return Row(name, LESS, _one_sided(mine, other), "", None)
    ratio = ratio_interval([mine.times[s] for s in seeds], [other.times[s] for s in seeds])
    note = f"{len(seeds)} seed{'s' * (len(seeds) > 1)}; rates {mine.rate:g} and {other.rate:g}"
    if not (mine.all_arrived and other.all_arrived):
        return Row(name, LESS, str(ratio), "", None, f"{note}; of seeds in which both arrived")
    return Row(name, LESS, str(ratio), "", _agrees(ratio), note)


def _agrees(ratio: Interval) -> bool | None:
    """Yes if less time is needed for certain, and a third less is possible; no if that is not; else nobody knows."""
    if ratio.low > LESS:
        return False
    return True if ratio.high < 1.0 else None


def _one_sided(mine: Arrivals, other: Arrivals) -> str:
    if mine.times:
        return f"only psfl arrived (not {other.method})"
    return f"only {other.method} arrived (not psfl)" if other.times else "neither arrived"


def at_best_rate(found: Sequence[Finding], method: str, rates: Sequence[float]) -> list[Finished]:
    """The seeds of a method at the rate that served it best."""
    by_rate = [[f.finished for f in found if f.key == (method, rate)] for rate in rates]
    winner = _best([_arrivals(method, rate, runs) for rate, runs in zip(rates, by_rate, strict=True)])
    return by_rate[rates.index(winner.rate)] if winner else max(by_rate, key=_last)


def equal_time_rows(
    case: str, found: Sequence[Finding], methods: Sequence[str], rates: Sequence[float], at: float | None = None
) -> list[Row]:
    """Accuracy and loss of each method, at its best rate, at one virtual time.

    The time is given, or that of the first run to reach the target.
    """
    best = {method: at_best_rate(found, method, rates) for method in methods}
    # Runs stop at the target: until the first of them does, all are still there to be compared.
    arrivals = [run.reached for runs in best.values() for run in runs if run.reached is not None]
    when = min(arrivals, default=None) if at is None else at
    if when is None:
        return []
    rows, levels = [], {}
    for method, runs in best.items():
        there = [run for run in runs if np.isfinite(run.at(when, run.accuracy))]
        levels[method] = {run.trial.seed: run.at(when, run.accuracy) for run in there}
        accuracy = mean_interval([*levels[method].values()])
        loss = mean_interval([run.at(when, run.loss) for run in there])
        rate = runs[0].trial.rate
        note = f"rate {rate:g}{_edge(rate, rates)}, {len(there)} of {len(runs)} seeds"
        rows.append(Row(f"{case}: accuracy of {method} at {when:.0f} s", None, str(accuracy), "", None, note))
        rows.append(Row(f"{case}: loss of {method} at {when:.0f} s", None, str(loss), "", None, note))
    return [*rows, _winner_row(f"{case}: psfl most accurate at equal time", levels)]


def _winner_row(name: str, levels: dict[str, dict[int, float]]) -> Row:
    """Whether psfl is above both others by more than chance, seed by seed."""
    mine, gaps = levels["psfl"], {}
    for method, theirs in levels.items():
        if method != "psfl":
            gaps[method] = mean_interval([mine[seed] - theirs[seed] for seed in sorted(set(mine) & set(theirs))])
    note = "; ".join(f"psfl - {method}: {gap}" for method, gap in gaps.items())
    if any(np.isnan(gap.low) for gap in gaps.values()):
        return Row(name, "yes", "one seed cannot tell", "", None, note)
    if any(gap.high < 0 for gap in gaps.values()):
        return Row(name, "yes", "no", "", False, note)
    above = all(gap.low > 0 for gap in gaps.values())
    return Row(name, "yes", "yes" if above else "undecided", "", True if above else None, note)


def _edge(rate: float, rates: Sequence[float]) -> str:
    """A word of warning: beyond the end of the grid there may be a better rate."""
    return ", an end of the grid" if len(rates) > 1 and rate in (rates[0], rates[-1]) else ""


def _last(runs: Sequence[Finished]) -> float:
    finals = [run.accuracy[-1] for run in runs if len(run.accuracy) and run.status == "done"]
    return float(np.mean(finals)) if finals else -1.0


def draw_curves(panels: dict[str, dict[str, list[Finished]]], title: str) -> Any:
    """Accuracy over virtual time: a panel per case, a colour per method, a line per seed."""
    figure = new_figure((5.2 * len(panels), 4.0), title)
    axes = np.atleast_1d(figure.subplots(1, len(panels), sharey=True))
    for ax, (case, methods) in zip(axes, panels.items(), strict=True):
        for place, (method, runs) in enumerate(methods.items()):
            for k, run in enumerate(runs):
                label = f"{method}, rate {run.trial.rate:g}" if k == 0 else None
                ax.plot(run.time, run.accuracy, color=f"C{place}", linewidth=0.8, alpha=0.8, label=label)
        ax.set_title(case, loc="left", fontsize=10)
        ax.set_xlabel("virtual time / s")
        ax.legend(frameon=False, loc="lower right")
        plain(ax)
    axes[0].set_ylabel("test accuracy")
    return figure
