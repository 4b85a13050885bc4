"""A dry run of one method on a fleet: what a round and a visit cost once it has found its pace."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from paceline.algorithms.base import Traits
from paceline.errors import Deserted
from paceline.plans.shortlist import SIZES
from paceline.runs.dry import follow
from paceline.runs.making import make_run
from paceline.runs.run import Run
from paceline.runs.settings import Settings
from paceline.statistics import standard_error
from paceline.system import build_fleet

VISITS = {"some": 2000, "all": 2000, "peers": 500}
"""That a dry run has at least, by group."""
EACH = {"some": 0, "all": 3, "peers": 2}
"""Visits of every device besides, on average."""
FEWEST, MOST = 3, 20_000
"""Rounds; the first never counts."""
SKIPPED = 0.2
"""The share of the rounds at the start that does not count: all devices begin at once, which they never do again."""
BLOCKS = 10
"""Stretches whose means say how far chance goes."""

Group = Literal["some", "all", "peers"]


class Mark(NamedTuple):
    """The ledger's sums at the end of a round."""

    time: float
    visits: float
    bytes: float
    joules: float
    busy: float
    waited: float


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a method costs on a fleet."""

    group: Group
    """Whether some devices are at work at a time, or all of them at once, or all of them without a server."""
    rounds: int
    """That were simulated."""
    round_seconds: float
    round_visits: float
    visit_seconds: float
    """Virtual time over visits: of so many visits abreast, each counts the so-manieth part."""
    visit_error: float
    """Standard error of that, by chance of draws and times."""
    visit_bytes: float
    visit_joules: float | None
    """None where some power is not known."""
    joules_error: float
    idle_share: float
    slow_share: float = 0.5
    """Of all visits, the share that the slower half of the devices makes; about a half where all come alike."""
    assumed: str = ""
    """What was taken for granted where the schedule depends on something learned."""
    absence: str = "skip"
    """The rule for absent devices."""


def try_dry(settings: Settings) -> Figures:
    """Simulate an algorithm on its fleet, without learning, until its pace is known."""
    traits = settings.algorithm.traits(settings.clients)
    group = _group(settings, traits)
    assumed = traits.assumption.text if traits.assumption is not None else ""
    run = make_run(settings, dry=True)
    world, ledger = run.world, run.world.ledger
    wanted = max(VISITS[group], EACH[group] * settings.clients)
    marks: list[Mark] = []

    def enough() -> bool:
        now = (world.now(), ledger.visits, ledger.bytes, ledger.joules, ledger.busy_seconds, ledger.wait_seconds)
        marks.append(Mark(*now))
        return (ledger.visits >= wanted and len(marks) >= FEWEST) or len(marks) >= MOST

    try:
        follow(world, run.settings.algorithm, enough)
    except Deserted:
        if len(marks) < FEWEST:
            raise
    return replace(_figures(group, marks), slow_share=_slow_share(run), assumed=assumed, absence=run.settings.absence)


def _group(settings: Settings, traits: Traits) -> Group:
    """Algorithms that choose have a setting that says how many; all others take everybody."""
    if traits.servers == 0:
        return "peers"
    algorithm, most = settings.algorithm, settings.clients
    width, length = (getattr(algorithm, name, None) for name in ("width", "length"))
    if width is not None and length is not None:
        return "some" if width * length < most else "all"
    counts = [getattr(algorithm, name, None) for name in SIZES]
    chosen = next((count for count in counts if isinstance(count, int)), most)
    return "some" if chosen * traits.servers < most else "all"


def _figures(group: Group, marks: list[Mark]) -> Figures:
    first = int(SKIPPED * len(marks))
    spent = np.diff(np.array([marks[first], marks[-1]]), axis=0)[0]
    time, visits, size, joules, busy, waited = (float(value) for value in spent)
    rounds = len(marks) - 1 - first
    if not visits or not time:
        raise Deserted(f"no visit came to its end in {len(marks)} rounds; nothing can be said of its pace")
    return Figures(
        group=group,
        rounds=len(marks),
        round_seconds=time / rounds,
        round_visits=visits / rounds,
        visit_seconds=time / visits,
        visit_error=_error(np.array(marks[first:]), Mark._fields.index("time")),
        visit_bytes=size / visits,
        visit_joules=None if math.isnan(joules) else joules / visits,
        joules_error=_error(np.array(marks[first:]), Mark._fields.index("joules")),
        idle_share=waited / (busy + waited) if busy + waited else 0.0,
    )


def _error(marks: NDArray[np.float64], column: int) -> float:
    """Standard error of what a visit takes of this, from the means of some stretches."""
    ends = np.unique(np.linspace(0, len(marks) - 1, BLOCKS + 1).astype(int))
    spent = np.diff(marks[ends], axis=0)
    spent = spent[spent[:, 1] > 0]
    return standard_error(spent[:, column] / spent[:, 1]) if len(spent) > 1 else math.nan


def _slow_share(run: Run) -> float:
    """Return the share of visits made by the slower half of the devices. The median device counts half."""
    spans, size = run.world.ledger.table(), run.settings.clients
    trained = spans.filter(pc.equal(spans["kind"].cast(pa.string()), "train"))
    visits = np.bincount(trained["site"].to_numpy(), minlength=size).astype(float)
    compute = build_fleet(run.settings.fleet, size, run.settings.seed).compute
    means = [compute.mean_seconds(k, run.problem.flops(k, run.traits.local)) for k in range(size)]
    order = visits[np.argsort(means, kind="stable")]
    middle = size // 2
    half = order[-middle:].sum() if middle else 0.0
    return float((half + (order[middle] / 2 if size % 2 else 0.0)) / max(visits.sum(), 1.0))
