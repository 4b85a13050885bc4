"""PSFL (Zhou et al., INFOCOM 2025): the experiments with training, Figures 3 to 5, 8 and 9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.papers.crossings import OVER
from paceline.papers.grid import Scene, Words
from paceline.papers.pictures import draw_curves
from paceline.papers.psfl.contestants import INTERVAL
from paceline.papers.psfl.scenes import PARTICIPANTS, SPLIT, methods, panels, scenes
from paceline.papers.psfl.tables import Tried, at_best_rate, equal_time_rows
from paceline.papers.psfl.targets import race, race_rows
from paceline.papers.result import Reproduction, Request
from paceline.papers.trials import Finished, Laboratory, trained
from paceline.papers.tuning import TUNING

Found = dict[str, dict[tuple[str, float], list[Finished]]]
"""By the scene's name, then by method and rate."""


@trained
def fig3(request: Request, laboratory: Laboratory) -> Reproduction:
    """PS-T1: times to several targets, and accuracy and loss at equal time (Figures 3, 4 and 5)."""
    here = scenes(request)
    found = race(laboratory, here, request.seeds, small=request.scale == "small")
    best = {case: {(one.method, one.tuned.rate): one.runs for one in those} for case, those in found.items()}
    rows = [
        row for one in here for row in (*race_rows(one, found[one.name]), *equal_time_rows(one.name, best[one.name]))
    ]
    return Reproduction(rows=rows, note=_race_note(here), figure=lambda: _figure(best))


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
    """Accuracy of the three methods after the same virtual time, each at the rate that served it best."""
    here = panels(request, named)
    found = tune(laboratory, here, methods(request), request.seeds)
    rows = [row for one in here for row in equal_time_rows(one.name, found[one.name], at=one.until.time)]
    return Reproduction(rows=rows, note=_note(here), figure=lambda: _figure(found))


# -- rates ----------------------------------------------------------------------------------------------------------


def tune(laboratory: Laboratory, here: Sequence[Scene], known: Mapping[str, Words], seeds: int) -> Found:
    """All rates with the first seed, then the other seeds at each method's best rate, and nothing of the others."""
    found = _at_every_rate(laboratory, here, known)
    for one in here:
        tried = found[one.name]
        for method in known:
            best = max(one.rates, key=lambda rate: _final(tried[method, rate][0], one.until.time))
            tried.update({(method, rate): [] for rate in one.rates if rate != best})
    return _repeated(laboratory, here, known, seeds, found)


def _final(one: Finished, horizon: float | None) -> float:
    return one.at(horizon or 0.0, one.accuracy) if one.status == "done" else -1.0


def _at_every_rate(laboratory: Laboratory, here: Sequence[Scene], known: Mapping[str, Words]) -> Found:
    places = [(one, method, rate) for one in here for method in known for rate in one.rates]
    runs = laboratory.carry_out([one.trial("", m, 0, *known[m], rate=rate) for one, m, rate in places])
    found: Found = {one.name: {} for one in here}
    for (one, method, rate), run in zip(places, runs, strict=True):
        found[one.name][method, rate] = [run]
    return found


def _repeated(
    laboratory: Laboratory,
    here: Sequence[Scene],
    known: Mapping[str, Words],
    seeds: int,
    found: Found,
) -> Found:
    """The other seeds besides those first ones that are left."""
    trials = [
        one.trial("", method, seed, *known[method], rate=rate)
        for one in here
        for (method, rate), runs in found[one.name].items()
        if runs
        for seed in range(1, seeds)
    ]
    for run in laboratory.carry_out(trials):
        found[run.trial.case][run.trial.method, run.trial.rate].append(run)
    return found


def _figure(found: Mapping[str, Tried]) -> Any:
    drawn = {case: {m: at_best_rate(tried, m) for m, _ in tried} for case, tried in found.items()}
    return draw_curves(drawn, "PSFL: accuracy over virtual time, each method at its best rate")


def _note(here: Sequence[Scene]) -> str:
    return (
        "Accuracies at one virtual time, PSFL's warm-up included; intervals are 95 % over seeds (Student's t, pairs"
        " with the same seed: the same split, fleet and initial model). Rates are half decades, chosen with the first"
        " seed, which is reported too.\n" + _scenes(here)
    )


def _race_note(here: Sequence[Scene]) -> str:
    return (
        "Times are virtual seconds, PSFL's warm-up included; intervals are 95 % over seeds (Student's t, ratios on"
        " the logarithms of pairs with the same seed: the same split, fleet and initial model). Every method has the"
        f" rate that was best for the last target with seeds {', '.join(map(str, TUNING))}, which are not reported."
        f" All are scored about every {INTERVAL:g} s, as whole rounds allow; 'smoothed' is where the mean of {OVER}"
        " scores in a row, taken at the middle of them, crosses the target, 'first' the first score that does.\n"
        + _scenes(here)
    )


def _scenes(here: Sequence[Scene]) -> str:
    return "\n".join(f"{one.name}: {' '.join(one.words)}" for one in here)
