"""PSFL (Zhou et al., INFOCOM 2025), Figure 2: a round in which sequences of unlike clients ride abreast.

The paper draws it by hand. Here it is a dry run of nine participants on the five-point law, in the three modes of
Figure 1, with the share of the round in which sequences that are done wait for the slowest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from paceline.algorithms.psfl import PSFL
from paceline.papers.result import Reproduction, Request, Row, claimed
from paceline.papers.timelines import draw_timelines
from paceline.runs.dry import dry
from paceline.statistics import Interval, mean_interval

CLIENTS, ROUNDS = 45, 60
LEARNING = 20
"""Rounds before which time-partition sampling does not know the clients well, and which are not counted."""
MODES: dict[str, tuple[int, int, Literal["uniform", "partition"]]] = {
    "PFL, W=9, S=1": (9, 1, "uniform"),
    "PSFL, W=3, S=3, uniform": (3, 3, "uniform"),
    "PSFL, W=3, S=3, by time": (3, 3, "partition"),
    "SFL, W=1, S=9": (1, 9, "uniform"),
}


@dataclass(frozen=True)
class Rounds:
    """Rounds of one mode."""

    width: int
    spans: pa.Table
    times: list[float]

    @property
    def seconds(self) -> float:
        """Mean length of a round."""
        return (self.times[-1] - self.times[LEARNING - 1]) / (len(self.times) - LEARNING)

    @property
    def idle(self) -> float:
        """The share of time in which sequences wait for the round's end; only training takes time here."""
        rows = self.spans.select(["kind", "start", "end", "round"]).to_pylist()
        late = (row for row in rows if row["kind"] == "train" and row["round"] >= LEARNING)
        trained = math.fsum(row["end"] - row["start"] for row in late)
        return 1 - trained / (self.width * (self.times[-1] - self.times[LEARNING - 1]))


def ride(mode: str, seed: int, rounds: int = ROUNDS) -> Rounds:
    """A dry run of one mode."""
    width, length, sampler = MODES[mode]
    algorithm = PSFL(rounds=rounds, width=width, length=length, sampler=sampler)
    found = dry(algorithm, {"times": "discrete"}, clients=CLIENTS, seed=seed)
    return Rounds(width, found.spans(), found.times)


def fig2(request: Request) -> Reproduction:
    """Seconds of a round and idle time in each mode, and one round drawn."""
    found = {mode: [ride(mode, seed) for seed in range(request.seeds)] for mode in MODES}
    idle = {mode: mean_interval([100 * one.idle for one in those], within=(0, 100)) for mode, those in found.items()}
    rows = []
    for mode, those in found.items():
        seconds = mean_interval([one.seconds for one in those])
        rows += [
            Row(f"{mode}: a round", None, str(seconds), "s"),
            Row(f"{mode}: sequences wait", None, _told(idle[mode]), "% of the time"),
        ]
    by_time, uniform = idle["PSFL, W=3, S=3, by time"], idle["PSFL, W=3, S=3, uniform"]
    less = f"{by_time.value:.0f} % instead of {uniform.value:.0f} %"
    rows.append(claimed("sampling by time makes sequences wait less", "yes", less, by_time.value < uniform.value))
    note = (
        f"{CLIENTS} clients, five-point times with a jitter of 0.2, free links; {ROUNDS - LEARNING} rounds a seed"
        f" after {LEARNING} in which times are learned. The paper prints no number of this figure. Drawn is the round"
        " after those."
    )
    first = {mode: those[0] for mode, those in found.items()}
    return Reproduction(rows=rows, note=note, figure=lambda: _drawn(first))


def _told(share: Interval) -> str:
    return "0" if share.high < 1e-6 else str(share)


def _drawn(first: dict[str, Rounds]) -> Any:
    charts = {mode: (one.spans, *one.times[LEARNING - 1 : LEARNING + 1]) for mode, one in first.items()}
    return draw_timelines(charts, "PSFL, Figure 2: a round in four modes")
