"""``paceline deploy``: federations of real machines."""

from __future__ import annotations

import typer

from paceline.cli.deploy_init import init_command

deploy_app = typer.Typer(help="Federations of real machines, over Flower.", no_args_is_help=True)


@deploy_app.callback()
def deployments() -> None:
    """Federations of real machines, over Flower."""


deploy_app.command("init")(init_command)
