"""Empty figures to draw on; matplotlib is imported when one is asked for."""

from __future__ import annotations

from typing import Any


def sheet(width: float, height: float, rows: int = 1) -> Any:
    """An empty figure of these inches, and its axes one below the other."""
    from paceline.figures.shown import ShownFigure

    figure = ShownFigure(figsize=(width, height), layout="constrained")
    figure.set_layout_engine("constrained", w_pad=0.02, h_pad=0.02, hspace=0.03)
    return figure, list(figure.subplots(rows, 1, squeeze=False)[:, 0])
