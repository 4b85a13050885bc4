"""PSFL (Zhou et al., INFOCOM 2025): who is most accurate at one virtual time, from finished trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from paceline.papers.claims import gap
from paceline.papers.psfl.targets import Racer
from paceline.papers.result import Row
from paceline.papers.trials import Column, Finished
from paceline.statistics import mean_interval

Levels = Mapping[str, Mapping[int, float]]
"""Accuracies by method and seed."""
LAST = 0.1
"""The share of the time over which accuracies are averaged, since single scores scatter."""


def first_arrival(racers: Sequence[Racer]) -> float | None:
    """When the first run reached its target; runs stop there, and until then all can be compared."""
    return min((run.reached for one in racers for run in one.runs if run.reached is not None), default=None)


def over_last(run: Finished, when: float, figure: Column) -> float:
    """A curve's mean over the last tenth of the time until then; NaN if the run ended before."""
    return float(np.mean([run.at(time, figure) for time in np.linspace((1 - LAST) * when, when, 21)]))


def at_time_rows(case: str, racers: Sequence[Racer], when: float) -> list[Row]:
    """Accuracy and loss of each method at its tuned rate at one virtual time, and whether PSFL is ahead."""
    rows = []
    for one in racers:
        there = [run for run in one.runs if np.isfinite(run.at(when, run.accuracy))]
        note = f"rate {one.tuned.rate:g} {one.tuned.told}; {len(there)} of {len(one.runs)} seeds"
        accuracy = mean_interval([run.at(when, run.accuracy) for run in there], within=(0, 1))
        loss = mean_interval([run.at(when, run.loss) for run in there])
        for what, ours in (("accuracy", accuracy), ("loss", loss)):
            rows.append(Row(f"{case}: {what} of {one.method} at {when:.0f} s", None, str(ours), "", None, note))
    levels = _levels(racers, lambda run: run.at(when, run.accuracy))
    return [*rows, winner_row(f"{case}: psfl most accurate at equal time", levels)]


def over_last_rows(case: str, racers: Sequence[Racer], when: float) -> list[Row]:
    """The mean accuracy of each method over the last tenth of the time, and whether PSFL is ahead."""
    levels = _levels(racers, lambda run: over_last(run, when, run.accuracy))
    span = f"from {(1 - LAST) * when:.0f} to {when:.0f} s"
    rows = [
        Row(f"{case}: accuracy of {method} {span}", None, str(mean_interval([*mine.values()], within=(0, 1))))
        for method, mine in levels.items()
    ]
    return [*rows, winner_row(f"{case}: psfl most accurate {span}", levels)]


def _levels(racers: Sequence[Racer], figure: Callable[[Finished], float]) -> dict[str, dict[int, float]]:
    """A figure by method and seed, of the runs that have it."""
    return {
        one.method: {run.trial.seed: value for run in one.runs if np.isfinite(value := figure(run))} for one in racers
    }


def winner_row(name: str, levels: Levels) -> Row:
    """Whether psfl is above both others by more than chance, seed by seed."""
    gaps = {method: gap(levels["psfl"], theirs) for method, theirs in levels.items() if method != "psfl"}
    note = "; ".join(f"psfl - {method}: {lead}" for method, lead in gaps.items())
    if any(np.isnan(lead.low) for lead in gaps.values()):
        return Row(name, "yes", "one seed cannot tell", "", None, note)
    if any(lead.high < 0 for lead in gaps.values()):
        return Row(name, "yes", "no", "", False, note)
    above = all(lead.low > 0 for lead in gaps.values())
    return Row(name, "yes", "yes" if above else "undecided", "", True if above else None, note)
