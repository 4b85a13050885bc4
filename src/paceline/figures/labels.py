"""Labels beside points: each where it covers nothing, as near to its point as that allows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

GAPS = (4.0, 9.0, 16.0, 25.0)
"""Points between a point and its label, the nearest first."""
SIDES = ((1, 0), (0, 1), (1, 1), (-1, 1), (0, -1), (1, -1), (-1, -1), (-1, 0))
"""Right, above, and so on: in which order places are tried."""
HALO = 2.0


@dataclass(frozen=True, kw_only=True)
class Label:
    """A text for a point of the axes, in the colour of what it names."""

    text: str
    x: float
    y: float
    colour: str


def place(figure: Any, axes: Any, labels: Sequence[Label], drawn: Sequence[NDArray[np.float64]] = ()) -> None:
    """Write all labels inside the axes, away from each other, from other texts and from what is ``drawn``."""
    from matplotlib.patheffects import withStroke

    figure.draw_without_rendering()  # only now is known where things are
    points = figure.dpi / 72
    box = axes.get_window_extent()
    taken: list[tuple[float, float, float, float]] = [text.get_window_extent().extents for text in axes.texts]
    dots = [axes.transData.transform([(label.x, label.y)])[0] for label in labels]
    marks = np.concatenate([*(axes.transData.transform(part) for part in drawn if len(part)), np.array(dots)])
    for label, dot in zip(labels, dots, strict=True):
        text = axes.annotate(label.text, (label.x, label.y), color=label.colour, va="center", ha="center")
        text.set_path_effects([withStroke(linewidth=HALO, foreground="white")])
        text.set_in_layout(False)
        size = text.get_window_extent()
        frame = _best(dot, (size.width, size.height), points, box, taken, marks)
        taken.append(frame)
        middle = ((frame[0] + frame[2]) / 2, (frame[1] + frame[3]) / 2)
        text.set_position(axes.transData.inverted().transform(middle))
        if _far(dot, frame) > 2 * GAPS[0] * points:
            axes.annotate(
                "",
                (label.x, label.y),
                axes.transData.inverted().transform(_nearest(dot, frame)),
                arrowprops={"arrowstyle": "-", "color": label.colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2},
            ).set_in_layout(False)


def _best(
    dot: Any, size: tuple[float, float], points: float, box: Any, taken: Sequence[Any], marks: NDArray[np.float64]
) -> tuple[float, float, float, float]:
    """The first place of least trouble: first of all within the axes, then on no other label, then on no line."""

    def trouble(frame: tuple[float, float, float, float]) -> tuple[float, float, float]:
        x0, y0, x1, y1 = frame
        outside = max(box.x0 - x0, x1 - box.x1, box.y0 - y0, y1 - box.y1, 0.0)
        covered = sum(_shared(frame, other) for other in taken)
        inside = (marks[:, 0] > x0) & (marks[:, 0] < x1) & (marks[:, 1] > y0) & (marks[:, 1] < y1)
        return outside, covered, float(np.count_nonzero(inside))

    frames = []
    for gap, (side, up) in itertools.product(GAPS, SIDES):
        x = dot[0] + side * (gap * points + size[0] / 2)
        y = dot[1] + up * (gap * points * (0.6 if side else 1.0) + size[1] / 2)
        frames.append((x - size[0] / 2, y - size[1] / 2, x + size[0] / 2, y + size[1] / 2))
    return min(frames, key=trouble)


def _shared(one: Sequence[float], other: Sequence[float]) -> float:
    """The area that two frames have in common."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0.0) * max(high, 0.0)


def _nearest(dot: Any, frame: Sequence[float]) -> tuple[float, float]:
    return float(np.clip(dot[0], frame[0], frame[2])), float(np.clip(dot[1], frame[1], frame[3]))


def _far(dot: Any, frame: Sequence[float]) -> float:
    x, y = _nearest(dot, frame)
    return float(np.hypot(dot[0] - x, dot[1] - y))
