"""Every kind of figure by its name, drawn or written to a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paceline.errors import DataError, SettingError, nearest
from paceline.figures.gantt import gantt
from paceline.figures.latex import latex_table
from paceline.figures.lines import accuracy, traffic
from paceline.figures.paper import FORMATS, Options, check_out, drawing, save
from paceline.figures.targets import pareto, time_to_accuracy
from paceline.figures.topology import topology
from paceline.report.curves import AXES
from paceline.report.runs import Group, group_runs, load_run


class Kind(NamedTuple):
    """How a figure is made."""

    draw: Callable[[Sequence[Group], Options], Any]
    spans: bool = False
    """Whether it needs the record of single spans."""


KINDS = {
    "time-to-accuracy": Kind(time_to_accuracy),
    "accuracy": Kind(accuracy),
    "gantt": Kind(gantt, spans=True),
    "bytes": Kind(traffic),
    "pareto": Kind(pareto),
    "topology": Kind(topology, spans=True),
}
TABLE = "table"
"""Text in LaTeX rather than a drawing."""


def check_kind(kind: str) -> None:
    """Refuse a kind that there is not."""
    if kind not in KINDS and kind != TABLE:
        raise SettingError(f"there is no figure {kind!r}; {nearest(kind, (*KINDS, TABLE))}")


def draw(kind: str, groups: Sequence[Group], options: Options) -> Any:
    """A matplotlib figure of this kind."""
    check_kind(kind)
    if kind == TABLE:
        raise SettingError("a table is text, not a figure: result.table().latex() gives it")
    if options.over not in AXES:
        raise SettingError(f"--over {options.over}: accuracy has no such axis; {nearest(options.over, AXES)}")
    if options.cost not in ("bytes", "joules"):
        raise SettingError(f"--cost {options.cost}: wanted bytes or joules")
    if KINDS[kind].spans and not any(run.spans for group in groups for run in group.runs):
        raise DataError(
            f"{groups[0].runs[0].path} keeps no spans, and {kind} is drawn from them; run it again without --no-spans"
        )
    with drawing():
        return KINDS[kind].draw(groups, options)


def write_figure(kind: str, runs: Sequence[Path], out: Path, options: Options) -> Path:
    """Write a figure or a table about these run directories to ``out``; what cannot be is said before it is drawn."""
    check_kind(kind)
    check_out(out, (".tex",) if kind == TABLE else FORMATS)
    unique = list({path.resolve(): path for path in runs}.values())
    groups = group_runs([load_run(path) for path in unique])
    if kind == TABLE:
        out.write_text(latex_table(groups), encoding="utf-8")
        return out
    figure = draw(kind, groups, options)
    with drawing():
        return save(figure, out)
