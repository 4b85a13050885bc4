"""Servers that fail and links between servers that break, for good, at times that are fixed before the run.

Servers are numbered 1, 2, ... as in every message; server k is the site -k.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.errors import SettingError, nearest
from paceline.seeds import address, uniform
from paceline.system.cost import above_zero

_FORMS = "server:4@120 (server 4 at 120 s), link:1-2@60, servers:3600 and links:3600 (mean seconds until each fails)"
_SERVER = re.compile(r"(\d+)@(.+)")
_LINK = re.compile(r"(\d+)-(\d+)@(.+)")


@dataclass(frozen=True, kw_only=True)
class Failures:
    """When each server and each link fails; infinity is never."""

    servers: Mapping[int, float] = field(default_factory=dict)
    """Site to seconds."""
    links: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """Sites, the smaller first, to seconds."""
    mean_server: float = math.inf
    """Every server besides fails after an exponential time of this mean."""
    mean_link: float = math.inf
    key: int = 0

    @property
    def none(self) -> bool:
        """Nothing ever fails."""
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


def parse_failures(text: str, *, seed: int) -> Failures:
    """Failures from words: ``none``, or several joined by ``+``: ``server:4@120+link:1-2@60``, ``servers:3600``."""
    if text == "none":
        return Failures()
    servers: dict[int, float] = {}
    links: dict[tuple[int, int], float] = {}
    means = {"servers": math.inf, "links": math.inf}
    for part in text.split("+"):
        word, _, rest = part.partition(":")
        if word == "server" and (found := _SERVER.fullmatch(rest)):
            site = _site(found[1], text)
            servers[site] = min(servers.get(site, math.inf), _seconds(found[2], text))
        elif word == "link" and (found := _LINK.fullmatch(rest)):
            low, high = sorted((_site(found[1], text), _site(found[2], text)))
            if low == high:
                raise SettingError(f"fleet.failures is {text!r}; a link has two different ends")
            links[low, high] = min(links.get((low, high), math.inf), _seconds(found[3], text))
        elif word in means:
            means[word] = above_zero(_seconds(rest, text), "the mean time to a failure")
        elif word in ("server", "link"):
            raise SettingError(f"fleet.failures is {text!r}; wanted {_FORMS}")
        else:
            hint = nearest(word, ("none", "server", "link", *means))
            raise SettingError(f"fleet.failures is {text!r}; {hint} Forms: {_FORMS}")
    key = address(seed, "system", "failures")
    return Failures(servers=servers, links=links, mean_server=means["servers"], mean_link=means["links"], key=key)


def _site(number: str, text: str) -> int:
    if int(number) < 1:
        raise SettingError(f"fleet.failures is {text!r}; servers are numbered from 1")
    return -int(number)


def _seconds(number: str, text: str) -> float:
    try:
        seconds = float(number)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise SettingError(f"fleet.failures is {text!r}; {number!r} is no time in seconds; wanted {_FORMS}")
    return seconds
