"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console

WIDTH = 200
"""Columns of a table that is written to a file or a pipe."""


def wide_console() -> Console:
    """Standard output as wide as the terminal; wide enough for every table where there is none."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH)
