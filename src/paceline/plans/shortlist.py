"""Which methods a fleet might use: algorithms and structures with as many clients at a time, to be compared dry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.algorithms.registry import algorithm_named
from paceline.config import parse_variant
from paceline.errors import SettingError

OVERLAYS = ("ring", "torus", "complete")
SIZES = ("participants", "concurrency")
"""Settings that say how many clients are at work at a time."""
STRUCTURES = 4
"""How many structures of PSFL lie between FedAvg and sequential FL at most."""
MOST_SERVERS = 100
MOST_AT_ONCE, MOST_PEERS = 20_000, 2_000
"""Devices with which a dry run of methods that engage all of them, with a server and without one, takes seconds."""


@dataclass(frozen=True)
class Method:
    """An algorithm with some settings of its own."""

    name: str
    """As ``paceline compare`` takes it: ``psfl@width=5,length=4``."""
    label: str
    """The same in a word or two, for a table."""

    most: int = 10**9
    """With more devices its dry run takes long, and it is tried only if it is named."""

    @property
    def algorithm(self) -> str:
        """Its name alone."""
        return self.name.partition("@")[0]


def shortlist(
    clients: int, participants: int, servers: Sequence[int] = (), algorithms: Sequence[str] = ()
) -> list[Method]:
    """All that is worth a dry run, FedAvg first; or of that the ``algorithms`` named, and others as they are named.

    >>> [method.label for method in shortlist(100, 20, algorithms=["psfl"])]
    ['fedavg', 'psfl 10x2', 'psfl 5x4', 'psfl 4x5', 'psfl 2x10', 'fedavg, all']
    """
    _check(clients, participants, servers)
    usual = [*_some(participants, servers), *_all(clients, participants), *_peers(clients)]
    if not algorithms:
        return usual
    chosen = [method for method in usual if method.algorithm in ("fedavg", *algorithms)]
    known = {method.algorithm for method in chosen}
    others = [name for name in dict.fromkeys(algorithms) if name not in known]
    return chosen + [Method(_sized(name, participants), name.rpartition(":")[2].replace("@", " ")) for name in others]


def _sized(name: str, participants: int) -> str:
    """The name with as many clients at a time as the others have, where that is a setting of its own."""
    algorithm, words = parse_variant(name)
    made = algorithm_named(algorithm).make()  # one that is misspelt is refused now
    for setting in SIZES:
        if isinstance(getattr(made, setting, None), int) and not words.keys() & {*SIZES, "width", "length"}:
            return f"{name}{',' if words else '@'}{setting}={participants}"
    return name


def _check(clients: int, participants: int, servers: Sequence[int]) -> None:
    if not 1 <= participants <= clients:
        raise SettingError(f"participants is {participants}; of {clients} devices wanted 1 to {clients}")
    for count in servers:
        if not 2 <= count <= MOST_SERVERS:
            raise SettingError(f"servers is {count}; wanted 2 to {MOST_SERVERS}: one server is always tried")


def _some(participants: int, servers: Sequence[int]) -> Iterator[Method]:
    """With so many clients in a round, or at work at any time."""
    yield Method(f"fedavg@participants={participants}", "fedavg")
    for width, length in structures(participants):
        yield Method(f"psfl@width={width},length={length}", f"psfl {width}x{length}")
    if participants > 1:
        yield Method(f"sfl@participants={participants}", "sfl")
    for buffer in dict.fromkeys(max(2, participants // part) for part in (2, 4, 1) if participants > 1):
        name = f"fedbuff@concurrency={participants},buffer={buffer}"
        yield Method(name, f"fedbuff, buffer {buffer}")
    yield Method(f"fedasync@concurrency={participants}", "fedasync")
    for count in dict.fromkeys(servers):
        yield from _several(participants, count)


def structures(participants: int) -> list[tuple[int, int]]:
    """Widths and lengths between FedAvg and sequential FL, with all participants in each round if that can be.

    >>> structures(20), structures(7)
    ([(10, 2), (5, 4), (4, 5), (2, 10)], [(3, 2), (2, 3)])
    """
    lengths = [length for length in range(2, participants) if participants % length == 0]
    if not lengths:
        lengths = [length for length in range(2, participants) if participants // length >= 2]
    step = max(1, -(-len(lengths) // STRUCTURES))
    return list(dict.fromkeys((participants // length, length) for length in lengths[::step]))


def _several(participants: int, count: int) -> Iterator[Method]:
    """Several servers, which share the participants evenly, as far as that can be."""
    from paceline.plans.servers_families import SIZED  # networkx is slow to import, and one server needs none of it

    each = max(1, -(-participants // count))
    for overlay in OVERLAYS[2:] if count <= 3 else OVERLAYS:  # a ring of three is complete
        if (graph := SIZED[overlay](count)) is not None:
            yield Method(f"p-fedavg@topology={graph},participants={each}", f"p-fedavg, {graph}")
    yield Method(f"hierfavg@servers={count},participants={each}", f"hierfavg, {count} edges")


def _all(clients: int, participants: int) -> Iterator[Method]:
    """With all devices at once."""
    if participants < clients:
        yield Method(f"fedavg@participants={clients}", "fedavg, all", MOST_AT_ONCE)
    for name in ("spfl", "apfl", "dga", "mifa"):
        yield Method(name, name, MOST_AT_ONCE)


def _peers(clients: int) -> Iterator[Method]:
    """Without a server, where there are enough for neighbours."""
    if clients < 3:
        return
    degree = min(10, clients - 1)
    yield Method("dpsgd", "dpsgd, ring", MOST_PEERS)
    yield Method(f"dispfl@neighbours.degree={degree}", "dispfl", MOST_PEERS)
    for wait in dict.fromkeys((min(2, degree), degree)):
        yield Method(f"da-dpfl@neighbours.degree={degree},wait={wait}", f"da-dpfl, wait {wait}", MOST_PEERS)
