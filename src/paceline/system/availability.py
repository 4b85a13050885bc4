"""When a device can be reached, and whether it leaves while it trains.

An availability has no memory: it answers from addresses alone, in any order. Whoever runs the fleet remembers
the ``back`` of a device that left, and starts nothing there before both ``back`` and ``next_online``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from paceline.errors import SettingError
from paceline.forms import ABOVE_ZERO, FILE, Form, Forms
from paceline.seeds import address, mix, stream, uniform
from paceline.system.cost import LONGEST, share
from paceline.system.hours import Schedule, require_period
from paceline.system.laws import LAW, Constant, Law
from paceline.system.tables import read_table


class Leave(NamedTuple):
    """A device leaves at one virtual time and can be reached again at another; inf is never."""

    at: float
    back: float


class Availability(Protocol):
    """What says when devices are there."""

    def next_online(self, device: int, now: float) -> float:
        """Return the earliest time from ``now`` on at which the device can start; inf if there is none."""

    def online_until(self, device: int, now: float) -> float:
        """Return until when a device that is there now stays, as far as its hours say; inf if for ever."""

    def leaves(self, device: int, visit: int, start: float, seconds: float) -> Leave | None:
        """Return when the device leaves and is back, or None if it stays for a training of so many seconds."""


class _WithoutHours:
    """Devices that can always start, because none of them has hours."""

    __slots__ = ()

    def next_online(self, device: int, now: float) -> float:
        """Return ``now``: the device can always start."""
        return now

    def online_until(self, device: int, now: float) -> float:
        """Return inf: the device has no hours."""
        return math.inf


class AlwaysOn(_WithoutHours):
    """Every device is there at any time and stays to the end of its training."""

    __slots__ = ()

    def leaves(self, device: int, visit: int, start: float, seconds: float) -> Leave | None:
        """Return None: the device never leaves."""
        return None


class Dropouts(_WithoutHours):
    """Each training is lost with probability p, at a moment drawn uniformly from it.

    The device is back when the training would have been over, or never again with ``forever``.
    """

    __slots__ = ("_forever", "_key", "p")

    def __init__(self, p: float, *, seed: int, forever: bool = False) -> None:
        self.p = share(p, "the probability of a drop-out")
        self._key = address(seed, "system", "dropout")
        self._forever = forever

    def leaves(self, device: int, visit: int, start: float, seconds: float) -> Leave | None:
        """The device leaves with probability p, at a moment drawn uniformly from the training."""
        draw = uniform(self._key, device, visit)
        if draw >= self.p:
            return None
        # Given draw < p, draw / p is uniform again, and says when.
        return Leave(start + seconds * (draw / self.p), math.inf if self._forever else start + seconds)


class Vanishing(_WithoutHours):
    """A straggler: with probability p it vanishes as soon as it has the model, and is away for a while."""

    __slots__ = ("_away_key", "_key", "away", "p")

    def __init__(self, p: float, away: Law | float, *, seed: int) -> None:
        self.p = share(p, "the probability of vanishing")
        self.away = Constant(away) if isinstance(away, float | int) else away
        self._key = address(seed, "system", "vanish")
        self._away_key = address(seed, "system", "away")

    def leaves(self, device: int, visit: int, start: float, seconds: float) -> Leave | None:
        """The device leaves with probability p, as soon as the training starts."""
        if uniform(self._key, device, visit) >= self.p:
            return None
        return Leave(start, start + self.away.draw(mix(self._away_key, device), visit))


class Stragglers(_WithoutHours):
    """At every visit number exactly the whole part of share * size devices vanish as soon as they have the model.

    The worst case of NI-E5. Visits are counted per device: of all the devices' v-th visits, so many are late.
    """

    __slots__ = ("_away_key", "_count", "_seed", "_size", "away")

    def __init__(self, part: float, away: Law | float, *, size: int, seed: int) -> None:
        self._count = whole_part(share(part, "the share of stragglers"), size)
        self._size, self._seed = size, seed
        self.away = Constant(away) if isinstance(away, float | int) else away
        self._away_key = address(seed, "stragglers", "away")

    def leaves(self, device: int, visit: int, start: float, seconds: float) -> Leave | None:
        """The device leaves as soon as the training starts, if it is one of the stragglers of this visit number."""
        if not self._count or not _straggling(self._seed, visit, self._size, self._count)[device]:
            return None
        return Leave(start, start + self.away.draw(mix(self._away_key, device), visit))


@lru_cache(maxsize=64)
def _straggling(seed: int, visit: int, size: int, count: int) -> bytes:
    """Return one byte a device, 1 for the visit's stragglers; devices are seldom many visits apart: few are kept."""
    late = bytearray(size)
    for device in stream(seed, "stragglers", visit).choice(size, count, replace=False, shuffle=False).tolist():
        late[device] = 1
    return bytes(late)


def whole_part(part: float, size: int) -> int:
    """Return the whole part of a share of so many; of the share as it is written: 0.29 of 100 is 29, not 28."""
    return int(Fraction(str(float(part))) * size)


class Windows:
    """Devices are there at some times only, and leave when their window closes."""

    __slots__ = ("_key", "_phases", "_schedules")

    def __init__(self, schedules: Sequence[Schedule], *, seed: int, phases: float = 0.0) -> None:
        self._schedules = tuple(schedules)
        self._phases = phases
        self._key = address(seed, "system", "windows")

    @classmethod
    def duty(cls, period: float, online: float, *, seed: int) -> Windows:
        """Make windows of the share ``online`` of every period, from a phase drawn for each device."""
        require_period(period)
        if not 0 < online < 1:
            raise SettingError(f"a duty cycle online for the share {online:g}; wanted it between 0 and 1")
        return cls([Schedule([(0.0, period * online)], period)], seed=seed, phases=period)

    @classmethod
    def read(cls, path: str | Path, *, seed: int, period: float | None = None) -> Windows:
        """Read intervals from a CSV file with columns ``device,start,end``; devices as in ``MeasuredTimes``."""
        if period is not None:
            require_period(period)
        intervals: dict[str, list[tuple[float, float]]] = {}
        for row in read_table(path, ("device", "start", "end")):
            start, end = row.number("start", most=LONGEST), row.number("end", most=LONGEST)
            if end <= start:
                raise row.wrong(f"the interval from {start:g} to {end:g} is empty")
            intervals.setdefault(row.text("device"), []).append((start, end))
        return cls([Schedule(some, period) for some in intervals.values()], seed=seed)

    def next_online(self, device: int, now: float) -> float:
        """Return ``now`` if a window is open, else the time at which the next one opens."""
        end, start = self._around(device, now)
        return now if now < end else start

    def online_until(self, device: int, now: float) -> float:
        """Return the end of the window that is open."""
        return self._around(device, now)[0]

    def leaves(self, device: int, visit: int, start: float, seconds: float) -> Leave | None:
        """The device leaves when its window closes, if that is before the training is over."""
        end, back = self._around(device, start)
        return None if start + seconds <= end else Leave(max(start, end), back)

    def _around(self, device: int, now: float) -> tuple[float, float]:
        known = len(self._schedules)
        if known == 1:
            schedule = self._schedules[0]
        else:
            schedule = self._schedules[device if device < known else mix(self._key, device) % known]
        offset = uniform(self._key, device) * self._phases if self._phases else 0.0
        return schedule.around(now, offset)


class Combined:
    """Several reasons to be away: a device is there when all parts say so, and leaves when the first says so."""

    __slots__ = ("_never", "_parts")

    def __init__(self, parts: Sequence[Availability]) -> None:
        self._parts = tuple(parts)
        self._never: dict[int, float] = {}
        """Devices that were found never to be there from some time on: that need not be found again."""

    def next_online(self, device: int, now: float) -> float:
        """Return the earliest time that suits every part; inf if none is found within a thousand windows."""
        if now >= self._never.get(device, math.inf):
            return math.inf
        begin = now
        for _ in range(1000):
            then = now
            for part in self._parts:
                then = part.next_online(device, then)
            if then == now:
                return now
            now = then
        self._never[device] = begin
        return math.inf

    def online_until(self, device: int, now: float) -> float:
        """Return the earliest end that any part gives."""
        return min(part.online_until(device, now) for part in self._parts)

    def leaves(self, device: int, visit: int, start: float, seconds: float) -> Leave | None:
        """Return the earliest leave that any part gives; of several at once, the one with the latest return."""
        found = [part.leaves(device, visit, start, seconds) for part in self._parts]
        left = [leave for leave in found if leave is not None]
        return min(left, key=lambda leave: (leave.at, -leave.back), default=None)


def staying(availability: Availability) -> Availability:
    """Return the same without those who vanish as soon as they have the model: for visits that no new model began."""
    if isinstance(availability, Vanishing | Stragglers):
        return AlwaysOn()
    if isinstance(availability, Combined):
        return Combined([staying(part) for part in availability._parts])
    return availability


def _stragglers(share: float, away: Law, *, seed: int, size: int | None) -> Stragglers:
    if size is None:
        raise SettingError("stragglers are a share of the fleet; give its size, as build_fleet does")
    return Stragglers(share, away, size=size, seed=seed)


_SEED = ("seed",)
AVAILABILITIES: Forms[Availability] = Forms(
    "fleet.availability",
    Form("always", AlwaysOn, "every device is there all the time", "always"),
    Form(
        "dropout:P[,forever]",
        Dropouts,
        "each training is lost with probability P, at some moment of it; with forever the device never comes back",
        "dropout:0.1",
        needs=_SEED,
    ),
    Form(
        "duty:PERIOD,ONLINE",
        Windows.duty,
        "each device is there for the share ONLINE of every period of so many seconds, at times of its own",
        "duty:3600,0.5",
        needs=_SEED,
    ),
    Form(
        "windows:PATH[,PERIOD]",
        Windows.read,
        "devices are there when a CSV file says so, again after each period if one is given",
        "windows:hours.csv,86400",
        {"PATH": FILE, "PERIOD": replace(ABOVE_ZERO, pattern="[0-9.eE+]+")},
        _SEED,
    ),
    Form(
        "vanish:P,AWAY",
        Vanishing,
        "with probability P a device vanishes as soon as it has the model, for so many seconds or a law of them",
        "vanish:0.1,38",
        {"AWAY": LAW},
        _SEED,
    ),
    Form(
        "stragglers:SHARE,AWAY",
        _stragglers,
        "at every visit number exactly this share of the fleet vanishes so (NI-E5)",
        "stragglers:0.2,38",
        {"AWAY": LAW},
        ("seed", "size"),
    ),
)
"""When devices can be there; several are joined by ``+``."""


def parse_availability(text: str, *, seed: int, size: int | None = None) -> Availability:
    """Make an availability from words, several of which may be joined by ``+``: ``duty:3600,0.5+dropout:0.1``.

    Stragglers are a share of the fleet, so they need its size.
    """
    words = re.split(rf"\+(?=(?:{'|'.join(AVAILABILITIES.names)})(?::|$|\+))", text)
    parts = [AVAILABILITIES.parse(word, seed=seed, size=size) for word in words]
    return parts[0] if len(parts) == 1 else Combined(parts)
