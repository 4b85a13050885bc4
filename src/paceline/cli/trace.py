"""``paceline trace``: a run as a file for Perfetto."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.errors import DataError


def trace(
    run: Annotated[Path, typer.Argument(help="The directory of one run.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to write: .json.gz, or .json without compression.")
    ] = Path("trace.json.gz"),
) -> None:
    """Write a run as a trace for Perfetto: open it at ui.perfetto.dev, or query it with its trace processor."""
    from paceline.cli.performing import run_directories
    from paceline.tracing.writing import write_trace

    found = run_directories([run])
    if len(found) != 1:
        names = ", ".join(path.name for path in found[:6]) + (", ..." if len(found) > 6 else "")
        raise DataError(f"{run} holds {len(found)} runs, and a trace is of one; give one of them: {names}")
    traced = write_trace(found[0], out)
    typer.echo(
        f"{traced.path}: {traced.spans:,} spans, {traced.waits:,} waits, {traced.flows:,} of them with a cause"
    )
