"""Reproductions by name; a paper's module is imported when one of them is asked for."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.errors import SettingError, nearest
from paceline.papers.entries import BOTH, ENTRIES, Entry
from paceline.papers.result import Reproduction, Request, hardware

REPRODUCTIONS: dict[str, Entry] = {entry.id: entry for entry in ENTRIES}


def entry_named(id: str) -> Entry:
    """Look a reproduction up; an unknown name is an error that names the nearest one."""
    if id not in REPRODUCTIONS:
        raise SettingError(f"no reproduction is called {id!r}; {nearest(id, REPRODUCTIONS)}")
    return REPRODUCTIONS[id]


def reproduce(
    id: str,
    *,
    scale: str | None = None,
    seeds: int = 5,
    out: Path | None = None,
    quiet: bool = False,
    data: str | None = None,
) -> Reproduction:
    """Compute one table or figure anew; with ``out``, also write result.json and the figure there."""
    entry = entry_named(id)
    scale = _scale(entry, scale)
    if seeds < 1:
        raise SettingError(f"seeds is {seeds}; it must be 1 or more")
    if data is not None and not entry.trained:
        raise SettingError(f"data is {data!r}, but {entry.id} has no choice of datasets; leave out --data")
    if out is not None:
        from paceline.ledger.directory import make_directory  # which the list of reproductions need not wait for

        make_directory(out)
    begin = time.perf_counter()
    found = entry.load()(Request(scale=scale, seeds=seeds, out=out, quiet=quiet, data=data))
    found = replace(
        found,
        id=entry.id,
        title=f"{entry.paper}: {entry.title}",
        scale=scale,
        seconds=found.seconds or time.perf_counter() - begin,
        hardware=found.hardware or hardware(trained=scale in BOTH),
    )
    if out is not None:
        write(found, out)
    return found


def _scale(entry: Entry, scale: str | None) -> str | None:
    if scale is None or scale in entry.scales:
        return scale or next(iter(entry.scales), None)
    if not entry.scales:
        raise SettingError(f"scale is {scale!r}, but {entry.id} has only one size; leave out --scale")
    raise SettingError(f"scale is {scale!r}; {entry.id} has: {', '.join(entry.scales)}")


def write(found: Reproduction, out: Path) -> None:
    """result.json and, where there is one, figure.svg and figure.png."""
    (out / "result.json").write_text(dump(found.to_json()) + "\n", encoding="utf-8")
    if found.figure is None:
        return
    from matplotlib import rc_context

    figure = found.figure()
    with rc_context({"svg.hashsalt": found.id}):  # without it the same picture has other bytes each time
        figure.savefig(out / "figure.svg", metadata={"Date": None})
    figure.savefig(out / "figure.png")


def dump(value: Any) -> str:
    """JSON as it is printed and written: σ stays σ."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
