"""Who trains, sends, works and waits for whom, in a stretch of virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.errors import DataError
from paceline.figures.axes import check_log
from paceline.figures.paper import FAIL, SOFT, Options
from paceline.figures.sheets import sheet
from paceline.figures.stretch import Stretch, first_rounds, read_stretch
from paceline.report.looks import looks
from paceline.report.marks import Mark, failures
from paceline.report.runs import Group, Run
from paceline.report.spans import NO_SITE
from paceline.report.text import site as site_name

COLOURS = {"train": "#2f6fb5", "work": "#7a3fb0", "send": "#e8912d", "receive": "#2fa68a"}
"""Those of the page."""
WAIT, PALE = "#e3a9b4", "#fdf4f6"
ROW = 0.135
"""Inches of a row: type of 8 points fits."""
HEAD = 0.62
MOST, FEWEST = 20, 6
"""Devices on all charts together unless more are asked for, and on each of them."""
MOST_FAILURES = 4
_HALVES = {"send": (0.0, 0.4), "receive": (-0.4, 0.4)}
"""A server sends and receives at once, so each has half of its row."""


def gantt(groups: Sequence[Group], options: Options) -> Any:
    """One chart for each method, of its first seed that kept spans, all of the same stretch of time."""
    check_log(options.log, "")
    labels = [look.label for look in looks(groups)]
    kept = [(label, run) for label, group in zip(labels, groups, strict=True) if (run := _kept(group)) is not None]
    if not kept:
        raise DataError(f"{groups[0].runs[0].path} keeps no spans; run it again without --no-spans")
    begin, end = options.window or _common([run for _, run in kept])
    most = options.sites or max(FEWEST, MOST // len(kept))
    charts = [(label, run, _read(run, begin, end, most)) for label, run in kept]
    if not any(found for *_, found in charts):
        raise DataError(f"nothing happened between {begin:g} and {end:g} virtual seconds; choose another --window")
    shown = [(label, run, found) for label, run, found in charts if found is not None]
    ratios = [len(found.sites) + len(_failures(run, found)) for _, run, found in shown]
    figure, many = sheet(options.width, HEAD + ROW * sum(ratios) + 0.4 * (len(shown) - 1), len(shown))
    many[0].get_gridspec().set_height_ratios(ratios)
    used: dict[str, None] = {}
    for axes, (label, run, found) in zip(many, shown, strict=True):
        used |= dict.fromkeys(_chart(axes, found))
        _failed(axes, run, found)
        _ended(axes, run, found)
        axes.set_xlim(begin, end)
        if len(shown) > 1 or found.active > sum(site >= 0 for site in found.sites):
            axes.set_title(_title(label, found), loc="left", pad=3)
    many[-1].set_xlabel("virtual time (s)")
    _legend(figure, list(used))
    figure.draw_without_rendering()
    for axes, (_, _, found) in zip(many, shown, strict=True):
        _causes(figure, axes, found)
    return figure


def _kept(group: Group) -> Run | None:
    return next((run for run in group.runs if run.spans is not None), None)


def _common(runs: Sequence[Run]) -> tuple[float, float]:
    """A stretch that shows the first rounds of all, also of the slowest."""
    found = [first_rounds(run.spans) for run in runs if run.spans is not None]
    return min(begin for begin, _ in found), max(end for _, end in found)


def _read(run: Run, begin: float, end: float, most: int) -> Stretch | None:
    assert run.spans is not None
    return read_stretch(run.spans, begin, end, most)


def _title(label: str, found: Stretch) -> str:
    devices = sum(site >= 0 for site in found.sites)
    return label if devices == found.active else f"{label}: {devices} of {found.active:,} devices"


def _chart(axes: Any, found: Stretch) -> list[str]:
    """The bars of all sites; returns which kinds there are."""
    several = any(site < -1 for site in found.sites)
    used = []
    for kind in ("wait", *COLOURS):  # waits first: what a server receives meanwhile lies upon them
        boxes: list[tuple[float, float, float, float]] = []
        for row, site in enumerate(found.sites):
            spans = found.of(site)
            mine = spans["kind"] == kind
            low, high = _HALVES.get(kind, (-0.4, 0.8)) if site < 0 else (-0.4, 0.8)
            pieces = list(zip(spans["start"][mine].tolist(), spans["end"][mine].tolist(), strict=True))
            if kind == "wait" and site < 0:
                pieces = _joined(pieces)
            boxes += [(begin, row + low, end - begin, high) for begin, end in pieces]
        if boxes:
            used.append(kind)
            axes.add_collection(_rectangles(boxes, kind))
    axes.set_yticks(range(len(found.sites)), [site_name(site, several=several) for site in found.sites])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    return used


def _joined(pieces: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same time in as few pieces as can be: a server that waits for many has a wait for each."""
    joined: list[tuple[float, float]] = []
    for begin, end in sorted(pieces):
        if joined and begin <= joined[-1][1] + 1e-9:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _rectangles(boxes: Sequence[tuple[float, float, float, float]], kind: str) -> Any:
    from matplotlib.collections import PolyCollection

    corners = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h in boxes]
    if kind == "wait":
        return PolyCollection(corners, facecolor=PALE, edgecolor=WAIT, linewidth=0.4, hatch="/" * 7, zorder=1)
    return PolyCollection(corners, facecolor=COLOURS[kind], linewidth=0, zorder=2)


def _legend(figure: Any, used: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    words = [kind for kind in (*COLOURS, "wait") if kind in used]
    handles = [
        Patch(facecolor=PALE, edgecolor=WAIT, linewidth=0.4, hatch="/" * 7, label="wait (for whom)")
        if kind == "wait"
        else Patch(facecolor=COLOURS[kind], label=kind)
        for kind in words
    ]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=len(handles), handlelength=1.2, columnspacing=1.0
    )


def _causes(figure: Any, axes: Any, found: Stretch) -> None:
    """For whom each wait was, where the bar has room for it."""
    from matplotlib.patheffects import withStroke

    wide = axes.get_window_extent().width / (found.end - found.begin)
    letter = 0.62 * 6 * figure.dpi / 72
    several = any(site < -1 for site in found.sites)
    for row, site in enumerate(found.sites):
        spans = found.of(site)
        mine = (spans["kind"] == "wait") & (spans["peer"] != NO_SITE)
        for begin, end, peer in zip(spans["start"][mine], spans["end"][mine], spans["peer"][mine], strict=True):
            text = f"{peer}" if peer >= 0 else site_name(peer, several=several)
            if (end - begin) * wide > letter * (len(text) + 1):
                said = axes.text(
                    (begin + end) / 2, row, text, fontsize=6, ha="center", va="center_baseline", color=SOFT
                )
                said.set_path_effects([withStroke(linewidth=2, foreground="white")])


def _ended(axes: Any, run: Run, found: Stretch) -> None:
    """Where a run was over before the others."""
    over = run.figure("time")
    if over is not None and found.begin < over < found.end:
        axes.axvline(over, color=SOFT, linewidth=0.7, linestyle=(0, (5, 4)), zorder=1)
        axes.annotate("its end", (over, 0), xytext=(3, 0), textcoords="offset points", va="center", color=SOFT)


def _failures(run: Run, found: Stretch) -> list[Mark]:
    """What failed in this time, the first few of it."""
    return [mark for mark in failures(run) if found.begin <= mark.time <= found.end][:MOST_FAILURES]


def _failed(axes: Any, run: Run, found: Stretch) -> None:
    """When a server or a link failed: a line, and its label in a row of its own below all sites."""
    marks, below = _failures(run, found), len(found.sites)
    for row, mark in enumerate(marks):
        axes.axvline(mark.time, color=FAIL, linewidth=0.8, linestyle=(0, (2, 2)), zorder=3)
        right = mark.time > (found.begin + found.end) / 2
        axes.annotate(
            mark.label,
            (mark.time, below + row),
            xytext=(-3 if right else 3, 0),
            textcoords="offset points",
            ha="right" if right else "left",
            va="center",
            color=FAIL,
            bbox={"facecolor": "white", "linewidth": 0, "pad": 0.5},
            zorder=4,
        )
    axes.set_ylim(below + len(marks) - 0.4, -0.6)
