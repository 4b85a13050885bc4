"""P-FedAvg (ToN 2022), Figures 6 and 7: races to an accuracy, every entrant at its own tuned rate.

Learning does not depend on time in these synchronous methods, so an entrant is trained once, and a dry run says when
each of its rounds ends in a network. Rounds of one entrant are longer than another's; scores are thinned out until
all lie about as far apart in virtual time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.papers.crossings import evenly_spaced, timed
from paceline.papers.grid import Scene, Words
from paceline.papers.pfedavg.scenes import round_times
from paceline.papers.result import Row
from paceline.papers.trials import Column, Finished, Laboratory, Trial
from paceline.papers.tuning import Tuned, carry_out, rate, slowness, tune

REACH = 1
"""Rates on either side of a scene's own at first: they were searched for before, in half decades."""
Place = tuple[str, str]
"""A scene and an entrant."""


@dataclass(frozen=True)
class Entrant:
    """A method or an overlay in one scene."""

    name: str
    tuned: Tuned
    runs: Sequence[Finished]
    """With the seeds that are reported."""

    def row(self, where: str) -> Row:
        """The rate that was chosen."""
        return Row(f"{where}: {self.name}, tuned rate", None, self.tuned.rate, "", None, self.tuned.told)


def race(
    laboratory: Laboratory, scenes: Sequence[Scene], named: Mapping[str, tuple[str, Words]], seeds: int
) -> dict[str, list[Entrant]]:
    """Tune every entrant, given as a method with settings, by rounds to the scene's first target; then all seeds."""
    by_name = {scene.name: scene for scene in scenes}

    def trial(place: Place, quarter: int, seed: int) -> Trial:
        method, words = named[place[1]]
        return by_name[place[0]].trial(f"tuned-{place[1]}", method, seed, *words, rate=rate(quarter))

    def badness(place: Place, runs: Sequence[Finished]) -> tuple[float, float]:
        return slowness(runs, by_name[place[0]].targets[0])  # with free links seconds are as good as rounds

    middles = {(scene.name, name): _quarter(scene) for scene in scenes for name in named}
    tuned = tune(laboratory, trial, middles, badness, REACH)
    runs = carry_out(laboratory, trial, {place: [one.best] for place, one in tuned.items()}, range(seeds))
    return {
        scene: [Entrant(name, tuned[scene, name], runs[scene, name][tuned[scene, name].best]) for name in named]
        for scene in by_name
    }


def _quarter(scene: Scene) -> int:
    """The quarter decade next to the middle of the scene's own rates."""
    return round(4 * math.log10(scene.rates[len(scene.rates) // 2]))


def on_clocks(
    scene: Scene, entrants: Sequence[Entrant], networks: Mapping[str, Words]
) -> dict[str, list[tuple[Finished, Column]]]:
    """Every entrant's runs, each with the ends of its rounds in the entrant's network."""
    found = {}
    for one in entrants:
        clocks = round_times(scene, one.runs, networks[one.name], scene.rounds)
        found[one.name] = [*zip(one.runs, clocks, strict=True)]
    return found


def evenly(
    clocked: Mapping[str, Sequence[tuple[Finished, Column]]], measure: str = "accuracy"
) -> tuple[dict[str, list[Finished]], float]:
    """The runs over virtual time, scored at intervals that are alike: those of whoever is scored least often."""
    over_time = {name: [timed(run, clock, measure) for run, clock in those] for name, those in clocked.items()}
    return evenly_spaced(over_time)
