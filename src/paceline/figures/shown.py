"""A figure that shows itself at the end of a notebook's cell, whatever matplotlib's backend is there."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

from paceline.figures.paper import drawing


class ShownFigure(Figure):
    """A matplotlib figure in the style of papers."""

    def _repr_png_(self) -> bytes:
        """The picture that a notebook shows."""
        file = io.BytesIO()
        with drawing():
            self.savefig(file, format="png")
        return file.getvalue()
