"""``paceline serve``: a federation's server, and what is shown of any run that another process drives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli.options import Json, Quiet


def serve(
    config: Annotated[Path, typer.Argument(help="The server's file, server.toml.")],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Start a federation's server, begin its run or go on with it, and follow it to its end."""
    from paceline.federation.flower import require_flower

    require_flower()
    from paceline.federation.serving import Server, refuse_complete

    told = Console(stderr=True, quiet=quiet, highlight=False)
    server = Server(config, lambda line: told.print(line, soft_wrap=True, markup=False))
    refuse_complete(server.config)
    followed(server.run, server.config.out, f"paceline serve {config}", told, json=json)


def followed(doing: Callable[[], None], out: Path, again: str, told: Console, *, json: bool) -> None:
    """Do it, then print the table and write the page; ``again`` is the command that goes on with it."""
    from paceline.cli.show import print_table
    from paceline.learn.executor import Statistics
    from paceline.reading import read_text
    from paceline.report.page import write_report
    from paceline.runs.stopping import Stopped

    try:
        doing()
    except KeyboardInterrupt as stop:
        typer.echo(f"interrupted; the results so far are in {out}; to resume: {again}", err=True)
        if json:
            typer.echo(read_text(out / "summary.json") if (out / "summary.json").exists() else "{}")
        raise typer.Exit(stop.status if isinstance(stop, Stopped) else 130) from None
    if json:
        typer.echo(read_text(out / "summary.json"))
    else:
        print_table([out], Statistics())
    page = write_report([out], out / "report.html", f"{out.name}, a federation")
    told.print(f"report: {page}", soft_wrap=True, markup=False)
