"""How often each whole number came up (a staleness, say): pooled over seeds, in words and as bars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.report.charts import COLOURS
from paceline.report.runs import Group
from paceline.report.text import number, percent, percent_tick, tag, ticks, words

WIDTH, HEIGHT = 420, 170
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 8, 36
MOST_BARS = 40
WHO, NAMED = " client", 8
"""Names that end so count clients, not amounts: a mean of them would say nothing."""

Counts = Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What all charts of one distribution share, so that they can be compared: the bars' places and the height."""

    low: int
    width: int
    """How many values share one bar."""
    bars: int
    top: float
    """The share of the tallest bar."""

    def place(self, value: int) -> int:
        """The bar that a value belongs to."""
        return (value - self.low) // self.width

    def x(self, value: float) -> float:
        """Where the bar of a value begins."""
        return LEFT + (value - self.low) / (self.width * self.bars) * (WIDTH - LEFT - RIGHT)

    def y(self, share: float) -> float:
        """The height at which a share is drawn."""
        return HEIGHT - BOTTOM - share / self.top * (HEIGHT - TOP - BOTTOM)


def pooled(group: Group) -> dict[str, Counter[int]]:
    """Every distribution of a group, summed over its seeds."""
    found: dict[str, Counter[int]] = {}
    for run in group.runs:
        for name, counts in run.distributions.items():
            found.setdefault(name, Counter()).update(counts)
    return found


def section(groups: Sequence[Group]) -> str:
    """A heading and a chart for each algorithm, distribution by distribution; nothing where there is none."""
    found = [pooled(group) for group in groups]
    names = list(dict.fromkeys(name for one in found for name in one))
    return "".join(_one(name, groups, [one.get(name, Counter()) for one in found]) for name in names)


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
    bars = max((high - low) // width + 1, 2)
    frame = Frame(low=low, width=width, bars=bars, top=1.0)
    top = max(max(_shares(counts, frame).values()) for counts in every)
    return Frame(low=low, width=width, bars=bars, top=top)


def bar_chart(counts: Counts, frame: Frame, name: str, colour: int = 0) -> str:
    """The shares of the values as bars."""
    total = sum(counts.values())
    floor, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for value in ticks(0.0, frame.top, 4):
        y = frame.y(value)
        parts.append(tag("line", x1=LEFT, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(words("text", percent_tick(value), x=LEFT - 5, y=y + 4, class_="tick end"))
    step = frame.x(frame.low + frame.width) - LEFT
    for place, share in sorted(_shares(counts, frame).items()):
        first = frame.low + place * frame.width
        values = number(first) if frame.width == 1 else f"{number(first)} to {number(first + frame.width - 1)}"
        text = f"{name} {values}: {percent(share)} ({round(share * total):,} of {total:,})"
        parts.append(
            tag(
                "rect",
                words("title", text),
                x=frame.x(first) + 0.08 * step,
                y=frame.y(share),
                width=0.84 * step,
                height=floor - frame.y(share),
                class_=f"bar c{colour % COLOURS}",
            )
        )
    for value in _whole_ticks(frame):
        # A bar of one value is named in its middle, a bar of several at its left edge.
        x = frame.x(value) + (step / 2 if frame.width == 1 else 0)
        parts.append(words("text", number(value), x=x, y=floor + 14, class_="tick middle"))
    parts.append(tag("line", x1=LEFT, x2=right, y1=floor, y2=floor, class_="axis"))
    parts.append(words("text", name, x=(LEFT + right) / 2, y=HEIGHT - 5, class_="label middle"))
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", "".join(parts), viewBox=box, class_="chart bars", role="img", aria_label=f"shares of {name}")


def _one(name: str, groups: Sequence[Group], found: Sequence[Counts]) -> str:
    shown = [
        (index, group, counts) for index, (group, counts) in enumerate(zip(groups, found, strict=True)) if counts
    ]
    if not shown:
        return ""
    frame = frame_of([counts for _, _, counts in shown])
    parts = []
    for index, group, counts in shown:
        words_of = words("p", describe(counts, group.label), class_="note")
        parts.append(tag("div", words_of + bar_chart(counts, frame, name, index)))
    pooling = " The seeds of an algorithm are pooled." if any(len(group.runs) > 1 for _, group, _ in shown) else ""
    note = words("p", f"How often each value came up; all charts have the same axes.{pooling}", class_="note")
    return words("h2", f"Distribution of {name}") + note + tag("div", "".join(parts), class_="trio")


def _shares(counts: Counts, frame: Frame) -> dict[int, float]:
    total = sum(counts.values())
    bars: Counter[int] = Counter()
    for value, count in counts.items():
        bars[frame.place(value)] += count
    return {place: count / total for place, count in bars.items()}


def _ranked(counts: Counts, rank: int) -> int:
    """The value at this place among all in order, counted from 0."""
    for value, count in sorted(counts.items()):
        rank -= count
        if rank < 0:
            return value
    raise AssertionError("a rank beyond the last value")


def _round_numbers() -> list[int]:
    return [factor * 10**power for power in range(18) for factor in (1, 2, 5)]


def _whole_ticks(frame: Frame) -> list[int]:
    edge = frame.low + frame.width * frame.bars
    last = edge - 1 if frame.width == 1 else edge
    return [int(value) for value in ticks(frame.low, last, 8) if value == int(value)]
