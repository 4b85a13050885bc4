"""Curves of a comparison, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.errors import DataError, nearest
from paceline.report.runs import Group

FIGURES = {
    "time-to-accuracy": ("time", "virtual seconds"),
    "bytes-to-accuracy": ("bytes", "bytes moved"),
    "rounds-to-accuracy": ("round", "rounds"),
}


def draw(name: str, groups: Sequence[Group]) -> Any:
    """Accuracy over what it cost: the mean over seeds, and between which values they lie."""
    if name not in FIGURES:
        raise DataError(f"there is no figure {name!r}; {nearest(name, FIGURES)}")
    from matplotlib.figure import Figure

    column, words = FIGURES[name]
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for group in groups:
        curves = [(run.metrics[column], run.metrics["accuracy"]) for run in group.runs if "accuracy" in run.metrics]
        known = [(x[~np.isnan(y)], y[~np.isnan(y)]) for x, y in curves]
        known = [(x, y) for x, y in known if len(x)]
        if not known:
            continue
        at = np.linspace(max(x[0] for x, _ in known), min(x[-1] for x, _ in known), 200)
        values = np.stack([np.interp(at, x, y) for x, y in known])
        (line,) = axes.plot(at, values.mean(0), label=group.label)
        if len(known) > 1:
            axes.fill_between(at, values.min(0), values.max(0), color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set_xlabel(words)
    axes.set_ylabel("accuracy")
    axes.grid(alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if axes.lines:
        axes.legend(frameon=False)
    return figure
