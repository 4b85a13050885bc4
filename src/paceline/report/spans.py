"""What a chart needs of a spans file that may hold millions of rows: it is streamed, never loaded whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from paceline.errors import DataError
from paceline.reading import ANY, require_file
from paceline.report.runs import MOST

COLUMNS = ("site", "kind", "lane", "start", "end", "round", "bytes", "flops", "joules", "peer")
KINDS = ("train", "send", "receive", "work", "wait")
NO_SITE = -(2**31)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Who was waited for, and how long in all."""

    total: float
    causes: tuple[tuple[int, float], ...]
    """(site, seconds) with the longest first; NO_SITE where no cause was recorded."""


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much there is in a spans file."""

    begin: float
    end: float
    spans: int

    def starts(self, path: Path, begin: float, end: float, parts: int = 4096) -> NDArray[np.int64]:
        """How many spans reach into each part of a stretch of time, counted where they first do."""
        counts = np.zeros(parts, np.int64)
        inside = (pc.field("start") < end) & (pc.field("end") >= begin)
        for batch in _batches(path, _open(path), ["start", "end"], inside):
            start = np.clip(batch["start"].to_numpy(zero_copy_only=False), begin, end)
            counts += np.histogram(start, parts, (begin, end))[0]
        return counts


def read_extent(path: Path) -> Extent | None:
    """From when to when a run has spans, and how many; None if there are none."""
    begin, end, spans = np.inf, -np.inf, 0
    for batch in _batches(path, _open(path), ["start", "end"]):
        begin, end = min(begin, pc.min(batch["start"]).as_py()), max(end, pc.max(batch["end"]).as_py())
        spans += batch.num_rows
    return Extent(begin=float(begin), end=float(end), spans=spans) if spans else None


def read_columns(path: Path, begin: float, end: float, most: int | None) -> dict[str, NDArray[Any]] | None:
    """All that happens between two times, in order of start; None if that is more than ``most`` spans."""
    data, inside = _open(path), (pc.field("start") <= end) & (pc.field("end") >= begin)
    if most is not None:
        found = 0
        for batch in _batches(path, data, ["start", "end"], inside):
            found += batch.num_rows
            if found > most:
                return None
    return _collect(path, data, inside)


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
        parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        for part in parts:
            require_file(part, ANY)
        data = ds.dataset([str(part) for part in parts], format="parquet")
        names = data.schema.names
    except (pa.ArrowException, OSError, UnicodeError) as error:  # the last for names of files or columns: no text
        raise DataError(f"{path} is damaged or no Parquet file: {error}") from error
    missing = [name for name in COLUMNS if name not in names]
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
    """Return the rows if all have a place and finite numbers. An unknown energy is NaN."""
    for name in batch.schema.names:
        far = _FARTHEST.get(name)
        wide = far and not pc.all(pc.less(pc.abs(batch[name]), far)).as_py()
        if batch[name].null_count or wide or (name != "kind" and pc.any(pc.is_inf(batch[name])).as_py()):
            raise DataError(f"{path} is damaged: {name} is empty, or no number that can be, in some of its rows")
    return batch


def _batches(path: Path, data: Any, columns: Sequence[str], where: Any = None) -> Iterator[Any]:
    try:
        for batch in data.to_batches(columns=list(columns), filter=where):
            batch.validate(full=True)  # words that are no text, too
            if batch.num_rows:
                yield _sound(path, batch)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is damaged: {error}") from error


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
