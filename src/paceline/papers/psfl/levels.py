"""PSFL (Zhou et al., INFOCOM 2025), Figures 8 and 9: three methods that learn for the same virtual time.

Every method is tuned on quarter decades, with seeds of its own, by its mean accuracy over the last tenth of the time;
the reported seeds run at the rate that was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from paceline.papers.grid import Scene
from paceline.papers.psfl.tables import over_last
from paceline.papers.psfl.targets import MIDDLES, Place, Racer
from paceline.papers.trials import Finished, Laboratory, Trial
from paceline.papers.tuning import carry_out, rate, tune

EVERY = {"fedavg": 10, "sfl": 1, "psfl": 5}
"""Rounds between evaluations: about as many virtual seconds for each."""
SMALL_EVERY = dict.fromkeys(EVERY, 1)
SMALL_MIDDLES = {"fedavg": -1, "sfl": -4, "psfl": -2}
"""Of the first grids at the small scale, in quarter decades."""


def contend(laboratory: Laboratory, here: Sequence[Scene], seeds: int, *, small: bool) -> dict[str, list[Racer]]:
    """All methods in all scenes, tuned, then with the seeds that are reported."""
    by_name, every = {scene.name: scene for scene in here}, SMALL_EVERY if small else EVERY

    def trial(place: Place, quarter: int, seed: int) -> Trial:
        scene, method = place
        return by_name[scene].trial("", method, seed, f"every={every[method]}", rate=rate(quarter))

    def badness(place: Place, runs: Sequence[Finished]) -> tuple[float, float]:
        return behind(runs, by_name[place[0]].until.time or math.nan)

    first = SMALL_MIDDLES if small else MIDDLES
    middles = {(name, method): first[method] for name in by_name for method in EVERY}
    tuned = tune(laboratory, trial, middles, badness)
    found = carry_out(laboratory, trial, {place: [one.best] for place, one in tuned.items()}, range(seeds))
    return {name: [Racer(m, tuned[name, m], found[name, m]) for m in EVERY] for name in by_name}


def behind(runs: Sequence[Finished], when: float) -> tuple[float, float]:
    """How many runs did not last until then, and how inaccurate the others were over the last tenth of the time."""
    levels = [level for run in runs if math.isfinite(level := over_last(run, when, run.accuracy))]
    return len(runs) - len(levels), -math.fsum(levels) / len(levels) if levels else 0.0
