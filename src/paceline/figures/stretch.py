"""A stretch of virtual time for a Gantt chart: its spans, and the few sites that show best who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from paceline.errors import DataError
from paceline.report.spans import scan

ROUNDS, VISITS = 2, 4
"""By default a chart shows so many rounds, or as long as devices need for so many visits if that is longer."""
MOST_SERVERS = 4
_COLUMNS = ("site", "kind", "start", "end", "peer")


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """The spans between two virtual times."""

    begin: float
    end: float
    columns: dict[str, NDArray[Any]]
    sites: tuple[int, ...]
    """Those that are drawn, servers first."""
    active: int
    """How many devices did anything in this time."""

    def of(self, site: int) -> dict[str, NDArray[Any]]:
        """The spans of one site."""
        mine = self.columns["site"] == site
        return {name: column[mine] for name, column in self.columns.items()}


def first_rounds(path: Path) -> tuple[float, float]:
    """From the first span to the end of the second round, or of a few visits."""
    ends: dict[int, float] = {}
    lengths: list[NDArray[np.float64]] = []
    begin = np.inf
    for batch in scan(path, ["kind", "start", "end", "round"]):
        start, end = (batch[name].to_numpy(zero_copy_only=False) for name in ("start", "end"))
        rounds = batch["round"].to_numpy(zero_copy_only=False)
        for turn in np.unique(rounds):
            ends[int(turn)] = max(ends.get(int(turn), -np.inf), float(end[rounds == turn].max()))
        trains = np.asarray(batch["kind"].cast(pa.string()).to_pylist()) == "train"
        lengths.append((end - start)[trains])
        begin = min(begin, float(start.min()))
    if not ends:
        raise DataError(f"{path} holds no spans; run it again for longer, or leave it out")
    visits = np.concatenate(lengths)
    until = max(ends[turn] for turn in sorted(ends)[:ROUNDS])
    if len(visits):
        until = max(until, begin + VISITS * float(np.median(visits)))
    return begin, min(until, max(ends.values()))


def read_stretch(path: Path, begin: float, end: float, most: int) -> Stretch | None:
    """What happened in this time, and whom to draw; None if nothing did."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _COLUMNS}
    for batch in scan(path, _COLUMNS):
        start, stop = (batch[name].to_numpy(zero_copy_only=False) for name in ("start", "end"))
        inside = (start < end) & (stop > begin) & (stop > start)
        kinds = np.asarray(batch["kind"].cast(pa.string()).to_pylist())
        for name in _COLUMNS:
            column = kinds if name == "kind" else batch[name].to_numpy(zero_copy_only=False)
            parts[name].append(column[inside])
    columns = {name: np.concatenate(found) if found else np.empty(0) for name, found in parts.items()}
    if not len(columns["site"]):
        return None
    columns["start"], columns["end"] = np.maximum(columns["start"], begin), np.minimum(columns["end"], end)
    active = np.unique(columns["site"])
    servers = sorted((int(site) for site in active if site < 0), reverse=True)[:MOST_SERVERS]
    devices = [int(site) for site in active if site >= 0]
    shown = tuple(servers + sorted(_shown(columns, devices, most)))
    return Stretch(begin=begin, end=end, columns=columns, sites=shown, active=len(devices))


def _shown(columns: dict[str, NDArray[Any]], devices: Sequence[int], most: int) -> list[int]:
    """All devices if they are few; else half of them those that others wait for most, and of the rest some that wait
    much and some that wait little, at equal steps."""
    if len(devices) <= most:
        return list(devices)
    waits = (columns["kind"] == "wait") & (columns["site"] >= 0)
    length = columns["end"] - columns["start"]
    caused = _sums(columns["peer"][waits], length[waits])
    waited = _sums(columns["site"][waits], length[waits])
    causes = sorted((d for d in devices if d in caused), key=lambda d: (-caused[d], d))[: max(most // 2, 1)]
    others = sorted((d for d in devices if d not in causes), key=lambda d: (-waited.get(d, 0.0), d))
    picked = np.unique(np.linspace(0, len(others) - 1, most - len(causes)).round().astype(int))
    return causes + [others[place] for place in picked]


def _sums(keys: NDArray[Any], values: NDArray[Any]) -> dict[int, float]:
    found, place = np.unique(keys, return_inverse=True)
    return dict(zip(found.tolist(), np.bincount(place, values).tolist(), strict=True))
