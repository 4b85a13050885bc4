"""A fleet: how many devices there are, how they compute, talk and come and go, and what servers cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline.bounds import bounded, check_bounds
from paceline.errors import SettingError
from paceline.forms import written
from paceline.system.availability import AVAILABILITIES, Availability, parse_availability
from paceline.system.compute import TIMES, Compute, parse_times
from paceline.system.cost import LEAST, LONGEST, MOST, STRONGEST, Cost
from paceline.system.failures import FAILURES, Failures, parse_failures
from paceline.system.links import LINKS, LinkPower, Links, RateLinks, TraceLinks, parse_links
from paceline.system.listed import DelayedLinks, FleetFile, read_fleet
from paceline.system.network import BACKBONES, SHARINGS, Network, parse_backbone, parse_sharing
from paceline.system.server import SERVERS, ConstantServer, ServerCosts, UndefinedServer, parse_server


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Devices 0 to size - 1 and the servers -1, -2, ... that they talk to."""

    size: int
    compute: Compute
    links: Links
    availability: Availability
    server: ServerCosts = field(default_factory=UndefinedServer)
    network: Network | None = None
    """What transfers share with one another; None where each has its byte rate to itself."""
    failures: Failures = field(default_factory=Failures)
    """When servers fail and links between them break."""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SettingError(f"a fleet of {self.size} devices; wanted at least 1")

    def work(self, flops: float) -> Cost:
        """The cost of one job on a server."""
        return self.server.work(flops)


@dataclass(frozen=True, kw_only=True)
class FleetSettings:
    """A fleet in words and numbers, as it is set on the command line: ``--set fleet.times=discrete``."""

    file: str = ""
    """A CSV or TOML file that lists the devices with their speed, links, power and availability (docs/fleets.md);
    what it says goes before the other settings. ``FILE,repeat`` where it has fewer devices than there are clients."""
    times: str = written("discrete", TIMES)
    """How long devices train."""
    jitter: float = bounded(0.2, least=0, most=100)
    """Spread of a visit's time around the device's mean, as a share of it; measured times take none."""
    links: str = written("free", LINKS)
    """How long models travel between a device and a server, or between devices."""
    latency: float = bounded(0.0, least=0, most=LONGEST)
    """Seconds before the first byte of a transfer, for all links but free ones."""
    watts: float | None = bounded(None, least=0, most=STRONGEST)
    """Power of a device while it computes."""
    link_watts: float | None = bounded(None, least=0, most=STRONGEST)
    """Power of a device while it sends, and while it receives unless ``receive_watts`` is given."""
    receive_watts: float | None = bounded(None, least=0, most=STRONGEST)
    """Power of a device while it receives."""
    availability: str = written("always", AVAILABILITIES)
    """When devices are there; several of these are joined by ``+``."""
    server: str = written("free", SERVERS)
    """How long server work takes, such as aggregating or distilling."""
    server_watts: float | None = bounded(None, least=0, most=STRONGEST)
    """Power of a server while it works."""
    server_mbps: float | None = bounded(None, least=LEAST, most=MOST)
    """Byte rate of a server in Mbit/s, up and down, for rate and trace links; unlimited unless given. With
    ``sharing`` it is that of all its transfers with devices together, else of each."""
    server_link_watts: float | None = bounded(None, least=0, most=STRONGEST)
    """Power of a server's end of a link; 0 unless given, where ``link_watts`` is."""
    sharing: str = written("none", SHARINGS)
    """What a server's transfers with devices share, which needs ``rate:`` or ``trace:`` links. Of a radio cell,
    ``server_mbps``, if given, besides limits the sum."""
    backbone: str = written("free", BACKBONES)
    """Links between servers; ``latency`` counts for all but ``free``."""
    failures: str = written("none", FAILURES)
    """Servers, and links between servers, that fail for good; several of these are joined by ``+``."""

    def __post_init__(self) -> None:
        check_bounds(self, "fleet.")


def build_fleet(settings: FleetSettings, size: int, seed: int) -> Fleet:
    """The fleet that these settings describe; impossible settings are an error here, before any work starts."""
    power = LinkPower(settings.link_watts, receive=settings.receive_watts, server=settings.server_link_watts)
    listed = read_fleet(settings.file) if settings.file else None
    if listed is not None:
        listed.check(size)
    links = _links(settings, listed, power, seed)
    # What a file says goes before the settings; they are read all the same, for a slip must not pass in silence.
    times = parse_times(settings.times, seed=seed, jitter=settings.jitter, watts=settings.watts)
    availability = parse_availability(settings.availability, seed=seed, size=size)
    compute = listed and listed.compute(seed=seed, jitter=settings.jitter, watts=settings.watts)
    presence = listed and listed.presence(seed=seed, clients=size)
    server = parse_server(settings.server, watts=settings.server_watts)
    if listed is not None and listed.server is not None:
        server = ConstantServer(listed.server, watts=settings.server_watts)
    return Fleet(
        size=size,
        compute=compute or times,
        links=links,
        availability=presence or availability,
        server=server,
        network=_network(settings, links, power, seed),
        failures=parse_failures(settings.failures, seed=seed),
    )


def _links(settings: FleetSettings, listed: FleetFile | None, power: LinkPower, seed: int) -> Links:
    """The links as the file lists them, or as the settings say; a listed latency comes on top of either."""
    up, down = (listed.law("up_mbps"), listed.law("down_mbps")) if listed is not None else (None, None)
    links: Links = parse_links(
        settings.links, seed=seed, latency=settings.latency, power=power, server_mbps=settings.server_mbps
    )
    if up is not None and down is not None:
        links = RateLinks(
            up=up, down=down, seed=seed, latency=settings.latency, power=power, server_mbps=settings.server_mbps
        )
    latency = listed.law("latency") if listed is not None else None
    return links if latency is None else DelayedLinks(links, latency)


def _network(settings: FleetSettings, links: Links, power: LinkPower, seed: int) -> Network | None:
    sharing, backbone = parse_sharing(settings.sharing), parse_backbone(settings.backbone)
    if sharing is None and backbone is None:
        return None
    if sharing is not None and not isinstance(links, RateLinks | TraceLinks):
        raise SettingError(
            f"fleet.sharing is {settings.sharing!r}, but {settings.file} has latencies, for links that share nothing;"
            " remove its column latency (fleet.latency sets one for all), or set fleet.sharing=none"
            if isinstance(links, DelayedLinks)
            else f"fleet.sharing is {settings.sharing!r} but fleet.links is {settings.links!r}, without a byte rate"
            " to share; set links to rate:UP,DOWN or trace:FILE, or sharing to none"
        )
    return Network(
        links=links,
        sharing=sharing,
        backbone=backbone,
        seed=seed,
        latency=settings.latency,
        power=power,
        server_mbps=settings.server_mbps,
    )
