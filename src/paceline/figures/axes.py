"""Axes with units that people read: shares in percent, bytes in megabytes, seconds as they are."""

from __future__ import annotations

import math
from typing import Any

from paceline.errors import SettingError

_PREFIXES = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15))
_AXES = {
    "time": ("virtual time", "s", False),
    "round": ("rounds", "", False),
    "bytes": ("traffic", "B", True),
    "joules": ("energy", "J", True),
}
"""Words, unit, and whether the unit takes a prefix (kilo, mega)."""


def percent_axis(axis: Any) -> None:
    """Shares between 0 and 1, written in percent; the room above the whole has no figures."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %" if value < 1 + 1e-9 else ""))


def unit_axis(axes: Any, which: str, quantity: str) -> None:
    """Say what an axis shows, in a unit that fits its largest value."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    words, unit, prefixed = _AXES[quantity]
    axis = getattr(axes, f"{which}axis")
    largest = max(abs(end) for end in axis.get_view_interval())
    prefix, factor = max((p for p in _PREFIXES if p[1] <= largest), key=lambda p: p[1], default=_PREFIXES[0])
    if not prefixed:
        prefix, factor = "", 1.0
    if axis.get_scale() == "log":
        low, high = axis.get_view_interval()
        decades = math.log10(high / low)
        # Few decades need figures between the powers of ten, and many would have no room for them.
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2.5 else (1,), numticks=20))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value / factor)))
    axis.set_label_text(f"{words} ({prefix}{unit})" if unit else words)


def scale(axes: Any, log: str, allowed: str) -> None:
    """Make these axes logarithmic, if that is asked for and they can be."""
    check_log(log, allowed)
    for which in log:
        getattr(axes, f"set_{which}scale")("log")


def check_log(log: str, allowed: str) -> None:
    """Refuse a logarithm of what has none."""
    if any(which not in allowed for which in log) or len(set(log)) != len(log):
        wanted = " or ".join(filter(None, (*allowed, allowed if len(allowed) > 1 else ""))) or "none for this kind"
        raise SettingError(f"--log {log}: wanted {wanted}")


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
