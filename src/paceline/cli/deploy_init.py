"""``paceline deploy init``: certificates, keys, configuration and units of a federation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init_command(
    directory: Annotated[Path, typer.Argument(help="The directory to make; it must be new or empty.")],
    nodes: Annotated[
        int | None, typer.Option("--nodes", "-n", help="How many nodes: node-1, node-2, …", show_default="3")
    ] = None,
    node: Annotated[
        list[str] | None, typer.Option("--node", help="A node's name, instead of --nodes; may be repeated.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            help="A name or address under which nodes reach the server, without a port; may be repeated. Nodes use"
            " the first. Loopback is always among them.",
        ),
    ] = None,
) -> None:
    """Make all that a federation with TLS and known nodes needs: authority, certificate, keys, proxy, units, README.

    Nothing that exists is written over. The README in the directory says what goes where.
    """
    from paceline.federation.deploy.making import make_deployment
    from paceline.federation.deploy.names import check_hosts, check_nodes
    from paceline.federation.deploy.texts import Scene

    scene = Scene(nodes=check_nodes(nodes, node or ()), hosts=check_hosts(host or ()))
    make_deployment(directory, scene)
    typer.echo(
        f"{directory}: a server at {scene.address}, nodes {', '.join(scene.nodes)}; read README.md there first"
    )
    if not host:
        typer.echo("no --host was given, so nodes find the server on its own machine only", err=True)
