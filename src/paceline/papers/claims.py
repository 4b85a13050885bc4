"""What a paper prints and claims beside what runs gave: intervals over seeds, and verdicts that they allow.

A figure is a number of one run, such as its best accuracy. Runs that diverged have none. Two sides are compared in
pairs with the same seed, and a claim is true or false where the interval over the pairs decides, and open elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.papers.result import Cell, Row
from paceline.papers.trials import Column, Finished
from paceline.statistics import Interval, mean_interval, ratio_interval

Figure = Callable[[Finished], float]
Seeds = Mapping[int, float]
"""A figure by seed."""
Runs = Mapping[str, Sequence[Finished]]
"""Runs by the name of their method or variant."""
Verdict = Callable[[Interval], bool | None]


# -- figures --------------------------------------------------------------------------------------------------------


def late(values: Column) -> float:
    """The mean of the last tenth of the measurements, since single rounds scatter; below all where there is none."""
    return float(values[-max(1, len(values) // 10) :].mean()) if len(values) else -1.0


def whole(values: Column) -> float:
    """The mean over all measurements: the larger, the faster the convergence."""
    return float(values.mean()) if len(values) else -1.0


def percent(of: Callable[[Column], float], measure: str = "accuracy") -> Figure:
    """The figure that makes one number of a curve, in percent."""
    return lambda run: 100 * of(run.columns[measure])


final = percent(late)
"""The mean accuracy of the last tenth of the measurements in percent."""


def best(run: Finished) -> float:
    """The best accuracy of a run in percent."""
    return 100 * float(np.max(run.accuracy))


def first_round(run: Finished, target: float, measure: str = "accuracy") -> float:
    """The first measured round at a target; infinite if it never came."""
    met = run.columns["round"][run.columns[measure] >= target] if measure in run.columns else np.empty(0)
    return float(met[0]) if len(met) else math.inf


# -- over seeds -----------------------------------------------------------------------------------------------------


def by_seed(runs: Sequence[Finished], figure: Figure) -> dict[int, float]:
    """A figure of each run that did not diverge."""
    return {run.trial.seed: figure(run) for run in runs if run.status == "done" and len(run.accuracy)}


def shown(values: Seeds, nothing: str = "diverged", most: float = math.inf) -> str:
    """The mean of figures that cannot be negative with its interval, or that nothing is left to average."""
    return str(mean_interval([*values.values()], within=(0.0, most))) if values else nothing


def percentage(values: Seeds, nothing: str = "diverged") -> str:
    """The same of percentages, which are at most 100."""
    return shown(values, nothing, most=100.0)


def paired(one: Seeds, other: Seeds) -> tuple[list[float], list[float]]:
    """The values of the seeds that both have, in the same order."""
    both = sorted(set(one) & set(other))
    return [one[seed] for seed in both], [other[seed] for seed in both]


def gap(one: Seeds, other: Seeds) -> Interval:
    """The mean difference over the seeds that both have."""
    return mean_interval([a - b for a, b in zip(*paired(one, other), strict=True)])


def ratio(one: Seeds, other: Seeds) -> Interval:
    """The geometric mean of the ratios over the seeds that both have."""
    return ratio_interval(*paired(one, other))


# -- verdicts -------------------------------------------------------------------------------------------------------


def above(interval: Interval, level: float = 0.0) -> bool | None:
    """Whether a value lies above a level; None where its interval does not tell, as that of a few seeds that tie."""
    if not interval.tells:
        return None
    if interval.low > level:
        return True
    return False if interval.high < level else None


def below(interval: Interval, level: float = 0.0) -> bool | None:
    """Whether a value lies below a level; None where its interval does not tell."""
    return above(-interval, -level)


def between(interval: Interval, low: float, high: float) -> bool | None:
    """Whether a value lies between two levels; None where its interval does not tell."""
    return all_of([above(interval, low), below(interval, high)])


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """One contradiction refutes; one doubt leaves it open."""
    known = list(verdicts)
    if False in known:
        return False
    return None if None in known else True


# -- claims ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """What a paper says of the difference between two methods or variants."""

    one: str
    other: str
    paper: Cell
    """The printed difference, or the paper's words."""
    verdict: Verdict = above
    name: str = ""
    """How the row is called; without it, by the two sides."""
    unit: str = "points"
    note: str = ""

    def row(self, case: str, values: Mapping[str, Seeds], when: str = "") -> Row:
        """The difference of pairs, and whether the claim holds; ``when`` ends the row's name."""
        found = gap(values[self.one], values[self.other])
        name = (self.name or f"{self.one} - {self.other}") + when
        return Row(f"{case}: {name}", self.paper, str(found), self.unit, self.verdict(found), self.note)


def ahead(one: str, other: str, printed: float | None = None, *, name: str = "", note: str = "") -> Claim:
    """The first is above the second, or below it where the printed difference is negative."""
    side = above if printed is None or printed > 0 else below
    return Claim(one, other, "above 0" if printed is None else printed, side, name, note=note)


def table(
    case: str,
    values: Mapping[str, Seeds],
    *,
    what: str = "",
    unit: str = "%",
    printed: Mapping[str, float] | None = None,
    claims: Iterable[Claim] = (),
) -> list[Row]:
    """A row of every method or variant, the printed number beside the interval over seeds, then the claims."""
    known = printed or {}
    told = percentage if unit == "%" else shown
    rows = [Row(f"{case}: {name}{what}", known.get(name), told(mine), unit) for name, mine in values.items()]
    return [*rows, *(claim.row(case, values) for claim in claims)]
