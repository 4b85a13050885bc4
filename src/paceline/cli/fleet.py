"""``paceline plan fleet``: methods for the fleet in a file, or a fleet file from a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer

from paceline.cli.options import PlanJson, Set, Trust
from paceline.errors import SettingError
from paceline.reading import expanded

if TYPE_CHECKING:
    from collections.abc import Iterable

HELP = (
    "Which method for a fleet; or, from a run on real machines, its fleet.\n\n"
    "[bold]plan fleet fleet.csv[/] (a fleet file, CSV or TOML): dry runs of all sensible algorithms and structures on"
    " these devices, with the time, bytes, joules and waiting of a round and of a visit, and a recommendation that"
    " says what it does not know. --out plan.html writes a page.\n\n"
    "[bold]plan fleet RUN[/] (the directory of a run that has a journal.jsonl, such as one of --world local): the"
    " seconds, bytes and absences of that run as a fleet file, --out fleet.toml, for simulations of the next. A dry"
    " run on it says how near the prediction comes to the run itself."
)
FOR_FILES = ("model", "dataset", "algorithms", "participants", "servers", "settings")
FOR_RUNS = ("check", "trust")


def fleet_command(
    context: typer.Context,
    fleet: Annotated[str, typer.Argument(help="A fleet file (.csv, .toml), or the directory of a run.")],
    model: Annotated[
        str, typer.Option("--model", help="Of a fleet file: the network, such as cnn-psfl or mlp:200.")
    ] = "auto",
    dataset: Annotated[
        str, typer.Option("--dataset", help="The dataset that it is for; it need not be here.")
    ] = "mnist",
    algorithms: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithms",
            "-a",
            help="Only these, and FedAvg to measure them by: names as in psfl,fedbuff, or a variant such as"
            " fedbuff@buffer=5; may be repeated.",
            show_default="all that are sensible",
        ),
    ] = None,
    participants: Annotated[
        int | None,
        typer.Option(
            "--participants", "-k", help="Clients of a round, or at work at a time.", show_default="20, or all"
        ),
    ] = None,
    servers: Annotated[
        list[int] | None,
        typer.Option("--servers", "-m", help="Also with so many servers, on several overlays; may be repeated."),
    ] = None,
    settings: Set = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Of a run: compare a dry run on its fleet with it.")
    ] = True,
    trust: Trust = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A new file: plan.html of a fleet file, fleet.toml of a run.")
    ] = None,
    as_json: PlanJson = False,
) -> None:
    """Plan for a fleet, or make its file of a run."""
    if expanded(fleet).is_dir():
        why = f"{fleet} is the directory of a run, of which a fleet file is made (--out fleet.toml)"
        _refuse(context, FOR_FILES, why, "give that file then")
        from paceline.cli.fleet_measured import measure_run

        measure_run(expanded(fleet), out, check=check, trust=trust, as_json=as_json)
        return
    _refuse(context, FOR_RUNS, f"{fleet} is no directory of a run", "give one")
    from paceline.cli.fleet_methods import Asked, plan_file

    asked = Asked(model, dataset, _split(algorithms or ()), participants, servers or (), settings or ())
    plan_file(fleet, asked, out, as_json=as_json)


def _refuse(context: click.Context, names: Iterable[str], why: str, what: str) -> None:
    """Options that are for the other use."""
    given = [name for name in names if context.get_parameter_source(name) != click.core.ParameterSource.DEFAULT]
    if given:
        words = ", ".join("--set" if name == "settings" else f"--{name}" for name in given)
        raise SettingError(f"{why}; for {words}, {what}")


def _split(words: Iterable[str]) -> list[str]:
    """Split names at commas. After a variant's @, a comma stays in the variant unless an algorithm follows."""
    from paceline.algorithms.registry import ALGORITHMS
    from paceline.references import announced, is_reference

    names: list[str] = []
    for part in (part.strip() for word in words for part in word.split(",")):
        begins = (head := part.partition("@")[0]) in {*ALGORITHMS, *announced("algorithms")} or is_reference(head)
        if names and "@" in names[-1] and part and not begins:
            names[-1] += f",{part}"
        elif part:
            names.append(part)
    return names
