"""Seconds to each of several accuracies, and what that costs besides: with intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.errors import DataError
from paceline.figures.axes import percent_axis, scale, unit_axis
from paceline.figures.labels import Label, place
from paceline.figures.lines import dashes
from paceline.figures.paper import SOFT, Options
from paceline.figures.sheets import sheet
from paceline.report.curves import AXES, target_level
from paceline.report.looks import looks
from paceline.report.runs import Group, Run
from paceline.statistics import half_width

STEP = 0.1
"""Between the targets that are chosen where none are asked for."""
HIGH = 0.7


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What it took one method to get somewhere: the mean over the seeds that did, as in the table."""

    mean: float
    half: float
    """Half of the 95 % interval; 0 where it is not known."""
    arrived: int
    seeds: int

    @property
    def all(self) -> bool:
        """Whether every seed arrived: else the mean flatters."""
        return self.arrived == self.seeds


def cost(group: Group, level: float, axis: str = "time") -> Cost | None:
    """What this accuracy cost on this axis; None where no seed reached it."""
    found = [value for run in group.runs if (value := _reached(run, level, axis)) is not None]
    if not found:
        return None
    half = float(half_width(np.array(found))) if len(found) == len(group.runs) > 1 else 0.0
    return Cost(mean=float(np.mean(found)), half=half, arrived=len(found), seeds=len(group.runs))


def chosen_targets(groups: Sequence[Group], asked: Sequence[float]) -> list[float]:
    """The accuracies that are asked for; else the runs' own target and two below it; else what somebody reached."""
    if asked:
        return sorted(set(asked))
    level = target_level(groups)
    if level is None:
        best = [np.nanmax(run.metrics["accuracy"], initial=0.0) for group in groups for run in group.runs]
        level = math.floor(20 * float(np.max(best, initial=0.0))) / 20
    return [round(level - k * STEP, 4) for k in (2, 1, 0) if level - k * STEP > 0]


def time_to_accuracy(groups: Sequence[Group], options: Options) -> Any:
    """Virtual seconds to each target, methods side by side, with 95 % intervals over seeds."""
    targets = chosen_targets(groups, options.targets)
    found = {(row, k): cost(group, level) for row, group in enumerate(groups) for k, level in enumerate(targets)}
    if not any(found.values()):
        said = ", ".join(f"{level:g}" for level in targets) or "any accuracy"
        raise DataError(f"no run reached {said}; choose lower ones with --targets, or let the runs go on for longer")
    figure, (axes,) = sheet(options.width, HIGH * min(options.width, 5.0))
    gap = min(np.diff(targets), default=STEP)
    furthest = max(k for (_, k), one in found.items() if one is not None)
    labels, drawn = [], []
    for row, look in enumerate(looks(groups)):
        here = [(k, one) for k in range(len(targets)) if (one := found[row, k]) is not None]
        if not here:
            continue
        # Side by side, so that no interval hides another.
        aside = gap * 0.5 * ((row + 0.5) / len(groups) - 0.5)
        x = np.array([targets[k] + aside for k, _ in here])
        y = np.array([one.mean for _, one in here])
        axes.plot(x, y, color=look.colour, linestyle=dashes(look), linewidth=0.9)
        half = np.array([one.half for _, one in here])
        axes.errorbar(x, y, half, fmt="none", ecolor=look.colour, elinewidth=0.9, capsize=1.8, capthick=0.9)
        for place_x, (_, one) in zip(x, here, strict=True):
            fill = look.colour if one.all else "white"
            axes.plot(place_x, one.mean, "o", color=look.colour, markerfacecolor=fill, markersize=3.2)
            if not one.all:
                labels.append(Label(text=f"{one.arrived} of {one.seeds}", x=place_x, y=one.mean, colour=look.colour))
        name = look.label if here[-1][0] == furthest else f"{look.label} (no further)"
        labels.append(Label(text=name, x=x[-1], y=y[-1], colour=look.colour))
        drawn += [np.column_stack([x, y + sign * half]) for sign in (-1, 0, 1)] + [_along(x, y)]
    scale(axes, options.log, "y")
    if "y" not in options.log:
        axes.set_ylim(bottom=0)
    axes.set_xticks(targets)
    axes.set_xlim(targets[0] - 0.6 * gap, targets[-1] + 0.95 * gap)
    percent_axis(axes.xaxis)
    axes.grid(visible=False, axis="x")
    for level in targets[furthest + 1 :]:
        axes.text(level, 0.02, "nobody", color=SOFT, ha="center", transform=axes.get_xaxis_transform())
    unit_axis(axes, "y", "time")
    axes.set_ylabel("virtual time to it (s)")
    axes.set_xlabel("target accuracy")
    place(figure, axes, labels, drawn)
    return figure


def pareto(groups: Sequence[Group], options: Options) -> Any:
    """Time against traffic (or energy) at the target, with 95 % intervals; a line joins what nobody beats in both."""
    level = options.targets[-1] if options.targets else target_level(groups)
    if level is None:
        raise DataError("these runs have no target in common; say one with --targets, such as --targets 0.9")
    rows = []
    for group, look in zip(groups, looks(groups), strict=True):
        x, y = cost(group, level), cost(group, level, options.cost)
        if x is not None and y is not None:
            rows.append((x, y, look))
    if not rows:
        raise DataError(
            f"no run reached {level:g} with {AXES[options.cost].words} known; choose a lower target with --targets"
        )
    figure, (axes,) = sheet(options.width, 0.75 * min(options.width, 5.0))
    front = _front([(x.mean, y.mean) for x, y, _ in rows if x.all])
    axes.plot(
        *zip(*front, strict=True), color=SOFT, linewidth=0.7, drawstyle="steps-post", zorder=1
    ) if front else None
    for x, y, look in rows:
        fill = look.colour if x.all else "white"
        axes.errorbar(
            x.mean, y.mean, y.half, x.half, "o", color=look.colour, elinewidth=0.9, markersize=4, markerfacecolor=fill
        )
    scale(axes, options.log, "xy")
    for which in ("x", "y"):
        if which not in options.log:
            getattr(axes, f"set_{which}lim")(left=0) if which == "x" else axes.set_ylim(bottom=0)
    axes.margins(0.12)
    unit_axis(axes, "x", "time")
    axes.set_xlabel(f"virtual time to {100 * level:g} % accuracy (s)")
    unit_axis(axes, "y", options.cost)
    labels = [
        Label(
            text=look.label + ("" if x.all else f" ({x.arrived} of {x.seeds})"),
            x=x.mean,
            y=y.mean,
            colour=look.colour,
        )
        for x, y, look in rows
    ]
    bars = [
        np.column_stack(
            [
                np.append(np.linspace(x.mean - x.half, x.mean + x.half, 30), np.full(30, x.mean)),
                np.append(np.full(30, y.mean), np.linspace(y.mean - y.half, y.mean + y.half, 30)),
            ]
        )
        for x, y, _ in rows
    ]
    place(figure, axes, labels, bars)
    return figure


def _reached(run: Run, level: float, axis: str) -> float | None:
    """Where a run first had this accuracy; at its own target the figure of its summary, as the table has it."""
    if run.figure("target", "accuracy") == level:
        return run.figure("target", AXES[axis].target)
    accuracy = run.metrics["accuracy"]
    column = run.metrics.get(AXES[axis].column)
    there = np.flatnonzero(accuracy >= level)
    if column is None or not len(there) or not math.isfinite(column[there[0]]):
        return None
    return float(column[there[0]])


def _front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those points that no other beats in both."""
    best: list[tuple[float, float]] = []
    for x, y in sorted(points):
        if not best or y < best[-1][1]:
            best.append((x, y))
    return best


def _along(x: Any, y: Any) -> Any:
    """Points all along a line, which labels keep away from."""
    if len(x) < 2:
        return np.column_stack([x, y])
    at = np.linspace(x[0], x[-1], 60)
    return np.column_stack([at, np.interp(at, x, y)])
