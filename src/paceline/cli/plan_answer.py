"""How all plans answer: a table and some sentences for people, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from paceline.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a plan found, in words."""

    columns: Sequence[str]
    """Titles; the columns hold numbers, to the right, but for ``left``."""
    left: Sequence[str] = ()
    """Titles of columns that hold words."""
    rows: Sequence[tuple[Sequence[str], bool]]
    """Cells, and whether they are to stand out."""
    dim: str = ""
    """A remark below the table."""
    lines: Sequence[str] = ()
    """Sentences below it."""
    close: bool = False
    """Whether columns stand close together, to fit into 80."""

    def print(self) -> None:
        """Print an answer as a table with notes, for people."""
        console = Console(highlight=False)
        table = Table(box=None, pad_edge=False, collapse_padding=self.close, header_style="bold")
        for title in self.columns:
            words = title in self.left
            table.add_column(title, justify="left" if words else "right", no_wrap=not words)
        for cells, bold in self.rows:
            table.add_row(*map(escape, cells), style="bold" if bold else "")  # names of files are among them
        console.print(table)
        if self.dim:
            console.print(self.dim, markup=False, style="dim")
        for line in self.lines:
            console.print(line, markup=False)


def refuse_existing(out: Path) -> None:
    """Plans write new files only."""
    if out.exists() or out.is_symlink():
        raise SettingError(f"--out {out} is there already, and is not written over; choose another name, or move it")


def print_json(tree: Mapping[str, Any]) -> None:
    """Print an answer as one JSON object, for programs."""
    typer.echo(json.dumps(tree, indent=2))
