"""``paceline figure``: figures and tables for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.errors import SettingError
from paceline.reading import plain_number


def figure(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or directories of run directories.")],
    kind: Annotated[
        str,
        typer.Option("--kind", help="time-to-accuracy, accuracy, gantt, bytes, pareto, topology or table (LaTeX)."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to write: .pdf, .svg or .png; a table's is .tex.")
    ],
    width: Annotated[str, typer.Option("--width", help="column (3.5 in), text (7.16 in), or inches.")] = "column",
    log: Annotated[str, typer.Option("--log", help="Logarithmic axes: x, y or xy.")] = "",
    targets: Annotated[
        str | None, typer.Option("--targets", help="Accuracies of time-to-accuracy and pareto, such as 0.7,0.8,0.9.")
    ] = None,
    over: Annotated[
        str, typer.Option("--over", help="What accuracy is drawn over: time, round, bytes or joules.")
    ] = "time",
    cost: Annotated[str, typer.Option("--cost", help="What pareto sets against time: bytes or joules.")] = "bytes",
    window: Annotated[
        str | None, typer.Option("--window", help="The stretch of virtual seconds of a Gantt chart, such as 100,160.")
    ] = None,
    sites: Annotated[
        int | None, typer.Option("--sites", help="How many devices each Gantt chart shows.", min=1, max=200)
    ] = None,
) -> None:
    """Write a figure or a table for a paper: vector graphics, 8-point type, the colours of the page."""
    from paceline.cli.performing import run_directories
    from paceline.figures.kinds import check_kind, write_figure
    from paceline.figures.paper import Options, parse_width

    check_kind(kind)
    options = Options(
        width=parse_width(width),
        log=log,
        targets=_numbers("--targets", targets),
        over=over,
        cost=cost,
        window=_window(window),
        sites=sites,
    )
    typer.echo(write_figure(kind, run_directories(runs), out, options))


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        found = tuple(plain_number(word) for word in text.split(","))
    except ValueError:
        raise SettingError(f"{option} {text}: wanted numbers with commas between them, such as 0.7,0.8") from None
    if not all(0 < value < 1 for value in found):
        raise SettingError(f"{option} {text}: wanted accuracies between 0 and 1, such as 0.7,0.8")
    return found


def _window(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        begin, end = (plain_number(word) for word in text.split(","))
    except ValueError:
        begin, end = 0.0, 0.0
    if not 0 <= begin < end < float("inf"):
        raise SettingError(f"--window {text}: wanted the first and the last second, such as 100,160")
    return begin, end
