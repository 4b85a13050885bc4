"""Accuracy over time, rounds, traffic or energy: the curves of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.errors import DataError
from paceline.figures.axes import percent_axis, scale, unit_axis
from paceline.figures.labels import HALO, Label, place
from paceline.figures.paper import SOFT, Options
from paceline.figures.sheets import sheet
from paceline.report.curves import AXES, Curve, curves, target_level
from paceline.report.looks import Look, looks
from paceline.report.runs import Group

LINE, THIN = 1.2, 0.7
"""Line widths of a mean over all seeds, and of a mean over the seeds still running."""
HIGH = 0.66
"""Height by width."""


def accuracy(groups: Sequence[Group], options: Options) -> Any:
    """Accuracy over what it cost, one line for each method, with the 95 % interval over seeds."""
    lines = curves(groups, options.over)
    if not any(len(line.x) for line in lines):
        raise DataError(
            f"no accuracy over {AXES[options.over].words} was measured: these are dry runs, or nothing was booked"
        )
    figure, (axes,) = sheet(options.width, HIGH * min(options.width, 5.0))
    styles = looks(groups)
    for line, look in zip(lines, styles, strict=True):
        if len(line.x):
            _draw(axes, line, look)
    level = target_level(groups)
    if level is not None:
        axes.axhline(level, color=SOFT, linewidth=0.7, linestyle=(0, (5, 4)), zorder=1)
    scale(axes, options.log, "x")
    percent_axis(axes.yaxis)
    axes.set_ylabel("accuracy")
    unit_axis(axes, "x", options.over)
    _frame(axes, lines, level)
    ends = [(line, look) for line, look in zip(lines, styles, strict=True) if len(line.x)]
    place(figure, axes, [_label(line, look) for line, look in ends], [_points(line) for line, _ in ends])
    return figure


def traffic(groups: Sequence[Group], options: Options) -> Any:
    """Accuracy over the bytes that were moved."""
    from dataclasses import replace

    return accuracy(groups, replace(options, over="bytes"))


def dashes(look: Look) -> Any:
    """The dash of a method for a line of the width used here; looks are written for lines two pixels wide."""
    return (0, tuple(0.5 * stroke for stroke in look.dash)) if look.dash else "solid"


def _frame(axes: Any, lines: Sequence[Curve], level: float | None) -> None:
    """What the lines need and room for labels above their ends; bands may be much wider than that."""
    from matplotlib.patheffects import withStroke

    values = np.concatenate([*(line.y for line in lines), [] if level is None else [level]])
    low, high = float(values.min()), float(values.max())
    margin = high - low or 0.1
    axes.set_ylim(max(low - 0.06 * margin, 0.0), high + 0.2 * margin)
    if level is not None:
        # At the left, where lines are still low.
        text = axes.annotate(
            f"target {100 * level:.4g} %",
            (0.01, level),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            color=SOFT,
        )
        text.set_path_effects([withStroke(linewidth=HALO, foreground="white")])
        text.set_in_layout(False)


def _draw(axes: Any, line: Curve, look: Look) -> None:
    for piece in line.pieces():
        seeds, x = line.seeds[piece.start], line.x[piece]
        width, alpha = (LINE, 0.15) if seeds == line.most else (THIN, 0.06)
        if seeds > 1:
            axes.fill_between(x, line.low[piece], line.high[piece], color=look.colour, alpha=alpha, linewidth=0)
        style = {"color": look.colour, "linestyle": dashes(look), "linewidth": width}
        axes.plot(x, line.y[piece], label=look.label, **style)
    axes.plot(line.x[-1:], line.y[-1:], "o", color=look.colour, markersize=2.5)


def _label(line: Curve, look: Look) -> Label:
    return Label(text=look.label, x=float(line.x[-1]), y=float(line.y[-1]), colour=look.colour)


def _points(line: Curve) -> Any:
    return np.column_stack([line.x, line.y])
