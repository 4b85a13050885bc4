"""Who exchanged models with whom: links as wide as their traffic, and what failed."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from paceline.errors import DataError
from paceline.figures.axes import check_log
from paceline.figures.gantt import COLOURS
from paceline.figures.paper import FAIL, INK, SOFT, Options
from paceline.report.looks import looks
from paceline.report.runs import Group, Run
from paceline.report.text import size
from paceline.report.topology import MIDDLE, Links, Picture, arranged, pair_failed, read_links

WIDEST, THINNEST = 4.0, 0.3
"""Points of the link with most traffic, where there is room, and of one with hardly any."""
SERVER, DEVICE = COLOURS["work"], COLOURS["train"]
LETTER = 4.9
"""Points of a letter, on average."""
LINE = 0.14
"""Inches of a line of text."""
SIDE = 1.75
"""Inches of a drawing, where several stand side by side."""
NAMED = 40
"""So many devices have room for their numbers."""


def topology(groups: Sequence[Group], options: Options) -> Any:
    """One drawing for each method, of its first seed that kept spans."""
    check_log(options.log, "")
    labels = [look.label for look in looks(groups)]
    found = [(label, *one) for label, group in zip(labels, groups, strict=True) for one in _first(group)]
    if not found:
        raise DataError("nothing was sent in these runs, so there is no topology to draw")
    across = max(1, min(len(found), round(options.width / SIDE)))
    side = options.width / across
    heads = [_title(run, links, label if len(found) > 1 else "", side) for label, run, links in found]
    return _sheet(side, across, [(run, links, head) for (_, run, links), head in zip(found, heads, strict=True)])


def _sheet(side: float, across: int, drawings: Sequence[tuple[Run, Links, Sequence[str]]]) -> Any:
    """Squares with their titles above, row by row."""
    from paceline.figures.shown import ShownFigure

    head = LINE * max(len(title) for *_, title in drawings) + 0.02
    down = math.ceil(len(drawings) / across)
    width, height = side * across, down * (side + head)
    figure = ShownFigure(figsize=(width, height))
    for place, (run, links, title) in enumerate(drawings):
        row, column = divmod(place, across)
        floor = height - (row + 1) * (side + head)
        axes = figure.add_axes((column * side / width, floor / height, side / width, side / height))
        axes.set_axis_off()
        _draw(axes, run, links, side)
        middle = (column + 0.5) * side / width
        figure.text(middle, (floor + side) / height, "\n".join(title), ha="center", va="bottom")
    return figure


def _first(group: Group) -> list[tuple[Run, Links]]:
    kept = [(run, run.spans) for run in group.runs if run.spans is not None][:1]
    return [(run, links) for run, spans in kept if (links := read_links(spans))]


def _title(run: Run, links: Links, label: str, side: float) -> list[str]:
    """Lines of text over a drawing of so many inches."""
    failed = len({note.sites for note in run.notes if note.kind == "failure"})
    told = [
        f"thickest link: {size(max(arranged(links).links.values()))}",
        *([f"failed (red): {failed}"] if failed else []),
    ]
    letters = int(72 * side / LETTER)
    return [line for text in (label, *told) for line in textwrap.wrap(text, letters)]


def _draw(axes: Any, run: Run, links: Links, side: float) -> None:
    failed = {note.sites for note in run.notes if note.kind == "failure"}
    picture = arranged(links)
    most = max(picture.links.values()) or 1.0
    widest = _widest(picture, side)
    for pair, amount in sorted(picture.links.items(), key=lambda item: item[1]):
        ends = [picture.nodes[site] for site in pair]
        broken = pair_failed(pair, failed)
        axes.plot(
            *zip(*ends, strict=True),
            color=FAIL if broken else SOFT,
            linewidth=max(widest * amount / most, 2 * THINNEST if broken else THINNEST),
            linestyle=(0, (2, 1.5)) if broken else "solid",
            alpha=1.0 if broken else 0.55,
            solid_capstyle="butt",
            zorder=2 if broken else 1,
        )
    _nodes(axes, picture, {sites[0] for sites in failed if len(sites) == 1})
    room = 40 if any(_crowd(picture, site) for site in picture.nodes) else 0
    axes.set_xlim(-room, 2 * MIDDLE + room)
    axes.set_ylim(2 * MIDDLE + room, -room)  # as on a screen: downwards


def _widest(picture: Picture, side: float) -> float:
    """Points of the widest link: neighbours on the ring keep apart, and many links do not make one blot."""
    apart = 72 * side * math.pi / len(picture.nodes)
    crowd = math.sqrt(min(1.0, 2 * len(picture.nodes) / len(picture.links)))
    return min(WIDEST, max(0.35 * apart * crowd, 2 * THINNEST))


def _crowd(picture: Picture, site: int) -> bool:
    """Whether a dot stands for all devices of a server."""
    return site >= 0 and picture.names[site].endswith("devices")


def _nodes(axes: Any, picture: Picture, dead: set[int]) -> None:
    several = sum(site < 0 for site in picture.nodes) > 1
    named = sum(site >= 0 for site in picture.nodes) <= NAMED
    for site, (x, y) in picture.nodes.items():
        server, name = site < 0, picture.names[site]
        colour = SERVER if server else DEVICE
        look: dict[str, Any] = {"color": colour}
        if site in dead:
            look = {"color": "white", "markeredgecolor": FAIL, "markeredgewidth": 1.2}
        big = 12.0 if server else 7.0 if named else 3.0
        axes.plot(x, y, "s" if server else "o", markersize=big, zorder=3, **look)
        if _crowd(picture, site):
            out = (MIDDLE + 1.18 * (x - MIDDLE), MIDDLE + 1.18 * (y - MIDDLE))
            axes.text(*out, name.removesuffix(" devices"), ha="center", va="center", color=INK, zorder=4)
        elif named or (server and several):
            text = str(-site if server else site) if several or not server else ""
            ink = FAIL if site in dead else "white"
            axes.text(x, y, text, ha="center", va="center_baseline", fontsize=6, color=ink, zorder=4)
