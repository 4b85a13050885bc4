"""``paceline ui``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def ui(
    directory: Annotated[Path, typer.Argument(help="The directory in and below which runs lie.")] = Path("runs"),
    host: Annotated[
        str,
        typer.Option("--host", help="The address to listen at. Other machines can reach any but 127.0.0.1: beware."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="The port to listen at; 0 for any that is free.", min=0, max=65535)
    ] = 8181,
) -> None:
    """Show runs in a browser: a list, live curves, comparisons, and a form for dry-run plans."""
    from paceline.ui.serving import serve

    serve(directory, host, port)
