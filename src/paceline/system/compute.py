"""How long a device trains, and what that draws: from a law, from FLOP counts, or from measured times."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from paceline.errors import CostError, SettingError
from paceline.forms import FILE, Form, Forms
from paceline.seeds import address, mix, normal_below
from paceline.system.cost import LONGEST, Cost, above_zero, at_least_zero, power
from paceline.system.laws import LAW, LAWS, Law, parse_law
from paceline.system.tables import read_table

_new = tuple.__new__
"""A million costs are made in a run; without a call of ``Cost`` each takes half the time."""


class Compute(Protocol):
    """What training on a device costs."""

    def cost(self, device: int, visit: int, flops: float) -> Cost:
        """The cost of this device's training number ``visit``."""

    def mean_seconds(self, device: int, flops: float) -> float:
        """What the device takes on average, without jitter; for samplers and planners."""


@dataclass(frozen=True, slots=True)
class Jitter:
    """A factor per visit, N(1, spread²), so that a visit takes N(t_n, (spread t_n)²) as in PSFL.

    At a spread of 0.2 a plain normal factor is below 0 once in 3.5 million visits, and a virtual clock cannot
    run backwards; so a visit takes at least the share ``floor`` of t_n. A share and not a number of seconds:
    the floor must not distort fleets whose visits take milliseconds. At 0.2 and 0.05 it acts on one visit
    in a million.
    """

    key: int
    spread: float
    floor: float

    def __post_init__(self) -> None:
        at_least_zero(self.spread, "jitter", 100)
        if not 0 < self.floor <= 1:
            raise SettingError(f"the floor of the jitter is {self.floor!r}; wanted a share of t_n in (0, 1]")

    def factor(self, device: int, visit: int) -> float:
        """The factor that lives at this address."""
        return self.factor_below(self.below(device), visit)

    def below(self, device: int) -> int:
        """The key below which all visits of a device have their addresses."""
        return mix(self.key, device)

    def factor_below(self, key: int, visit: int) -> float:
        """The factor of a visit of the device whose key this is."""
        if not self.spread:
            return 1.0
        factor = 1.0 + self.spread * normal_below(key, visit)
        return factor if factor > self.floor else self.floor


class LawTimes:
    """Mean times t_n drawn from a law, one draw a device, whatever the work (PSFL's experiments)."""

    __slots__ = ("_factor", "_jitter", "_key", "_keys", "_means", "_watts", "law")

    def __init__(
        self,
        *,
        law: Law | str,
        seed: int,
        jitter: float = 0.2,
        floor: float = 0.05,
        watts: float | None = None,
    ) -> None:
        self.law = parse_law(law) if isinstance(law, str) else law
        above_zero(self.law.mean, "the mean of the law of fleet.times", LONGEST)
        self._key = address(seed, "system", "mean time")
        self._means = array("d")
        """By device, so that not every visit draws it anew; nan where it was not asked for yet."""
        self._keys = array("Q")
        """Of the jitter, by device, where the mean is known."""
        self._jitter = Jitter(address(seed, "system", "jitter"), jitter, floor)
        self._factor = self._jitter.factor_below
        self._watts = power(watts, "watts")

    def cost(self, device: int, visit: int, flops: float) -> Cost:
        """The cost of this device's training number ``visit``; the FLOP count is not looked at."""
        means = self._means
        if device >= len(means) or (mean := means[device]) != mean:
            mean = self._draw(device)
        seconds = mean * self._factor(self._keys[device], visit)
        return _new(Cost, (seconds, seconds * self._watts))

    def mean_seconds(self, device: int, flops: float) -> float:
        """The device's mean time t_n, as it was drawn."""
        if device >= len(self._means) or math.isnan(self._means[device]):
            return self._draw(device)
        return self._means[device]

    def _draw(self, device: int) -> float:
        """Keep what is drawn once a device; nothing is drawn for devices that nobody asks about."""
        new = device + 1 + device // 2 - len(self._means)
        if device >= len(self._means):
            self._means.extend([math.nan] * new)
            self._keys.extend([0] * new)
        self._means[device] = self.law.draw(self._key, device)
        self._keys[device] = self._jitter.below(device)
        return self._means[device]


class FlopTimes:
    """Time is FLOPs over FLOP/s, energy is time times watts; each device's FLOP/s are drawn from a law."""

    __slots__ = ("_jitter", "_key", "_watts", "rate")

    def __init__(
        self,
        *,
        rate: Law | str | float,
        seed: int = 0,
        jitter: float = 0.0,
        floor: float = 0.05,
        watts: float | None = None,
    ) -> None:
        self.rate = parse_law(str(rate)) if isinstance(rate, str | float | int) else rate
        self._key = address(seed, "system", "flop rate")
        self._jitter = Jitter(address(seed, "system", "jitter"), jitter, floor)
        self._watts = power(watts, "watts")

    def cost(self, device: int, visit: int, flops: float) -> Cost:
        """The cost of this device's training number ``visit``."""
        seconds = self.mean_seconds(device, flops) * self._jitter.factor(device, visit)
        return Cost(seconds, seconds * self._watts)

    def mean_seconds(self, device: int, flops: float) -> float:
        """The FLOPs of the training over the device's FLOP/s."""
        if not 0 < flops < math.inf:
            raise CostError(
                f"training on device {device} counts {flops!r} FLOPs; times from FLOP/s need a positive "
                "count: give the recipe one, or take fleet.times from a law or a file"
            )
        return flops / self.rate.draw(self._key, device)


class MeasuredTimes:
    """Times from a CSV file with columns ``device,seconds``, one row a measured training.

    Labels of devices may be anything; they are numbered in the order in which they first appear. A visit
    takes the device's next row, around and around, or with ``bootstrap`` a row drawn at (device, visit).
    Devices beyond those of the file each borrow the rows of one that is drawn at their address.
    """

    __slots__ = ("_bootstrap", "_borrow", "_means", "_pick", "_times", "_watts")

    def __init__(
        self, path: str | Path, *, seed: int = 0, bootstrap: bool = False, watts: float | None = None
    ) -> None:
        rows: dict[str, list[float]] = {}
        for row in read_table(path, ("device", "seconds")):
            rows.setdefault(row.text("device"), []).append(row.number("seconds", positive=True, most=LONGEST))
        self._times = list(rows.values())
        self._means = [math.fsum(times) / len(times) for times in self._times]
        self._bootstrap = bootstrap
        self._borrow = address(seed, "system", "measured device")
        self._pick = address(seed, "system", "measured visit")
        self._watts = power(watts, "watts")

    def cost(self, device: int, visit: int, flops: float) -> Cost:
        """The cost of this device's training number ``visit``; the FLOP count is not looked at."""
        times = self._times[self._measured(device)]
        row = mix(self._pick, device, visit) if self._bootstrap else visit
        seconds = times[row % len(times)]
        return Cost(seconds, seconds * self._watts)

    def mean_seconds(self, device: int, flops: float) -> float:
        """The mean of the device's rows."""
        return self._means[self._measured(device)]

    def _measured(self, device: int) -> int:
        return device if device < len(self._times) else mix(self._borrow, device) % len(self._times)


def _measured(file: str, *, seed: int, watts: float | None, jitter: float, bootstrap: bool = False) -> MeasuredTimes:
    return MeasuredTimes(file, seed=seed, bootstrap=bootstrap, watts=watts)


_GIVEN = ("seed", "jitter", "watts")
TIMES: Forms[Law | FlopTimes | MeasuredTimes] = Forms(
    "fleet.times",
    *LAWS,
    Form(
        "flops:RATE",
        FlopTimes,
        "FLOPs of the training over FLOP/s of the device, which is a number or a law with commas",
        "flops:lognormal,5e9,0.5",
        {"RATE": LAW},
        _GIVEN,
    ),
    Form(
        "csv:FILE[,bootstrap]",
        _measured,
        "measured times, from a CSV file with the columns device and seconds; in the order of the rows, or drawn",
        "csv:measured.csv",
        {"FILE": FILE},
        _GIVEN,
    ),
)
"""Laws of a visit's seconds, and other ways to say how long devices train."""


def parse_times(
    text: str, *, seed: int, jitter: float = 0.2, watts: float | None = None
) -> LawTimes | FlopTimes | MeasuredTimes:
    """How long devices train, from words; measured times have a jitter of their own and take none."""
    found = TIMES.parse(text, seed=seed, jitter=jitter, watts=watts)
    if isinstance(found, FlopTimes | MeasuredTimes):
        return found
    return LawTimes(law=found, seed=seed, jitter=jitter, watts=watts)
