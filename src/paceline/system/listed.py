"""A fleet in one file, CSV or TOML: every device with its speed, its links, its power and when it is there.

Columns, all of them optional, in any order: ``device`` (a name), ``seconds`` (a visit's mean time) or ``flops``
(FLOP/s), ``up_mbps`` and ``down_mbps`` (Mbit/s), ``latency`` (seconds before the first byte), ``watts`` (while it
computes), ``availability`` (as in ``fleet.availability``). A TOML file has one ``[[device]]`` table a device, or
one for ``count`` devices alike; there ``seconds`` may be a list of measured times, and ``[server]`` may say how many
``seconds`` a server's job takes. What a file does not say, the other fleet settings say.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from paceline.config import parse_toml
from paceline.errors import CostError, DataError, SettingError, nearest
from paceline.reading import State, expanded, read_text, shown, state_of
from paceline.references import announced, load_announced
from paceline.seeds import address
from paceline.system.availability import AlwaysOn, Availability, Leave, parse_availability
from paceline.system.compute import Jitter
from paceline.system.cost import LONGEST, STRONGEST, Cost, is_figure, wanted
from paceline.system.cost import MOST as GREATEST
from paceline.system.links import Links
from paceline.system.tables import Row, read_table

NUMBERS = ("seconds", "flops", "up_mbps", "down_mbps", "latency", "watts")
COLUMNS = ("device", *NUMBERS, "availability")
ABOVE_ZERO = {"seconds", "flops", "up_mbps", "down_mbps"}
FLEETWIDE = ("vanish", "stragglers")
MOST = 10_000_000
"""Devices that one file may describe."""
MOST_MEASURED = 1_000_000
"""Times that one device may have been measured to take."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A law that was written down: device k has number k of a list, which is gone through again and again."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the list."""
        return math.fsum(self.values) / len(self.values)

    @property
    def variance(self) -> float:
        """The mean squared distance from the mean."""
        return math.fsum((value - self.mean) ** 2 for value in self.values) / len(self.values)

    def draw(self, key: int, site: int) -> float:
        """The number of this device; nothing is drawn."""
        return self.values[site % len(self.values)]


@dataclass(frozen=True)
class FleetFile:
    """What a file says about devices 0, 1, 2, …: lists of equal length, for the columns that it has."""

    path: str
    size: int
    numbers: Mapping[str, tuple[float, ...]]
    availability: tuple[str, ...] | None
    repeat: bool
    measured: tuple[tuple[float, ...], ...] = ()
    """The times of each device's visits one after the other, where these were listed; empty for a device with a mean
    alone, and for all of them where every device has one."""
    server: float | None = None
    """Seconds of a server's job, if the file says it."""

    def check(self, clients: int) -> None:
        """A file with fewer devices than clients is an error unless ``repeat`` was said."""
        if clients > self.size and not self.repeat:
            raise SettingError(
                f"{self.path} lists {self.size} devices, but there are {clients} clients; set clients={self.size}, or"
                f" write fleet.file={self.path},repeat to go through the list again and again"
            )

    def law(self, column: str) -> Listed | None:
        """A column's numbers, if the file has it."""
        return Listed(self.numbers[column]) if column in self.numbers else None

    def compute(self, *, seed: int, jitter: float, watts: float | None) -> ListedTimes | None:
        """How long devices train, if the file says it."""
        power = self.law("watts") or Listed((math.nan if watts is None else watts,))
        seconds, rate = self.law("seconds"), self.law("flops")
        if seconds is None and rate is None:
            return None
        spread = Jitter(address(seed, "system", "jitter"), jitter, 0.05)
        return ListedTimes(seconds, rate, power, spread, self.measured)

    def presence(self, *, seed: int, clients: int) -> Availability | None:
        """When devices are there, if the file says it."""
        if self.availability is None:
            return None
        forms = {word: parse_availability(word, seed=seed, size=clients) for word in set(self.availability)}
        if all(isinstance(form, AlwaysOn) for form in forms.values()):
            return AlwaysOn()
        return ListedAvailability([forms[word] for word in self.availability])


class ListedTimes:
    """Times of devices that were listed: in seconds a visit, or by their FLOP/s; each with its own power.

    A device whose visits were measured takes these times one after the other, around and around, without jitter; but
    the first of several once only, for much is loaded at a first visit.
    """

    __slots__ = ("_jitter", "_measured", "_rate", "_seconds", "_watts")

    def __init__(
        self,
        seconds: Listed | None,
        rate: Listed | None,
        watts: Listed,
        jitter: Jitter,
        measured: tuple[tuple[float, ...], ...] = (),
    ) -> None:
        self._seconds = seconds
        self._rate = rate
        self._watts = watts
        self._jitter = jitter
        self._measured = measured

    def cost(self, device: int, visit: int, flops: float) -> Cost:
        """The cost of this device's training number ``visit``."""
        times = self._measured[device % len(self._measured)] if self._measured else ()
        if times:
            laps = max(len(times) - 1, 1)
            seconds = times[visit if visit < len(times) else len(times) - laps + (visit - 1) % laps]
        else:
            seconds = self.mean_seconds(device, flops) * self._jitter.factor(device, visit)
        return Cost(seconds, seconds * self._watts.draw(0, device))

    def mean_seconds(self, device: int, flops: float) -> float:
        """What the list says, or FLOPs over the device's FLOP/s."""
        if self._seconds is not None:
            return self._seconds.draw(0, device)
        assert self._rate is not None
        if not 0 < flops < math.inf:
            raise CostError(
                f"training on device {device} counts {flops!r} FLOPs; times from FLOP/s need a positive count:"
                " give the file a column of seconds instead of flops"
            )
        return flops / self._rate.draw(0, device)


class DelayedLinks:
    """Links with a latency of their own at every device; a transfer waits for that of both ends."""

    __slots__ = ("_latency", "_links")

    def __init__(self, links: Links, latency: Listed) -> None:
        self._links = links
        self._latency = latency

    def cost(self, source: int, target: int, size: float, now: float) -> Cost:
        """The cost of the links, later by the latencies of the devices at both ends."""
        seconds, joules = self._links.cost(source, target, size, now)
        delay = sum(self._latency.draw(0, site) for site in (source, target) if site >= 0)
        return Cost(seconds + (delay if source != target else 0.0), joules)


class ListedAvailability:
    """Every device by its own rule."""

    def __init__(self, rules: Sequence[Availability]) -> None:
        self._rules = rules

    def next_online(self, device: int, now: float) -> float:
        """When the device is next there."""
        return self._rules[device % len(self._rules)].next_online(device, now)

    def online_until(self, device: int, now: float) -> float:
        """How long a device that is there stays."""
        return self._rules[device % len(self._rules)].online_until(device, now)

    def leaves(self, device: int, visit: int, start: float, seconds: float) -> Leave | None:
        """Whether and when the device leaves during this visit."""
        return self._rules[device % len(self._rules)].leaves(device, visit, start, seconds)


def read_fleet(text: str) -> FleetFile:
    """The fleet in ``FILE`` or ``FILE,repeat``; every complaint names the file and the place in it."""
    return _read_once(text, state_of(text.removesuffix(",repeat")))


@lru_cache(maxsize=8)
def _read_once(text: str, _known_by: State) -> FleetFile:
    path, repeat = text.removesuffix(",repeat"), text.endswith(",repeat")
    if path in announced("fleets"):
        path = _announced_path(path)
    devices, server = _from_toml(path) if path.endswith(".toml") else (_from_csv(path), None)
    columns = [column for column in COLUMNS if column in devices[0]]
    if "seconds" in columns and "flops" in columns:
        raise DataError(f"{path} gives both seconds and flops; a device's speed is one of them")
    if ("up_mbps" in columns) != ("down_mbps" in columns):
        raise DataError(f"{path} gives only one of up_mbps and down_mbps; a link has both")
    if "watts" in columns and not {"seconds", "flops"} & set(columns):
        raise DataError(f"{path} gives watts but neither seconds nor flops; energy needs both power and time")
    numbers = {column: tuple(_mean(device[column]) for device in devices) for column in NUMBERS if column in columns}
    lists = tuple(times if isinstance(times := device.get("seconds"), tuple) else () for device in devices)
    words = tuple(str(device["availability"]) for device in devices) if "availability" in columns else None
    for word in set(words or ()):
        _check_rule(path, word, len(devices))
    return FleetFile(path, len(devices), numbers, words, repeat, lists if any(lists) else (), server)


def _mean(value: float | tuple[float, ...]) -> float:
    """A device's mean; of times that were measured, that of all but a first visit's."""
    if not isinstance(value, tuple):
        return value
    later = value[1:] or value
    return math.fsum(later) / len(later)


def _announced_path(name: str) -> str:
    """The file that an installed package announces under this name: a path, or a function that returns one."""
    thing = load_announced(announced("fleets")[name], DataError)
    found = thing() if callable(thing) else thing
    if not isinstance(found, str | Path):
        raise DataError(f"the fleet {name!r} is announced as a {type(found).__name__}; wanted the path of a file")
    return str(found)


def _check_rule(path: str, word: str, devices: int) -> None:
    if any(part.partition(":")[0] in FLEETWIDE for part in word.split("+")):
        raise DataError(
            f"{path}: availability is {shown(word)}, which is a rule for a whole fleet; set it as fleet.availability,"
            " and let the file say always, dropout, duty or windows"
        )
    try:
        parse_availability(word, seed=0, size=devices)
    except SettingError as problem:
        raise DataError(f"{path}: {problem}") from None


def _from_csv(path: str) -> list[dict[str, Any]]:
    return [_cells(row) for row in read_table(path, ())]


def _cells(row: Row) -> dict[str, Any]:
    for column in row.columns:
        if column not in COLUMNS:
            raise row.wrong(f"there is no column {shown(column)}; {nearest(column, COLUMNS)}")
    found: dict[str, Any] = {
        name: row.number(name, positive=name in ABOVE_ZERO, most=_most(name)) for name in NUMBERS if name in row
    }
    return found | {name: row.text(name) for name in ("device", "availability") if name in row}


def _most(column: str) -> float:
    """The greatest number that a column may hold."""
    return {"seconds": LONGEST, "latency": LONGEST, "watts": STRONGEST}.get(column, GREATEST)


def _from_toml(path: str) -> tuple[list[dict[str, Any]], float | None]:
    file = expanded(path)
    try:
        tree = parse_toml(read_text(file), str(file), DataError)
    except FileNotFoundError:
        raise DataError(f"there is no file {file}; give the path of a fleet in CSV or TOML") from None
    except tomllib.TOMLDecodeError as wrong:
        raise DataError(f"{file} cannot be read as TOML: {wrong}") from wrong
    for key in tree:
        if key not in ("device", "server"):
            raise DataError(f"{file}: there is no {shown(key)}; wanted [[device]] tables and at most one [server]")
    return _devices(file, tree.get("device")), _server(file, tree.get("server"))


def _server(file: Path, table: Any) -> float | None:
    """Seconds of a server's job."""
    if table is None:
        return None
    if not isinstance(table, dict) or table.keys() != {"seconds"}:
        raise DataError(f"{file}: [server] is {shown(table)}; wanted one key, seconds, those of a job")
    return _figure(f"{file}: [server]", "seconds", table["seconds"])


def _devices(file: Path, tables: Any) -> list[dict[str, Any]]:
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise DataError(f"{file} has no devices; wanted one [[device]] table for each, or for `count` devices alike")
    devices: list[dict[str, Any]] = []
    for number, table in enumerate(tables, 1):
        count, cells = _table(file, number, table)
        if cells.keys() != (devices[0] if devices else cells).keys():
            raise DataError(
                f"{file}, device table {number} has {', '.join(cells)}, the first one {', '.join(devices[0])}; all"
                " tables must have the same keys"
            )
        if len(devices) + count > MOST:
            raise DataError(f"{file} lists more than {MOST:,} devices; let some be repeated")
        devices += [cells] * count
    return devices


def _table(file: Path, number: int, table: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    where = f"{file}, device table {number}"
    count = table.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise DataError(f"{where}: count is {shown(count)}; wanted a whole number of at least 1")
    cells = {key: value for key, value in table.items() if key not in ("count", "device")}
    for key, value in cells.items():
        if key not in COLUMNS:
            raise DataError(f"{where}: there is no key {shown(key)}; {nearest(key, (*COLUMNS, 'count'))}")
        if key == "seconds" and isinstance(value, list):
            if not 1 <= len(value) <= MOST_MEASURED:
                raise DataError(f"{where}: seconds lists {len(value):,} times; wanted 1 to {MOST_MEASURED:,}")
            cells[key] = tuple(_figure(where, key, one) for one in value)
        elif key in NUMBERS:
            cells[key] = _figure(where, key, value)
    return count, cells


def _figure(where: str, key: str, value: Any) -> float:
    """A number of a TOML file, within its bounds."""
    number_like = isinstance(value, int | float) and not isinstance(value, bool)
    zero, most = key not in ABOVE_ZERO, _most(key)
    if not number_like or not (is_figure(value, most) or (zero and value == 0)):
        raise DataError(f"{where}: {key} is {shown(value)}; wanted {wanted(most, zero=zero)}")
    return float(value)
