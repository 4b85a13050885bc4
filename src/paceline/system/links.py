"""How long bytes take from one site to another, and what both ends draw meanwhile.

Clients are 0, 1, 2, ...; servers are -1, -2, ... A transfer runs at the smaller of the sender's upward and
the receiver's downward rate; transfers do not share a link with one another (``network.py`` is for those that do).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from paceline.errors import CostError, SettingError
from paceline.forms import FILE, FINITE, NUMBER, NUMERAL, Form, Forms, Kind
from paceline.seeds import address, mix
from paceline.system.cost import FREE, LONGEST, Cost, above_zero, at_least_zero, power
from paceline.system.laws import LAW_BEFORE_COMMA, LAW_BEFORE_SLASH, Constant, Law
from paceline.system.traces import BYTES_PER_MBIT, Recording, Trace, read_traces, seconds_between


class Links(Protocol):
    """What it costs to move bytes between two sites."""

    def cost(self, source: int, target: int, size: float, now: float) -> Cost:
        """The cost of moving ``size`` bytes, begun at ``now``; joules are those of both ends."""


class LinkPower:
    """Watts at both ends of a link while bytes flow (latency draws nothing).

    A device receives at the watts it sends with unless ``receive`` is given. Without ``send`` every energy is
    undefined; with it, a server's end counts 0 unless ``server`` says otherwise, as in the papers' accounts.
    """

    __slots__ = ("_server", "receive", "send")

    def __init__(
        self, send: float | None = None, *, receive: float | None = None, server: float | None = None
    ) -> None:
        self.send = power(send, "link_watts")
        self.receive = self.send if receive is None else power(receive, "receive_watts")
        self._server = power(0.0 if server is None and send is not None else server, "server_link_watts")

    def of(self, source: int, target: int) -> float:
        """Watts of the two ends together; nan where nobody defined them."""
        return (self.send if source >= 0 else self._server) + (self.receive if target >= 0 else self._server)


_NO_POWER = LinkPower()


class FreeLinks:
    """Bytes take no time and no energy: a statement about the world, so it must be asked for by name."""

    __slots__ = ()

    def cost(self, source: int, target: int, size: float, now: float) -> Cost:
        """Return a cost of no seconds and no joules."""
        return FREE


class RateLinks:
    """Constant byte rates in Mbit/s, up and down, drawn for each device; servers are unlimited unless given.

    With ``down=None`` each device receives as fast as it sends.
    """

    __slots__ = ("_down", "_down_key", "_latency", "_power", "_server", "_up", "_up_key")

    def __init__(
        self,
        *,
        up: Law | float,
        down: Law | float | None,
        seed: int = 0,
        latency: float = 0.0,
        power: LinkPower = _NO_POWER,
        server_mbps: float | None = None,
    ) -> None:
        self._up = Constant(up) if isinstance(up, float | int) else up
        self._up_key = address(seed, "system", "up")
        if down is None:
            self._down, self._down_key = self._up, self._up_key
        else:
            self._down = Constant(down) if isinstance(down, float | int) else down
            self._down_key = address(seed, "system", "down")
        self._latency = at_least_zero(latency, "latency", LONGEST)
        self._power = power
        self._server = math.inf if server_mbps is None else above_zero(server_mbps, "server_mbps")

    def up(self, device: int) -> float:
        """What a device can send, in bytes a second."""
        return self._up.draw(self._up_key, device) * BYTES_PER_MBIT

    def down(self, device: int) -> float:
        """What a device can receive, in bytes a second."""
        return self._down.draw(self._down_key, device) * BYTES_PER_MBIT

    def cost(self, source: int, target: int, size: float, now: float) -> Cost:
        """The cost of moving ``size`` bytes, whenever it is begun."""
        if source == target:
            return FREE
        _check_size(source, target, size)
        out = self._up.draw(self._up_key, source) if source >= 0 else self._server
        into = self._down.draw(self._down_key, target) if target >= 0 else self._server
        flowing = size / ((out if out < into else into) * BYTES_PER_MBIT)
        return Cost(self._latency + flowing, flowing * self._power.of(source, target))


class TraceLinks:
    """Recorded byte rates: each device rides one recording, from a moment of it drawn at its address, endlessly.

    Both directions of a device start at the same moment of the same recording, because a bad place is bad for
    both. Servers are unlimited unless ``server_mbps`` is given.
    """

    __slots__ = ("_key", "_latency", "_power", "_recordings", "_server")

    def __init__(
        self,
        recordings: Sequence[tuple[Trace, Trace]],
        *,
        seed: int = 0,
        latency: float = 0.0,
        power: LinkPower = _NO_POWER,
        server_mbps: float | None = None,
    ) -> None:
        if not recordings:
            raise SettingError("trace links without a trace; give at least one (up, down) pair")
        self._recordings = tuple(recordings)
        self._key = address(seed, "system", "trace")
        self._latency = at_least_zero(latency, "latency", LONGEST)
        self._power = power
        self._server = None if server_mbps is None else _steady(server_mbps)

    def address(self, device: int) -> tuple[int, float]:
        """Which recording a device rides, and at what second of it the device's clock starts."""
        bits = mix(self._key, device)
        index = (bits & 0xFFFFFFFF) % len(self._recordings)
        return index, (bits >> 32) * 2.0**-32 * self._recordings[index][1].duration

    def up(self, device: int) -> tuple[Trace, float]:
        """What a device can send: a trace, and the second of it at which the clock's 0 lies."""
        index, offset = self.address(device)
        return self._recordings[index][0], offset

    def down(self, device: int) -> tuple[Trace, float]:
        """The recording of what a device can receive, and the moment of it at which the device begins."""
        index, offset = self.address(device)
        return self._recordings[index][1], offset

    def cost(self, source: int, target: int, size: float, now: float) -> Cost:
        """The cost of moving ``size`` bytes, begun at ``now``."""
        if source == target:
            return FREE
        _check_size(source, target, size)
        flowing = self._flowing(source, target, size, now)
        return Cost(self._latency + flowing, flowing * self._power.of(source, target))

    def _flowing(self, source: int, target: int, size: float, now: float) -> float:
        sender, out_offset = self._end(source, 0)
        receiver, in_offset = self._end(target, 1)
        if sender is None:
            return 0.0 if receiver is None else receiver.seconds(size, now + in_offset)
        if receiver is None:
            return sender.seconds(size, now + out_offset)
        return seconds_between(sender, now + out_offset, receiver, now + in_offset, size)

    def _end(self, site: int, direction: int) -> tuple[Trace | None, float]:
        if site < 0:
            return self._server, 0.0
        index, offset = self.address(site)
        return self._recordings[index][direction], offset


class SecondsLinks:
    """So many seconds a transfer, up and down, whatever its size: T_c as an input (NI-E4).

    Between two devices both ends are busy for the longer of the two; between two servers no time passes. Latency
    comes on top, as for other links.
    """

    __slots__ = ("_down", "_latency", "_power", "_up")

    def __init__(self, *, up: float, down: float, latency: float = 0.0, power: LinkPower = _NO_POWER) -> None:
        self._up = at_least_zero(up, "the seconds upward", LONGEST)
        self._down = at_least_zero(down, "the seconds downward", LONGEST)
        self._latency = at_least_zero(latency, "latency", LONGEST)
        self._power = power

    def cost(self, source: int, target: int, size: float, now: float) -> Cost:
        """The same cost for every size; ``CostError`` for one that is not a number of bytes."""
        if source == target:
            return FREE
        _check_size(source, target, size)
        flowing = max(self._up if source >= 0 else 0.0, self._down if target >= 0 else 0.0)
        return Cost(self._latency + flowing, flowing * self._power.of(source, target))


def _steady(mbps: float) -> Trace:
    # A long segment, so that walking along it takes few steps.
    return Trace([86_400.0], [above_zero(mbps, "a rate in Mbit/s")])


def _check_size(source: int, target: int, size: float) -> None:
    if not 0 <= size < math.inf:
        raise CostError(f"a transfer from site {source} to site {target} has a size of {size!r} bytes")


def _pairs(path: str, upward: str) -> list[tuple[Trace, Trace]]:
    pairs = [_pair(recording, upward) for recording in read_traces(path).values()]
    both = [(up, down) for up, down in pairs if up is not None and down is not None]
    if not both:
        raise CostError(
            f"{path} records one direction only, so the other has no defined cost; "
            f"write 'trace:{Path(path).name},same' to use it both ways, or ',MBPS' for a constant upward byte rate"
        )
    return both


def _pair(recording: Recording, upward: str) -> tuple[Trace | None, Trace | None]:
    if not upward:
        return recording.up, recording.down
    if upward == "same":
        return recording.up or recording.down, recording.down or recording.up
    return _steady(NUMBER.read(upward)), recording.down


def _traces(file: str, up: str = "", **given: Any) -> TraceLinks:
    return TraceLinks(_pairs(file, up), **given)


UPWARD = Kind("the word same, or a number", str, rf"same|{NUMERAL}")
_GIVEN = ("seed", "latency", "power", "server_mbps")
LINKS: Forms[FreeLinks | RateLinks | SecondsLinks | TraceLinks] = Forms(
    "fleet.links",
    Form("free", FreeLinks, "transfers take no time and no energy", "free"),
    Form(
        "rate:UP,DOWN",
        RateLinks,
        "every device has these byte rates, in Mbit/s",
        "rate:5,20",
        {"UP": LAW_BEFORE_COMMA, "DOWN": LAW_BEFORE_COMMA},
        _GIVEN,
    ),
    Form(
        "rate:UP/DOWN",
        RateLinks,
        "each device's byte rates, in Mbit/s, are drawn from these laws",
        "rate:lognormal,10,0.5/lognormal,50,0.5",
        {"UP": LAW_BEFORE_SLASH, "DOWN": LAW_BEFORE_SLASH},
        _GIVEN,
    ),
    Form(
        "trace:FILE[,UP]",
        _traces,
        "byte rates as they were recorded; with the word same, one direction serves for both, and with a number the"
        " upward byte rate is that many Mbit/s",
        "trace:lte.csv,same",
        {"FILE": FILE, "UP": UPWARD},
        _GIVEN,
    ),
    Form(
        "seconds:UP,DOWN",
        SecondsLinks,
        "a transfer takes so many seconds whatever its size; between two devices the longer of both, between servers"
        " none",
        "seconds:3,3",
        {"UP": FINITE, "DOWN": FINITE},
        ("latency", "power"),
    ),
)
"""How models travel between devices and servers."""


def parse_links(
    text: str,
    *,
    seed: int,
    latency: float = 0.0,
    power: LinkPower = _NO_POWER,
    server_mbps: float | None = None,
) -> FreeLinks | RateLinks | SecondsLinks | TraceLinks:
    """How models travel between devices and servers, from words."""
    return LINKS.parse(text, seed=seed, latency=latency, power=power, server_mbps=server_mbps)
