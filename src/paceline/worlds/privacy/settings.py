"""What a user says about privacy, and whether an algorithm can be made private at all."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from paceline.algorithms.base import Sums, Traits
from paceline.bounds import bounded, check_bounds
from paceline.errors import SettingError

PACKAGE = "dp_accounting"


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """Client-level differential privacy; none unless ``privacy.clip`` is given."""

    clip: float | None = bounded(None, above=0, none="for no privacy")
    """C: an upload's update, what was trained minus what it was trained from, is shortened to this length; none for
    no privacy. See docs/privacy.md."""
    noise: float = bounded(0.0, least=0)
    """z: Gaussian noise whose standard deviation is z*C is in every sum of uploads that the server makes; each upload
    brings its share. 0 clips only, which protects nobody."""
    delta: float | None = bounded(None, above=0, below=1, none="for 1/N^1.1")
    """δ, for which ε is given; 1/N^1.1 with N clients when not given."""

    def __post_init__(self) -> None:
        check_bounds(self, "privacy.")
        if self.clip is None and (self.noise or self.delta is not None):
            given = f"privacy.noise is {self.noise:g}" if self.noise else f"privacy.delta is {self.delta:g}"
            raise SettingError(
                f"{given}, but privacy.clip is not given: noise hides only what is bounded; give it, as in"
                " privacy.clip=1"
            )

    def delta_for(self, clients: int) -> float:
        """δ as it was given, or 1/N^1.1; with one client, 0.5: there is nobody among whom it could hide."""
        return self.delta if self.delta is not None else min(0.5, float(clients) ** -1.1)

    def sums(self, name: str, traits: Traits) -> Sums | None:
        """How an algorithm adds uploads up; None without privacy, ``SettingError`` where there can be none."""
        if self.clip is None:
            return None
        if not isinstance(traits.private, Sums):
            reason = traits.private or (UNSAID if traits.servers else PEERS)
            raise SettingError(f"privacy.clip is {self.clip:g}, but {name} cannot be made private: {reason}")
        if self.noise and find_spec(PACKAGE) is None:
            raise SettingError(
                "privacy.noise needs the package dp-accounting, which computes ε; install the extra `privacy`;"
                " see docs/install.md"
            )
        return traits.private


UNPROTECTED = Privacy()
"""What is unless something else is said."""
PEERS = "it has no server that adds up what clients send; they send their models to each other"
UNSAID = (
    "it does not say that clients send nothing but updates of what a server sent them; if that is so, say it in its"
    " traits (Traits.private)"
)
