"""Rows and picture of the contest of structures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from paceline.algorithms.structure import Structure, bounded, choose_structure
from paceline.papers.crossings import Crossing, first_crossing, smooth_crossing
from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Row
from paceline.papers.trials import Finished
from paceline.statistics import Interval, mean_interval, ratio_interval

Ways = Callable[[Finished, float], Crossing | None]


class Structured(Protocol):
    """A structure with its runs, as the contest leaves it."""

    @property
    def S(self) -> int:
        """Clients in a sequence."""

    @property
    def W(self) -> int:
        """Sequences abreast."""

    @property
    def best(self) -> int:
        """The quarter decade that tuning chose."""

    @property
    def inside(self) -> bool:
        """Whether that is no end of the grid."""

    @property
    def grid(self) -> tuple[int, ...]:
        """The quarter decades tried."""

    @property
    def reported(self) -> Mapping[int, tuple[Finished, ...]]:
        """Runs by quarter decade."""


@dataclass(frozen=True)
class Times:
    """Crossings of one structure at one rate."""

    crossings: tuple[Crossing, ...]
    """Of the seeds that arrived."""
    tried: int

    @property
    def complete(self) -> bool:
        """Whether every seed arrived."""
        return len(self.crossings) == self.tried > 0

    @property
    def seconds(self) -> list[float]:
        """Virtual seconds."""
        return [one.time for one in self.crossings]

    @property
    def rounds(self) -> list[float]:
        """Rounds."""
        return [one.round for one in self.crossings]

    @property
    def round_seconds(self) -> list[float]:
        """Mean length of a round until then."""
        return [one.time / one.round for one in self.crossings]

    def text(self) -> str:
        """The mean with its interval, or that nobody arrived."""
        return str(mean_interval(self.seconds)) if self.crossings else "not reached"


def times(runs: Sequence[Finished], target: float, way: Ways = smooth_crossing) -> Times:
    """When these runs reached the target."""
    return Times(tuple(found for one in runs if (found := way(one, target)) is not None), len(runs))


def contest_rows(found: Sequence[Structured], chosen: Sequence[Finished], target: float) -> list[Row]:
    """By structure: rates and times, ratios to S = 1 with what the bound says; then the choice and its price."""
    rows = [row for one in found for row in _time_rows(one, target)]
    rows += _ratio_rows(found, bounds_of(chosen), target)
    return [*rows, *_choice_rows(found, chosen, target)]


def name(one: Structured) -> str:
    """As rows call it."""
    return f"S={one.S}, W={one.W}"


def _time_rows(one: Structured, target: float) -> list[Row]:
    rows = []
    for quarter, runs in one.reported.items():
        what = f"{name(one)}, rate {runs[0].trial.rate:g}" + (" (tuned)" if quarter == one.best else "")
        for word, way in (("smoothed", smooth_crossing), ("first", first_crossing)):
            here = times(runs, target, way)
            note = f"{len(here.crossings)} of {here.tried} seeds arrived"
            if quarter == one.best and not one.inside:
                note += "; the best rate is an end of the grid"
            rows.append(Row(f"{what}: time to target, {word}", None, here.text(), "s", None, note))
    return rows


def bounds_of(chosen: Sequence[Finished]) -> list[Structure]:
    """The bounds' best structure by each seed's warm-up, estimates included."""
    structures = []
    for one in chosen:
        figures = {key: value for note in one.notes for key, value in note.get("figures", {}).items()}
        structures.append(
            choose_structure(
                participants=one.trial.settings().algorithm.participants,
                time_mean=figures["time_mean"],
                time_std=math.sqrt(figures["kappa2"]),
                ratio=figures["ratio"],
            )
        )
    return structures


def predicted(structures: Sequence[Structure], S: int, base: int, part: str = "time") -> Interval:
    """What the bounds say of S relative to the base, over the seeds' warm-ups: of time, rounds or seconds."""
    return ratio_interval(
        [getattr(bounded(one, S), part) for one in structures],
        [getattr(bounded(one, base), part) for one in structures],
    )


def _ratio_rows(found: Sequence[Structured], structures: Sequence[Structure], target: float) -> list[Row]:
    base, rows = found[0], []
    below = times(base.reported[base.best], target)
    first_below = times(base.reported[base.best], target, first_crossing)
    for one in found[1:]:
        above = times(one.reported[one.best], target)
        first = times(one.reported[one.best], target, first_crossing)
        what = f"{name(one)} / {name(base)}"
        for part, a, b in (
            ("time, smoothed", above.seconds, below.seconds),
            ("time, first", first.seconds, first_below.seconds),
            ("rounds", above.rounds, below.rounds),
            ("seconds of a round", above.round_seconds, below.round_seconds),
        ):
            known = len(a) == len(b) == above.tried
            rows.append(Row(f"{what}: {part}", None, str(ratio_interval(a, b)) if known else "not all arrived"))
        if structures:
            told = {part: predicted(structures, one.S, base.S, part).value for part in ("time", "rounds", "seconds")}
            note = f"rounds {told['rounds']:.3g} times seconds of a round {told['seconds']:.3g}"
            rows.append(Row(f"{what}: time by the bound", None, told["time"], "", None, note))
    return rows


def _choice_rows(found: Sequence[Structured], chosen: Sequence[Finished], target: float) -> list[Row]:
    """Which structure was chosen, which was fastest, and what choosing cost."""
    pairs = [one.structure for one in chosen if one.structure is not None]
    rows = [
        Row("chosen by the warm-up, (W, S)", None, ", ".join(map(str, pairs)), "", None, f"{len(pairs)} seeds"),
        Row("automatic, warm-up included: time to target, smoothed", None, times(chosen, target).text(), "s"),
    ]
    full = {one.S: times(one.reported[one.best], target) for one in found}
    full = {S: here for S, here in full.items() if here.complete}
    if not full or not pairs:
        return rows
    best = min(full, key=lambda S: mean_interval(full[S].seconds).value)
    against = {S: ratio_interval(here.seconds, full[best].seconds) for S, here in full.items() if best != S}
    alike = sorted([best, *(S for S, ratio in against.items() if ratio.low <= 1.0)])
    note = "time over the fastest's: " + "; ".join(f"S={S} {ratio}" for S, ratio in against.items())
    rows.append(Row("fastest structure when trained, S", None, float(best), "", None, note))
    return [*rows, _judged(best, alike, {S for _, S in pairs}, len(chosen))]


def _judged(best: int, alike: Sequence[int], choices: set[int], seeds: int) -> Row:
    what, note = "the automatic choice is the fastest", f"not to be told from the fastest at 95 %: S in {alike}"
    if seeds < 2:
        return Row(what, "yes", "one seed cannot tell", "", None, note)
    if choices == {best}:
        return Row(what, "yes", "yes" if [*alike] == [best] else "yes, with others alike", "", True, note)
    if choices <= set(alike):
        return Row(what, "yes", "not to be told from it", "", None, note)
    return Row(what, "yes", "no", "", False, note)


def draw_contest(found: Sequence[Structured], chosen: Sequence[Finished], target: float) -> Any:
    """Time relative to S = 1 over the length: as trained, with intervals, and by the bound."""
    figure = new_figure((6.5, 4), "PSFL: time to the target relative to S = 1")
    axes, structures = figure.subplots(), bounds_of(chosen)
    below = times(found[0].reported[found[0].best], target)
    places, ratios = [], []
    for one in found:
        above = times(one.reported[one.best], target)
        if above.complete and below.complete:
            places.append(one.S)
            ratios.append(ratio_interval(above.seconds, below.seconds))
    if ratios:
        ends = [[r.value - r.low for r in ratios], [r.high - r.value for r in ratios]]
        axes.errorbar(
            places, [r.value for r in ratios], ends, fmt="o-", capsize=3, label="trained, each at its best rate"
        )
    if structures:
        lengths = [one.S for one in found]
        bound = [predicted(structures, S, found[0].S).value for S in lengths]
        axes.plot(lengths, bound, "s--", color="C1", label="by the bound, from the warm-ups")
    axes.axhline(1.0, color="0.8", linewidth=0.8, zorder=0)
    axes.set_xscale("log")
    axes.set_xticks([one.S for one in found], [str(one.S) for one in found])
    axes.minorticks_off()
    axes.set(xlabel="clients in a sequence, S", ylabel="time / time of S = 1")
    axes.legend(frameon=False)
    plain(axes)
    return figure
