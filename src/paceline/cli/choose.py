"""``paceline choose``: which method when, from small federations that differ in devices, links, server and data."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table as Grid

from paceline.cli.options import FiguresJson, Markdown, Quiet, Read
from paceline.cli.wide import wide_console
from paceline.errors import SettingError
from paceline.reading import parse_object, read_text

if TYPE_CHECKING:
    from paceline.choosing.contest import Table


def choose(
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A directory in which all runs are kept, so that the command can go on."),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Seeds that are reported; rates are tuned on others.")] = 5,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="Only federations of which this is said, such as 'two classes', 'heavy tail' or 'busy server'; may"
            " be repeated, and all of it must be so.",
        ),
    ] = None,
    json: FiguresJson = False,
    markdown: Markdown = False,
    read: Read = None,
    quiet: Quiet = False,
) -> None:
    """Compare methods in 36 small federations: which is fastest to an accuracy where, and by how much."""
    if seeds < 1:
        raise SettingError(f"--seeds is {seeds}; it must be 1 or more")
    try:
        found = _read(read) if read is not None else _run(out, seeds, only or [], quiet or json or markdown)
    except KeyboardInterrupt:
        kept = "the same command goes on" if out is not None else "nothing was kept; --out keeps what is done"
        typer.echo(f"interrupted; {kept}", err=True)
        raise typer.Exit(130) from None
    if json:
        typer.echo(dumps(found.plain(), indent=1, ensure_ascii=False))
    elif markdown:
        from paceline.choosing.page import page

        typer.echo(page(found), nl=False)
    else:
        _print(found)


def _read(path: Path) -> Table:
    from paceline.choosing.contest import from_plain

    return from_plain(parse_object(read_text(path), str(path)))


def _run(out: Path | None, seeds: int, only: list[str], quiet: bool) -> Table:
    from paceline.choosing.cells import chosen
    from paceline.choosing.contest import compete
    from paceline.ledger.directory import make_directory
    from paceline.papers.result import Request
    from paceline.papers.trials import Laboratory

    wanted = chosen(only)
    if out is not None:
        make_directory(out)
    with Laboratory(Request(seeds=seeds, out=out, quiet=quiet)) as laboratory:
        return compete(laboratory, seeds, wanted)


def _print(found: Table) -> None:
    """One line a federation, for people."""
    from paceline.choosing.page import told

    console = wide_console()
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for title in ("data", "devices", "server", "links", "fastest, and its time over FedAvg's"):
        grid.add_column(title)
    for one in found.outcomes:
        cell = one.cell
        cells = (cell.split, cell.spread, cell.server, cell.links, told(one).replace("**", ""))
        grid.add_row(*map(escape, cells))  # as --read found them
    console.print(grid)
    console.print(f"{found.seeds} seeds, {found.minutes:g} minutes of computing on {found.hardware}", markup=False)
