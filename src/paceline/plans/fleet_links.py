"""Links from transfers that were measured: a latency and two byte rates a device, and what these do not explain."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from paceline.system.traces import BYTES_PER_MBIT
from paceline.worlds.local.journal import Entry

FASTEST = 1e6
"""Mbit/s of a link over which bytes took no time that could be measured."""
WAYS = ("up", "down")
PARTS = ("up_mbps", "down_mbps", "latency")
Times = dict[tuple[str, float], list[float]]
"""Seconds of transfers, by way and size."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """What a device's transfers take: a latency, and bytes over a byte rate; nan where nothing was measured."""

    up_mbps: float = math.nan
    down_mbps: float = math.nan
    latency: float = math.nan


def fit_links(entries: Iterable[Entry], clients: int) -> tuple[list[Link], bool]:
    """The link of every device, and whether sizes were too much alike to tell a latency from a byte rate."""
    seen: dict[int, Times] = defaultdict(lambda: defaultdict(list))
    for entry in _moved(entries):
        for device, way in ((entry.site, "up"), (entry.target, "down")):
            if device >= 0:
                seen[device][way, entry.bytes].append(entry.end - entry.start)
    fitted = {device: _link(times) for device, times in seen.items()}
    usual = Link(**{name: _usual([getattr(link, name) for link in fitted.values()]) for name in PARTS})
    alike = not any(_tells(times) for times in seen.values())
    return [_completed(fitted.get(device, usual), usual) for device in range(clients)], alike


def spread(entries: Sequence[Entry], links: Sequence[Link]) -> Mapping[int, Mapping[int, float]]:
    """What transfers took more than their links say, by device and by the number of the visit beside them.

    What came to a device counts for the visit that it began next, what a device sent for the one that it ended last.
    """
    visits: dict[int, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: entry.start):
        if entry.what == "visit" and not entry.outcome:
            visits[entry.site].append(entry)
    more: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for entry in _moved(entries):
        device = entry.site if entry.site >= 0 else entry.target
        own = visits[device]
        if entry.site >= 0:
            place = bisect_right(own, entry.start, key=lambda visit: visit.end) - 1
        else:
            place = bisect_left(own, entry.end, key=lambda visit: visit.start)
        if 0 <= place < len(own):
            more[device][own[place].number] += entry.end - entry.start - _modelled(entry, links)
    return more


def _moved(entries: Iterable[Entry]) -> Iterable[Entry]:
    """Go through the transfers that arrived and had bytes."""
    return (entry for entry in entries if entry.what == "send" and not entry.outcome and entry.bytes > 0)


def _modelled(entry: Entry, links: Sequence[Link]) -> float:
    """What a simulation would take for a transfer."""
    ends = [links[site] for site in (entry.site, entry.target) if site >= 0]
    rates = [links[entry.site].up_mbps] if entry.site >= 0 else []
    rates += [links[entry.target].down_mbps] if entry.target >= 0 else []
    if not rates:  # between servers
        return entry.end - entry.start
    return math.fsum(link.latency for link in ends) + entry.bytes / (min(rates) * BYTES_PER_MBIT)


def _tells(times: Times) -> bool:
    """Whether transfers of one way had several sizes."""
    return any(sum(one == way for one, _ in times) > 1 for way in WAYS)


def _link(times: Times) -> Link:
    """The latency and the byte rates that come nearest to the medians of transfers, by way and size.

    A latency is fitted only where transfers of one way had several sizes; else all is put down to the byte rate.
    """
    ways = [way for way in WAYS if any(one == way for one, _ in times)]
    rows, seconds = [], []
    for (way, size), taken in times.items():
        weight = math.sqrt(len(taken))
        rows.append([weight * _tells(times), *(weight * size * (way == one) for one in ways)])
        seconds.append(weight * statistics.median_low(taken))
    scale = np.maximum(np.array(rows).max(axis=0), 1e-300)
    solved = nnls(np.array(rows) / scale, np.array(seconds))[0] / scale
    rates = {f"{way}_mbps": _mbps(float(pace)) for way, pace in zip(ways, solved[1:], strict=True)}
    return Link(latency=float(solved[0]), **rates)


def _mbps(seconds_per_byte: float) -> float:
    return min(FASTEST, 1 / (seconds_per_byte * BYTES_PER_MBIT)) if seconds_per_byte > 0 else FASTEST


def _usual(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan


def _completed(link: Link, usual: Link) -> Link:
    """With what was not measured of this device as it is with others; of nobody, as in the other direction."""
    up, down = _known(link.up_mbps, usual.up_mbps), _known(link.down_mbps, usual.down_mbps)
    return replace(link, up_mbps=_known(up, down), down_mbps=_known(down, up))


def _known(value: float, other: float) -> float:
    return other if math.isnan(value) else value
