"""How a method looks: one colour, one dash and one label at the end of its line, the same on every page and figure.

The colours of one dash differ by more than 15 in lightness (CIE76), so that they can be told apart by a reader who
is blind for red and green, and on grey paper; methods of different dashes are told apart by these. There is a shade
for light and one for dark paper: both have a contrast of 3 or more.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.report.runs import Group

_SHADES = (
    (("#0e9ddc", "#0174a5"), ("#b34d02", "#f06e16"), ("#910033", "#ffa6af"), ("#01186b", "#ece7fd")),
    (("#06a958", "#077e40"), ("#cd0683", "#ff4eae"), ("#004590", "#aabcfe"), ("#2e2202", "#fee7be")),
    (("#14a3ac", "#017980"), ("#cf271b", "#fe5f46"), ("#6918a1", "#dfaaff"), ("#02291f", "#8bffda")),
)
"""Families of four (light paper, dark paper), from the palest to the strongest."""
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (8, 3),
    (2, 2.5),
    (10, 3, 2, 3),
    (5, 2, 5, 6),
    (14, 4),
    (10, 3, 2, 3, 2, 3),
    (1.5, 5),
    (16, 3, 6, 3),
    (4, 4, 1.5, 4),
    (20, 6),
    (6, 2, 2, 2, 2, 6),
)
"""Lengths of strokes and gaps in pixels, for a line two pixels wide; the first is solid."""
METHODS = (
    *("fedavg", "sfl", "psfl", "spfl"),
    *("apfl", "dga", "mifa", "feddf"),
    *("p-fedavg", "hierfavg", "dpsgd", "da-dpfl"),
    *("dispfl", "ditto", "feddst", "gossipfl"),
    *("dfedavgm", "dfedsam", "beer", "fedasync"),
    "fedbuff",
)
"""Those of the registry, in its order as it was when they came; each line shares a dash. A new one comes last, so
that all others keep their looks."""
LABEL_LENGTH = 28


@dataclass(frozen=True, kw_only=True)
class Look:
    """How the line of one method is drawn."""

    colour: str
    """On light paper, as ``#rrggbb``."""
    dark: str
    """The same hue on dark paper."""
    dash: tuple[float, ...]
    label: str
    """What stands at the end of the line."""


def _drawn(place: int) -> tuple[str, str, tuple[float, ...]]:
    """The look at this place of all there are."""
    group, shade = divmod(place % PLACES, 4)
    return (*_SHADES[group % len(_SHADES)][shade], DASHES[group])


PLACES = 4 * len(DASHES)
_OWN = {name: place for place, name in enumerate(METHODS)}


def look(algorithm: str, label: str | None = None) -> Look:
    """The look of one method by itself: that of its place in the registry, or of its name where it has none."""
    return _look(_preferred(algorithm), label or algorithm)


def looks(groups: Sequence[Group]) -> list[Look]:
    """The looks of the groups of one chart, in their order; no two are alike while there are looks to give."""
    ranked = sorted(groups, key=_rank)
    taken: dict[str, int] = {}
    for group in ranked:
        used = set(taken.values())
        taken[group.label] = next((p for p in _wishes(group) if p not in used), _preferred(group.label))
    labels = _short([group.label for group in groups])
    return [_look(taken[group.label], label) for group, label in zip(groups, labels, strict=True)]


def _rank(group: Group) -> tuple[bool, bool, str]:
    """Methods of the registry choose first, then their variants, then users' own; each by its label."""
    algorithm = group.runs[0].algorithm
    return algorithm not in _OWN, group.label != algorithm, group.label


def _wishes(group: Group) -> list[int]:
    """Places in the order in which a group would like them: its algorithm's, its label's, and those after it."""
    first = _free_from(group.label)
    return [_preferred(group.runs[0].algorithm), *((first + step) % PLACES for step in range(PLACES))]


def _preferred(name: str) -> int:
    return _OWN[name] if name in _OWN else _free_from(name)


def _free_from(name: str) -> int:
    """A place that no method of the registry has, always the same for a name."""
    free = PLACES - len(_OWN)
    return len(_OWN) + zlib.crc32(name.encode("utf-8", "surrogatepass")) % free if free > 0 else 0


def _look(place: int, label: str) -> Look:
    colour, dark, dash = _drawn(place)
    return Look(colour=colour, dark=dark, dash=dash, label=label)


def _short(labels: Sequence[str]) -> list[str]:
    """Labels cut to a length that fits beside a chart, and numbered where that makes two of them alike."""
    cut = [label if len(label) <= LABEL_LENGTH else f"{label[: LABEL_LENGTH - 1]}…" for label in labels]
    return [
        f"{text} {1 + cut[:place].count(text)}" if cut.count(text) > 1 else text for place, text in enumerate(cut)
    ]
