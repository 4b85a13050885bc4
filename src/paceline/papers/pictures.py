"""The look that all figures share, and curves over rounds or over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # what is computed without training should not wait for torch
    from paceline.papers.trials import Finished

Column = NDArray[np.float64]
Lines = Sequence[tuple[Column, Column]]
"""A curve a seed."""


def new_figure(size: tuple[float, float], title: str) -> Any:
    """An empty matplotlib figure of so many inches; without pyplot, so that nothing global is touched."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def plain(axes: Any) -> None:
    """No lines where nothing is measured."""
    axes.spines[["top", "right"]].set_visible(False)


def lines(runs: Sequence[Finished], measure: str = "accuracy") -> Lines:
    """Rounds and a measure of every run that has it."""
    return [(run.columns["round"], run.columns[measure]) for run in runs if measure in run.columns]


def draw_lines(panels: Mapping[str, Mapping[str, Lines]], title: str, xlabel: str = "round") -> Any:
    """A panel per case, two in a row, a colour per line: its seeds thin, their mean thick while all of them last."""
    across, down = min(2, len(panels)), -(-len(panels) // 2)
    figure = new_figure((max(5.0 * across, 6.0), 3.6 * down + 0.4), title)
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for ax, (case, named) in zip(axes, panels.items(), strict=False):
        for place, (label, seeds) in enumerate(named.items()):
            _draw_line(ax, seeds, f"C{place}", label)
        ax.set_title(case, loc="left", fontsize=10)
        ax.set(xlabel=xlabel, ylabel="test accuracy / %")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False, loc="lower right", fontsize=8)
        plain(ax)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    return figure


def _draw_line(ax: Any, seeds: Lines, color: str, label: str) -> None:
    for x, y in seeds:
        ax.plot(x, 100 * y, color=color, linewidth=0.5, alpha=0.4)
    if seeds:
        grid = np.linspace(max(x[0] for x, _ in seeds), min(x[-1] for x, _ in seeds), 200)
        middle = np.mean([np.interp(grid, x, y) for x, y in seeds], axis=0)
        ax.plot(grid, 100 * middle, color=color, linewidth=1.6, label=label)


def draw_curves(panels: Mapping[str, Mapping[str, Sequence[Finished]]], title: str) -> Any:
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
