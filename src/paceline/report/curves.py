"""The numbers of every curve: mean and band over seeds, each seed to its own end.

A seed that has met its target stops, and the others go on: so does the mean, over those that are still running, and
it says how many these are. Where a curve ends and where it meets its target are the figures of the tables, because
they come from the same place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError, nearest
from paceline.report.runs import Group, Run
from paceline.statistics import half_width

Column = NDArray[np.float64]

GRID_POINTS = 200
"""Places at which several seeds are averaged, besides those at which one begins or ends."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What a curve may run over: a column of the metrics, and the same figure at the target."""

    column: str
    words: str
    target: str
    """The name of the figure in the summary's target and, for the whole run, in the summary itself."""


AXES = {
    "time": Axis(column="time", words="virtual time", target="time"),
    "round": Axis(column="round", words="rounds", target="rounds"),
    "bytes": Axis(column="bytes", words="traffic", target="bytes"),
    "joules": Axis(column="joules", words="energy", target="joules"),
}
SHARES = ("accuracy", "sparsity")
"""Measures between 0 and 1, which no band leaves."""


@dataclass(frozen=True, kw_only=True)
class End:
    """Where the curve of one seed ends."""

    seed: int
    x: float
    y: float
    met: bool
    """Whether it ends because its target was met there."""


@dataclass(frozen=True, kw_only=True)
class Touch:
    """Where a group meets its target: the mean over the seeds that did, as in the table."""

    level: float
    x: float
    half: float | None
    """Half of the 95 % interval, where all seeds arrived and there are several."""
    arrived: int
    seeds: int


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One group over one axis; the four columns have one length."""

    label: str
    x: Column
    y: Column
    low: Column
    high: Column
    seeds: NDArray[np.int64]
    """Over how many seeds the mean goes at each place; a band needs two."""
    ends: tuple[End, ...]
    touch: Touch | None = None

    def pieces(self) -> list[slice]:
        """Split the curve where a seed begins or ends: a line across would draw a jump that no seed made."""
        edges = [0, *(np.flatnonzero(np.diff(self.seeds)) + 1).tolist(), len(self.x)]
        return [slice(begin, end) for begin, end in itertools.pairwise(edges) if end > begin]

    @property
    def most(self) -> int:
        """How many seeds there are where most are running."""
        return int(self.seeds.max()) if len(self.seeds) else 0


def curve(group: Group, axis: str = "time", measure: str = "accuracy") -> Curve:
    """The mean of a group's seeds and its confidence interval (Student's t).

    Seeds are measured at different places, so each is interpolated linearly; none is drawn beyond its own ends.
    """
    if axis not in AXES:
        raise DataError(f"there is no axis {axis!r}; {nearest(axis, AXES)}")
    known = [(run, *_clean(run, AXES[axis].column, measure)) for run in group.runs]
    known = [(run, x, y) for run, x, y in known if len(x)]
    ends = tuple(
        End(seed=run.seed, x=float(x[-1]), y=float(y[-1]), met=_met(run, axis, x[-1])) for run, x, y in known
    )
    lines = [(x, y) for _, x, y in known]
    within = (0.0, 1.0) if measure in SHARES else (-math.inf, math.inf)
    return Curve(label=group.label, ends=ends, touch=_touch(group, axis, measure), **_mean(lines, within))


def curves(groups: Sequence[Group], axis: str = "time", measure: str = "accuracy") -> list[Curve]:
    """One curve for each group, in their order; of those that measured no such thing an empty one."""
    return [curve(group, axis, measure) for group in groups]


def target_level(groups: Sequence[Group], measure: str = "accuracy") -> float | None:
    """What all runs aim at, if it is one and the same."""
    levels = {run.figure("target", measure) for group in groups for run in group.runs}
    return levels.pop() if len(levels) == 1 else None


def _clean(run: Run, axis: str, measure: str) -> tuple[Column, Column]:
    nothing = np.full(len(run.metrics["time"]), math.nan)
    x, y = run.metrics.get(axis, nothing), run.metrics.get(measure, nothing)
    keep = np.isfinite(x) & np.isfinite(y)
    x, y = x[keep], y[keep]
    order = np.argsort(x, kind="stable")
    return x[order], y[order]


def _met(run: Run, axis: str, last: float) -> bool:
    return bool(run.figure("target", AXES[axis].target) == last)


def _touch(group: Group, axis: str, measure: str) -> Touch | None:
    level = target_level([group], measure)
    found = [run.figure("target", AXES[axis].target) for run in group.runs]
    values = [value for value in found if value is not None]
    if level is None or not values:
        return None
    several = len(values) == len(found) > 1
    return Touch(
        level=level,
        x=float(np.mean(values)),
        half=float(half_width(np.array(values))) if several else None,
        arrived=len(values),
        seeds=len(found),
    )


def _mean(lines: Sequence[tuple[Column, Column]], within: tuple[float, float]) -> dict[str, Any]:
    """The columns of a curve: as measured where there is one seed, else stretch by stretch of equal seeds."""
    if len(lines) < 2:
        x, y = lines[0] if lines else (np.empty(0), np.empty(0))
        return {"x": x, "y": y, "low": y, "high": y, "seeds": np.ones(len(x), np.int64)}
    edges = np.unique(np.concatenate([x[[0, -1]] for x, _ in lines]))
    all_begun, first_end = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    if all_begun <= first_end:  # before all have begun, a mean would be of whoever is quickest
        edges = edges[edges >= all_begun]
    grid = np.linspace(edges[0], edges[-1], GRID_POINTS)
    pieces = []
    for begin, end in itertools.pairwise(edges):
        running = [(x, y) for x, y in lines if x[0] <= begin and x[-1] >= end]
        if running:
            inside = np.concatenate([[begin], grid[(grid > begin) & (grid < end)], [end]])
            pieces.append(_stretch(inside, running, within))
    if not pieces:  # all seeds have but one and the same place
        ys = np.array([y[-1] for _, y in lines])
        pieces = [_stretch(edges[:1], [(edges[:1], ys[i : i + 1]) for i in range(len(ys))], within)]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _stretch(at: Column, running: Sequence[tuple[Column, Column]], within: tuple[float, float]) -> dict[str, Any]:
    values = np.stack([np.interp(at, x, y) for x, y in running])
    mean = values.mean(axis=0)
    half = half_width(values) if len(values) > 1 else np.zeros(len(at))
    low, high = np.clip(mean - half, *within), np.clip(mean + half, *within)
    return {"x": at, "y": mean, "low": low, "high": high, "seeds": np.full(len(at), len(values), np.int64)}
