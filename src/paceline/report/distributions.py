"""How often each whole number came up (a staleness, say): pooled over seeds, in words and as bars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.report.looks import looks
from paceline.report.runs import Group
from paceline.report.text import number

MOST_BARS = 40
WHO, NAMED = " client", 8
"""Names that end so count clients, not amounts: a mean of them would say nothing."""

Counts = Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The bars that all methods of one chart share, so that they can be compared."""

    low: int
    width: int
    """How many values share one bar."""
    bars: int

    def place(self, value: int) -> int:
        """The bar that a value belongs to."""
        return (value - self.low) // self.width

    def names(self) -> list[str]:
        """What stands under each bar."""
        firsts = [self.low + place * self.width for place in range(self.bars)]
        if self.width == 1:
            return [number(first) for first in firsts]
        return [f"{number(first)} to {number(first + self.width - 1)}" for first in firsts]


def pooled(group: Group) -> dict[str, Counter[int]]:
    """Every distribution of a group, summed over its seeds."""
    found: dict[str, Counter[int]] = {}
    for run in group.runs:
        for name, counts in run.distributions.items():
            found.setdefault(name, Counter()).update(counts)
    return found


def charts(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """One chart for each name, with bars of each method that counted it; as JSON values."""
    found = [pooled(group) for group in groups]
    names = list(dict.fromkeys(name for one in found for name in one))
    return [_chart(f"counted-{k}", name, groups, found) for k, name in enumerate(names)]


def describe(counts: Counts, name: str) -> str:
    """The distribution of a counted value in one sentence."""
    total = sum(counts.values())
    if name.endswith(WHO):
        often = Counter(counts).most_common(NAMED)
        return f"{name}s: " + ", ".join(f"{client} ({count} times)" for client, count in often)
    mean = sum(value * count for value, count in counts.items()) / total
    middle = number((_ranked(counts, (total - 1) // 2) + _ranked(counts, total // 2)) / 2)
    seen = "1 value" if total == 1 else f"{total:,} values"
    return f"{name}: mean {number(mean, 3)}, median {middle}, maximum {number(max(counts))} ({seen})"


def frame_of(every: Sequence[Counts]) -> Frame:
    """Bars from 0 (or the lowest value) to the highest, of several values each where there are too many."""
    low, high = min(0, *(min(counts) for counts in every)), max(max(counts) for counts in every)
    width = next(w for w in _round_numbers() if (high - low) // w < MOST_BARS)
    return Frame(low=low, width=width, bars=max((high - low) // width + 1, 2))


def shares(counts: Counts, frame: Frame) -> list[float]:
    """The share of all values that each bar stands for."""
    total, bars = sum(counts.values()), Counter[int]()
    for value, count in counts.items():
        bars[frame.place(value)] += count
    return [bars[place] / total for place in range(frame.bars)]


def _chart(key: str, name: str, groups: Sequence[Group], found: Sequence[dict[str, Counter[int]]]) -> dict[str, Any]:
    """Methods whose values have all the same value are told in words only, if another has more to show."""
    shown = [
        (group, look, one[name]) for group, look, one in zip(groups, looks(groups), found, strict=True) if name in one
    ]
    frame = frame_of([counts for _, _, counts in shown])
    told = [describe(counts, group.label) for group, _, counts in shown]
    pooling = " The seeds of a method are pooled." if any(len(group.runs) > 1 for group, _, _ in shown) else ""
    return {
        "id": key,
        "title": f"Distribution of {name}",
        "text": f"How often each value came up.{pooling} {'; '.join(told)}.",
        "axis": name,
        "unit": "%",
        "words": "share of all values",
        "places": frame.names(),
        "stacks": [],
        "beside": [
            {"name": group.label, "look": look.__dict__, "values": [round(v, 9) for v in shares(counts, frame)]}
            for group, look, counts in shown
        ],
    }


def _ranked(counts: Counts, rank: int) -> int:
    """The value at this place among all in order, counted from 0."""
    for value, count in sorted(counts.items()):
        rank -= count
        if rank < 0:
            return value
    raise AssertionError("a rank beyond the last value")


def _round_numbers() -> list[int]:
    return [factor * 10**power for power in range(18) for factor in (1, 2, 5)]
