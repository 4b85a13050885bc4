"""Numbers of bytes as people write them: ``4GiB``, ``2GB``, ``1000000``."""

from __future__ import annotations

import math

from paceline.reading import plain_number

UNITS = {
    "TiB": 2.0**40, "GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10,
    "TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "": 1.0,
}  # fmt: skip


def parse_size(text: str) -> float:
    """Bytes; ``ValueError`` for what is no finite number of 0 or more with one of these units, or with none.

    >>> parse_size("2GB"), parse_size("1.5 KiB"), parse_size("12")
    (2000000000.0, 1536.0, 12.0)
    """
    unit = next(unit for unit in UNITS if text.endswith(unit))
    found = plain_number(text.removesuffix(unit)) * UNITS[unit]
    if not 0 <= found < math.inf:
        raise ValueError(f"{text[:80]!r} is no number of bytes")
    return found


def shown_size(count: float) -> str:
    """A number of bytes in the largest binary unit of which there is at least one.

    >>> shown_size(1536), shown_size(3 << 30), shown_size(12)
    ('1.5 KiB', '3 GiB', '12 bytes')
    """
    unit = next((unit for unit in ("TiB", "GiB", "MiB", "KiB") if count >= UNITS[unit]), "")
    number = count / UNITS[unit]
    return (
        f"{number:,.0f} bytes" if not unit else f"{number:,.0f} {unit}" if number >= 100 else f"{number:.3g} {unit}"
    )
