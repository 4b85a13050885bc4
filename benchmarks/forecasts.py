"""How good the forecast of live progress is on runs that have ended: ``python -m benchmarks.forecasts RUNS...``.

RUNS are directories of comparisons. After each of their scores, and for each of several targets that a run met later,
the forecast is asked as live progress asks it, and compared with the round in which the target was met.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paceline.api.forecast import rounds_of_target
from paceline.runs.until import Until

TARGETS = (0.7, 0.8, 0.85, 0.88, 0.9, 0.92)
FIRST = 10
"""A target that was met within fewer scores is left out."""


def curves(folders: list[Path]) -> Iterator[list[dict[str, Any]]]:
    """The scores of every run."""
    for folder in folders:
        for path in sorted(folder.glob("*/metrics.jsonl")):
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            yield [row for row in rows if row.get("accuracy") is not None]


def asked(rows: list[dict[str, Any]], target: float) -> Iterator[tuple[float, float, float] | None]:
    """Of each score before the target was met: rounds foreseen (from, to) and rounds that there were; or nothing."""
    end = next((k for k, row in enumerate(rows) if row["accuracy"] >= target), 0)
    for k in range(2, end if end >= FIRST else 0):
        now, found = rows[k - 1]["round"], rounds_of_target(rows[:k], Until(accuracy=target))
        yield None if found is None else (found[0] - now, found[1] - now, rows[end]["round"] - now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    known = list(curves(parser.parse_args().runs))
    every = [one for rows in known for target in TARGETS for one in asked(rows, target)]
    said = [one for one in every if one is not None]
    inside = sum(low <= true <= high for low, high, true in said)
    middles = sorted(math.sqrt(low * high) / true for low, high, true in said)
    wide = statistics.median(high / low for low, high, _ in said)
    twice = sum(0.5 <= ratio <= 2 for ratio in middles)
    tenth = len(middles) // 10
    print(
        f"{len(known)} curves, {len(every)} questions: answered {len(said) / len(every):.0%};"
        f" the truth was within the range in {inside / len(said):.0%}, whose end is {wide:.1f} times its beginning;"
        f" the range's middle is {statistics.median(middles):.2f} times the truth"
        f" ({middles[tenth]:.2f} to {middles[-1 - tenth]:.2f} for the middle 80 %), within twice in"
        f" {twice / len(said):.0%}"
    )


if __name__ == "__main__":
    main()
