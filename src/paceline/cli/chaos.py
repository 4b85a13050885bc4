"""``paceline chaos``: put faults into small runs of algorithms, and say what becomes of them."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from paceline.cli.names import begun
from paceline.cli.options import FiguresJson, Markdown, Quiet, Read, Set
from paceline.cli.wide import wide_console
from paceline.reading import parse_object, read_text

if TYPE_CHECKING:
    from paceline.chaos.laboratory import Cell, Table


def chaos(
    algorithms: Annotated[
        list[str] | None,
        typer.Argument(help="Some of {names}; or package.module:Class. All unless given.", autocompletion=begun),
    ] = None,
    faults: Annotated[
        list[str] | None,
        typer.Option("--faults", "-f", help="Only this fault (lost, nan, server crash, ...); may be repeated."),
    ] = None,
    settings: Set = None,
    seed: Annotated[int, typer.Option("--seed", help="From which all runs and all faults are drawn.")] = 0,
    json: FiguresJson = False,
    markdown: Markdown = False,
    read: Read = None,
    quiet: Quiet = False,
) -> None:
    """Inject faults into small runs: what goes on, what waits, what ends, and what that costs."""
    from paceline.chaos.laboratory import experiment
    from paceline.chaos.page import page

    told = Console(stderr=True, quiet=quiet, highlight=False, markup=False, soft_wrap=True)
    try:
        found = (
            _read(read)
            if read is not None
            else experiment(
                algorithms or (),
                faults or (),
                seed=seed,
                settings=settings or (),
                on_cell=lambda cell: told.print(f"{cell.algorithm}, {cell.fault}: {cell.outcome}"),
            )
        )
    except KeyboardInterrupt:
        typer.echo("interrupted; nothing was kept", err=True)
        raise typer.Exit(130) from None
    if json:
        typer.echo(dumps(found.plain(), indent=1, ensure_ascii=False))
    elif markdown:
        typer.echo(page(found), nl=False)
    else:
        _print(found)
    if found.bad:
        raise typer.Exit(1)


def _read(path: Path) -> Table:
    from paceline.chaos.laboratory import from_plain

    return from_plain(parse_object(read_text(path), str(path)))


def _print(found: Table) -> None:
    """One line a cell, for people."""
    from paceline.chaos.page import figures_of, summary

    console = wide_console()
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for title in ("algorithm", "fault", "outcome", "accuracy, time", "message"):
        grid.add_column(title, justify="right" if title == "accuracy, time" else "left")
    for cell in found.cells:
        named = escape(cell.algorithm), escape(cell.fault)
        grid.add_row(*named, _outcome(cell), figures_of(cell), escape(cell.message))
    console.print(grid)
    console.print(summary(found), markup=False)


def _outcome(cell: Cell) -> str:
    text = cell.outcome if cell.struck else f"{cell.outcome} (did not strike)"
    return f"[bold red]{text}[/]" if cell.outcome in ("hang", "wrong") else text
