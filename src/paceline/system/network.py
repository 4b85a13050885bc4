"""What transfers share with one another: servers, links between servers, radio cells, a device's own link.

A transfer's route names the ports it passes. A port has so many bytes a second for all transfers through it at a
time, and ``worlds/network/flows.py`` divides them. A server's ports for devices are apart from those for other
servers: b_i and B_i of PF-10.

======================================  =======================================================
("up", device), ("down", device)        a device's own link
("send", server), ("receive", server)   a server's side of all transfers with devices
("cell", server, "down" or "up")        the same in a radio cell, which has subcarriers besides
("out", server), ("in", server)         a server's side of all transfers with other servers
("link", server, server)                from one server to another
======================================  =======================================================
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from paceline.errors import SettingError
from paceline.forms import COUNT, Form, Forms
from paceline.seeds import address, mix
from paceline.system.cost import LONGEST, above_zero, at_least_zero
from paceline.system.laws import LAW, LAW_BEFORE_COMMA, LAW_BEFORE_SLASH, Constant, Law, LogNormal
from paceline.system.links import LinkPower, Links, RateLinks, TraceLinks
from paceline.system.traces import BYTES_PER_MBIT, Trace

K = TypeVar("K", bound=Hashable)
Port = tuple[str | int, ...]
GEANT_SIGMA = 0.5
"""Spread of ``geant``'s links, a standard deviation of 53 % of the mean: the paper gives the mean only."""

TIES = 1 + 1e-12
"""Ports this near to the fullest are as full: symmetric transfers must not part by a rounding."""


class Rate(Protocol):
    """A byte rate that may change over time."""

    def at(self, when: float) -> tuple[float, float]:
        """The byte rate from this moment on, and until when it holds: later than ``when``, or infinity."""

    def seconds(self, size: float, when: float) -> float:
        """How long ``size`` bytes take from this moment on."""

    def moved(self, since: float, until: float) -> float:
        """The bytes that pass between two moments."""


@dataclass(frozen=True, slots=True)
class Steady:
    """A byte rate that never changes."""

    rate: float

    def at(self, when: float) -> tuple[float, float]:
        """The byte rate, which holds for ever."""
        return self.rate, math.inf

    def seconds(self, size: float, when: float) -> float:
        """How long ``size`` bytes take."""
        return size / self.rate

    def moved(self, since: float, until: float) -> float:
        """The bytes that pass between two moments."""
        return self.rate * (until - since)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A trace, ridden from this second of it on."""

    trace: Trace
    offset: float

    def at(self, when: float) -> tuple[float, float]:
        """The byte rate of the segment that lies at this moment, and when the segment ends."""
        elapsed = 0.0
        for rate, length in self.trace.walk(when + self.offset):
            elapsed += length
            # Rounding may leave less of a segment than the clock can tell: whoever came back at its end would
            # come back for ever.
            if when + elapsed > when:
                return rate, when + elapsed
        raise AssertionError("a trace has no end")

    def seconds(self, size: float, when: float) -> float:
        """How long ``size`` bytes take from this moment on."""
        return self.trace.seconds(size, when + self.offset)

    def moved(self, since: float, until: float) -> float:
        """The bytes that pass between two moments."""
        left, total = until - since, 0.0
        for rate, length in self.trace.walk(since + self.offset):
            if length >= left:
                break
            total += rate * length
            left -= length
        return total + rate * left


class Route(NamedTuple):
    """What one transfer passes through."""

    links: tuple[tuple[Port, Rate], ...] = ()
    """The devices' own links, and how fast they are over time."""
    ports: tuple[Port, ...] = ()
    """What else it passes; ``Network.capacity`` says how much goes through."""
    cell: Port | None = None
    """The one of ``ports`` that divides its subcarriers among the devices active in it."""
    latency: float = 0.0
    """Seconds before the first byte."""
    watts: float = 0.0
    """Power of both ends while bytes flow; nan where nobody defined it."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a server's transfers with devices share it: max-min fairly, and over subcarriers where it is a cell."""

    subcarriers: int | None = None

    def share(self, devices: int) -> float:
        """The part of a cell that each of so many active devices has: ⌊S/n⌋ of S subcarriers.

        With more devices than subcarriers some would have none; they take turns instead.
        """
        if self.subcarriers is None:
            return 1.0
        each = self.subcarriers // devices
        return each / self.subcarriers if each else 1.0 / devices


@dataclass(frozen=True, slots=True)
class Backbone:
    """Laws of Mbit/s between servers: of each server in and out (B_i of PF-10), and of each link both ways (A_ii').

    None is unlimited.
    """

    node: Law | None = None
    link: Law | None = None


class Network:
    """Which transfers share what; those that share nothing have no route and cost what ``fleet.links`` says."""

    __slots__ = ("_backbone", "_latency", "_link_key", "_links", "_node_key", "_power", "_server", "sharing")

    def __init__(
        self,
        *,
        links: Links,
        sharing: Sharing | None = None,
        backbone: Backbone | None = None,
        seed: int = 0,
        latency: float = 0.0,
        power: LinkPower | None = None,
        server_mbps: float | None = None,
    ) -> None:
        if sharing is not None and not isinstance(links, RateLinks | TraceLinks):
            raise SettingError(
                f"links that are shared need byte rates, which {type(links).__name__} have not; "
                "set fleet.links to rate:UP,DOWN or trace:FILE, or fleet.sharing to none"
            )
        self.sharing = sharing
        self._links = links
        self._backbone = backbone
        self._node_key = address(seed, "system", "backbone", "node")
        self._link_key = address(seed, "system", "backbone", "link")
        self._latency = at_least_zero(latency, "latency", LONGEST)
        self._power = power or LinkPower()
        self._server = math.inf if server_mbps is None else above_zero(server_mbps, "server_mbps") * BYTES_PER_MBIT

    def route(self, source: int, target: int) -> Route | None:
        """What a transfer passes through; None where it shares nothing."""
        if source == target:
            return None
        if source < 0 and target < 0:
            return self._between(source, target)
        if self.sharing is None:
            return None
        watts = self._power.of(source, target)
        if source >= 0 and target >= 0:
            ends = (("up", source), self._rate(source, up=True)), (("down", target), self._rate(target, up=False))
            return Route(ends, latency=self._latency, watts=watts)
        device, server, up = (source, target, True) if source >= 0 else (target, source, False)
        way, rate = "up" if up else "down", self._rate(device, up=up)
        cell: Port | None = None if self.sharing.subcarriers is None else ("cell", server, way)
        port: Port = cell or ("receive" if up else "send", server)
        return Route((((way, device), rate),), (port,), cell, self._latency, watts)

    def capacity(self, port: Port) -> float:
        """Bytes a second through one of a route's ``ports``; infinity where it is unlimited."""
        kind = port[0]
        if kind in ("send", "receive", "cell"):
            return self._server
        backbone = self._backbone or Backbone()
        sites = [-int(site) for site in port[1:]]
        if kind in ("out", "in"):
            return _drawn(backbone.node, self._node_key, sites[0])
        if kind == "link":
            return _drawn(backbone.link, mix(self._link_key, min(sites)), max(sites))
        raise KeyError(f"{port} is a device's own link: its byte rate is the route's")

    def watts(self, port: Port) -> float:
        """Of a device's own link, however many transfers pass it; 0 for other ports."""
        return {"up": self._power.send, "down": self._power.receive}.get(str(port[0]), 0.0)

    def _between(self, source: int, target: int) -> Route | None:
        if self._backbone is not None:
            ports: tuple[Port, ...] = (("out", source), ("link", source, target), ("in", target))
            return Route((), ports, None, self._latency, self._power.of(source, target))
        # Free, as FreeLinks are; where devices do not share either, the links say what they always said.
        return None if self.sharing is None else Route()

    def _rate(self, device: int, *, up: bool) -> Rate:
        links = self._links
        if isinstance(links, TraceLinks):
            return Recorded(*(links.up(device) if up else links.down(device)))
        assert isinstance(links, RateLinks)
        return Steady(links.up(device) if up else links.down(device))


def fair_rates(flows: Sequence[tuple[float, Sequence[K]]], capacities: Mapping[K, float]) -> list[float]:
    """Max-min fair byte rates by progressive filling; a flow is its own highest rate and the ports that it passes."""
    rates = [math.inf] * len(flows)
    through: dict[K, list[int]] = {}
    for index, (_, ports) in enumerate(flows):
        for port in ports:
            through.setdefault(port, []).append(index)
    left = {port: capacities[port] for port in through}
    count = {port: len(passing) for port, passing in through.items()}
    slow = sorted(range(len(flows)), key=lambda index: flows[index][0], reverse=True)
    open_flows = set(slow)

    def fix(index: int, rate: float) -> None:
        open_flows.discard(index)
        rates[index] = rate
        for port in flows[index][1]:
            left[port] -= rate
            count[port] -= 1
            if not count[port]:
                del count[port]

    while open_flows:
        level = min((left[port] / number for port, number in count.items()), default=math.inf)
        capped = False
        while slow and flows[slow[-1]][0] <= level:
            index = slow.pop()
            if index in open_flows:
                fix(index, flows[index][0])
                capped = True
        if not capped:
            full = [port for port, number in count.items() if left[port] <= level * number * TIES]
            for index in [index for port in full for index in through[port]]:
                if index in open_flows:
                    fix(index, level)
    return rates


def _drawn(law: Law | None, key: int, site: int) -> float:
    return math.inf if law is None else law.draw(key, site) * BYTES_PER_MBIT


# PF section VII: upload and download of a server 1 Gbit/s, links 100 Mbit/s in the mean: edge-capacitated.
GEANT = Backbone(Constant(1000.0), LogNormal(100.0 * math.exp(-(GEANT_SIGMA**2) / 2), GEANT_SIGMA))
# The same section: 100 and 820 Mbit/s: node-capacitated.
EXODUS = Backbone(Constant(100.0), Constant(820.0))

SHARINGS: Forms[Sharing | None] = Forms(
    "fleet.sharing",
    Form("none", lambda: None, "every transfer has its byte rate to itself", "none"),
    Form("fair", Sharing, "a server's transfers share fleet.server_mbps max-min fairly, each way", "fair"),
    Form(
        "ofdma:SUBCARRIERS",
        Sharing,
        "each server is a radio cell, and of its S subcarriers each of the n devices that are active in a direction"
        " has ⌊S/n⌋, so that it moves bytes at that part of its own byte rate; 1200 is LTE's 20 MHz of 15 kHz each",
        "ofdma:1200",
        {"SUBCARRIERS": COUNT},
    ),
)
"""What a server's transfers with devices share."""

BACKBONES: Forms[Backbone | None] = Forms(
    "fleet.backbone",
    Form("free", lambda: None, "no time; with fleet.sharing=none, what fleet.links says of two servers", "free"),
    Form(
        "rate:NODE,LINK",
        Backbone,
        "what each server can send and receive and what each link carries each way, in Mbit/s (B_i and A_ii' of"
        " PF-10), shared max-min fairly",
        "rate:1000,100",
        {"NODE": LAW_BEFORE_COMMA, "LINK": LAW_BEFORE_COMMA},
    ),
    Form(
        "rate:NODE/LINK",
        Backbone,
        "the same, drawn from laws",
        "rate:1000/lognormal,100,0.5",
        {"NODE": LAW_BEFORE_SLASH, "LINK": LAW_BEFORE_SLASH},
    ),
    Form("node:NODE", Backbone, "only servers are limited, in Mbit/s", "node:100", {"NODE": LAW}),
    Form("edge:LINK", Backbone, "only links are limited, in Mbit/s", "edge:100", {"LINK": LAW}),
    Form("geant", lambda: GEANT, "servers 1000 Mbit/s, links lognormal with mean 100 and sigma 0.5", "geant"),
    Form("exodus", lambda: EXODUS, "servers 100 Mbit/s, links 820", "exodus"),
)
"""Links between servers."""


def parse_sharing(text: str) -> Sharing | None:
    """What transfers share, from words; None is nothing."""
    return SHARINGS.parse(text)


def parse_backbone(text: str) -> Backbone | None:
    """Links between servers, from words; None is links that take no time."""
    return BACKBONES.parse(text)
