"""What is asked of servers: clients, a model, and what moves it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paceline.bounds import LONGEST
from paceline.errors import SettingError, nearest

if TYPE_CHECKING:
    from paceline.plans.capacities import Capacities
    from paceline.plans.demand_devices import Devices
    from paceline.system.fleet import FleetSettings

RATES = ("client_up", "client_down", "server", "node", "link")


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Clients, a model, and what moves it; rates in Mbit/s, infinity where unlimited."""

    clients: int = 1000
    participants: int = 36
    """Clients of a round, at all servers together."""
    megabits: float = 13.0
    """s, the size of a model; PF's MLP."""
    client_up: float = 10.0
    client_down: float = 10.0
    server: float = 100.0
    """b, which a server's clients share, each way."""
    node: float = 100.0
    """B, which a server's links to other servers share, each way."""
    link: float = 820.0
    """A, of one link between two servers, each way."""
    compute: float = 1.0
    """Mean seconds of a visit's training."""
    spread: float = 0.0
    """Its standard deviation from visit to visit, as a share of it."""
    weights: str = "optimal"
    drift: float = 0.1
    devices: Devices | None = None
    """The clients one by one, if they are known; then ``compute`` and the clients' rates are their means."""
    network: Capacities | None = None
    """Servers and links with rates of their own, in the place of ``node`` and ``link``."""

    def __post_init__(self) -> None:
        if self.participants < 1 or self.clients < self.participants:
            raise SettingError(
                f"{self.participants} participants of {self.clients} clients; give 1 or more, and at most all clients"
            )
        for name in ("megabits", "compute"):
            if not 1 / LONGEST <= (value := getattr(self, name)) <= LONGEST:
                raise SettingError(f"{name} is {value:g}; give a number above 0, and at most {LONGEST:g}")
        for name in RATES:
            if not (
                1 / LONGEST <= (value := getattr(self, name)) <= LONGEST
                or (value == math.inf and name[:6] != "client")
            ):
                raise SettingError(f"{name} is {value:g}; give a rate in Mbit/s above 0")
        if not 0 <= self.spread <= 0.5:
            raise SettingError(f"spread is {self.spread:g}; give a share of the seconds of a visit, from 0 to 0.5")
        if not 0 <= self.drift <= 1:
            raise SettingError(f"drift is {self.drift:g}; give a share from 0 to 1")
        from paceline.topology import WEIGHTINGS  # networkx is slow to import, and help needs the defaults only

        if self.weights not in WEIGHTINGS:
            raise SettingError(f"weights are {self.weights!r}; {nearest(self.weights, WEIGHTINGS)}")

    def with_models_of(self, megabits: float) -> Demand:
        """The same times with models of another size: all rates change with it."""
        share = megabits / self.megabits
        rates = {name: share * getattr(self, name) for name in RATES}
        return replace(self, megabits=megabits, **rates)

    def fleet(self) -> FleetSettings:
        """The same for a simulation."""
        from paceline.system.fleet import FleetSettings

        node, link = math.isfinite(self.node), math.isfinite(self.link)
        backbone = f"rate:{self.node!r},{self.link!r}" if node and link else "free"
        if node != link:
            backbone = f"node:{self.node!r}" if node else f"edge:{self.link!r}"
        return FleetSettings(
            times=f"constant:{self.compute!r}",
            jitter=self.spread,
            links=f"rate:{self.client_up!r},{self.client_down!r}",
            server_mbps=self.server if math.isfinite(self.server) else None,
            sharing="fair",
            backbone=backbone,
        )
