"""What a chart needs of a spans file that may hold millions of rows: it is streamed, never loaded whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from paceline.errors import DataError
from paceline.report.runs import MOST

COLUMNS = ("site", "kind", "lane", "start", "end", "round", "bytes", "flops", "joules", "peer")
KINDS = ("train", "send", "receive", "work", "wait")
NO_SITE = -(2**31)

MAX_SITES = 40
SHARED_SITES = 20
"""Fewer rows where several charts stand one under the other: they must be seen together."""
FEW_SITES = 12
"""So many devices are all drawn; with more, those that have the most to show."""
MAX_SPANS = 4000
SHARED_SPANS = 6000
"""Of all charts together where there are several, so that the page stays small."""
LEAST_ROUNDS, LEAST_SPANS = 3, 150


@dataclass(frozen=True, kw_only=True)
class Window:
    """The spans of some sites between two virtual times."""

    begin: float
    end: float
    columns: dict[str, NDArray[Any]]
    """By the names of COLUMNS, in order of start."""
    sites: tuple[int, ...]
    """The sites shown, servers first."""
    active: int
    """How many sites did anything between the two times."""
    instants: bool = True
    """Whether it holds spans that took no time; where there is too much to draw, they go first."""

    @property
    def several(self) -> bool:
        """Whether there are several servers, which must be told apart."""
        return any(site < -1 for site in self.sites)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Who was waited for, and how long in all."""

    total: float
    causes: tuple[tuple[int, float], ...]
    """(site, seconds) with the longest first; NO_SITE where no cause was recorded."""


def read_window(
    path: Path,
    begin: float | None = None,
    end: float | None = None,
    most: int = MAX_SITES,
    spans: int = MAX_SPANS,
) -> Window | None:
    """The busiest sites between two times, by default the first few rounds; None if nothing happened then."""
    data = _open(path)
    if begin is None or end is None:
        opening = _first_rounds(path, data)
        if opening is None:
            return None
        begin, end = (opening[0] if begin is None else begin), (opening[1] if end is None else end)
    inside = (pc.field("start") < end) & (pc.field("end") > begin)
    activity = _activity(path, data, inside)
    if not activity:
        return None
    sites = _choose(activity, most)
    instants = sum(activity[site].spans for site in sites) <= spans
    if not instants:
        inside &= pc.field("end") > pc.field("start")
    if most > FEW_SITES and sum(activity[site].lasting for site in sites) > spans:
        sites = _choose(activity, FEW_SITES + sum(site < 0 for site in sites))
    columns = _collect(path, data, inside & pc.field("site").isin(sites))
    if len(columns["start"]) > spans:
        # Too many to draw: a shorter stretch of time, whole, says more than a thinned one.
        cut = float(columns["start"][spans])
        end = cut if cut > begin else end
        columns = {name: column[:spans] for name, column in columns.items()}
    return Window(begin=begin, end=end, columns=columns, sites=tuple(sites), active=len(activity), instants=instants)


def read_windows(paths: Sequence[Path], begin: float | None = None, end: float | None = None) -> list[Window | None]:
    """One and the same stretch of time of several runs, by default a few rounds of the slowest.

    Where all of them together have few devices, every window shows all of these, so that rows can be compared.
    """
    if begin is None or end is None:
        openings = [found for path in paths if (found := _first_rounds(path, _open(path))) is not None]
        if not openings:
            return [None for _ in paths]
        begin = min(first for first, _ in openings) if begin is None else begin
        end = max(last for _, last in openings) if end is None else end
    several = len(paths) > 1
    limits = (SHARED_SITES, min(MAX_SPANS, SHARED_SPANS // len(paths))) if several else (MAX_SITES, MAX_SPANS)
    windows = [read_window(path, begin, end, *limits) for path in paths]
    while len(ends := {window.end for window in windows if window is not None}) > 1:
        # One of them had too much to draw: all show what that one can show.
        windows = [read_window(path, begin, min(ends), *limits) for path in paths]
    together = {site for window in windows if window is not None for site in window.sites}
    whole = all(window is None or window.active == len(window.sites) for window in windows)
    if not whole or sum(site >= 0 for site in together) > FEW_SITES:
        return windows
    return [window and replace(window, sites=_shared_sites(window, together)) for window in windows]


def _shared_sites(window: Window, together: Iterable[int]) -> tuple[int, ...]:
    """The devices and the server of all runs; further servers only where a run has them."""
    return tuple(site for site in sorted(together, key=_drawn) if site >= -1 or site in window.sites)


def scan(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """These columns of all spans, batch by batch."""
    return _batches(path, _open(path), columns)


def read_waiting(path: Path) -> Waiting:
    """The waits of the whole run, summed by cause."""
    seconds: dict[int, float] = {}
    for batch in _batches(path, _open(path), ["peer", "start", "end"], pc.field("kind") == "wait"):
        table = pa.table({"peer": batch["peer"], "length": pc.subtract(batch["end"], batch["start"])})
        for row in table.group_by("peer").aggregate([("length", "sum")]).to_pylist():
            seconds[row["peer"]] = seconds.get(row["peer"], 0.0) + row["length_sum"]
    causes = sorted(seconds.items(), key=lambda item: (-item[1], item[0]))
    return Waiting(total=sum(seconds.values()), causes=tuple(causes))


def _open(path: Path) -> Any:
    try:
        # Half of a part that was being written has another name, and is no part.
        data = ds.dataset(sorted(map(str, path.glob("*.parquet"))) if path.is_dir() else path, format="parquet")
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is damaged or no Parquet file: {error}") from error
    missing = [name for name in COLUMNS if name not in data.schema.names]
    if missing:
        raise DataError(f"{path} lacks the columns {', '.join(missing)}; want {', '.join(COLUMNS)}")
    for name in COLUMNS:
        if not _SOUND.get(name, _number)(data.schema.field(name).type):
            raise DataError(f"{path}: the column {name} is of type {data.schema.field(name).type}; write it again")
    return data


def _number(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _word(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or (pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type)))


_SOUND = dict.fromkeys(("site", "lane", "round", "peer"), pa.types.is_integer) | {"kind": _word}
_FARTHEST = {"start": MOST, "end": MOST, "site": 100_000_000}
"""Of times and sites, whose range is a chart's width or an array's length."""


def _sound(path: Path, batch: Any) -> Any:
    """The same rows, if all of them have a place and a finite time."""
    for name in batch.schema.names:
        far = _FARTHEST.get(name)
        if batch[name].null_count or (far and not pc.all(pc.less(pc.abs(batch[name]), far)).as_py()):
            raise DataError(f"{path} is damaged: {name} is empty, or no number that can be, in some of its rows")
    return batch


def _batches(path: Path, data: Any, columns: Sequence[str], where: Any = None) -> Iterator[Any]:
    try:
        for batch in data.to_batches(columns=list(columns), filter=where):
            if batch.num_rows:
                yield _sound(path, batch)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is damaged: {error}") from error


def _first_rounds(path: Path, data: Any) -> tuple[float, float] | None:
    """From the first start to the end of the third round, or of later ones until there is enough to see."""
    rounds: dict[int, tuple[int, float]] = {}
    begin = np.inf
    for batch in _batches(path, data, ["round", "start", "end"]):
        grouped = pa.table(batch).group_by("round")
        for row in grouped.aggregate([("end", "max"), ("end", "count"), ("start", "min")]).to_pylist():
            count, end = rounds.get(row["round"], (0, -np.inf))
            rounds[row["round"]] = (count + row["end_count"], max(end, row["end_max"]))
            begin = min(begin, row["start_min"])
    if not rounds:
        return None
    spans, last = 0, -np.inf
    for position, key in enumerate(sorted(rounds)):
        if position >= LEAST_ROUNDS and spans >= LEAST_SPANS:
            break
        spans, last = spans + rounds[key][0], max(last, rounds[key][1])
    return float(begin), float(last)


class _Active(NamedTuple):
    """What a site did: a site that only waits is busy for 0 seconds."""

    busy: float
    spans: int
    lasting: int
    """How many of the spans took any time."""


def _activity(path: Path, data: Any, inside: Any) -> dict[int, _Active]:
    found: dict[int, _Active] = {}
    for batch in _batches(path, data, ["site", "kind", "start", "end"], inside):
        waits = pc.equal(batch["kind"].cast(pa.string()), "wait")
        length = pc.subtract(batch["end"], batch["start"])
        lasts = pc.cast(pc.greater(length, 0.0), pa.int64())
        table = pa.table({"site": batch["site"], "busy": pc.if_else(waits, 0.0, length), "lasts": lasts})
        sums = table.group_by("site").aggregate([("busy", "sum"), ("busy", "count"), ("lasts", "sum")])
        for row in sums.to_pylist():
            busy, spans, lasting = found.get(row["site"], (0.0, 0, 0))
            found[row["site"]] = _Active(
                busy + row["busy_sum"], spans + row["busy_count"], lasting + row["lasts_sum"]
            )
    return found


def _choose(activity: dict[int, _Active], most: int) -> list[int]:
    """Servers before clients, those that were busy longest first; then in the order in which they are drawn.

    Servers take at most half of the rows, unless clients leave more.
    """
    ranked = sorted(activity, key=lambda site: (-activity[site].busy, site))
    servers, clients = [site for site in ranked if site < 0], [site for site in ranked if site >= 0]
    room = max(most // 2, most - len(clients))
    shown = servers[:room]
    return sorted(shown + clients[: most - len(shown)], key=_drawn)


def _drawn(site: int) -> tuple[bool, int]:
    """Servers on top, then clients by their numbers."""
    return site >= 0, abs(site)


def _schema(data: Any) -> Any:
    return pa.schema([data.schema.field(name) for name in COLUMNS])


def _collect(path: Path, data: Any, where: Any) -> dict[str, NDArray[Any]]:
    table = pa.Table.from_batches(_batches(path, data, COLUMNS, where), schema=_schema(data))
    table = table.set_column(table.schema.get_field_index("kind"), "kind", table["kind"].cast(pa.string()))
    order = np.lexsort((table["lane"].to_numpy(), table["site"].to_numpy(), table["start"].to_numpy()))
    return {name: table[name].to_numpy()[order] for name in COLUMNS}


def read_spans(path: Path) -> pa.Table:
    """All spans of a run, in the order in which they were booked."""
    return pa.Table.from_batches(_batches(path, data := _open(path), COLUMNS), schema=_schema(data))
