"""How long each party of a run worked, moved models, waited and did nothing: sums over the spans of the whole run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from paceline.report.spans import scan

Seconds = NDArray[np.float64]
Sites = NDArray[np.int32] | NDArray[np.int64]

COMPACT = 1 << 20
"""Intervals held before those that touch are joined: a long file must not be held whole."""


@dataclass(frozen=True, kw_only=True)
class Party:
    """One site, or several together; seconds are summed over them."""

    sites: int
    stretch: float
    """From the first span of each site to its last: what begins before or ends after is not judged."""
    train: float
    work: float
    busy: float
    """Seconds in which a site did anything but wait; what it did at the same time counts once."""
    waiting: float
    """Seconds booked as waits for somebody."""

    def share(self, seconds: float) -> float | None:
        """These seconds as a share of the stretch; None where that has no length."""
        return seconds / self.stretch if self.stretch > 0 else None

    def unused(self, busy: float) -> float | None:
        """The share of the stretch that is not ``busy``."""
        return None if (share := self.share(busy)) is None else max(0.0, 1.0 - share)


@dataclass(frozen=True, kw_only=True)
class Parties:
    """The servers together, the devices together, and the two devices that stand out."""

    servers: Party | None
    devices: Party | None
    busiest_server: tuple[int, Party] | None
    """Of several servers the one that was busy for most seconds, transfers counted."""
    busiest: tuple[int, Party] | None
    """The device that was busy for most seconds; None where none was busy at all."""
    least_used: tuple[int, Party] | None
    """The device that was unused for most seconds; None where none was unused at all."""
    end: float
    """The end of the last span."""

    @property
    def several(self) -> bool:
        """Whether there are several servers, which must be told apart."""
        return self.servers is not None and self.servers.sites > 1


def read_parties(path: Path) -> Parties | None:
    """The parties of a run; None if it has no spans."""
    tally = _tally(path)
    if tally is None:
        return None
    servers, devices = np.flatnonzero(tally.sites < 0), np.flatnonzero(tally.sites >= 0)
    return Parties(
        servers=tally.party(servers) if len(servers) else None,
        devices=tally.party(devices) if len(devices) else None,
        busiest_server=tally.most(tally.busy, servers) if len(servers) > 1 else None,
        busiest=tally.most(tally.busy, devices),
        least_used=tally.most(tally.stretch - tally.busy, devices),
        end=float(tally.last.max()),
    )


@dataclass(frozen=True, kw_only=True)
class _Tally:
    """Columns with one place per site that has spans."""

    sites: Sites
    first: Seconds
    last: Seconds
    train: Seconds
    work: Seconds
    waiting: Seconds
    busy: Seconds

    @property
    def stretch(self) -> Seconds:
        return self.last - self.first

    def most(self, seconds: Seconds, places: Sites) -> tuple[int, Party] | None:
        """The one of these places with most seconds, a tie going to the lowest number; None if nobody has any."""
        if not len(places):
            return None
        top = places[int(seconds[places].argmax())]
        # Less than this is what is left when equal sums are subtracted.
        if seconds[top] <= 1e-9 * self.last.max():
            return None
        return int(self.sites[top]), self.party(np.array([top]))

    def party(self, places: Sites) -> Party:
        return Party(
            sites=len(places),
            stretch=float(self.stretch[places].sum()),
            train=float(self.train[places].sum()),
            work=float(self.work[places].sum()),
            busy=float(self.busy[places].sum()),
            waiting=float(self.waiting[places].sum()),
        )


def _tally(path: Path) -> _Tally | None:
    ranges = [pc.min_max(batch["site"]).as_py() for batch in scan(path, ["site"]) if batch.num_rows]
    if not ranges:
        return None
    low, high = min(r["min"] for r in ranges), max(r["max"] for r in ranges)
    count = high - low + 1
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    sums = {kind: np.zeros(count) for kind in ("train", "work", "wait")}
    cover = _Cover()
    for batch in scan(path, ["site", "kind", "start", "end"]):
        place, start, end = _columns(batch, low)
        np.minimum.at(first, place, start)
        np.maximum.at(last, place, end)
        kinds = batch["kind"].cast(pa.string())
        for kind, total in sums.items():
            total += np.bincount(place, (end - start) * _is(kinds, kind), minlength=count)
        busy = ~_is(kinds, "wait")
        cover.add(place[busy], start[busy], end[busy])
    seen = np.flatnonzero(np.isfinite(first))
    return _Tally(
        sites=seen + low,
        first=first[seen],
        last=last[seen],
        train=sums["train"][seen],
        work=sums["work"][seen],
        waiting=sums["wait"][seen],
        busy=cover.seconds(count)[seen],
    )


def _columns(batch: Any, low: int) -> tuple[Sites, Seconds, Seconds]:
    place = batch["site"].to_numpy(zero_copy_only=False).astype(np.int32) - low
    return place, batch["start"].to_numpy(zero_copy_only=False), batch["end"].to_numpy(zero_copy_only=False)


def _is(kinds: Any, kind: str) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = pc.equal(kinds, kind).to_numpy(zero_copy_only=False)
    return same


class _Cover:
    """The time that intervals cover, place by place, where overlapping ones count once."""

    def __init__(self) -> None:
        self._pieces: list[tuple[Sites, Seconds, Seconds]] = []
        self._held, self._limit = 0, COMPACT

    def add(self, place: Sites, start: Seconds, end: Seconds) -> None:
        self._pieces.append((place, start, end))
        self._held += len(place)
        if self._held > self._limit:
            self._join()
            # What could not be joined would be sorted again each time: wait until there is as much of it anew.
            self._limit = 2 * self._held + COMPACT

    def seconds(self, count: int) -> Seconds:
        if not self._held:
            return np.zeros(count)
        self._join()
        place, start, end = self._pieces[0]
        return np.bincount(place, (end - start).astype(np.float64), minlength=count).astype(np.float64)

    def _join(self) -> None:
        joined = _union(*(np.concatenate(column) for column in zip(*self._pieces, strict=True)))
        self._pieces, self._held = [joined], len(joined[0])


def _union(place: Sites, start: Seconds, end: Seconds) -> tuple[Sites, Seconds, Seconds]:
    """The same time as intervals that neither overlap nor touch."""
    where = np.concatenate([place, place])
    when = np.concatenate([start, end])
    step = np.repeat(np.array([1, -1], np.int8), len(place))
    # At one and the same instant what begins comes before what ends, so that neighbours are joined.
    order = np.lexsort((-step, when, where))
    closes = np.cumsum(step[order], dtype=np.int32) == 0
    opens = np.concatenate([[True], closes[:-1]])
    where, when = where[order], when[order]
    return where[opens], when[opens], when[closes]
