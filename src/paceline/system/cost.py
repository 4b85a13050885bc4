"""What an act takes: seconds, and joules where a power was defined."""

from __future__ import annotations

import math
from typing import NamedTuple

from paceline.errors import SettingError


class Cost(NamedTuple):
    """Seconds and joules of one act; joules is nan where nobody defined a power."""

    seconds: float
    joules: float


FREE = Cost(0.0, 0.0)


def power(watts: float | None, name: str) -> float:
    """Watts as a factor: nan, which spoils every sum it enters, where none was defined."""
    return math.nan if watts is None else at_least_zero(watts, name)


def at_least_zero(value: float, name: str) -> float:
    """This value, if it is finite and not negative; otherwise ``SettingError`` with the name."""
    if not 0 <= value < math.inf:
        raise SettingError(f"{name} is {value!r}; wanted a finite number of at least 0")
    return float(value)


def above_zero(value: float, name: str) -> float:
    """This value, if it is finite and above 0; otherwise ``SettingError`` with the name."""
    if not 0 < value < math.inf:
        raise SettingError(f"{name} is {value!r}; wanted a finite number above 0")
    return float(value)


def share(value: float, name: str) -> float:
    """This value, if it is a share from 0 to 1; otherwise ``SettingError`` with the name."""
    if not 0 <= value <= 1:
        raise SettingError(f"{name} is {value!r}; wanted a number from 0 to 1")
    return float(value)
