"""Overlays that are tried by name: families in every number of servers, and whole words such as ``torus:3x5``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from paceline.errors import SettingError, nearest
from paceline.reading import expanded
from paceline.topology import Graph, parse_graph
from paceline.topology.families import GRAPHS

TOPOLOGIES = ("complete", "torus", "ring", "tree", "hypercube", "star")
SERVERS = (1, 4, 9, 16, 25)
MOST_SERVERS = 100


def asked(topologies: Sequence[str], servers: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Overlays, families in every number and whole words as they are, and why one cannot be."""
    for count in servers:
        if not 1 <= count <= MOST_SERVERS:
            raise SettingError(f"servers is {count}; give numbers from 1 to {MOST_SERVERS}")
    words = list(dict.fromkeys(topologies))
    families = [word for word in words if word in SIZED]
    for count in dict.fromkeys(servers):
        for family in families if count > 1 else ():
            name = SIZED[family](count)
            yield (name, "") if name else (f"{family} of {count}", LACKING[family])
    for word in words:
        if word not in SIZED:
            _known(word)
            yield word, ""


def _known(word: str) -> None:
    """Refuse what is no topology at all: one that is impossible is left out, one that is misspelt is not."""
    if word in GRAPHS.names:
        raise SettingError(f"the topology {word!r} needs numbers of its own, as in {GRAPHS.example(word)}")
    if ":" not in word and not expanded(word).is_file():
        known = (*SIZED, *GRAPHS.names)
        raise SettingError(f"the topology {word!r} is neither known nor a file; {nearest(word, known)}")
    if word.partition(":")[0] not in GRAPHS.names:
        parse_graph(word)


def overlay(word: str, lacking: str) -> Graph:
    """An overlay by its word, unless there is none."""
    if lacking:
        raise SettingError(lacking)
    graph = parse_graph(word)
    if graph.nodes > MOST_SERVERS:
        raise SettingError(f"{graph.nodes} servers; at most {MOST_SERVERS} are compared")
    return graph


def _torus(count: int) -> str | None:
    """The torus that is nearest to a square."""
    rows = next((r for r in range(math.isqrt(count), 2, -1) if count % r == 0), None)
    return f"torus:{rows}x{count // rows}" if rows else None


SIZED: dict[str, Callable[[int], str | None]] = {
    "complete": lambda count: f"complete:{count}",
    "torus": _torus,
    "ring": lambda count: f"ring:{count}",
    "tree": lambda count: f"tree:{count}",
    "hypercube": lambda count: None if count & (count - 1) else f"hypercube:{count.bit_length() - 1}",
    "star": lambda count: f"star:{count}",
    "barbell": lambda count: f"barbell:{count // 3},{count - 2 * (count // 3)}" if count >= 6 else None,
}
"""Families of which there is one for a number of servers; None where there is none."""
LACKING = {
    "torus": "a torus has 3 rows or more and 3 columns or more",
    "hypercube": "a hypercube has 2, 4, 8, 16, ... servers",
    "barbell": "a barbell has 6 servers or more",
}
