"""What work on a server costs: aggregating, screening uploads, distilling."""

from __future__ import annotations

import math
from typing import Protocol

from paceline.errors import CostError, SettingError
from paceline.forms import Form, Forms
from paceline.system.cost import FREE, LONGEST, Cost, above_zero, power


class ServerCosts(Protocol):
    """What work on a server costs."""

    def work(self, flops: float) -> Cost:
        """The cost of one job of so many FLOPs."""


class UndefinedServer:
    """Nobody said what server work costs, so asking is an error."""

    __slots__ = ()

    def work(self, flops: float) -> Cost:
        """Raise ``CostError``, whatever the job."""
        raise CostError(
            "server work has no defined cost; set fleet.server to 'free', 'constant:SECONDS' or 'flops:RATE'"
        )


class FreeServer:
    """Server work takes no time and no energy: it must be asked for by name."""

    __slots__ = ()

    def work(self, flops: float) -> Cost:
        """No seconds and no joules."""
        return FREE


class ConstantServer:
    """Every job takes the same time: the T_g of SPFL and APFL."""

    __slots__ = ("_cost",)

    def __init__(self, seconds: float, *, watts: float | None = None) -> None:
        above_zero(seconds, "the seconds of a server job", LONGEST)
        self._cost = Cost(seconds, seconds * power(watts, "server_watts"))

    def work(self, flops: float) -> Cost:
        """The same cost for every job."""
        return self._cost


class FlopServer:
    """Time is FLOPs over FLOP/s, energy is time times watts."""

    __slots__ = ("_rate", "_watts")

    def __init__(self, rate: float, *, watts: float | None = None) -> None:
        self._rate = above_zero(rate, "the FLOP/s of the server")
        self._watts = power(watts, "server_watts")

    def work(self, flops: float) -> Cost:
        """The job's FLOPs over the server's FLOP/s, and the energy of that time."""
        if not 0 <= flops < math.inf:
            raise CostError(f"a server job counts {flops!r} FLOPs; give the job a count")
        seconds = flops / self._rate
        return Cost(seconds, seconds * self._watts)


def _measured() -> ServerCosts:
    raise SettingError(
        "fleet.server is 'measured', which a run replaces by the FLOP/s that it finds; give flops:RATE to a fleet"
    )


SERVERS: Forms[ServerCosts] = Forms(
    "fleet.server",
    Form("free", FreeServer, "server work takes no time and no energy", "free"),
    Form("constant:SECONDS", ConstantServer, "every job takes so many seconds", "constant:2", needs=("watts",)),
    Form("flops:RATE", FlopServer, "FLOPs of the job over this many FLOP/s", "flops:1e12", needs=("watts",)),
    Form("measured", _measured, "FLOPs over the FLOP/s of this machine, found once before the run", "measured"),
    Form("undefined", UndefinedServer, "to ask what server work costs is an error", "undefined"),
)
"""What server work can cost."""


def parse_server(text: str, *, watts: float | None = None) -> ServerCosts:
    """What server work costs, from words."""
    return SERVERS.parse(text, watts=watts)
