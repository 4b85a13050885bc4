"""What must hold in the ledger of every run, whatever was done to it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from paceline.ledger import Ledger
from paceline.ledger.spans import Kind

EXACT = 1e-9
Columns = dict[str, NDArray[np.float64]]


def read_columns(ledger: Ledger) -> Columns:
    """The spans of a run as numbers."""
    table = ledger.table()
    kinds = [str(kind).upper() for kind in table["kind"].to_pylist()]
    found = {name: np.asarray(table[name], dtype=np.float64) for name in table.column_names if name != "kind"}
    return found | {"kind": np.array([Kind[kind] for kind in kinds], dtype=np.float64)}


def broken(ledger: Ledger) -> str | None:
    """What is wrong with a run's books; None if all is well."""
    columns = read_columns(ledger)
    return next(_problems(columns, ledger), None)


def _problems(spans: Columns, ledger: Ledger) -> Iterator[str]:
    start, end = spans["start"], spans["end"]
    if not (np.isfinite(start) & np.isfinite(end) & (start >= 0) & (end >= start)).all():
        yield "a span begins before 0, ends before it begins, or never"
    if (spans["bytes"] < 0).any() or (spans["flops"] < 0).any():
        yield "a span has a negative cost"
    sent, received = _of(spans, Kind.SEND), _of(spans, Kind.RECEIVE)
    moved = float(sent["bytes"].sum())
    if not np.isclose(moved, received["bytes"].sum(), rtol=EXACT) or not np.isclose(moved, ledger.bytes, rtol=EXACT):
        yield f"{moved:g} bytes were sent, {received['bytes'].sum():g} received, {ledger.bytes:g} are in the sums"
    for site in np.unique(spans["site"]):
        own = {name: column[spans["site"] == site] for name, column in spans.items()}
        computing = _sorted(_of(own, Kind.TRAIN), _of(own, Kind.WORK))
        waits = _sorted(_of(own, Kind.WAIT))
        moving = (_of(own, Kind.SEND), _of(own, Kind.RECEIVE)) if site >= 0 else ()
        if _overlap(computing):
            yield f"site {site:g} computes two things at once"
        if _overlap(waits):
            yield f"site {site:g} waits for two things at once"
        if any(_meet(wait, busy) for wait in waits for busy in _sorted(_of(own, Kind.TRAIN), *moving)):
            yield f"site {site:g} waits while it does something"


def _of(spans: Columns, kind: Kind) -> Columns:
    return {name: column[spans["kind"] == kind] for name, column in spans.items()}


def _sorted(*parts: Columns) -> list[tuple[float, float]]:
    return sorted(
        (float(a), float(b)) for part in parts for a, b in zip(part["start"], part["end"], strict=True) if b > a
    )


def _overlap(spans: list[tuple[float, float]]) -> bool:
    return any(_meet(one, other) for one, other in pairwise(spans))


def _meet(one: tuple[float, float], other: tuple[float, float]) -> bool:
    end = min(one[1], other[1])
    return end - max(one[0], other[0]) > EXACT * max(1.0, end)
