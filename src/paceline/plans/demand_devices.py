"""Unequal devices of a fleet's file, as servers see them: seconds of a visit, and byte rates."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import SettingError
from paceline.system.listed import FleetFile, read_fleet

GIVEN = {"clients": "--clients", "client_up": "--client-mbps", "client_down": "--client-mbps", "compute": "--compute"}


@dataclass(frozen=True)
class Devices:
    """What a fleet's file says of its devices; empty where it says nothing."""

    file: str
    count: int
    seconds: tuple[float, ...]
    up: tuple[float, ...]
    down: tuple[float, ...]
    latency: float
    """The mean; links that share a server's rate have one for all."""
    absent: bool
    """Whether some are away at times, which is not simulated here."""

    def longest(self, clients: int) -> float:
        """Expected seconds of the slowest of so many devices, drawn without repetition.

        >>> Devices("", 3, (1.0, 2.0, 6.0), (), (), 0.0, False).longest(2)  # 2, 6 and 6
        4.666666666666667
        """
        ranked = sorted(self.seconds)
        ways = [math.comb(place, clients - 1) for place in range(len(ranked))]
        return sum(way * seconds for way, seconds in zip(ways, ranked, strict=True)) / sum(ways)

    def write(self, path: Path, share: float) -> None:
        """A fleet file with byte rates of this share, for models as much smaller."""
        columns = {"seconds": self.seconds}
        columns |= {"up_mbps": tuple(share * one for one in self.up)} if self.up else {}
        columns |= {"down_mbps": tuple(share * one for one in self.down)} if self.down else {}
        kept = {name: values for name, values in columns.items() if values}
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(kept)
            rows.writerows([repr(value) for value in row] for row in zip(*kept.values(), strict=True))


def read_devices(file: str) -> Devices:
    """The devices of a fleet's file."""
    fleet = read_fleet(file)
    numbers = fleet.numbers
    if not {"seconds", "up_mbps"} & set(numbers):
        has = ", ".join(numbers) or "none"
        raise SettingError(
            f"{file} says neither the seconds of a visit nor byte rates, which is what servers are planned by; it has"
            f" {has}: add seconds, or up_mbps and down_mbps (docs/fleets.md)"
        )
    latency = numbers.get("latency", (0.0,))
    return Devices(
        file=file,
        count=fleet.size,
        seconds=numbers.get("seconds", ()),
        up=numbers.get("up_mbps", ()),
        down=numbers.get("down_mbps", ()),
        latency=math.fsum(latency) / len(latency),
        absent=_absent(fleet),
    )


def _absent(fleet: FleetFile) -> bool:
    return any(word != "always" for word in fleet.availability or ())


def from_devices(devices: Devices, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a demand takes from devices: their number, mean seconds and links; to say one twice is an error."""
    found: dict[str, Any] = {"clients": devices.count, "devices": devices}
    if devices.seconds:
        found["compute"] = math.fsum(devices.seconds) / devices.count
    if devices.up:  # a transfer's time is on average that of the harmonic mean
        found["client_up"], found["client_down"] = (
            devices.count / math.fsum(1 / rate for rate in rates) for rates in (devices.up, devices.down)
        )
    if both := sorted({GIVEN[name] for name in given if name in found and name in GIVEN}):
        raise SettingError(f"{devices.file} and {', '.join(both)} both say the same; leave one of the two out")
    return found
