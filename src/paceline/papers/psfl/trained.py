"""PSFL (Zhou et al., INFOCOM 2025): the experiments with training, Figures 3 to 5, 8 and 9.

The paper states neither rates nor local steps nor how rates were chosen. So every method is run over the same grid of
rates, and the figures are given both ways: with one rate shared by all methods, and with each method's own best.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from paceline.errors import SettingError, nearest
from paceline.papers.psfl.tables import Finding, at_best_rate, case_rows, draw_curves, equal_time_rows
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Finished, Laboratory, Trial, computed
from paceline.runs.problem import is_here
from paceline.runs.until import Until

METHODS = ("fedavg", "sfl", "psfl")
GRID = (0.00316, 0.01, 0.0316, 0.1, 0.316)
"""Half decades from 10^-2.5 to 10^-0.5, as the work that the paper builds on (its reference 25) searched."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One panel of a figure: a dataset, a split, and how learning is done."""

    name: str
    overrides: tuple[str, ...]
    rates: tuple[float, ...] = GRID
    target: float | None = None
    """Accuracy at which a run may stop."""
    horizon: float
    """Virtual seconds after which it stops anyway."""
    every: tuple[int, int, int] = (1, 1, 1)
    """Rounds between evaluations, by method: about as many virtual seconds for each."""

    def trial(self, method: str, rate: float, seed: int) -> Trial:
        """One run of it."""
        every = self.every[METHODS.index(method)]
        return Trial(
            case=self.name,
            method=method,
            rate=rate,
            seed=seed,
            overrides=(*self.overrides, "rounds=1000000", f"every={every}"),
            until=Until(accuracy=self.target, time=self.horizon),
        )


class Data(NamedTuple):
    """A dataset at paper scale."""

    overrides: tuple[str, ...]
    target: float
    horizon: tuple[float, float]
    """Virtual seconds to wait for the target, with 5 and with 20 local steps."""


COMMON = (
    "clients=500",
    "partition=exdir:2,10",
    "fleet.times=discrete",
    "algorithm.participants=20",
    "local.batch=20",
)
PAPER = {
    "cifar10": Data(
        ("dataset=cifar10", "model=cnn-psfl", "local.weight_decay=1e-4", "local.clip=10", "local.augment=crop-flip"),
        target=0.60,
        horizon=(15_000.0, 6_000.0),
    ),
    "dermamnist": Data(
        ("dataset=dermamnist", "model=cnn-ham", "local.weight_decay=1e-4", "local.clip=10"),
        target=0.70,
        horizon=(10_000.0, 10_000.0),
    ),
}
DIGITS = ("dataset=digits", "clients=100", "fleet.times=discrete", "local.batch=20")
DIGIT_RATES = (0.0316, 0.1, 0.316, 1.0)
STEPS = (5, 20)


def fig3(request: Request) -> Reproduction:
    """PS-T1: time to the target, and accuracy and loss at equal time (Figures 3, 4 and 5)."""
    cases = _small_cases(request) if request.scale == "small" else _paper_cases(request)
    with Laboratory(request) as laboratory:
        found = search(laboratory, cases, request.seeds)
        calls = laboratory.calls()
    rows: list[Row] = []
    for case in cases:
        here = [one for one in found if one.finished.trial.case == case.name]
        rows += case_rows(case.name, here, METHODS, case.rates, case.horizon)
        rows += equal_time_rows(case.name, here, METHODS, case.rates)
    return computed(calls, rows=rows, note=_note(cases), figure=lambda: _figure(cases, found))


def _small_cases(request: Request) -> list[Case]:
    _check_data(request, ("digits",))
    return [
        Case(
            name=f"digits-{steps}-steps",
            overrides=(*DIGITS, "partition=exdir:2,10", "algorithm.participants=20", f"local.steps={steps}"),
            rates=DIGIT_RATES,
            target=0.9,
            horizon=2000.0,
        )
        for steps in STEPS
    ]


def _paper_cases(request: Request) -> list[Case]:
    _check_data(request, tuple(PAPER))
    wanted = [request.data] if request.data else [name for name in PAPER if is_here(name)]
    if not wanted:
        raise SettingError(f"none of {', '.join(PAPER)} is here; `paceline data` says how to get them")
    return [
        Case(
            name=f"{name}-{steps}-steps",
            overrides=(*COMMON, *PAPER[name].overrides, f"local.steps={steps}"),
            target=PAPER[name].target,
            horizon=PAPER[name].horizon[STEPS.index(steps)],
            every=(10, 1, 5),
        )
        for name in wanted
        for steps in STEPS
    ]


def _check_data(request: Request, known: Sequence[str]) -> None:
    if request.data is not None and request.data not in known:
        raise SettingError(f"--data is {request.data!r}; {nearest(request.data, known)}")


def search(laboratory: Laboratory, cases: Iterable[Case], seeds: int) -> list[Finding]:
    """Every method at every rate with the first seed; the other seeds where that one arrived.

    A rate that does not bring a method to the target within the horizon is not repeated: it is reported as such, of
    one seed.
    """
    cases = list(cases)
    first = laboratory.carry_out(
        [case.trial(method, rate, 0) for case in cases for method in METHODS for rate in case.rates]
    )
    by_name = {case.name: case for case in cases}
    again = [
        by_name[one.trial.case].trial(one.trial.method, one.trial.rate, seed)
        for one in first
        if one.reached is not None
        for seed in range(1, seeds)
    ]
    return [Finding(one) for one in (*first, *(laboratory.carry_out(again) if again else ()))]


def fig8(request: Request) -> Reproduction:
    """PS-T5: three other splits."""
    splits = ("dirichlet:0.2", "exdir:1,10", "exdir:2,5")
    return _at_equal_time(request, [(f"partition={split}", f"partition={split}", 20) for split in splits])


def fig9(request: Request) -> Reproduction:
    """PS-T5: more participants a round."""
    counts = (50, 100, 200) if request.scale == "paper" else (25, 50)
    return _at_equal_time(request, [(f"participants={n}", "partition=exdir:2,10", n) for n in counts])


def _at_equal_time(request: Request, panels: Sequence[tuple[str, str, int]]) -> Reproduction:
    """Accuracy of the three methods after the same virtual time, each at the rate that served it best."""
    small = request.scale == "small"
    _check_data(request, ("digits",) if small else ("cifar10",))
    base = DIGITS if small else (*COMMON[:1], *COMMON[2:3], *COMMON[4:], *PAPER["cifar10"].overrides)
    cases = [
        Case(
            name=name.replace("=", "-").replace(":", "-").replace(",", "-"),
            overrides=(*base, partition, f"algorithm.participants={participants}", "local.steps=5"),
            rates=DIGIT_RATES if small else GRID,
            horizon=300.0 if small else 6000.0,
            every=(1, 1, 1) if small else (10, 1, 5),
        )
        for name, partition, participants in panels
    ]
    with Laboratory(request) as laboratory:
        found = _tuned(laboratory, cases, request.seeds)
        calls = laboratory.calls()
    rows: list[Row] = []
    for case in cases:
        here = [one for one in found if one.finished.trial.case == case.name]
        rows += equal_time_rows(case.name, here, METHODS, case.rates, at=case.horizon)
    return computed(calls, rows=rows, note=_note(cases), figure=lambda: _figure(cases, found))


def _tuned(laboratory: Laboratory, cases: Sequence[Case], seeds: int) -> list[Finding]:
    """All rates with the first seed, then the other seeds at each method's best rate."""
    first = laboratory.carry_out(
        [case.trial(method, rate, 0) for case in cases for method in METHODS for rate in case.rates]
    )
    again, kept = [], []
    for case in cases:
        for method in METHODS:
            mine = [one for one in first if (one.trial.case, one.trial.method) == (case.name, method)]
            best = max(mine, key=lambda one: _final(one, case.horizon))
            kept.append(best)
            again += [case.trial(method, best.trial.rate, seed) for seed in range(1, seeds)]
    return [Finding(one) for one in (*kept, *(laboratory.carry_out(again) if again else ()))]


def _final(one: Finished, horizon: float) -> float:
    return one.at(horizon, one.accuracy) if one.status == "done" else -1.0


def _figure(cases: Sequence[Case], found: Sequence[Finding]) -> Any:
    panels = {}
    for case in cases:
        here = [one for one in found if one.finished.trial.case == case.name]
        panels[case.name] = {method: at_best_rate(here, method, case.rates) for method in METHODS}
    return draw_curves(panels, "PSFL: accuracy over virtual time, each method at its best rate")


def _note(cases: Sequence[Case]) -> str:
    lines = [f"{case.name}: {' '.join(case.overrides)}" for case in cases]
    return (
        "Times are virtual seconds, PSFL's warm-up included; intervals are 95 % over seeds (Student's t, ratios on"
        " the logarithms of pairs with the same seed: the same split, fleet and initial model). A rate at which the"
        " first seed did not arrive was not repeated. Tuned rates were chosen on the same seeds that are reported.\n"
        + "\n".join(lines)
    )
