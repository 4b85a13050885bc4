"""PSFL (Zhou et al., INFOCOM 2025), section V-B: the best width by the heterogeneity of the data, in its three cases.

The paper argues with the objective of PS-7: much heterogeneity, little of it, and what lies between. Every statement
with a number is computed anew, from the objective itself and by the shipped solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.algorithms.structure import bound_ratio, choose_structure
from paceline.papers.pictures import new_figure, plain
from paceline.papers.psfl.printed import CRITICAL
from paceline.papers.result import Reproduction, Request, Row, by_reference, claimed, compared
from paceline.system.laws import Discrete

Array = NDArray[np.float64]

C0 = 0.1
"""The bound's constant, which the paper does not state."""
KAPPA = 1.0
"""Seconds: the largest of any client's own spread on the five-point law (PS-E10)."""
MEAN = Discrete().mean
PARTICIPANTS = 20
MUCH, LITTLE = (10.0, 100.0, 1e4, math.inf), 0.0
"""B/σ² of the first case, and of the second."""
BETWEEN = (0.03, 0.1, 0.3, 0.43, 1.0, 3.0, 10.0)
WIDEST = 1000.0
EXISTS, PAYS = 1.809, 2.306
"""b/a from which an inner minimum exists, and from which it is better than W = 1: a separate calculation (PS-E3)."""
MOST_CLIENTS = 200


def cases(request: Request) -> Reproduction:
    """PS-7 in the three cases of section V-B."""
    rows = [*_much(), *_little(), *_between()]
    note = (
        f"Five-point times, so t̄ = {MEAN:g} s, with κ = {KAPPA:g} s (PS-E10) and c0 = {C0:g}; N0 = {PARTICIPANTS}"
        " where no other number stands. The paper gives none of these. b/a is that of its case 2, where it minimises"
        " a √(W ln W) + b/W and leaves out the last term of the objective; the solver leaves out nothing."
    )
    return Reproduction(rows=rows, note=note, figure=_draw)


def best_width(heterogeneity: float, participants: int = PARTICIPANTS) -> float:
    """W* of PS-7 for B/σ²."""
    ratio = math.inf if math.isinf(heterogeneity) else bound_ratio(1.0, heterogeneity, C0)
    return choose_structure(participants=participants, time_mean=MEAN, time_std=KAPPA, ratio=ratio).width


# -- case 1: much heterogeneity -------------------------------------------------------------------------------------


def _much() -> list[Row]:
    rows = [
        compared(
            f"case 1, B/σ² = {level:g}: W*", 1.0, best_width(level), within=0.005, note=LIMIT if level < 1e4 else ""
        )
        for level in MUCH
    ]
    least = _first(lambda x: best_width(x) == 1.0, 1.0, 1e4)
    return [*rows, Row("case 1: least B/σ² at which W* is 1", None, least, "", None, LIMIT)]


LIMIT = "the paper's W* = 1 is the limit of B → ∞; the last row of the case says from where on it holds"


# -- case 2: little heterogeneity -----------------------------------------------------------------------------------


def stationary(W: Array) -> Array:
    """The b/a for which W is a stationary point of a √(W ln W) + b/W."""
    logs = np.sqrt(np.log(W))
    return np.asarray(W**1.5 * (logs + 1 / logs) / 2)


def _least_inside(balance: float) -> float:
    """How much the best inner width costs, as a multiple of what W = 1 does, for this b/a."""
    W = np.geomspace(1.0, WIDEST, 20_001)
    inner = W[1:][stationary(W[1:]) <= balance]  # the objective falls where W is below its stationary point
    if not len(inner):
        return math.inf
    least = float(inner[-1])
    return (math.sqrt(least * math.log(least)) + balance / least) / balance


def _little() -> list[Row]:
    ratio, W = bound_ratio(1.0, LITTLE, C0), np.geomspace(1.0 + 1e-9, WIDEST, 200_001)
    exists = float(stationary(W).min())
    pays = _first(lambda x: _least_inside(x) < 1.0, 1.0, 10.0)
    by_formula, by_solver = _most_for_fedavg(_fedavg_by_formula), _most_for_fedavg(_fedavg_by_solver)
    return [
        by_reference(
            compared("case 2: α/β without heterogeneity", C0 * (1 + 2 * C0) / (1 - 2 * C0**2), ratio, within=1e-9)
        ),
        compared("case 2: b/a at which √e is stationary", CRITICAL, float(stationary(np.exp(0.5))), within=0.001),
        by_reference(compared("case 2: b/a from which an inner minimum exists", EXISTS, exists, within=0.001)),
        by_reference(compared("case 2: b/a from which it is better than W = 1", PAYS, pays, within=0.001)),
        claimed(
            "case 2: SFL is out from the printed b/a on",
            "yes",
            f"only from {pays:.3f} on",
            pays <= CRITICAL,
            SFL_STAYS,
        ),
        Row(
            "case 2: most clients with W* above N0/2, formula without the last term",
            None,
            by_formula,
            "",
            None,
            MENDED,
        ),
        Row("case 2: most clients with W* above N0/2, solver", None, by_solver),
        claimed(
            "case 2: FedAvg is best only with few clients",
            "yes",
            f"up to {by_solver:.0f}",
            1 < by_solver < MOST_CLIENTS,
        ),
    ]


SFL_STAYS = (
    "PS-E3: at the printed b/a the stationary point is √e, which does not say that it is the best one: between the"
    " two numbers W = 1, sequential FL, costs less"
)
MENDED = "N0 (√ℓ + 1/√ℓ) < 4 √2 t̄/(a √(2κ²)), ℓ = ln(N0/2): what W* > N0/2 means for the paper's own function (PS-E3)"


def _fedavg_by_formula(participants: int) -> bool:
    log = math.log(participants / 2)
    if log <= 0:
        return True
    limit = 4 * math.sqrt(2) * MEAN / (bound_ratio(1.0, LITTLE, C0) * math.sqrt(2) * KAPPA)
    return participants * (math.sqrt(log) + 1 / math.sqrt(log)) < limit


def _fedavg_by_solver(participants: int) -> bool:
    return best_width(LITTLE, participants) > participants / 2


def _most_for_fedavg(holds: Callable[[int], bool]) -> float:
    return float(max(n for n in range(1, MOST_CLIENTS + 1) if holds(n)))


# -- case 3: what lies between --------------------------------------------------------------------------------------


def _between() -> list[Row]:
    found = {level: best_width(level) for level in BETWEEN}
    widths = [*found.values()]
    falls = all(a >= b for a, b in pairwise(widths))
    rows = [
        Row(f"case 3, B/σ² = {level:g}: (S*, W*)", None, f"({PARTICIPANTS / width:.2f}, {width:.2f})")
        for level, width in found.items()
    ]
    said = "falls from 1 on" if (top := _top_of_beta()) < 1 + 1e-8 else f"rises up to W = {top:.4f}, then falls"
    return [
        *rows,
        claimed("case 3: more heterogeneity, fewer sequences", "yes", "yes" if falls else "no", falls),
        claimed(
            "the β-term falls monotonically with W",
            "yes",
            said,
            top < 1 + 1e-8,
            "PS-E3: ln W has infinite slope at 1",
        ),
    ]


def beta_term(W: Array) -> Array:
    """What β multiplies in Eq. 21."""
    return np.asarray(PARTICIPANTS * MEAN / W + np.sqrt(2 * KAPPA**2 * PARTICIPANTS / W * np.log(W)))


def _top_of_beta() -> float:
    W = 1 + np.geomspace(1e-9, PARTICIPANTS - 1, 200_001)
    return float(W[int(np.argmax(beta_term(W)))])


def _first(holds: Callable[[float], bool], low: float, high: float) -> float:
    """From where on something holds, between a place where it does not and one where it does, by halving."""
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _draw() -> Any:
    figure = new_figure((7, 4), "PSFL, section V-B: the best width over the heterogeneity")
    axes = figure.subplots()
    levels = np.geomspace(0.01, 100, 161)
    for participants in (10, 20, 50, 100, 200):
        axes.plot(levels, [best_width(float(x), participants) for x in levels], label=f"N0 = {participants}")
    axes.set(xscale="log", yscale="log", xlabel="heterogeneity over noise, B/σ²", ylabel="best width W*")
    axes.legend(frameon=False)
    plain(axes)
    return figure
