"""Who did what when, and who waited for whom, as SVG; ``python -m paceline.report.gantt`` draws a sample."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paceline.report import marks
from paceline.report.marks import Mark
from paceline.report.spans import COLUMNS, KINDS, NO_SITE, Window
from paceline.report.style import STYLE
from paceline.report.text import energy, number, operations, seconds, site, size, tag, ticks, words

WIDTH, LEFT, RIGHT, TOP = 1120, 84, 12, 8
ROW, GAP = 15, 3
LANE = 5
"""Height of each further lane of a site that does several things at once."""
MAX_LANES, FEW_LANES = 8, 3
"""Lanes that add to a row's height, for one or two servers and for more, which must all be seen together."""
_TRANSFERS = ("send", "receive")
_HATCH = tag(
    "pattern",
    tag("path", d="M-1 1L1 -1M0 6L6 0M5 7L7 5", class_="hatch"),
    id="waiting",
    width=6,
    height=6,
    patternUnits="userSpaceOnUse",
)


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One site, or its transfers alone: the place on the paper and the lanes it uses."""

    site: int
    name: str
    kinds: tuple[str, ...]
    y: float
    height: float
    lanes: tuple[int, ...]


def gantt(window: Window, run_end: float = math.inf, failed: Sequence[Mark] = ()) -> str:
    """The chart of one window of spans; where the run ends inside it, so do the rows."""
    scale = (WIDTH - LEFT - RIGHT) / max(window.end - window.begin, 1e-12)
    inside = [mark for mark in failed if window.begin <= mark.time <= window.end]
    placed = marks.place(inside, lambda when: LEFT + (when - window.begin) * scale, WIDTH - RIGHT)
    # Labels have a place of their own above the rows, which would hide them.
    top = TOP + marks.ROW * (1 + max((one.row or 0 for one in placed), default=-1))
    rows = _rows(window, top)
    floor = rows[-1].y + rows[-1].height + GAP if rows else top
    place = {(row.site, kind): row for row in rows for kind in row.kinds}
    parts = [tag("defs", _HATCH), *_ground(window, rows, (top, floor), scale, min(run_end, window.end))]
    parts += [_bar(window, place, scale, span) for span in _spans(window)]
    parts += marks.draw(placed, TOP, floor)
    box = f"0 0 {WIDTH} {floor + 40:g}"
    return tag("svg", "".join(parts), viewBox=box, class_="chart gantt", role="img", aria_label="Gantt chart")


def key() -> str:
    """The legend of the charts: which kind of act has which colour."""
    items = []
    for kind in KINDS:
        swatch = tag("rect", x=1, y=1, width=20, height=8, class_=f"bar {kind}")
        items.append(tag("li", tag("svg", swatch, viewBox="0 0 22 10", class_="key") + words("span", kind)))
    return tag("ul", "".join(items), class_="legend")


def standalone(svg: str) -> str:
    """The same chart as a file of its own."""
    head = '<svg xmlns="http://www.w3.org/2000/svg"'
    opening, _, rest = svg.partition(">")
    return f"{opening.replace('<svg', head, 1)}>{tag('style', STYLE)}{rest}\n"


def _rows(window: Window, top: float) -> list[_Row]:
    """The rows from top to bottom.

    A server that works has its transfers in a row of their own, or its work would be a thin line among them.
    """
    rows: list[_Row] = []
    y = float(top)
    most = MAX_LANES if sum(index < 0 for index in window.sites) <= 2 else FEW_LANES
    for index in window.sites:
        mine = window.columns["site"] == index
        used = set(window.columns["kind"][mine].tolist())
        apart = index < 0 and "work" in used and not used.isdisjoint(_TRANSFERS)
        rest = tuple(kind for kind in KINDS if kind not in _TRANSFERS)
        for kinds in (rest, _TRANSFERS) if apart else (KINDS,):
            # A kind nobody knows is drawn as work.
            held = mine & (~np.isin(window.columns["kind"], KINDS) | np.isin(window.columns["kind"], kinds))
            lanes = tuple(int(lane) for lane in np.unique(window.columns["lane"][held])) or (0,)
            height = float(ROW + LANE * (min(len(lanes), most) - 1))
            name = "transfers" if kinds == _TRANSFERS else site(index, several=window.several)
            rows.append(_Row(site=index, name=name, kinds=kinds, y=y, height=height, lanes=lanes))
            y += height + GAP
    return rows


def _ground(window: Window, rows: list[_Row], heights: tuple[float, float], scale: float, stop: float) -> list[str]:
    parts = []
    top, floor = heights
    right = LEFT + max(stop - window.begin, 0.0) * scale
    for value in ticks(window.begin, window.end, 10):
        x = LEFT + (value - window.begin) * scale
        parts.append(tag("line", x1=x, x2=x, y1=top, y2=floor, class_="grid"))
        parts.append(words("text", number(value), x=x, y=floor + 15, class_="tick middle"))
    for row in rows:
        parts.append(tag("rect", x=LEFT, y=row.y, width=right - LEFT, height=row.height, class_="lane"))
        middle = row.y + row.height / 2 + 4
        parts.append(words("text", row.name, x=LEFT - 6, y=middle, class_="tick end"))
    if stop < window.end:
        parts.append(tag("line", x1=right, x2=right, y1=top, y2=floor, class_="stop"))
        if right < WIDTH - RIGHT - 64:
            parts.append(words("text", "the run ends", x=right + 5, y=top + 12, class_="tick"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(words("text", "virtual time (s)", x=middle, y=floor + 32, class_="label middle"))
    return parts


def _spans(window: Window) -> Iterator[dict[str, Any]]:
    """Waits first, so that what a server receives while it waits is drawn upon the wait."""
    waits = window.columns["kind"] == "wait"
    for chosen in (waits, ~waits):
        for values in zip(*(window.columns[name][chosen].tolist() for name in COLUMNS), strict=True):
            yield dict(zip(COLUMNS, values, strict=True))


def _bar(window: Window, place: dict[tuple[int, str], _Row], scale: float, span: dict[str, Any]) -> str:
    kind = span["kind"] if span["kind"] in KINDS else "work"
    row = place[span["site"], kind]
    # A wait is the whole site's, whatever moves through its lanes meanwhile.
    lanes = (span["lane"],) if kind == "wait" else row.lanes
    thickness = row.height / len(lanes)
    begin, end = max(span["start"], window.begin), min(span["end"], window.end)
    return tag(
        "rect",
        words("title", describe(span, several=window.several)),
        x=LEFT + (begin - window.begin) * scale,
        y=row.y + lanes.index(span["lane"]) * thickness,
        width=max((end - begin) * scale, 0.75),
        height=max(thickness - (0.5 if len(lanes) > 1 else 0), 0.5),
        class_=f"bar {kind}",
    )


def describe(span: dict[str, Any], *, several: bool = False) -> str:
    """A span in words, as a tooltip says it."""
    length = span["end"] - span["start"]
    lines = [
        f"{site(span['site'], several=several)}: {span['kind']}{_whom(span, several)}",
        f"{seconds(length)} ({number(span['start'])} to {number(span['end'])}), round {span['round']}",
    ]
    costs = (size(span["bytes"]), operations(span["flops"]), energy(span["joules"]))
    given = (span["bytes"], span["flops"], span["joules"])
    shown = [text for text, value in zip(costs, given, strict=True) if value and math.isfinite(value)]
    return "\n".join(lines + ([", ".join(shown)] if shown else []))


def _whom(span: dict[str, Any], several: bool) -> str:
    if span["peer"] == NO_SITE:
        return " (no cause recorded)" if span["kind"] == "wait" else ""
    link = {"send": " to ", "receive": " from ", "wait": " for "}.get(span["kind"], "")
    return f"{link}{site(span['peer'], several=several)}" if link else ""


def sample() -> Window:
    """Three clients and a server through two rounds of federated averaging."""
    rows = []
    for turn, begin in enumerate((0.0, 13.0)):
        for client, length in enumerate((3.0, 5.0, 10.0)):
            done = begin + length + 1
            rows += [
                (client, "train", 0, begin, begin + length, turn, 0.0, 2e9, 30.0, NO_SITE),
                (client, "send", 0, begin + length, done, turn, 4e6, 0.0, 1.0, -1),
                (-1, "receive", client, begin + length, done, turn, 4e6, 0.0, math.nan, client),
                (client, "wait", 0, done, begin + 13, turn, 0.0, 0.0, 0.0, 2 if client < 2 else -1),
            ]
        rows.append((-1, "work", 0, begin + 11, begin + 13, turn, 0.0, 1e8, math.nan, NO_SITE))
    columns = {name: np.array(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    return Window(begin=0.0, end=26.0, columns=columns, sites=(-1, 0, 1, 2), active=4)


def main(arguments: list[str]) -> int:
    """Draw the sample to the file named, or to ``gantt.svg``."""
    out = Path(arguments[0] if arguments else "gantt.svg")
    out.write_text(standalone(gantt(sample())), encoding="utf-8")
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
