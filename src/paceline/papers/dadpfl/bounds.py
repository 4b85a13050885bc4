"""DA-DPFL (TNNLS), Theorem 3: its terms, whether they mean something at the step that it allows, and what reuse does.

The theorem bounds the least squared gradient of T rounds by 2/(T·D)·(f(ω⁰) − min f) + S_3, where D = η − 6·S_1·(μ −
η). S_3 is cut off where the theorem is stated, and whole in its proof, from where it is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Reproduction, Request, Row, claimed, compared
from paceline.plans.peers import work_factor

NEIGHBOURS, EPOCHS = 10, 5
ROUNDS = 500
FEW, MANY = 1e10, 1e12
"""Rounds between which the exponent of T is measured."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The constants of the theorem, all variances and the initial gap 1 unless others are given."""

    neighbours: int = NEIGHBOURS
    """M."""
    epochs: float = EPOCHS
    """E_l, which the proof counts as local steps."""
    reuse: bool = True
    """Whether models of the same round are reused: E_l is multiplied by (3M + 2)/(2M + 2) then (Lemma 2)."""
    smoothness: float = 1.0
    """μ, which is the Lipschitz constant of the gradients here."""
    local: float = 1.0
    """σ_l²."""
    across: float = 1.0
    """σ_g²."""
    personal: float = 1.0
    """σ_p²."""
    gap: float = 1.0
    """f(ω⁰) - min f."""

    @property
    def steps(self) -> float:
        """E_l*, the local steps behind an averaged model."""
        return self.epochs * (work_factor(self.neighbours) if self.reuse else 1.0)

    @property
    def allowed(self) -> float:
        """The largest step that the theorem's own condition allows."""
        return math.sqrt(1 / (12 * self.smoothness**2 * (self.neighbours - 1) * (2 * self.neighbours - 1)))

    @property
    def in_lemmas(self) -> float:
        """The largest step by the condition of Lemmas 1 and 3, which has a factor M more (DA-E9)."""
        return self.allowed / math.sqrt(self.neighbours)

    def S1(self, eta: float) -> float:
        """2η²M(M − 1)(exp(E_l*/(2(M − 1))) − 1)."""
        M = self.neighbours
        return 2 * eta**2 * M * (M - 1) * math.expm1(self.steps / (2 * (M - 1)))

    @property
    def S2(self) -> float:
        """σ_l²/(2M − 1) + 3(σ_g² + 2σ_p²)."""
        return self.local / (2 * self.neighbours - 1) + 3 * (self.across + 2 * self.personal)

    def denominator(self, eta: float) -> float:
        """D; where it is not above 0 the theorem says nothing."""
        return eta - 6 * self.S1(eta) * (self.smoothness - eta)

    def S3(self, eta: float) -> float:
        """As in the proof."""
        drift = 3 * self.smoothness**2 * eta**3 * self.steps / self.neighbours * (self.local + self.across)
        return 2 / self.denominator(eta) * ((self.smoothness - eta) * self.S1(eta) * self.S2 + drift)

    def bound(self, eta: float, rounds: float) -> float:
        """The whole right-hand side; infinite where D is not above 0."""
        below = self.denominator(eta)
        return math.inf if below <= 0 else 2 * self.gap / (rounds * below) + self.S3(eta)

    def largest(self) -> float:
        """The largest step at which D is above 0, up to the one that is allowed."""
        return _last(lambda eta: self.denominator(eta) > 0, 1e-12, self.allowed)


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Up to where something holds that does so at first, by halving; the end if it holds there."""
    if holds(high):
        return high
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def theorem3(request: Request) -> Reproduction:
    """The terms at the paper's M and E_l, and what the remarks say of them."""
    with_reuse, without = Terms(), Terms(reuse=False)
    rows = [*_ratio_rows(), *_step_rows(with_reuse), *_size_rows(with_reuse), *_reuse_rows(with_reuse, without)]
    note = (
        f"M = {NEIGHBOURS}, E_l = {EPOCHS}; μ, all three variances and the initial gap are 1, so steps are in 1/μ."
        " S_3 is the proof's: where the theorem is stated it ends after its first factor. Steps are those of the"
        " theorem's own condition unless another is named."
    )
    return Reproduction(rows=rows, note=note, figure=_draw)


def _ratio_rows() -> list[Row]:
    limit = work_factor(10_000)
    return [
        compared("E_l*/E_l at M = 2", 4 / 3, work_factor(2), within=1e-9, note="the paper: 4/3"),
        compared("E_l*/E_l for large M", 1.5, limit, within=1e-3, note="the paper: towards 3/2"),
        Row(f"E_l*/E_l at M = {NEIGHBOURS}", None, work_factor(NEIGHBOURS)),
    ]


def _step_rows(one: Terms) -> list[Row]:
    largest, D = one.largest(), one.denominator(one.allowed)
    return [
        Row("largest step allowed by the theorem", None, one.allowed, "1/μ"),
        Row("largest step by Lemmas 1 and 3", None, one.in_lemmas, "1/μ", None, "DA-E9: with a factor M in the root"),
        claimed("D is above 0 at the step that is allowed", "needed", f"D = {D:.3g}", D > 0, MEANINGLESS),
        claimed(
            "D is above 0 at the Lemmas' step",
            "needed",
            f"D = {one.denominator(one.in_lemmas):.3g}",
            one.denominator(one.in_lemmas) > 0,
            MEANINGLESS,
        ),
        Row("largest step with D above 0", None, largest, "1/μ"),
        Row("allowed step over that", None, one.allowed / largest, "times"),
    ]


MEANINGLESS = (
    "where D is negative the bound is negative, which no squared norm can be below: the theorem says nothing"
)


def _size_rows(one: Terms) -> list[Row]:
    """The terms at half of the largest step with D above 0, and with η = 1/(μ√T)."""
    eta = one.largest() / 2
    least = _first_rounds(one)
    slope = math.log(one.bound(MANY**-0.5, MANY) / one.bound(FEW**-0.5, FEW)) / math.log(MANY / FEW)
    at_paper = one.bound(ROUNDS**-0.5, ROUNDS)
    said = "no bound" if math.isinf(at_paper) else f"{at_paper:.3g}"
    return [
        Row(f"S_1 at η = {eta:.3g}", None, one.S1(eta)),
        Row("S_2", None, one.S2),
        Row(f"S_3 at η = {eta:.3g}", None, one.S3(eta)),
        Row(f"the bound at η = {eta:.3g}, T = {ROUNDS}", None, one.bound(eta, ROUNDS)),
        Row(
            f"the bound at η = 1/(μ√T), T = {ROUNDS}", None, said, "", None, "the paper's experiments have 500 rounds"
        ),
        Row("least T with a bound at η = 1/(μ√T)", None, least, "rounds"),
        compared(f"exponent of T at η = 1/(μ√T), {FEW:g} to {MANY:g}", -0.5, slope, within=0.02, note=REMARK4),
    ]


REMARK4 = "Remark 4's rate, which the terms have for large T"


def _first_rounds(one: Terms) -> float:
    return float(math.ceil(1 / one.largest() ** 2))


def _reuse_rows(with_reuse: Terms, without: Terms) -> list[Row]:
    """Remark 5: fewer rounds to an error than without scheduling, as S_1 is larger."""
    eta = with_reuse.largest() / 2
    ours, theirs = with_reuse.bound(eta, ROUNDS), without.bound(eta, ROUNDS)
    more = claimed("S_1 is larger with reuse", "yes", f"{with_reuse.S1(eta) / without.S1(eta):.3g} times", True)
    return [
        replace(more, ok=with_reuse.S1(eta) > without.S1(eta)),
        claimed("so the bound is smaller with reuse", "yes", f"{ours / theirs:.3g} times", ours < theirs, REMARK5),
    ]


REMARK5 = (
    "Remark 5: a larger S_1 is said to reduce the error. S_1 makes D smaller as long as η < μ, and D divides both"
    " terms; S_3 also grows with it. So by the theorem reuse makes the bound larger, whatever it does to the error"
)


def _draw() -> Any:
    figure = new_figure((7, 4), "DA-DPFL, Theorem 3: D over the step")
    axes = figure.subplots()
    for place, M in enumerate((2, 5, 10, 20)):
        one = Terms(neighbours=M)
        steps = np.geomspace(1e-4, one.allowed, 300)
        values = [one.denominator(float(eta)) / float(eta) for eta in steps]
        axes.plot(steps, values, color=f"C{place}", label=f"M = {M}")
        axes.plot(one.allowed, values[-1], "o", color=f"C{place}")
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    axes.set(xscale="log", xlabel="step η, in 1/μ; dots: the largest allowed", ylabel="D/η", ylim=(-3, 1.1))
    axes.legend(frameon=False)
    plain(axes)
    return figure
