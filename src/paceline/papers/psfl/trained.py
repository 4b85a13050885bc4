"""PSFL (Zhou et al., INFOCOM 2025): the experiments with training, Figures 3 to 5, 8 and 9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.papers.crossings import OVER
from paceline.papers.grid import Scene, Words
from paceline.papers.pictures import draw_curves
from paceline.papers.psfl.contestants import INTERVAL
from paceline.papers.psfl.levels import contend
from paceline.papers.psfl.scenes import PARTICIPANTS, SPLIT, panels, scenes
from paceline.papers.psfl.tables import at_time_rows, first_arrival, over_last_rows
from paceline.papers.psfl.targets import Racer, race, race_rows
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Laboratory, trained
from paceline.papers.tuning import TUNING


@trained
def fig3(request: Request, laboratory: Laboratory) -> Reproduction:
    """PS-T1: times to several targets, and accuracy and loss at equal time (Figures 3, 4 and 5)."""
    here, rows = scenes(request), list[Row]()
    found = race(laboratory, here, request.seeds, small=request.scale == "small")
    for one in here:
        racers = found[one.name]
        rows += race_rows(one, racers)
        if (when := first_arrival(racers)) is not None:
            rows += at_time_rows(one.name, racers, when)
    return Reproduction(rows=rows, note=_race_note(here), figure=lambda: _figure(found))


@trained
def fig8(request: Request, laboratory: Laboratory) -> Reproduction:
    """Compare accuracies at equal time on three other splits (PS-T5)."""
    splits = (f"partition={split}" for split in ("dirichlet:0.2", "exdir:1,10", "exdir:2,5"))
    return _at_equal_time(request, laboratory, {split: (split, PARTICIPANTS) for split in splits})


@trained
def fig9(request: Request, laboratory: Laboratory) -> Reproduction:
    """PS-T5: more participants a round."""
    counts = (50, 100, 200) if request.scale == "paper" else (25, 50)
    named = {f"participants={n}": (SPLIT, f"algorithm.participants={n}") for n in counts}
    return _at_equal_time(request, laboratory, named)


def _at_equal_time(request: Request, laboratory: Laboratory, named: Mapping[str, Words]) -> Reproduction:
    """Accuracy of the three methods after the same virtual time, each at its tuned rate."""
    here, rows = panels(request, named), list[Row]()
    found = contend(laboratory, here, request.seeds, small=request.scale == "small")
    for one in here:
        assert one.until.time is not None
        rows += at_time_rows(one.name, found[one.name], one.until.time)
        rows += over_last_rows(one.name, found[one.name], one.until.time)
    return Reproduction(rows=rows, note=_note(here), figure=lambda: _figure(found))


def _figure(found: Mapping[str, Sequence[Racer]]) -> Any:
    drawn = {case: {one.method: one.runs for one in racers} for case, racers in found.items()}
    return draw_curves(drawn, "PSFL: accuracy over virtual time, each method at its tuned rate")


_INTERVALS = (
    "PSFL's warm-up included; intervals are 95 % over seeds (Student's t, {pairs} with the same seed: the same split,"
    " fleet and initial model). Every method has the rate that was best {by} with seeds"
    f" {', '.join(map(str, TUNING))}, which are not reported."
)


def _note(here: Sequence[Scene]) -> str:
    told = _INTERVALS.format(pairs="pairs", by="by the mean accuracy over the last tenth of the time")
    return f"Accuracies at one virtual time and over the last tenth of it, {told}\n{_scenes(here)}"


def _race_note(here: Sequence[Scene]) -> str:
    told = _INTERVALS.format(pairs="ratios on the logarithms of pairs", by="for the last target")
    return (
        f"Times are virtual seconds, {told} All are scored about every {INTERVAL:g} s, as whole rounds allow;"
        f" 'smoothed' is where the mean of {OVER} scores in a row, taken at the middle of them, crosses the target,"
        f" 'first' the first score that does.\n{_scenes(here)}"
    )


def _scenes(here: Sequence[Scene]) -> str:
    return "\n".join(f"{one.name}: {' '.join(one.words)}" for one in here)
