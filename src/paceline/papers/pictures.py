"""The look that all figures share."""

from __future__ import annotations

from typing import Any


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
