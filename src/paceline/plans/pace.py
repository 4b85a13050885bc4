"""The four times of No One Idles, and a fleet that takes them."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.bounds import LONGEST
from paceline.errors import SettingError

MOST_DEVICES = 300


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The paper's four times in seconds, and a fleet."""

    t_local: float
    """T_l, local training."""
    t_comm: float
    """T_c, model down and update up, together."""
    t_wait: float
    """T_w, how long a straggler is away."""
    t_aggregate: float
    """T_g, one aggregation of the server."""
    devices: int = 10
    dropout: float = 0.2
    """The share of devices that straggle; how many does not matter to the formulas, only whether any does."""
    jitter: float = 0.0
    """Spread of T_l from visit to visit, as a share of it; simulated only."""

    def __post_init__(self) -> None:
        if not 1 / LONGEST <= self.t_local <= LONGEST:
            raise SettingError(
                f"t_local is {self.t_local:g}; give the seconds of local training, above 0 and at most {LONGEST:g}"
            )
        for name in ("t_comm", "t_wait", "t_aggregate"):
            seconds = getattr(self, name)
            if not 0 <= seconds <= LONGEST:
                raise SettingError(
                    f"{name} is {seconds:g}; give a number of seconds, 0 or more, and at most {LONGEST:g}"
                )
        if not 1 <= self.devices <= MOST_DEVICES:
            raise SettingError(
                f"devices is {self.devices}; give a number from 1 to {MOST_DEVICES} (no formula depends on it)"
            )
        if not 0 <= self.dropout <= 1:
            raise SettingError(f"dropout is {self.dropout:g}; give the share of devices that straggle, from 0 to 1")
        if not 0 <= self.jitter <= 1:
            raise SettingError(f"jitter is {self.jitter:g}; give a share of t_local, from 0 to 1")

    @property
    def stragglers(self) -> int:
        """Devices that straggle at every visit number."""
        from paceline.system.availability import whole_part  # help needs the defaults only, and not numpy

        return whole_part(self.dropout, self.devices)

    @property
    def waited(self) -> float:
        """T_w, or nothing where nobody straggles."""
        return self.t_wait if self.stragglers else 0.0

    @property
    def visit(self) -> float:
        """a = T_l + T_c."""
        return self.t_local + self.t_comm
