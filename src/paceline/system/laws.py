"""Laws of positive quantities: what a device's mean time, FLOP/s or link rate is drawn from.

A law is asked at an address and answers the same number always, so a fleet of a million devices takes no
memory. Mean and variance are closed forms, for planners and for tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Protocol

from paceline.errors import SettingError
from paceline.forms import NUMBER, Form, Forms, Kind
from paceline.seeds import uniform
from paceline.system.cost import MOST, above_zero

_STANDARD = NormalDist()
WIDEST = 20.0
"""The greatest sigma of a lognormal law: its draws then differ by a factor of 10^140, which is still a number."""


class Law(Protocol):
    """A distribution over the positive numbers."""

    @property
    def mean(self) -> float:
        """The expected value of a draw."""

    @property
    def variance(self) -> float:
        """The expected squared distance of a draw from the mean."""

    def draw(self, key: int, site: int) -> float:
        """The draw that lives at this address."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value for every device."""

    value: float

    def __post_init__(self) -> None:
        above_zero(self.value, "the value of a constant law")

    @property
    def mean(self) -> float:
        """The expected value of a draw."""
        return self.value

    @property
    def variance(self) -> float:
        """Zero, since all draws are equal."""
        return 0.0

    def draw(self, key: int, site: int) -> float:
        """The value, without a hash: this law is in many hot paths."""
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform between two ends; PSFL's U(0.5, 4.5) by default."""

    low: float = 0.5
    high: float = 4.5

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= MOST:
            raise SettingError(f"uniform from {self.low:g} to {self.high:g}; wanted 0 <= low < high <= {MOST:g}")

    @property
    def mean(self) -> float:
        """The expected value of a draw."""
        return (self.low + self.high) / 2

    @property
    def variance(self) -> float:
        """The expected squared distance of a draw from the mean."""
        return (self.high - self.low) ** 2 / 12

    def draw(self, key: int, site: int) -> float:
        """The draw that lives at this address."""
        return self.low + (self.high - self.low) * uniform(key, site)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Exponential with this mean; PSFL's 2.5 by default."""

    mean: float = 2.5

    def __post_init__(self) -> None:
        above_zero(self.mean, "the mean of an exponential law")

    @property
    def variance(self) -> float:
        """The expected squared distance of a draw from the mean."""
        return self.mean**2

    def draw(self, key: int, site: int) -> float:
        """The draw that lives at this address; positive because addresses give the open interval (0, 1)."""
        return -self.mean * math.log(uniform(key, site))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Normal, clipped from below; PSFL's N(2.5, 1) by default.

    N(2.5, 1) falls below 0 for 6 devices in 1000 and the paper does not say what then; we clip at 0.05, and
    in words (``gaussian:CENTRE,SIGMA``) at the same fiftieth of any centre. The moments count the clipping.
    """

    centre: float = 2.5
    sigma: float = 1.0
    floor: float = 0.05

    def __post_init__(self) -> None:
        above_zero(self.centre, "the centre of a gaussian law")
        above_zero(self.sigma, "the sigma of a gaussian law")
        above_zero(self.floor, "the floor of a gaussian law")

    @property
    def mean(self) -> float:
        """Expected value of max(floor, N(centre, sigma²))."""
        cut = (self.floor - self.centre) / self.sigma
        below = _STANDARD.cdf(cut)
        return self.floor * below + self.centre * (1 - below) + self.sigma * _STANDARD.pdf(cut)

    @property
    def variance(self) -> float:
        """Expected squared distance of max(floor, N(centre, sigma²)) from its mean."""
        cut = (self.floor - self.centre) / self.sigma
        below = _STANDARD.cdf(cut)
        above = (self.centre**2 + self.sigma**2) * (1 - below)
        edge = self.sigma * (self.centre + self.floor) * _STANDARD.pdf(cut)
        return self.floor**2 * below + above + edge - self.mean**2

    def draw(self, key: int, site: int) -> float:
        """The draw that lives at this address."""
        return max(self.floor, self.centre + self.sigma * _STANDARD.inv_cdf(uniform(key, site)))


@dataclass(frozen=True, slots=True)
class Discrete:
    """Equiprobable values; PSFL's five points by default."""

    values: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 5.0)

    def __post_init__(self) -> None:
        for value in self.values:
            above_zero(value, "a value of a discrete law")
        if not self.values:
            raise SettingError("a discrete law without values; give some, as in 'discrete:0.5,1,2'")

    @property
    def mean(self) -> float:
        """The expected value of a draw."""
        return sum(self.values) / len(self.values)

    @property
    def variance(self) -> float:
        """The expected squared distance of a draw from the mean."""
        return sum((value - self.mean) ** 2 for value in self.values) / len(self.values)

    def draw(self, key: int, site: int) -> float:
        """The draw that lives at this address."""
        return self.values[int(uniform(key, site) * len(self.values))]


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Median times exp(N(0, sigma²)): a fair likeness of FLOP/s and link rates over real devices."""

    median: float
    sigma: float

    def __post_init__(self) -> None:
        above_zero(self.median, "the median of a lognormal law")
        above_zero(self.sigma, "the sigma of a lognormal law", WIDEST)

    @property
    def mean(self) -> float:
        """The expected value of a draw."""
        return self.median * math.exp(self.sigma**2 / 2)

    @property
    def variance(self) -> float:
        """The expected squared distance of a draw from the mean."""
        return self.mean**2 * math.expm1(self.sigma**2)

    def draw(self, key: int, site: int) -> float:
        """The draw that lives at this address."""
        return self.median * math.exp(self.sigma * _STANDARD.inv_cdf(uniform(key, site)))


def _gaussian(centre: float = 2.5, sigma: float = 1.0, floor: float | None = None) -> Gaussian:
    return Gaussian(centre, sigma, centre / 50 if floor is None else floor)


VALUES = Kind("numbers with commas between", lambda text: tuple(map(NUMBER.read, text.split(","))), ".*")

LAWS: Forms[Law] = Forms(
    "a law",
    Form("constant:VALUE", Constant, "the same for every device", "constant:2.5"),
    Form("uniform[:LOW,HIGH]", Uniform, "uniform between two ends, 0.5 and 4.5 unless given", "uniform:0.5,4.5"),
    Form("exponential[:MEAN]", Exponential, "exponential with this mean, 2.5 unless given", "exponential:2.5"),
    Form(
        "gaussian[:CENTRE,SIGMA[,FLOOR]]",
        _gaussian,
        "normal, but never below the floor, which is a fiftieth of the centre unless given",
        "gaussian:2.5,1",
    ),
    Form(
        "discrete[:VALUES]",
        Discrete,
        "one of these values, each as likely as the others; 0.5, 1, 2, 4 and 5 unless given",
        "discrete:0.5,1,2,4,5",
        {"VALUES": VALUES},
    ),
    Form("lognormal:MEDIAN,SIGMA", LogNormal, "the median times exp(N(0, SIGMA²))", "lognormal:2.5,0.5"),
)
"""The laws that a setting can name."""


def parse_law(text: str, setting: str = "a law") -> Law:
    """A law from words such as ``discrete``, ``uniform:0.5,4.5``, ``lognormal,5e9,0.5`` or a bare number."""
    word, *rest = (part.strip() for part in text.replace(":", ",", 1).split(","))
    if not rest and _is_number(word):
        return Constant(NUMBER.read(word))
    return LAWS.parse(f"{word}:{','.join(rest)}" if rest else word, setting)


LAW = Kind("a law or a number", lambda text: parse_law(text, "the law"), ".+")
"""A law as a value in a form, with commas inside; a bare number is a constant law."""
LAW_BEFORE_COMMA = replace(LAW, pattern="[^,/]+")
LAW_BEFORE_SLASH = replace(LAW, pattern="[^/]+")


def _is_number(text: str) -> bool:
    try:
        NUMBER.read(text)
    except ValueError:
        return False
    return True
