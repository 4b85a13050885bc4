"""Fifteen runs (three algorithms, five seeds) together in one process against one after the other.

``python -m benchmarks.together``: both ways take turns; the runs are the same and so are their results.
"""

from __future__ import annotations

import statistics
import time

from paceline.runs.experiment import Experiment, make_experiment
from paceline.runs.performing import perform

NAMES = ["fedavg", "sfl", "psfl"]
WORDS = ["rounds=40"]
SEEDS = 5


def seconds(experiments: list[Experiment]) -> float:
    begin = time.perf_counter()
    for experiment in experiments:
        assert not perform(experiment).failures
    return time.perf_counter() - begin


def main() -> None:
    together = [make_experiment(NAMES, overrides=WORDS, seeds=SEEDS)]
    apart = [make_experiment([name], overrides=[*WORDS, f"seed={seed}"]) for name in NAMES for seed in range(SEEDS)]
    seconds(together)  # warm
    pairs = [(seconds(apart), seconds(together)) for _ in range(3)]
    one_by_one, at_once = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = one_by_one / at_once
    print(f"15 runs one by one: {one_by_one:.2f} s; together: {at_once:.2f} s; ratio {ratio:.1f}")


if __name__ == "__main__":
    main()
