"""``paceline deploy``: federations of real machines."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from shutil import rmtree
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli.deploy_init import init_command
from paceline.cli.names import NamesAlgorithms, begun
from paceline.cli.options import Absence, Checkpoint, Config, Json, Out, Quiet, Set, Track, Trust, UntilOption
from paceline.cli.performing import fresh, named
from paceline.cli.serve import followed
from paceline.config import read_settings
from paceline.errors import PacelineError, SettingError

deploy_app = typer.Typer(
    help="Federations of real machines: make one, try one out, see how one stands.", no_args_is_help=True
)
deploy_app.command("init")(init_command)
_NUMBERED = re.compile(r"node[0-9]{1,6}\.toml")


@deploy_app.command("local", cls=NamesAlgorithms)
def deploy_local(
    algorithm: Annotated[
        str, typer.Argument(help="One of {names}; or your own, package.module:Class.", autocompletion=begun)
    ],
    nodes: Annotated[int, typer.Option("--nodes", help="How many nodes, each of them one client.")] = 3,
    settings: Set = None,
    config: Config = None,
    until: UntilOption = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
    absence: Absence = None,
    trust: Trust = False,
    checkpoint: Checkpoint = None,
    track: Track = None,
    seconds: Annotated[float, typer.Option("--seconds", help="How long a task may take.")] = 600.0,
) -> None:
    """Try out a federation: a SuperLink and some nodes, all of them processes of this machine, on loopback.

    Data is split iid unless told otherwise, since the usual split wants more clients.
    """
    from paceline.federation.flower import require_flower

    require_flower()
    from paceline.federation.config import Limits, RunConfig
    from paceline.federation.trying import check, write_federation
    from paceline.ledger.directory import refuse_taken
    from paceline.runs.keeper import Keeping

    Keeping.parse(checkpoint)  # an empty one too, which the file below would take for none
    directory = named(out) or fresh(Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{algorithm}-federation")
    refuse_taken(directory)
    said = read_settings(config, [algorithm], trust=trust) if config else {}
    words = ["partition=iid"] if "partition" not in said else []
    words += [*(settings or ()), *([f"absence={absence}"] if absence is not None else ())]
    if any(word.replace(" ", "").startswith("clients=") for word in words):
        raise SettingError("every node is one client here: give --nodes instead of clients")
    run = RunConfig(
        algorithm=algorithm,
        settings=words,
        file="" if config is None else str(config.absolute()),
        until=until or [],
        checkpoint=checkpoint or "",
        out=str(directory),
        trust=trust,
        track=track or [],
    )
    told = Console(stderr=True, quiet=quiet, highlight=False)
    place = directory.with_name(f"{directory.name}.federation")
    server, files = write_federation(place, run, nodes, Limits(seconds=seconds))
    try:
        check(server)
    except PacelineError:
        rmtree(place)
        raise
    told.print(f"configuration, state and logs: {place}", soft_wrap=True, markup=False)
    _try(place, server, files, directory, told, json=json)


@deploy_app.command("again")
def deploy_again(
    place: Annotated[Path, typer.Argument(help="The directory RUN.federation that `deploy local` has written.")],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a federation on loopback that was interrupted or killed."""
    from paceline.federation.config import read_server

    numbered = [file for file in place.glob("node*.toml") if _NUMBERED.fullmatch(file.name)]
    files = sorted(numbered, key=lambda file: int(file.stem.removeprefix("node")))
    if not files:
        raise SettingError(f"{place} holds no nodes; name the directory that `paceline deploy local` has written")
    told = Console(stderr=True, quiet=quiet, highlight=False)
    server = place / "server.toml"
    _try(place, server, files, read_server(server).out, told, json=json)


@deploy_app.command("status")
def deploy_status(
    place: Annotated[Path, typer.Argument(help="The directory of a server, with its server.toml, or that file.")],
) -> None:
    """Say how a federation stands: its SuperLink, its run, and what its nodes have answered."""
    from paceline.federation.flower import require_flower

    require_flower()
    from paceline.federation.standing import standing

    for line in standing(place):
        typer.echo(line)


def _try(place: Path, server: Path, files: list[Path], out: Path, told: Console, *, json: bool) -> None:
    from paceline.federation.flower import require_flower

    require_flower()
    from paceline.federation.trying import try_out

    def doing() -> None:
        try_out(server, files, lambda line: told.print(line, soft_wrap=True, markup=False))

    followed(doing, out, f"paceline deploy again {place}", told, json=json)
