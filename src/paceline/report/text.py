"""Numbers and marks as text: for people, and for SVG."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

MISSING = "–"


def tag(name: str, body: str = "", **attributes: object) -> str:
    """One element: ``body`` is markup, attribute values are escaped, ``_`` in their names becomes ``-``."""
    marks = "".join(f' {key.strip("_").replace("_", "-")}="{_mark(value)}"' for key, value in attributes.items())
    return f"<{name}{marks}>{body}</{name}>"


def words(name: str, text: object, **attributes: object) -> str:
    """One element around plain text, which is escaped."""
    return tag(name, escape(str(text)), **attributes)


def _mark(value: object) -> str:
    # A hundredth of a pixel is finer than any screen; more digits only make the page larger.
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))


def number(value: float | None, digits: int = 4) -> str:
    """A plain number with this many significant digits, grouped in thousands."""
    if value is None or not math.isfinite(value):
        return MISSING
    places = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    text = f"{value:,.{min(max(places, 0), 12)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def seconds(value: float | None) -> str:
    """A duration as text, with its unit."""
    return _united(value, number, "s")


def percent(value: float | None) -> str:
    """A share as text, in percent."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{100 * value:.1f} %"


def spread(middle: float, half: float, form: Callable[[float | None], str]) -> str:
    """A mean and half of its interval in one unit, ``3.1 ± 0.2 s``.

    The half has two digits, and the mean no finer ones: those would tell nothing.
    """
    if form is percent:
        return f"{100 * middle:.1f} ± {percent(half)}"
    scale, prefix = _prefix(middle) if form in _SCALED else (1.0, "")
    rounded = float(f"{half / scale:.2g}")
    places = max(0, 1 - math.floor(math.log10(rounded))) if rounded else 0
    text = f"{middle / scale:,.{places}f} ± {rounded:,.{places}f}"
    unit = prefix + _SCALED.get(form, "s" if form is seconds else "")
    return f"{text} {unit}" if unit else text


def size(value: float | None) -> str:
    """A number of bytes in decimal units."""
    return _scaled(value, "B")


def energy(value: float | None) -> str:
    """An energy as text, with its unit."""
    return _scaled(value, "J")


def operations(value: float | None) -> str:
    """A number of floating-point operations."""
    return _scaled(value, "FLOP")


def site(index: int, *, several: bool = False) -> str:
    """The name of a place: clients count from 0, servers from -1 downwards; the first has a number among several."""
    if index >= 0:
        return f"client {index}"
    return "server" if index == -1 and not several else f"server {-index}"


def _united(value: float | None, form: Callable[[float | None], str], unit: str) -> str:
    text = form(value)
    return text if text == MISSING else f"{text} {unit}"


def _scaled(value: float | None, unit: str) -> str:
    if value is None or not math.isfinite(value):
        return MISSING
    scale, prefix = _prefix(value)
    return f"{number(value / scale, 3)} {prefix}{unit}"


def _prefix(value: float) -> tuple[float, str]:
    """The decimal prefix that leaves three digits before the point at most, and what it stands for."""
    step = next((k for k in range(5) if abs(value) < 999.5 * 1000**k), 5)
    return 1000.0**step, ("", "k", "M", "G", "T", "P")[step]


_SCALED: dict[Callable[[float | None], str], str] = {size: "B", energy: "J", operations: "FLOP"}
"""The unit of each form that has decimal prefixes."""
