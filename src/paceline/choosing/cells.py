"""The federations in which methods are compared, as settings; and the methods.

A visit takes one second on average everywhere, so that all other seconds are in visits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from paceline.errors import SettingError, nearest

Words = tuple[str, ...]
CLIENTS = 20
MEGABITS = 2410 * 32 / 1e6
"""The size of the model, mlp:32 on digits."""
COMMON: Words = (
    "dataset=digits",
    "model=mlp:32",
    f"clients={CLIENTS}",
    "local.steps=2",
    "local.batch=10",
    "fleet.jitter=0.1",
)


def _rate(seconds: float, models: int = 1) -> str:
    """Mbit/s at which so many models take so long."""
    return f"{models * MEGABITS / seconds:.6g}"


SPREADS: dict[str, Words] = {
    "equal": ("fleet.times=constant:1",),
    "tenfold": ("fleet.times=discrete:0.2,0.4,0.8,1.6,2",),
    "heavy tail": ("fleet.times=lognormal:0.607,1",),
}
"""How long devices train: all alike, PSFL's five-point law, and a few that are very slow; a second in the mean."""
SERVERS: dict[str, Words] = {"free": ("fleet.server=free",), "slow": ("fleet.server=constant:1",)}
"""What an aggregation takes: nothing, or as long as a visit."""
LINKS: dict[str, Words] = {
    "free": ("fleet.links=free",),
    "slow clients": (
        f"fleet.links=rate:{_rate(0.5)},{_rate(0.5)}",
        "fleet.sharing=fair",
        f"fleet.server_mbps={_rate(0.05, CLIENTS)}",
        f"fleet.backbone=node:{_rate(0.05, CLIENTS)}",
    ),
    "busy server": (
        f"fleet.links=rate:{_rate(0.01)},{_rate(0.01)}",
        "fleet.sharing=fair",
        f"fleet.server_mbps={_rate(2.0, CLIENTS)}",
        f"fleet.backbone=node:{_rate(2.0, CLIENTS)}",
    ),
}
"""What transfers take: nothing; half a second each way on a client's own link; or a hundredth there, but two seconds
each way for all clients together through one server."""
SPLITS: dict[str, Words] = {"IID": ("partition=iid",), "two classes": ("partition=pathological:2,equal",)}
"""How alike the clients' data are."""

LEVELS = (*SPREADS, "slow server", "free server", "free links", "slow clients", "busy server", *SPLITS)
"""What can be said of a federation."""


@dataclass(frozen=True)
class Method:
    """One of the methods that are compared."""

    name: str
    words: Words = ()
    pays: bool = True
    """Whether the method's aggregations took server time when these cells were run. The other methods' took none, so
    they are not compared where the server is slow."""
    structured: bool = False
    """Whether how long its rounds are is known only after its warm-up."""


METHODS = {
    one.name: one
    for one in (
        Method("fedavg", (f"fedavg.participants={CLIENTS}",)),
        Method("psfl", (f"psfl.participants={CLIENTS}",), structured=True),
        Method("spfl"),
        Method("apfl"),
        Method("fedbuff", (f"fedbuff.concurrency={CLIENTS}", "fedbuff.buffer=5"), pays=False),
        Method(
            "p-fedavg", ("p-fedavg.topology=ring:4", "p-fedavg.participants=5", "p-fedavg.weights=optimal"), False
        ),
    )
}
"""All have the same twenty devices, which may all be at work at once."""


@dataclass(frozen=True)
class Cell:
    """One federation."""

    spread: str
    server: str
    links: str
    split: str

    @property
    def name(self) -> str:
        """A directory's name."""
        return "-".join((self.split, self.spread, self.server, self.links)).replace(" ", "").lower()

    @property
    def levels(self) -> tuple[str, ...]:
        """What is said of it."""
        links = "free links" if self.links == "free" else self.links
        return self.spread, f"{self.server} server", links, self.split

    @property
    def words(self) -> Words:
        """Its settings."""
        return (*COMMON, *SPREADS[self.spread], *SERVERS[self.server], *LINKS[self.links], *SPLITS[self.split])

    @property
    def methods(self) -> list[Method]:
        """Those that are compared in it."""
        return [one for one in METHODS.values() if one.pays or self.server == "free"]


def cells() -> Iterator[Cell]:
    """All federations."""
    for split, spread, server, links in product(SPLITS, SPREADS, SERVERS, LINKS):
        yield Cell(spread, server, links, split)


def chosen(words: Sequence[str]) -> list[Cell]:
    """The federations of which all of this is said."""
    for word in words:
        if word not in LEVELS:
            raise SettingError(f"no federation is called {word!r}; {nearest(word, LEVELS)}")
    return [cell for cell in cells() if all(word in cell.levels for word in words)]
