"""Clients, their neighbours, and how long they train: what rounds of peers are drawn from."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.bounds import LONGEST
from paceline.errors import SettingError, nearest

TOPOLOGIES = {
    "random": "so many others, uniformly and anew every round",
    "ring": "the two beside it",
    "complete": "all others",
}


@dataclass(frozen=True, kw_only=True)
class Peers:
    """What is drawn: clients, their neighbours, and how long they train."""

    clients: int = 100
    neighbours: int | None = None
    """M; None is 10 if the topology leaves a choice."""
    topology: str = "random"
    time: float = 1.0
    """Mean seconds of local training."""
    spread: float = 0.0
    """Its standard deviation from visit to visit, as a share of it."""
    fetch: float = 0.0
    """Seconds before each training, for the models of all neighbours; the whole visit then waits, as in DA-T6."""

    def __post_init__(self) -> None:
        degree(self.topology, self.clients, self.neighbours)
        if not 1 / LONGEST <= self.time <= LONGEST:
            raise SettingError(
                f"the time is {self.time:g}; give seconds of local training, above 0 and at most {LONGEST:g}"
            )
        if not 0 <= self.spread <= 0.5:
            raise SettingError(f"the spread is {self.spread:g}; give a share of the time, from 0 to 0.5")
        if not 0 <= self.fetch <= LONGEST:
            raise SettingError(f"fetching takes {self.fetch:g} s; give 0 or more, and at most {LONGEST:g}")

    @property
    def degree(self) -> int:
        """How many neighbours each client has, the paper's M."""
        return degree(self.topology, self.clients, self.neighbours)

    @property
    def visit(self) -> float:
        """Mean seconds of one visit: fetch and train."""
        return self.fetch + self.time


def degree(topology: str, clients: int, neighbours: int | None) -> int:
    """M, which only a random topology leaves to choose."""
    if topology not in TOPOLOGIES:
        raise SettingError(f"the topology is {topology!r}; {nearest(topology, TOPOLOGIES)}")
    least = 3 if topology == "ring" else 2
    if clients < least:
        raise SettingError(f"{clients} clients cannot be {topology}: give {least} or more")
    if topology == "random":
        neighbours = min(10, clients - 1) if neighbours is None else neighbours
        if not 1 <= neighbours < clients:
            raise SettingError(
                f"{neighbours} neighbours of {clients} clients; give at least 1 and at most {clients - 1}, all others"
            )
        return neighbours
    places = 2 if topology == "ring" else clients - 1
    if neighbours not in (None, places):
        raise SettingError(f"{neighbours} neighbours, but a {topology} of {clients} has {places}; leave them out")
    return places
