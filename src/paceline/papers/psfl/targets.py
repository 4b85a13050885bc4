"""PSFL (Zhou et al., INFOCOM 2025), Figures 3 to 5: the race of three methods to several accuracies.

Every method is tuned on quarter decades with seeds of its own; the reported seeds run at the rate that was chosen and
at its two neighbours. All are scored after about the same virtual seconds, and times are told both ways: where the
mean of several scores crosses a target, and where the first score does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.papers.claims import below, ratio, shown
from paceline.papers.crossings import EARLY, OVER, WAYS, Arrivals, arrived, thinned
from paceline.papers.grid import Scene
from paceline.papers.psfl.contestants import INTERVAL, PARTICIPANTS, round_seconds, rounds_between
from paceline.papers.result import Row
from paceline.papers.trials import Finished, Laboratory, Trial
from paceline.papers.tuning import Quarters, Tuned, carry_out, rate, slowness, tune
from paceline.statistics import Interval, mean_interval

LESS, SAID_OF = 0.67, ("cifar10", 0.60)
"""The paper's "approximately 33 % less time" as a ratio of times, and what it says that of."""
STRUCTURES = {"fedavg": (1, PARTICIPANTS), "sfl": (PARTICIPANTS, 1), "psfl": (4, PARTICIPANTS // 4)}
"""S and W by which evaluations are counted; PSFL's is the longest that warm-ups choose."""
MIDDLES = {"fedavg": -4, "sfl": -7, "psfl": -4}
SMALL_MIDDLES = {"fedavg": 1, "sfl": -3, "psfl": 0}
"""Of the first grids, in quarter decades: on CIFAR-10, and on digits."""
Place = tuple[str, str]
"""A scene's name and a method."""


@dataclass(frozen=True)
class Racer:
    """One method in one scene."""

    method: str
    tuned: Tuned
    reported: Quarters
    """With the reporting seeds, at the rate that was chosen and its neighbours; scored about every 50 s."""

    @property
    def runs(self) -> Sequence[Finished]:
        """The reporting seeds at the rate that was chosen."""
        return self.reported[self.tuned.best]


def race(laboratory: Laboratory, here: Sequence[Scene], seeds: int, *, small: bool) -> dict[str, list[Racer]]:
    """All methods in all scenes, tuned, then with the seeds that are reported."""
    by_name = {scene.name: scene for scene in here}

    def trial(place: Place, quarter: int, seed: int) -> Trial:
        scene, every = by_name[place[0]], rounds_between(INTERVAL, *STRUCTURES[place[1]])
        one = scene.trial("", place[1], seed, f"every={every}", rate=rate(quarter))
        # A run goes on until so many scores have a mean as good as the target, even if some are left out afterwards.
        shortest = every * round_seconds(1 if place[1] == "psfl" else STRUCTURES[place[1]][0], PARTICIPANTS)
        return replace(one, until=replace(one.until, over=1 + math.ceil(OVER * INTERVAL / shortest)))

    def badness(place: Place, runs: Sequence[Finished]) -> tuple[float, float]:
        return slowness([thinned(run, INTERVAL) for run in runs], by_name[place[0]].targets[-1])

    first = SMALL_MIDDLES if small else MIDDLES
    middles = {(name, method): first[method] for name in by_name for method in STRUCTURES}
    tuned = tune(laboratory, trial, middles, badness)
    near = {place: range(one.best - 1, one.best + 2) for place, one in tuned.items()}
    found = carry_out(laboratory, trial, near, range(seeds))
    reported = {
        place: {q: tuple(thinned(run, INTERVAL) for run in runs) for q, runs in those.items()}
        for place, those in found.items()
    }
    return {
        name: [Racer(method, tuned[name, method], reported[name, method]) for method in STRUCTURES]
        for name in by_name
    }


def race_rows(scene: Scene, racers: Sequence[Racer]) -> list[Row]:
    """Rates and intervals of scores; times to every target, both ways; ratios, also at rates that are shared."""
    rows = [_structure_row(scene.name, racers)]
    for one in racers:
        apart = mean_interval([float(np.mean(np.diff(run.time))) for run in one.runs if len(run.time) > 1])
        rows += [
            Row(f"{scene.name}: {one.method}, tuned rate", None, one.tuned.rate, "", None, one.tuned.told),
            Row(f"{scene.name}: {one.method}, between scores", None, str(apart), "s"),
        ]
    for target in scene.targets:
        for way in WAYS:
            rows += _target_rows(scene, racers, target, way)
    return [*rows, *_shared_rows(scene, racers)]


def _target_rows(scene: Scene, racers: Sequence[Racer], target: float, way: str) -> list[Row]:
    found = {one.method: arrived(one.runs, target, way) for one in racers}
    rows = [
        Row(
            f"{scene.name}, {100 * target:g} %, {way}: {method}", None, shown(here.seconds, "not reached"), "s", None,
            f"{len(here.crossings)} of {here.tried} seeds arrived",
        )
        for method, here in found.items()
    ]  # fmt: skip
    where = f"{scene.name}, {100 * target:g} %, {way}, each at its tuned rate"
    return rows + [_ratio_row(where, scene, target, found, rival) for rival in found if rival != "psfl"]


def _shared_rows(scene: Scene, racers: Sequence[Racer]) -> list[Row]:
    """The last target at rates that PSFL and a rival both ran with all seeds."""
    rows, target = [], scene.targets[-1]
    (psfl,) = (one for one in racers if one.method == "psfl")
    for rival in (one for one in racers if one.method != "psfl"):
        for quarter in sorted(set(psfl.reported) & set(rival.reported)):
            both = {one.method: arrived(one.reported[quarter], target) for one in (psfl, rival)}
            where = f"{scene.name}, {100 * target:g} %, smoothed, both at rate {rate(quarter):g}"
            rows.append(_ratio_row(where, scene, target, both, rival.method))
    return rows


def _ratio_row(where: str, scene: Scene, target: float, found: Mapping[str, Arrivals], rival: str) -> Row:
    mine, other = found["psfl"], found[rival]
    printed = scene.name.startswith(SAID_OF[0] + "-") and target == SAID_OF[1]
    name, paper = f"{where}: time of psfl / {rival}", LESS if printed else "below 1"
    if not set(mine.seconds) & set(other.seconds):
        return Row(name, paper, _one_sided(mine, other, rival), "", None)
    over = ratio(mine.seconds, other.seconds)
    if not (mine.complete and other.complete):
        return Row(name, paper, str(over), "", None, "of seeds in which both arrived")
    if mine.early or other.early:
        return Row(name, paper, str(over), "", None, EARLY)
    return Row(name, paper, str(over), "", agrees(over) if printed else below(over, 1.0))


def agrees(found: Interval) -> bool | None:
    """Yes if less time is needed for certain, and a third less is possible; no if that is not; else nobody knows."""
    if found.low > LESS:
        return False
    return True if found.high < 1.0 else None


def _one_sided(mine: Arrivals, other: Arrivals, rival: str) -> str:
    if mine.crossings:
        return f"only psfl arrived (not {rival})"
    return f"only {rival} arrived (not psfl)" if other.crossings else "neither arrived"


def _structure_row(case: str, racers: Sequence[Racer]) -> Row:
    runs = [run for one in racers for those in one.reported.values() for run in those]
    chosen = [run.structure for run in runs if run.structure is not None]
    counts = {pair: chosen.count(pair) for pair in sorted(set(chosen))}
    text = ", ".join(f"W={w} S={s} ({n} runs)" for (w, s), n in counts.items())
    ratios = [note["figures"]["ratio"] for run in runs for note in run.notes if "ratio" in note.get("figures", {})]
    note = f"α/β estimated by the warm-ups: {min(ratios):.3g} to {max(ratios):.3g}" if ratios else ""
    return Row(f"{case}: structure", None, text or None, "", None, note)
