"""How runs are called and drawn on one chart: as on the report, with the seed behind the name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from paceline.errors import DataError
from paceline.report.looks import Look, look, looks
from paceline.report.runs import Run, group_runs
from paceline.ui.listing import Listed


class Labelled(NamedTuple):
    """A run with its label and its look."""

    run: Listed
    label: str
    look: Look


def labelled(runs: Sequence[Listed]) -> list[Labelled]:
    """Every run with the look of its method, and a label that tells it from the others."""
    described = {
        run.path: Run(
            path=run.path, algorithm=run.algorithm, seed=run.seed or 0, settings=run.settings, metrics={}, summary={}
        )
        for run in runs
    }
    try:
        groups = group_runs(list(described.values()))
    except DataError:  # two of them are the same run
        return [Labelled(run, run.name, look(run.algorithm)) for run in runs]
    seeded = len(runs) > len(groups) or len({run.seed for run in runs}) > 1
    found: dict[object, tuple[str, Look]] = {}
    for group, drawn in zip(groups, looks(groups), strict=True):
        for one in group.runs:
            label = f"{group.label}, seed {one.seed}" if seeded else group.label
            found[one.path] = (label, drawn)
    return [Labelled(run, *found[run.path]) for run in runs]
