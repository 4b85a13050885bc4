"""The data of a page's charts as one JSON value, and how it is written into HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from paceline.errors import DataError
from paceline.report import distributions, marks
from paceline.report.curves import AXES, Curve, curve, target_level
from paceline.report.looks import looks
from paceline.report.packing import finite
from paceline.report.runs import Group
from paceline.report.skew import skew_chart

MEASURES = {
    "accuracy": "accuracy",
    "loss": "loss",
    "sparsity": "share of zeros",
    "score": "detection score",
    "idle_share": "idle share",
    "flops": "operations",
}
"""What is drawn over an axis, with its name on the page."""
UNITS = {"time": "s", "bytes": "B", "joules": "J", "flops": "FLOP", "accuracy": "%", "sparsity": "%"}
UNITS |= {"idle_share": "%", "round": "", "loss": "", "score": ""}


def bar_charts(groups: Sequence[Group]) -> tuple[list[dict[str, Any]], list[str]]:
    """The charts of how often things came up, and why others cannot be shown, because a file is damaged."""
    charts: list[dict[str, Any]] = []
    problems: list[str] = []
    for make in (distributions.charts, skew_chart):
        try:
            charts += make(groups)
        except DataError as problem:
            problems.append(str(problem))
    return charts, problems


def page_data(
    groups: Sequence[Group], timelines: Sequence[dict[str, Any]], bars: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """All that the page's script draws."""
    found = {name: _measure(groups, name) for name in MEASURES}
    return {
        "groups": [
            {"label": group.label, "look": look.__dict__, "seeds": [run.seed for run in group.runs]}
            for group, look in zip(groups, looks(groups), strict=True)
        ],
        "axes": {name: {"words": axis.words, "unit": UNITS[name]} for name, axis in AXES.items()},
        "measures": {name: one for name, one in found.items() if one is not None},
        "marks": [{"time": m.time, "label": m.label, "text": m.text} for m in marks.of_groups(groups)],
        "bars": list(bars),
        "timelines": list(timelines),
    }


def _measure(groups: Sequence[Group], measure: str) -> dict[str, Any] | None:
    """One measure over every axis that has it; None where nobody has it."""
    over = {axis: [_plain(curve(group, axis, measure)) for group in groups] for axis in AXES}
    over = {axis: lines for axis, lines in over.items() if any(line["x"] for line in lines)}
    if not over:
        return None
    target = finite(target_level(groups, measure)) if measure in ("accuracy", "loss") else None
    return {"words": MEASURES[measure], "unit": UNITS[measure], "target": target, "over": over}


def _plain(one: Curve) -> dict[str, Any]:
    touch = one.touch
    return {
        "x": _short(one.x.tolist()),
        "y": _short(one.y.tolist()),
        "low": _short(one.low.tolist()) if one.most > 1 else [],
        "high": _short(one.high.tolist()) if one.most > 1 else [],
        "seeds": one.seeds.tolist() if one.most > 1 else [],
        "ends": [{"seed": end.seed, "x": end.x, "y": end.y, "met": end.met} for end in one.ends],
        "touch": None if touch is None else dict(touch.__dict__),
    }


def _short(values: Sequence[float]) -> list[float]:
    """Nine digits are finer than any screen, and the last value is exact: it is the table's."""
    return [float(f"{value:.9g}") for value in values[:-1]] + [float(value) for value in values[-1:]]


def as_json(value: Any) -> str:
    """JSON that can stand inside a script element: no mark of it is left that HTML would read."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
