"""A fleet from a run on real machines: what its journal says of every device's seconds, bytes and absences.

Visits are kept one by one, in their order: a device's first is slower than the rest, and what slows all devices at
the same time still does. Links are a latency and two byte rates that fit the usual transfer (``fleet_links``); what a
transfer took more or less than that is booked to the visit beside it, so that every trip takes as long as it did.
Absences become a duty cycle that is as frequent and as long; visits that were lost otherwise, a probability.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.errors import DataError
from paceline.plans.fleet_links import Link, fit_links, spread
from paceline.reading import parse_object, read_text
from paceline.worlds.local.journal import Entry, read_journal

LONGEST_LIST = 10_000
"""Visits of one device that are kept; the first of them."""
MOST = 1e15
"""Of seconds and bytes in a journal."""
BRIEFEST = 1e-6
"""Seconds of a visit that took no time that could be measured."""

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Device:
    """What was seen of one device."""

    number: int
    seconds: tuple[float, ...]
    """Of its visits that ended well, one after the other, each with what transfers beside it took more than usual."""
    lost: int = 0
    """Visits that did not, although it was there."""
    link: Link = field(default_factory=Link)
    away: tuple[Interval, ...] = ()
    availability: str = "always"
    borrowed: bool = False
    """Whether it finished no visit, so that it was given the seconds of others."""

    def away_share(self, span: float) -> float:
        """The share of the run for which it was away."""
        return math.fsum(end - start for start, end in self.away) / span if span else 0.0


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A fleet as a run saw it."""

    devices: tuple[Device, ...]
    server: float | None
    """Mean seconds of a server's job; None if there was none that took time."""
    span: float
    """Seconds of the run."""
    one_size: bool
    """Whether all transfers of a direction had one size, so that latency and byte rate cannot be told apart."""

    @property
    def linked(self) -> bool:
        """Whether any transfer was measured."""
        return not math.isnan(self.devices[0].link.up_mbps)


def measure(directory: Path) -> Measured:
    """The fleet of the run in a directory."""
    entries = read_journal(directory / "journal.jsonl", torn=True)
    return fit(entries, _clients(directory))


def _clients(directory: Path) -> int:
    path = directory / "settings.json"
    try:
        clients = parse_object(read_text(path), str(path)).get("clients")
    except FileNotFoundError:
        raise DataError(f"{directory} holds no run: there is no settings.json") from None
    if not isinstance(clients, int) or isinstance(clients, bool) or clients < 1:
        raise DataError(f"{path} does not say how many clients there were; give the directory of a run")
    return clients


def fit(entries: Sequence[Entry], clients: int) -> Measured:
    """What these entries say of so many devices."""
    for line, entry in enumerate(entries, start=1):
        _check(line, entry, clients)
    visits, away = _by_site(entries, ("visit",)), _by_site(entries, ("online", "offline"))
    if not any(not entry.outcome for found in visits.values() for entry in found):
        raise DataError("no visit of this run came to its end, so nobody's speed is known; give a longer run")
    span = max(entry.end for entry in entries)
    links, one_size = fit_links(entries, clients)
    more, absences = spread(entries, links), {site: _absences(found, span) for site, found in away.items()}
    devices = [
        _device(number, visits[number], more.get(number, {}), absences.get(number, ()), span)
        for number in range(clients)
    ]
    lent = _lent(devices)
    return Measured(
        devices=tuple(
            replace(device, link=link, seconds=device.seconds or lent, borrowed=not device.seconds)
            for device, link in zip(devices, links, strict=True)
        ),
        server=_server(entries),
        span=span,
        one_size=one_size,
    )


def _check(line: int, entry: Entry, clients: int) -> None:
    """A journal may have been damaged; what is computed with must be numbers that can be added up."""
    places, figures = (entry.site, entry.target, entry.number), (entry.start, entry.end, entry.bytes)
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in places)
    if not whole or not all(isinstance(value, int | float) and 0 <= value <= MOST for value in figures):
        raise DataError(f"entry {line} of the journal has no usable places, seconds or bytes; it is damaged")
    if entry.end < entry.start and entry.what in ("visit", "send", "work"):
        raise DataError(f"entry {line} of the journal ends before it begins, at {entry.end:g} s; it is damaged")
    if max(entry.site, entry.target) >= clients:
        beyond = max(entry.site, entry.target)
        raise DataError(f"entry {line} of the journal names device {beyond}, but there were {clients} clients")


def _by_site(entries: Iterable[Entry], kinds: Sequence[str]) -> dict[int, list[Entry]]:
    found: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.what in kinds:
            found[entry.site].append(entry)
    return found


def _device(
    number: int, visits: Sequence[Entry], more: Mapping[int, float], away: tuple[Interval, ...], span: float
) -> Device:
    """Its visits, and those that it lost while it was there."""
    ended = sorted((entry for entry in visits if not entry.outcome), key=lambda entry: entry.start)
    done = [entry.end - entry.start + more.get(entry.number, 0.0) for entry in ended]
    lost = sum(1 for entry in visits if entry.outcome and not _overlaps(entry, away))
    return Device(
        number=number,
        seconds=tuple(max(seconds, BRIEFEST) for seconds in done[:LONGEST_LIST]),
        lost=lost,
        away=away,
        availability=_availability(away, span, lost, len(done)),
    )


def _overlaps(entry: Entry, away: Iterable[Interval]) -> bool:
    """Whether a visit was lost because the device went."""
    return any(start <= entry.end and end >= entry.start for start, end in away)


def _absences(entries: Iterable[Entry], span: float) -> tuple[Interval, ...]:
    """From when to when a device was away. Before it came for the first time, the run had not begun for it."""
    found, since = [], None
    for entry in entries:
        if entry.what == "offline" and since is None:
            since = entry.end
        elif entry.what == "online" and since is not None:
            found.append((since, entry.end))
            since = None
    if since is not None:
        found.append((since, span))
    return tuple((start, end) for start, end in found if end > start)


def _availability(away: Sequence[Interval], span: float, lost: int, done: int) -> str:
    """A duty cycle with as many absences of the same length together, and a probability for what else was lost."""
    words = []
    if away:
        online = 1 - math.fsum(end - start for start, end in away) / span
        words.append(f"duty:{max(span / len(away), 0.001):.6g},{min(max(online, 0.001), 0.999):.6g}")
    if lost:
        words.append(f"dropout:{lost / (lost + done):.6g}")
    return "+".join(words) or "always"


def _lent(devices: Iterable[Device]) -> tuple[float, ...]:
    """For devices that nobody saw at work: the medians of the others, in turn."""
    return tuple(statistics.median(device.seconds) for device in devices if device.seconds)


def _server(entries: Iterable[Entry]) -> float | None:
    taken = [entry.end - entry.start for entry in entries if entry.what == "work" and not entry.outcome]
    mean = math.fsum(taken) / len(taken) if taken else 0.0
    return mean if mean > BRIEFEST else None
