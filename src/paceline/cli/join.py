"""``paceline join``: a node of a federation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def join(config: Annotated[Path, typer.Argument(help="The node's file, node.toml.")]) -> None:
    """Be a node of a federation until interrupted: train on this machine's data when the server asks."""
    from paceline.federation.joining import join as be_node

    try:
        be_node(config, lambda line: typer.echo(line, err=True))
    except KeyboardInterrupt:
        typer.echo("the node has left; what it holds stays in its state directory", err=True)
