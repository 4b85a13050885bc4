"""Who did what when in a dry run, for figures that show a pipeline: bars of every site, and how much overlaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from paceline.papers.pictures import new_figure, plain

COLOURS = {"train": "C0", "send": "C1", "receive": "C2", "work": "C4"}
WORDS = {"train": "trains", "send": "sends", "receive": "receives", "work": "aggregates"}
Pieces = list[tuple[float, float]]
"""Stretches of time, each from its begin to its end."""


def pieces(spans: pa.Table, kinds: Sequence[str], *, server: bool, begin: float, end: float) -> Pieces:
    """When some server, or some device, does something of these kinds between two times; what overlaps is joined."""
    rows = spans.select(["site", "kind", "start", "end"]).to_pylist()
    mine = [(max(row["start"], begin), min(row["end"], end)) for row in rows if _is(row, kinds, server)]
    joined: Pieces = []
    for start, stop in sorted(piece for piece in mine if piece[0] < piece[1]):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def _is(row: Mapping[str, Any], kinds: Sequence[str], server: bool) -> bool:
    return row["kind"] in kinds and (row["site"] < 0) is server


def length(those: Pieces) -> float:
    """Seconds in all."""
    return sum(end - begin for begin, end in those)


def common(one: Pieces, other: Pieces) -> float:
    """Seconds that lie in both."""
    overlaps = (min(a[1], b[1]) - max(a[0], b[0]) for a in one for b in other)
    return sum(overlap for overlap in overlaps if overlap > 0)


Chart = tuple[pa.Table, float, float]
"""A timeline, and from when to when it is drawn."""


def draw_timelines(charts: Mapping[str, Chart], title: str) -> Any:
    """One chart for each pipeline, from its own begin on; servers on top, a row for each site that does something."""
    bars = [_bars(*chart) for chart in charts.values()]
    sites = [sorted({site for site, *_ in those}, key=_server_first) for those in bars]
    figure = new_figure((8.0, 0.9 + sum(0.24 * len(those) + 0.6 for those in sites)), title)
    ratios = {"height_ratios": [len(those) for those in sites]}
    axes = figure.subplots(len(charts), 1, squeeze=False, sharex=True, gridspec_kw=ratios)[:, 0]
    for ax, rows, those, name in zip(axes, sites, bars, charts, strict=True):
        _chart(ax, rows, those)
        ax.set_title(name, loc="left", fontsize=10)
        plain(ax)
    axes[-1].set_xlabel("virtual time / s")
    for kind in (kind for kind in COLOURS if any(kind == one[1] for those in bars for one in those)):
        axes[0].barh([0], [0], color=COLOURS[kind], label=WORDS[kind])
    axes[0].legend(frameon=False, ncols=4, loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=8)
    return figure


def _bars(spans: pa.Table, begin: float, end: float) -> list[tuple[int, str, float, float]]:
    """Site, kind, begin and length of what is drawn."""
    rows = spans.select(["site", "kind", "start", "end"]).to_pylist()
    inside = (row for row in rows if row["kind"] in COLOURS and begin <= row["start"] < end)
    bars = [(row["site"], row["kind"], row["start"] - begin, min(row["end"], end) - row["start"]) for row in inside]
    return [bar for bar in bars if bar[3] > 0]


def _server_first(site: int) -> tuple[bool, int]:
    return site >= 0, site


def _chart(ax: Any, sites: Sequence[int], bars: Sequence[tuple[int, str, float, float]]) -> None:
    place = {site: row for row, site in enumerate(sites)}
    for site, kind, begin, seconds in bars:
        thin = 0.35 if site < 0 and kind != "work" else 0.7  # a server sends while it aggregates
        ax.barh(place[site], seconds, thin, begin, color=COLOURS[kind], linewidth=0)
    names = ["server" if site < 0 else f"device {site + 1}" for site in sites]
    ax.set_yticks(range(len(sites)), names, fontsize=8)
    ax.invert_yaxis()
