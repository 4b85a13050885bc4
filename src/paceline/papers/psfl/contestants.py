"""PSFL (Zhou et al., INFOCOM 2025): every structure at its own best rate, and runs that choose for themselves.

Rates are tuned as ``papers.tuning`` does; the seeds that are reported then run at the best rate and, where that is
asked for, at its two neighbours. All runs are evaluated at about the same virtual times, and go on until the mean of
several evaluations has reached the target, so that lucky ones can be told from others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from paceline.algorithms.seen_times import SeenTimes
from paceline.papers.crossings import OVER
from paceline.papers.grid import Scene
from paceline.papers.psfl.scenes import structured
from paceline.papers.result import Request
from paceline.papers.trials import Finished, Laboratory, Trial
from paceline.papers.tuning import Quarters, Tuned, carry_out, rate, slowness, tune
from paceline.system import LawTimes
from paceline.system.laws import Discrete

PARTICIPANTS = 20
USUAL = 2
"""The length that warm-ups chose before; automatic runs train at its rate."""
GUESSES = {1: -4, 2: -4, 3: -5, 4: -5, 5: -5, 7: -5, 9: -6, 10: -6, 16: -6, 20: -7, 25: -7, 50: -8, 100: -9, 200: -10}
"""The middle of the first grid by the length S, in quarter decades, on CIFAR-10; on digits all begin at -2."""
SMALL_INTERVAL, INTERVAL = 14.0, 50.0
"""Virtual seconds between evaluations, where all rounds are at most as long."""


ROUND_SECONDS = {1: 6.0, 2: 7.4, 3: 9.8, 4: 12.3, 5: 14.7, 10: 26.9, 20: 49.7}
"""Mean seconds of a round by length, of 20 participants with the discrete law: dry runs of three seeds."""


@lru_cache(maxsize=1)
def _fleet() -> SeenTimes:
    """Five hundred clients with five-point times, each seen ten times."""
    times = LawTimes(law=Discrete(), seed=0, jitter=0.2)
    return SeenTimes({n: [times.cost(n, visit, 0.0).seconds for visit in range(10)] for n in range(500)})


@lru_cache(maxsize=256)
def round_seconds(S: int, W: int) -> float:
    """Mean seconds of a round with five-point times: of dry runs where there are some, else simulated."""
    known = ROUND_SECONDS.get(S) if W == PARTICIPANTS // S else None
    return _fleet().round_seconds(S, W) if known is None else known


def rounds_between(interval: float, S: int, W: int) -> int:
    """Rounds between evaluations that take about so many virtual seconds, one at least."""
    return max(1, round(interval / round_seconds(S, W)))


@dataclass(frozen=True, kw_only=True)
class Arena:
    """The scene in which structures are compared, and how often they are scored."""

    scene: Scene
    interval: float
    """Virtual seconds between evaluations, as nearly as whole rounds allow."""
    middles: Mapping[int, int]
    """Lengths S, each with the middle of its first grid in quarter decades."""
    participants: int = PARTICIPANTS

    @property
    def target(self) -> float:
        """The accuracy that is aimed at."""
        return self.scene.until.accuracy or math.nan

    def trial(self, S: int, quarter: int, seed: int) -> Trial:
        """One run of a given structure."""
        W = self.participants // S
        words = (f"psfl.length={S}", f"psfl.width={W}", f"every={rounds_between(self.interval, S, W)}")
        case = f"length-{S}" if self.participants == PARTICIPANTS else f"participants-{self.participants}-length-{S}"
        return self.scene.trial(case, "psfl", seed, *words, rate=rate(quarter))

    def automatic(self, quarter: int, seed: int) -> Trial:
        """One run that chooses its structure."""
        every = rounds_between(self.interval, USUAL, self.participants // USUAL)
        words = (f"psfl.participants={self.participants}", f"every={every}")
        return self.scene.trial("automatic", "psfl", seed, *words, rate=rate(quarter))


def arena(request: Request, participants: int = PARTICIPANTS, lengths: Sequence[int] = ()) -> Arena:
    """Digits on two cores, or CIFAR-10 as in the paper; targets are those of Table I's trained half."""
    scene, small = structured(request), request.scale == "small"
    usual = (1, 2, 4) if small else (1, 2, 3, 4, 5, 10, 20)
    chosen = lengths or usual
    # A round of one sequence is as long as all of its clients together, and nothing can be scored more often.
    longest = max(round_seconds(S, participants // S) for S in chosen)
    return Arena(
        scene=replace(scene, until=replace(scene.until, over=OVER)),
        interval=max(SMALL_INTERVAL if small else INTERVAL, longest),
        middles={S: -2 if small else GUESSES[S] for S in chosen},
        participants=participants,
    )


@dataclass(frozen=True)
class Contestant:
    """One structure: where its rate was searched, and what it did there."""

    S: int
    tuned: Tuned
    reported: Quarters = field(default_factory=dict)
    """With the reporting seeds: the best and perhaps its neighbours."""
    participants: int = PARTICIPANTS

    @property
    def best(self) -> int:
        """The quarter decade that tuning chose."""
        return self.tuned.best

    @property
    def runs(self) -> Sequence[Finished]:
        """With the reporting seeds at the best rate."""
        return self.reported[self.best]

    @property
    def W(self) -> int:
        """How many sequences ride abreast."""
        return self.participants // self.S

    @property
    def name(self) -> str:
        """The structure's name in the rows of the table."""
        return f"S={self.S}, W={self.W}"


def compete(
    laboratory: Laboratory, here: Arena, lengths: Sequence[int], seeds: int, neighbours: int = 1
) -> list[Contestant]:
    """Tune every structure, then run the seeds that are reported, also at so many rates on either side."""
    tuned = tune_structures(laboratory, here, lengths)
    near = {one.S: range(one.best - neighbours, one.best + neighbours + 1) for one in tuned}
    reported = carry_out(laboratory, here.trial, near, range(seeds))
    return [replace(one, reported=reported[one.S]) for one in tuned]


def tune_structures(laboratory: Laboratory, here: Arena, lengths: Sequence[int]) -> list[Contestant]:
    """Every structure's best rate by the tuning seeds."""
    middles = {S: here.middles[S] for S in lengths}
    found = tune(laboratory, here.trial, middles, lambda S, runs: slowness(runs, here.target))
    return [Contestant(S, one, {}, here.participants) for S, one in found.items()]


def choose(laboratory: Laboratory, here: Arena, found: Sequence[Contestant], seeds: int) -> list[Finished]:
    """Runs that choose their structure by a warm-up, at the best rate of the usual choice."""
    quarter = next(one.best for one in found if one.S == USUAL)
    return laboratory.carry_out([here.automatic(quarter, seed) for seed in range(seeds)])
