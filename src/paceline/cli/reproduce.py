"""``paceline reproduce``: a paper's table or figure, computed anew, the paper's numbers beside ours."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from paceline.cli.limits import few_seeds
from paceline.cli.wide import wide_console
from paceline.papers.entries import MISSING
from paceline.papers.registry import REPRODUCTIONS, dump
from paceline.papers.registry import reproduce as compute
from paceline.papers.result import Cell, Reproduction

WORDS = {True: "yes", False: "no", None: "–"}
FILES = ("result.json", "figure.svg", "figure.png")


def reproduce(
    id: Annotated[
        str | None, typer.Argument(help="The table or figure, by its ID; without it, all are listed.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
    scale: Annotated[
        str | None, typer.Option("--scale", help="How much of it, where there is a choice: small, middle or paper.")
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", help="Repeat what is random with this many seeds.", click_type=few_seeds)
    ] = 5,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Directory for result.json and the figure.")] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="Train on this dataset only; by default on all of them.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Compute a paper's table or figure anew; its numbers and ours, row by row."""
    if id is None:
        _list(json)
        return
    try:
        found = compute(id, scale=scale, seeds=seeds, out=out, quiet=quiet or json, data=data)
    except KeyboardInterrupt:
        kept = f"what is complete is in {out}; the same command goes on from there" if out else "nothing was kept"
        typer.echo(f"interrupted; {kept}", err=True)
        raise typer.Exit(130) from None
    if json:
        typer.echo(dump(found.to_json()))
        return
    print_reproduction(found)
    if out is not None:
        written = [str(out / name) for name in FILES if (out / name).exists()]
        Console(stderr=True, quiet=quiet, highlight=False, markup=False, soft_wrap=True).print(
            f"written: {', '.join(written)}"
        )


def _list(json: bool) -> None:
    if json:
        listed = [asdict(entry) for entry in REPRODUCTIONS.values()]
        typer.echo(dump([{k: v for k, v in entry.items() if k != "function"} for entry in listed]))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("id", "paper", "shows", "what", "scales", "needs training", "last at paper scale"):
        table.add_column(title)
    for entry in REPRODUCTIONS.values():
        scales, shows = (", ".join(words) or WORDS[None] for words in (entry.scales, entry.shows))
        table.add_row(entry.id, entry.paper, shows, entry.title, scales, entry.training, entry.last)
    wide_console().print(table)
    missing = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("not computed anew, or in part", "", "why"):
        missing.add_column(title)
    for row in MISSING:
        missing.add_row(*row)
    wide_console().print("", missing)


def print_reproduction(found: Reproduction) -> None:
    """A table for people, and below it what there is to say about its rows."""
    console = wide_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    referred = any(row.reference is not None for row in found.rows)
    for title in ("name", "paper", *(["reference"] if referred else []), "ours", "unit", "ok"):
        table.add_column(title, justify="right" if title in ("paper", "reference", "ours") else "left")
    notes: dict[str, int] = {}
    for row in found.rows:
        mark = f" [{notes.setdefault(row.note, len(notes) + 1)}]" if row.note else ""
        ok = escape(("slip" if row.slip and row.ok else WORDS[row.ok]) + mark)
        cells = [escape(row.name), _shown(row.paper), *([_shown(row.reference)] if referred else [])]
        cells += [_shown(row.ours), escape(row.unit)]
        table.add_row(*cells, f"[bold]{ok}[/]" if row.ok is False else ok)
    console.print(f"[bold]{escape(found.title)}[/]")
    console.print(table)
    if found.note:  # what the table as a whole says comes before what there is to say about single rows
        console.print(found.note, markup=False)
    for note, place in notes.items():
        console.print(f"[{place}] {note}", markup=False)
    scale = f", scale {found.scale}" if found.scale else ""
    console.print(f"{found.seconds:.1f} s{scale}, {found.hardware}", markup=False)


def _shown(cell: Cell) -> str:
    if cell is None:
        return WORDS[None]
    return f"{cell:.4g}" if isinstance(cell, int | float) else escape(cell)
