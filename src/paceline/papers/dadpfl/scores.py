"""DA-DPFL (TNNLS), Figure 5, top: the detection score until clients vote for pruning, and sparsity after that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from paceline.papers.claims import Runs, above
from paceline.papers.pictures import Column, new_figure, plain
from paceline.papers.result import Row
from paceline.papers.trials import Finished
from paceline.statistics import mean_interval


def trace(run: Finished, measure: str) -> tuple[Column, Column]:
    """Rounds and values of a measure where it was taken."""
    values = run.columns.get(measure, np.full(len(run.columns["round"]), np.nan))
    known = np.isfinite(values)
    return run.columns["round"][known], values[known]


def steps(run: Finished) -> list[float]:
    """By how much sparsity rose in each of the prunings that were seen."""
    _, values = trace(run, "sparsity")
    rises = np.diff(values)
    return [float(rise) for rise in rises if rise > 1e-6]


def pruning_rows(data: str, runs: Sequence[Finished], threshold: float) -> list[Row]:
    """The score at its beginning and at the vote; how much each pruning takes."""
    scores = [trace(run, "change")[1] for run in runs]
    begins, ends = ([float(one[place]) for one in scores if len(one)] for place in (0, -1))
    fell = [float(one[0] - one[-1]) for one in scores if len(one) > 1]
    taken = [steps(run) for run in runs]
    most = max((len(one) for one in taken), default=0)
    listed = ", ".join(f"{np.mean([one[k] for one in taken if len(one) > k]):.3f}" for k in range(most)) or "none"
    rows = [
        Row(f"{data}: score, first", None, str(mean_interval(begins)) if begins else "none"),
        Row(f"{data}: score, last before pruning", None, str(mean_interval(ends)) if ends else "none", "", None,
            f"the threshold is {threshold:g}; half of the clients must be below it"),
        Row(f"{data}: zeros that each pruning adds", None, listed, "", None, "means over seeds"),
    ]  # fmt: skip
    if fell:
        drop = mean_interval(fell)
        rows.append(Row(f"{data}: the score is high at first and falls", "yes", str(drop), "", above(drop)))
    shrinks = [float(a - b) for one in taken for a, b in pairwise(one)]
    if shrinks:
        less = mean_interval(shrinks)
        rows.append(
            Row(f"{data}: each pruning takes less than the one before", "yes", str(less), "zeros", above(less))
        )
    return rows


def draw_both(own: Mapping[str, Sequence[Finished]], panels: Mapping[str, Runs]) -> Any:
    """Top: score and sparsity of the usual M; bottom: accuracy by M. A column for each dataset."""
    figure = new_figure((5.6 * len(own), 6.4), "DA-DPFL, Figure 5")
    axes = figure.subplots(2, len(own), squeeze=False)
    for column, (data, runs) in enumerate(own.items()):
        top, bottom = axes[:, column]
        _draw_scores(top, runs)
        top.set_title(data, loc="left", fontsize=10)
        for place, (name, those) in enumerate(panels[data].items()):
            for k, run in enumerate(those):
                x, y = trace(run, "accuracy")
                bottom.plot(x, 100 * y, color=f"C{place}", linewidth=0.9, label=name if k == 0 else None)
        bottom.set(xlabel="round", ylabel="test accuracy / %")
        bottom.legend(frameon=False, loc="lower right", fontsize=8)
        plain(bottom)
    return figure


def _draw_scores(top: Any, runs: Sequence[Finished]) -> None:
    beside = top.twinx()
    for k, run in enumerate(runs):
        label = ("score", "zeros") if k == 0 else (None, None)
        top.plot(*trace(run, "change"), color="C0", linewidth=0.9, label=label[0])
        beside.step(*trace(run, "sparsity"), where="post", color="C3", linewidth=0.9, label=label[1])
    top.set(xlabel="round", ylabel="detection score", yscale="log")
    beside.set(ylabel="share of zeros", ylim=(0, 1))
    top.legend(frameon=False, loc="upper center", fontsize=8)
    beside.legend(frameon=False, loc="upper right", fontsize=8)
    top.spines["top"].set_visible(False)
    beside.spines["top"].set_visible(False)
