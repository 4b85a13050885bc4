"""Lines over time or bytes as SVG: numbers in, text out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.report.marks import Mark, draw, place
from paceline.report.text import number, percent, percent_tick, tag, ticks, words
from paceline.statistics import half_width

Column = NDArray[np.float64]

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 12, 44
GRID_POINTS = 200
HOVER_POINTS = 60
COLOURS = 10


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line, with a band around it where there are several seeds."""

    name: str
    x: Column
    y: Column
    low: Column | None = None
    high: Column | None = None


def mean_series(
    name: str,
    curves: Sequence[tuple[Column, Column]],
    level: float = 0.95,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> Series:
    """The mean of several curves and its confidence interval (Student's t), where all of them are defined.

    Seeds are measured at different times, so each is interpolated linearly onto a common grid first. No interval
    leaves the range that values can have.
    """
    clean = [_clean(x, y) for x, y in curves]
    clean = [(x, y) for x, y in clean if len(x)]
    if not clean:
        return Series(name=name, x=np.empty(0), y=np.empty(0))
    if len(clean) == 1:
        return Series(name=name, x=clean[0][0], y=clean[0][1])
    begin, end = max(x[0] for x, _ in clean), min(x[-1] for x, _ in clean)
    grid = np.linspace(begin, end, GRID_POINTS if end > begin else 1)
    if end < begin:
        grid = np.empty(0)
    values = np.stack([np.interp(grid, x, y) for x, y in clean])
    mean = values.mean(axis=0)
    half = half_width(values, level)
    return Series(name=name, x=grid, y=mean, low=np.clip(mean - half, *within), high=np.clip(mean + half, *within))


def line_chart(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    x_form: Callable[[float], str] = number,
    y_form: Callable[[float], str] = percent,
    y_tick: Callable[[float], str] = percent_tick,
    target: float | None = None,
    marks: Sequence[Mark] = (),
) -> str:
    """A chart of these lines; ``target`` is a level marked across it, ``marks`` are moments."""
    drawn = [one for one in series if len(one.x)]
    if not drawn:
        return words("p", "Nothing was measured.", class_="note")
    frame = _Frame.around(drawn, target)
    parts = [*_axes(frame, x_label, y_label, x_form, y_tick)]
    if target is not None:
        parts += _target(frame, target, y_tick)
    # Bands first, so that no band hides a line.
    parts += [_band(frame, one, index) for index, one in enumerate(series) if len(one.x) and one.low is not None]
    parts += [_line(frame, one, index) for index, one in enumerate(series) if len(one.x)]
    parts += _marks(frame, marks)
    for index, one in enumerate(series):
        parts += _hover(frame, one, index, x_form, y_form)
    label = f"{y_label} over {x_label}"
    return tag("svg", "".join(parts), viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="chart", role="img", aria_label=label)


def legend(names: Sequence[str]) -> str:
    """The names of the lines with their colours, for one or several charts."""
    items = []
    for index, name in enumerate(names):
        stroke = tag("line", x1=0, y1=5, x2=22, y2=5, class_=_class("line", index))
        items.append(tag("li", tag("svg", stroke, viewBox="0 0 22 10", class_="key") + words("span", name)))
    return tag("ul", "".join(items), class_="legend")


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """The data range of a chart and its place on the paper."""

    x0: float
    x1: float
    y0: float
    y1: float

    @staticmethod
    def around(series: Sequence[Series], target: float | None) -> _Frame:
        ys = np.concatenate([one.y for one in series] + ([np.array([target])] if target is not None else []))
        low, high = float(ys.min()), float(ys.max())
        margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
        right = max(float(one.x[-1]) for one in series)
        left = min(0.0, *(float(one.x[0]) for one in series))
        return _Frame(x0=left, x1=right if right > left else left + 1.0, y0=low - margin, y1=high + margin)

    def x(self, value: float) -> float:
        return LEFT + (value - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        inside = min(max(value, self.y0), self.y1)
        return HEIGHT - BOTTOM - (inside - self.y0) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)

    def path(self, x: Column, y: Column) -> str:
        return "L".join(f"{self.x(a):.1f} {self.y(b):.1f}" for a, b in zip(x, y, strict=True))


def _clean(x: Column, y: Column) -> tuple[Column, Column]:
    keep = np.isfinite(x) & np.isfinite(y)
    x, y = x[keep], y[keep]
    order = np.argsort(x, kind="stable")
    return x[order], y[order]


def _class(kind: str, index: int) -> str:
    return f"{kind} c{index % COLOURS}" + (" second" if (index // COLOURS) % 2 else "")


def _axes(
    frame: _Frame, x_label: str, y_label: str, x_form: Callable[[float], str], y_form: Callable[[float], str]
) -> list[str]:
    floor, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for value in ticks(frame.y0, frame.y1):
        y = frame.y(value)
        parts.append(tag("line", x1=LEFT, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(words("text", y_form(value), x=LEFT - 6, y=y + 4, class_="tick end"))
    for value in ticks(frame.x0, frame.x1):
        x = frame.x(value)
        parts.append(tag("line", x1=x, x2=x, y1=floor, y2=floor + 4, class_="axis"))
        parts.append(words("text", x_form(value), x=x, y=floor + 17, class_="tick middle"))
    parts.append(tag("line", x1=LEFT, x2=right, y1=floor, y2=floor, class_="axis"))
    parts.append(words("text", x_label, x=(LEFT + right) / 2, y=HEIGHT - 6, class_="label middle"))
    middle = (TOP + floor) / 2
    turn = f"rotate(-90 12 {middle:g})"
    parts.append(words("text", y_label, x=12, y=middle, transform=turn, class_="label middle"))
    return parts


def _target(frame: _Frame, target: float, y_form: Callable[[float], str]) -> list[str]:
    y = frame.y(target)
    line = tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="target")
    return [line, words("text", f"target {y_form(target)}", x=LEFT + 4, y=y - 4, class_="tick")]


def _marks(frame: _Frame, marks: Sequence[Mark]) -> list[str]:
    inside = [mark for mark in marks if frame.x0 <= mark.time <= frame.x1]
    return draw(place(inside, frame.x, WIDTH - RIGHT), TOP, HEIGHT - BOTTOM)


def _band(frame: _Frame, one: Series, index: int) -> str:
    assert one.low is not None
    assert one.high is not None
    edge = f"M{frame.path(one.x, one.high)}L{frame.path(one.x[::-1], one.low[::-1])}Z"
    return tag("path", d=edge, class_=_class("band", index))


def _line(frame: _Frame, one: Series, index: int) -> str:
    if len(one.x) == 1:
        return tag("circle", cx=frame.x(one.x[0]), cy=frame.y(one.y[0]), r=3, class_=_class("dot", index))
    return tag("path", d=f"M{frame.path(one.x, one.y)}", class_=_class("line", index))


def _hover(
    frame: _Frame, one: Series, index: int, x_form: Callable[[float], str], y_form: Callable[[float], str]
) -> list[str]:
    picked = np.unique(np.linspace(0, len(one.x) - 1, min(len(one.x), HOVER_POINTS)).astype(int))
    parts = []
    for i in picked if len(one.x) else []:
        text = f"{one.name}: {y_form(one.y[i])} at {x_form(one.x[i])}"
        if one.low is not None and one.high is not None:
            text += f" ({y_form(one.low[i])} to {y_form(one.high[i])})"
        spot = {"cx": frame.x(one.x[i]), "cy": frame.y(one.y[i])}
        parts.append(tag("circle", words("title", text), **spot, r=6, class_=_class("hover", index)))
    return parts
