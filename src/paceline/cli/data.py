"""``paceline data``: what is here, what it takes to get the rest, what a partition looks like.

Datasets need numpy, which is imported inside the commands, so that help comes at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paceline.cli.limits import some_clients
from paceline.errors import SettingError

PICTURES = (".png", ".svg", ".pdf")
"""How the name of a picture may end; to another one matplotlib would add what it likes."""
data_app = typer.Typer(help="Datasets: what is here, verify it, picture a partition.", invoke_without_command=True)


@data_app.callback()
def listing(context: typer.Context) -> None:
    """List all datasets, and how to get those that are not here."""
    if context.invoked_subcommand is not None:
        return
    from paceline.data import catalogue
    from paceline.data.files import data_root

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("dataset", "here", "sample", "classes", "licence"):
        table.add_column(title)
    missing = []
    for entry in catalogue():
        shape = "x".join(map(str, entry.shape))
        table.add_row(entry.name, "yes" if entry.present else "no", shape, str(entry.classes), entry.licence)
        if not entry.present:
            missing.append(f"{entry.name}: {entry.how_to_get}")
    console.print(table)
    console.print(f"\nThe data root is {data_root()}; set PACELINE_DATA to look elsewhere.", markup=False)
    if missing:
        console.print("To get what is not here:\n  " + "\n  ".join(missing), markup=False, soft_wrap=True)


@data_app.command("verify")
def verify_command(name: Annotated[str, typer.Argument(help="A dataset's name.")]) -> None:
    """Read a dataset and compare it with what its publisher says."""
    from paceline.data import verify

    report = verify(name)
    for check in report.checks:
        typer.echo(f"{'ok   ' if check.ok else 'WRONG'} {check.what}: {check.detail}")
    if not report.ok:
        raise typer.Exit(1)


@data_app.command("partition")
def partition_command(
    name: Annotated[str, typer.Argument(help="A dataset's name.")] = "digits",
    scheme: Annotated[
        str, typer.Option("--partition", "-p", help="How to split it, such as iid, exdir:2,10 or dirichlet:0.3.")
    ] = ("exdir:2,10"),
    clients: Annotated[
        int, typer.Option("--clients", "-n", help="Clients to split it among.", click_type=some_clients)
    ] = 100,
    seed: Annotated[int, typer.Option("--seed", help="What the random split follows from.")] = 0,
    picture: Annotated[Path | None, typer.Option("--picture", help="Draw the split to this PNG or SVG file.")] = None,
) -> None:
    """Split a dataset as a run would, say how skewed the split is, and draw it."""
    from paceline.data import load, parse_partition
    from paceline.data.picture import draw_partition
    from paceline.seeds import stream

    if picture is not None and picture.suffix not in PICTURES:
        raise SettingError(
            f"--picture {picture} is no name of a picture; wanted one that ends in {', '.join(PICTURES)}"
        )
    dataset = load(name)
    rng = stream(seed, "partition", scheme, clients)
    split = parse_partition(scheme).split(dataset.y_train, clients, rng, dataset.group_train)
    typer.echo(f"{name}, {scheme} over {clients} clients: {split.skew(dataset.y_train, dataset.classes)}")
    if picture is not None:
        try:
            draw_partition(split, dataset.y_train, dataset.classes, picture, f"{name}, {scheme}, {clients} clients")
        except ValueError as problem:  # matplotlib's word for a file type it cannot write
            raise SettingError(f"cannot draw to {picture}: {problem}") from None
        typer.echo(picture)
