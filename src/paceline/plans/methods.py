"""Which method for one's own fleet: dry runs of many, side by side, and what they leave open.

What a method learns in a visit is not known without learning. So methods are compared by what a visit costs, in
time, bytes and joules, and each has a break-even: how many visits it may need for as many of FedAvg's, with as many
devices at once, before FedAvg reaches the same accuracy sooner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from paceline.config import Tree, to_words
from paceline.errors import PacelineError, SettingError
from paceline.plans.methods_dry import Figures, Group, try_dry
from paceline.plans.shortlist import Method, shortlist
from paceline.runs.making import prepared
from paceline.runs.settings import Settings, make_settings
from paceline.system.listed import FleetFile, read_fleet

PARTICIPANTS = 20
DATASET = "mnist"
DEFAULTS = ("local.epochs=1", "absence=skip")
"""Default settings of every method: all do the same work under the same rule."""
GROUPS: tuple[Group, ...] = ("some", "all", "peers")
LONG = 100_000
"""Rounds that no dry run of a plan comes to."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A method on the fleet."""

    method: Method
    place: int
    """In the list of all that were to be tried."""
    figures: Figures
    break_even: float = math.nan
    """Visits that it may need for each of FedAvg's with as many devices at once, to be as fast."""

    @property
    def name(self) -> str:
        """As ``paceline compare`` takes it."""
        return self.method.name


@dataclass(frozen=True)
class Skipped:
    """A method that cannot be used on this fleet, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class MethodPlan:
    """All methods that were tried, the fastest of each group first."""

    settings: Settings
    """Of FedAvg: fleet, model, data and recipe are those of all others too."""
    fleet: FleetFile
    participants: int
    said: tuple[str, ...]
    """All settings of the plan, as ``--set`` takes them."""
    model_bytes: int
    computing_only: bool
    """Whether energy is that of computing alone, since the power of links is not known."""
    candidates: tuple[Candidate, ...]
    skipped: tuple[Skipped, ...]

    def __repr__(self) -> str:
        figures = self.best.figures
        return (
            f"{len(self.candidates)} methods on {self.clients} devices of {self.fleet.path}; {self.best.name} gets"
            f" through visits fastest: {figures.visit_seconds:.3g} s each"
        )

    @property
    def clients(self) -> int:
        """Devices."""
        return self.settings.clients

    def group(self, name: Group) -> list[Candidate]:
        """The candidates of one group."""
        return [one for one in self.candidates if one.figures.group == name]

    @property
    def baseline(self) -> Candidate:
        """FedAvg with the participants that were asked for."""
        return next(one for one in self.candidates if one.method.label == "fedavg")

    @property
    def main(self) -> list[Candidate]:
        """Those with as many at a time: of these one is recommended."""
        return self.group(self.baseline.figures.group)

    @property
    def best(self) -> Candidate:
        """The one that gets through visits fastest; of those that are as fast, the one that was named first."""
        return min(self.fastest, key=lambda one: one.place)

    @property
    def fastest(self) -> list[Candidate]:
        """Those that get through visits fastest, and as fast as that."""
        first = self.main[0].figures
        near = max(0.01 * first.visit_seconds, 2 * first.visit_error)
        return [one for one in self.main if one.figures.visit_seconds <= first.visit_seconds + near]


def plan_methods(
    file: str,
    *,
    model: str = "auto",
    dataset: str = DATASET,
    algorithms: Sequence[str] = (),
    participants: int | None = None,
    servers: Sequence[int] = (),
    overrides: Sequence[str] = (),
    settings: Tree | None = None,
    tell: Callable[[str], None] | None = None,
) -> MethodPlan:
    """Dry runs of all sensible methods on the fleet in a file.

    ``overrides`` are further settings as words, ``settings`` as a tree; ``tell`` hears of every method before it is
    tried.
    """
    fleet = read_fleet(file)
    said = [*DEFAULTS, f"fleet.file={file}", f"model={model}", f"dataset={dataset}"]
    said += [*to_words(settings or {}), *overrides]
    words = list(said)
    first = _made("fedavg", words)
    if computing_only := _computing_only(first, fleet):
        words += ["fleet.link_watts=0", "fleet.server_watts=0"]
    taking = min(PARTICIPANTS, first.clients) if participants is None else participants
    found: list[Candidate] = []
    skipped: list[Skipped] = []
    for method in shortlist(first.clients, taking, servers, algorithms):
        if first.clients > method.most and method.algorithm not in algorithms:
            skipped.append(Skipped(method.label, f"takes long with more than {method.most:,} devices; name it"))
            continue
        if tell is not None:
            tell(method.label)
        try:
            figures = try_dry(_made(method.name, words))
            found.append(Candidate(method=method, place=len(found), figures=figures))
        except PacelineError as problem:
            if method.label == "fedavg" or method.name in algorithms:  # what holds for all, or was asked for itself
                raise
            skipped.append(Skipped(method.label, str(problem)))
    return MethodPlan(
        settings=first,
        fleet=fleet,
        participants=taking,
        said=tuple(said),
        model_bytes=round(prepared(first, dry=True)[2].space.nbytes),
        computing_only=computing_only,
        candidates=_ranked(found),
        skipped=tuple(skipped),
    )


def _made(name: str, words: Iterable[str]) -> Settings:
    made = make_settings(name, [*words, f"algorithm.rounds={LONG}"])
    if made.fleet.file == "":
        raise SettingError("fleet.file is empty; a plan is for the fleet in a file, so leave that setting out")
    return made


def _computing_only(settings: Settings, fleet: FleetFile) -> bool:
    """Whether devices' power is known while they compute, but not while they send."""
    computing = "watts" in fleet.numbers or settings.fleet.watts is not None
    return computing and settings.fleet.link_watts is None


def _ranked(found: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Group by group, the fastest first, each with its break-even."""
    measures = {one.figures.group: one.figures.visit_seconds for one in found if one.method.algorithm == "fedavg"}
    told = []
    for group in GROUPS:
        members = sorted(
            (one for one in found if one.figures.group == group), key=lambda one: one.figures.visit_seconds
        )
        measure = measures.get("all" if group == "peers" else group, math.nan)
        told += [replace(one, break_even=measure / one.figures.visit_seconds) for one in members]
    return tuple(told)
