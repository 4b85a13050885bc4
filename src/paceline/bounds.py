"""Bounds of numbers: declared once, on the field of a settings dataclass, and held wherever the number comes from."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, TypeGuard

from paceline.errors import SettingError
from paceline.reading import shown

SMALLEST, GREATEST = 1e-100, 1e100
"""No number is larger in size, and none that must be above 0 smaller: squares, sums and quotients are numbers too."""
SHORTEST, LONGEST = 1e-12, 1e12
"""Seconds that one act may take, if any: up to 30,000 years, in which a clock of 8 bytes still tells a tenth of a
millisecond."""
WHOLE = 1 << 63
"""Below this lies every whole number."""


class Bounds(NamedTuple):
    """Between which numbers a setting must lie; a bound that is None does not bind.

    Besides, a number must be finite, unless ``most`` is infinity itself, and of a size that can be computed with.
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    none: str = ""
    """What ``none`` means, where the setting may be none: "for all", say."""

    def hold(self, value: float) -> bool:
        """Whether a number lies within; one that is not a number never does."""
        return self._between(value) and (self._computable(value) or value == self.most)

    def check(self, name: str, value: Any) -> None:
        """Refuse a number that is not within, naming it; what is no number is not looked at."""
        if not isinstance(value, int | float) or isinstance(value, bool) or self.hold(value):
            return
        between = self._between(value) or not self._range()
        raise SettingError(f"{name} is {shown(value)}; it must be {_wanted(value) if between else self.words}")

    def _computable(self, value: float) -> bool:
        if isinstance(value, int):
            return -WHOLE < value < WHOLE
        return abs(value) <= GREATEST and (self.above is None or abs(value) >= SMALLEST)

    @property
    def words(self) -> str:
        """What is wanted: "1 or more", "above 0 and at most 1", "2 to 16"."""
        text = self._range()
        return f"{text}, or none {self.none}" if self.none else text

    def _between(self, value: float) -> bool:
        low = (self.least is None or value >= self.least) and (self.above is None or value > self.above)
        return low and (self.most is None or value <= self.most) and (self.below is None or value < self.below)

    def _range(self) -> str:
        least, above, most, below = map(_shown, (self.least, self.above, self.most, self.below))
        if least and most:
            return f"{least} to {most}"
        if above and not (most or below):
            return f"a number greater than {above}"
        low = f"{least} or more" if least else f"above {above}" if above else ""
        high = f"at most {most}" if most else f"below {below}" if below else ""
        return (", and " if least else " and ").join(part for part in (low, high) if part)


SEEDS = Bounds(least=1, most=10_000)
"""How often something may be repeated with another seed."""
ANY = Bounds()
"""Of a number whose field declares nothing."""


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a foreign value is a number that can be computed with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and ANY.hold(value)


def bounded(
    default: float | None,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    none: str = "",
) -> Any:
    """A dataclass field for a number with these bounds, which ``check_bounds`` reads.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Mine:
    ...     rounds: int = bounded(100, least=1)
    >>> check_bounds(Mine(rounds=0))
    Traceback (most recent call last):
    paceline.errors.SettingError: rounds is 0; it must be 1 or more
    """
    return dataclasses.field(default=default, metadata={"bounds": Bounds(least, above, most, below, none)})


def bounds_of(field: dataclasses.Field[Any]) -> Bounds:
    """What a field declares, or what holds for any number; it may be infinite where it is so unless given."""
    declared: Bounds | None = field.metadata.get("bounds")
    return declared or (Bounds(most=math.inf) if field.default == math.inf else ANY)


def check_bounds(settings: Any, where: str = "", *, inside: bool = True) -> None:
    """Refuse a number that its field does not allow, here or in a group of settings ``inside``; see ``bounded``.

    A setting that is none is no number, and never refused here. ``where`` goes before the name in the message.
    """
    for each in dataclasses.fields(settings):
        value = getattr(settings, each.name)
        if inside and dataclasses.is_dataclass(value) and not isinstance(value, type):
            check_bounds(value, f"{where}{each.name}.")
        else:
            bounds_of(each).check(f"{where}{each.name}", value)


def _wanted(value: float) -> str:
    """What a number that cannot be computed with should have been."""
    if isinstance(value, int):
        return "a whole number of at most 18 digits"
    return f"{SMALLEST:g} to {GREATEST:g} in size" if math.isfinite(value) else "a finite number"


def _shown(bound: float | None) -> str:
    """A bound as it is written; that a number must be finite goes without saying."""
    if bound is None or math.isinf(bound):
        return ""
    return f"{int(bound):,}" if bound == int(bound) and abs(bound) < 1e9 else f"{bound:g}"
