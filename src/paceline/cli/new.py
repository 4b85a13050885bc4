"""``paceline new``: a project with an algorithm of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def new(
    directory: Annotated[Path, typer.Argument(help="The directory to make; it must be new or empty.")],
    name: Annotated[
        str | None,
        typer.Option("--name", help="The project's name, such as my-study.", show_default="the directory's"),
    ] = None,
) -> None:
    """Make a project with an algorithm of your own: thirty lines, data, model, fleet, test, and its package's names.

    Nothing that exists is written over. The README in the directory has the commands.
    """
    from paceline.cli.project.making import checked_name, make_project

    project = checked_name(directory.absolute().name.lower() if name is None else name)
    for file in make_project(directory, project):
        typer.echo(f"{directory / file}")
    typer.echo(f"the algorithm is {project.kind} in {project.package}/algorithm.py; next:")
    typer.echo(f"  cd {directory} && python -m pytest, and the commands in README.md")
