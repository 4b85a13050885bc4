"""Spans for the page: columns of numbers, deflated and written as text, which a browser unpacks at once."""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.report.marks import failures
from paceline.report.runs import Run
from paceline.report.spans import KINDS, NO_SITE, Extent, read_columns, read_extent
from paceline.report.text import site

MOST_SPANS = 100_000
"""On one page, shared by its timelines."""
_TYPES = {"site": "<u4", "kind": "u1", "lane": "<u2", "start": "<f8", "length": "<f4", "round": "<i4"}
_TYPES |= {"bytes": "<f4", "peer": "<i4"}
NOBODY = -1
"""In the place of a peer's row, where a span has none."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """The part of a run whose spans are on the page."""

    begin: float
    end: float
    whole: bool
    """Whether the stretch covers the whole run."""
    missing: int
    """Number of spans left out because too many begin at one instant."""
    spans: int
    of: int
    columns: dict[str, NDArray[Any]]


def choose(path: Path, most: int, window: tuple[float, float] | None, around: float | None) -> Stretch | None:
    """All spans of a run, or of the longest stretch of time that has no more than ``most``; None if there are none.

    A stretch holds all of its spans, unless more than twice ``most`` begin at one instant. It begins with the run,
    unless what happens ``around`` a later moment would be missed.
    """
    extent = read_extent(path)
    if extent is None:
        return None
    begin, end = window or (extent.begin, extent.end)
    columns = read_columns(path, begin, end, most)
    if columns is not None:
        whole = begin <= extent.begin and end >= extent.end
    else:
        begin, end = _cut(path, extent, (begin, end), most, around)
        columns, whole = read_columns(path, begin, end, None), False
    if columns is None or not len(columns["start"]):
        return None
    found = len(columns["start"])
    columns = {name: column[: 2 * most] for name, column in columns.items()}
    kept = len(columns["start"])
    return Stretch(
        begin=begin, end=end, whole=whole, missing=found - kept, spans=kept, of=extent.spans, columns=columns
    )


def _cut(
    path: Path, extent: Extent, asked: tuple[float, float], most: int, around: float | None
) -> tuple[float, float]:
    """The ends of a stretch with about ``most`` spans, by how many of them begin in each part of the time."""
    edges = np.linspace(*asked, len(extent.starts(path, *asked)) + 1)
    counts = np.concatenate([[0], np.cumsum(extent.starts(path, *asked))])
    total = int(counts[-1])
    first = 0
    if around is not None and counts[np.searchsorted(edges, around).clip(0, len(edges) - 1)] > most:
        wanted = counts[np.searchsorted(edges, around).clip(0, len(edges) - 1)] - most / 3
        first = int(np.searchsorted(counts, min(wanted, total - most), "right")) - 1
    last = int(np.searchsorted(counts, counts[first] + most, "right")) - 1
    return float(edges[first]), float(edges[max(last, first + 1)])


def pack(run: Run, label: str, most: int, window: tuple[float, float] | None = None) -> dict[str, Any] | None:
    """One timeline as a JSON value: what is shown of the run, its sites by name, and the columns as text."""
    path = run.spans
    assert path is not None
    failed = failures(run)
    stretch = choose(path, most, window, failed[0].time if failed else None)
    if stretch is None:
        return None
    sites = _sites(stretch.columns)
    place = {index: row for row, index in enumerate(sites)}
    several = any(index < -1 for index in sites)
    return {
        "label": label,
        "seed": run.seed,
        "begin": stretch.begin,
        "end": stretch.end,
        "runEnd": max(run.figure("time") or 0.0, float(stretch.columns["end"].max())),
        "whole": stretch.whole,
        "missing": stretch.missing,
        "count": stretch.spans,
        "of": stretch.of,
        "sites": [site(index, several=several) for index in sites],
        "servers": sum(index < 0 for index in sites),
        "marks": [{"time": mark.time, "label": mark.label, "text": mark.text} for mark in failed],
        "columns": _text(_columns(stretch.columns, place)),
    }


def _sites(columns: dict[str, NDArray[Any]]) -> list[int]:
    """Everyone who does something or is waited for: servers first, then clients by their numbers."""
    seen = {*np.unique(columns["site"]).tolist(), *np.unique(columns["peer"]).tolist()} - {NO_SITE}
    return sorted(seen, key=lambda index: (index >= 0, abs(index)))


def _columns(columns: dict[str, NDArray[Any]], place: dict[int, int]) -> dict[str, NDArray[Any]]:
    """The columns as the script wants them: rows for sites, numbers for kinds, sorted by row and start."""
    known = {kind: number for number, kind in enumerate(KINDS)}
    kinds, inverse = np.unique(columns["kind"].astype(str), return_inverse=True)
    codes = np.array([known.get(kind, known["work"]) for kind in kinds.tolist()])[inverse]
    rows = np.vectorize(lambda index: place.get(index, NOBODY), otypes=[np.int64])
    found = {
        "site": rows(columns["site"]),
        "kind": codes,
        "lane": np.clip(columns["lane"], 0, 65_535),
        "start": columns["start"],
        "length": columns["end"] - columns["start"],
        "round": columns["round"],
        "bytes": np.nan_to_num(columns["bytes"]),
        "peer": rows(columns["peer"]),
    }
    order = np.lexsort((found["start"], found["site"]))
    return {name: column[order] for name, column in found.items()}


def _text(columns: dict[str, NDArray[Any]]) -> dict[str, str]:
    """Each column as base64 of its deflated bytes; all first bytes of numbers come first, which deflates better."""
    return {name: _deflated(columns[name].astype(kind)) for name, kind in _TYPES.items()}


def _deflated(column: NDArray[Any]) -> str:
    planes = column.view(np.uint8).reshape(len(column), -1).T
    return base64.b64encode(zlib.compress(np.ascontiguousarray(planes).tobytes())).decode("ascii")


def finite(value: float | None) -> float | None:
    """A number that JSON has; None for all others."""
    return value if value is not None and math.isfinite(value) else None
