"""Servers that fail and links between servers that break, for good, at times that are fixed before the run.

Servers are numbered 1, 2, ... as in every message; server k is the site -k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from paceline.errors import SettingError
from paceline.forms import ABOVE_ZERO, AT_LEAST_ZERO, COUNT, Form, Forms, joined
from paceline.seeds import address, uniform

K = TypeVar("K")


@dataclass(frozen=True, kw_only=True)
class Failures:
    """When each server and each link fails; infinity is never."""

    servers: Mapping[int, float] = field(default_factory=dict)
    """The second at which each of these sites fails."""
    links: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """The second at which the link between each of these pairs of sites fails; the smaller site comes first."""
    mean_server: float = math.inf
    """Every server besides fails after an exponential time of this mean."""
    mean_link: float = math.inf
    key: int = 0

    @property
    def none(self) -> bool:
        """Whether nothing ever fails."""
        return not self.servers and not self.links and self.mean_server == self.mean_link == math.inf

    def server(self, site: int) -> float:
        """When this server fails; devices have an availability instead."""
        if site >= 0 or self.none:
            return math.inf
        return min(self.servers.get(site, math.inf), self._drawn(self.mean_server, 1, -site))

    def link(self, one: int, other: int) -> float:
        """When the link between these two servers fails."""
        if one >= 0 or other >= 0 or self.none:
            return math.inf
        low, high = min(one, other), max(one, other)
        return min(self.links.get((low, high), math.inf), self._drawn(self.mean_link, 2, -low, -high))

    def _drawn(self, mean: float, *place: int) -> float:
        return mean if mean == math.inf else -mean * math.log(uniform(self.key, *place))


def _server(number: int, seconds: float) -> Failures:
    return Failures(servers={-number: seconds})


def _link(one: int, other: int, seconds: float) -> Failures:
    if one == other:
        raise SettingError(f"fleet.failures is 'link:{one}-{other}@{seconds:g}'; a link has two different ends")
    return Failures(links={(min(-one, -other), max(-one, -other)): seconds})


_NUMBERED = {"NUMBER": COUNT, "ONE": COUNT, "OTHER": COUNT, "SECONDS": AT_LEAST_ZERO, "MEAN": ABOVE_ZERO}
FAILURES: Forms[Failures] = Forms(
    "fleet.failures",
    Form("none", Failures, "nothing ever fails", "none"),
    Form("server:NUMBER@SECONDS", _server, "this server fails after so many seconds", "server:4@120", _NUMBERED),
    Form("link:ONE-OTHER@SECONDS", _link, "the link between these servers fails then", "link:1-2@60", _NUMBERED),
    Form(
        "servers:MEAN",
        lambda mean: Failures(mean_server=mean),
        "each server fails after an exponential time of so many seconds in the mean",
        "servers:3600",
        _NUMBERED,
    ),
    Form("links:MEAN", lambda mean: Failures(mean_link=mean), "each link likewise", "links:3600", _NUMBERED),
)
"""What can be said about failures; several are joined by ``+``."""


def parse_failures(text: str, *, seed: int) -> Failures:
    """Failures from words, several of which may be joined by ``+``: ``server:4@120+link:1-2@60``."""
    said = [FAILURES.parse(part) for part in joined(text)]
    return Failures(
        servers=_earliest([one.servers for one in said]),
        links=_earliest([one.links for one in said]),
        mean_server=_last([one.mean_server for one in said]),
        mean_link=_last([one.mean_link for one in said]),
        key=0 if text == "none" else address(seed, "system", "failures"),
    )


def _earliest(said: list[Mapping[K, float]]) -> dict[K, float]:
    """When each fails first, if that was said several times."""
    found: dict[K, float] = {}
    for one in said:
        found |= {key: min(seconds, found.get(key, math.inf)) for key, seconds in one.items()}
    return found


def _last(means: list[float]) -> float:
    """The mean time that was said last, or infinity if none was."""
    return next((mean for mean in reversed(means) if mean < math.inf), math.inf)
