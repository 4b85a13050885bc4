"""What an act takes: seconds, and joules where a power was defined; and between which bounds such figures lie."""

from __future__ import annotations

import math
from typing import NamedTuple

from paceline.bounds import LONGEST
from paceline.errors import SettingError

__all__ = ["BRIEFEST", "Cost", "FREE", "LEAST", "LONGEST", "MOST", "STRONGEST", "above_zero", "at_least_zero"]
__all__ += ["is_figure", "power", "share", "wanted"]

LEAST, MOST = 1e-12, 1e21
"""Between these lie seconds, Mbit/s and FLOP/s. Beyond, sums of them are infinite, or all of them equal."""
BRIEFEST = 1e-4
"""Seconds of a segment of a recorded link, or of a duty cycle: whoever walks along more of them never arrives."""
STRONGEST = 1e12
"""Watts."""


class Cost(NamedTuple):
    """Seconds and joules of one act; joules is nan where nobody defined a power."""

    seconds: float
    joules: float


FREE = Cost(0.0, 0.0)


def power(watts: float | None, name: str) -> float:
    """Watts as a factor: nan, which spoils every sum it enters, where none was defined."""
    return math.nan if watts is None else at_least_zero(watts, name, STRONGEST)


def at_least_zero(value: float, name: str, most: float = MOST) -> float:
    """This value, if it is 0 or a number that can be added up; otherwise ``SettingError`` with the name."""
    if value != 0 and not is_figure(value, most):
        raise SettingError(f"{name} is {value!r}; wanted {wanted(most, zero=True)}")
    return float(value)


def above_zero(value: float, name: str, most: float = MOST) -> float:
    """This value, if it is above 0 and can be added up; otherwise ``SettingError`` with the name."""
    if not is_figure(value, most):
        raise SettingError(f"{name} is {value!r}; wanted {wanted(most)}")
    return float(value)


def is_figure(value: float, most: float = MOST) -> bool:
    """Whether a number above 0 can be added up with others like it."""
    return LEAST <= value <= most


def wanted(most: float = MOST, *, zero: bool = False) -> str:
    """What is wanted of such a number, in words."""
    sign = "of at least 0" if zero else "above 0"
    return f"a finite number {sign} ({'0, or ' if zero else ''}{LEAST:g} to {most:g})"


def share(value: float, name: str) -> float:
    """This value, if it is a share from 0 to 1; otherwise ``SettingError`` with the name."""
    if not 0 <= value <= 1:
        raise SettingError(f"{name} is {value!r}; wanted a number from 0 to 1")
    return float(value)
