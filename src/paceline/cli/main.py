"""The command line: words in, words out; no logic lives here.

Rooms that need torch are imported inside the commands that use them, so that help and plans come at once.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from paceline.cli.chaos import chaos
from paceline.cli.choose import choose
from paceline.cli.data import data_app
from paceline.cli.deploy import deploy_app
from paceline.cli.figure import figure
from paceline.cli.join import join
from paceline.cli.limits import some_workers
from paceline.cli.names import NamesAlgorithms, algorithms, begun
from paceline.cli.new import new
from paceline.cli.options import (
    Absence,
    CheckPlaces,
    Checkpoint,
    Config,
    Dry,
    Json,
    Memory,
    NoSpans,
    Out,
    Quiet,
    RayOption,
    Seeds,
    Set,
    Track,
    TrainerOption,
    Trust,
    UntilOption,
)
from paceline.cli.performing import Doing, More, perform_named, run_directories, show
from paceline.cli.plan import plan_app
from paceline.cli.reproduce import reproduce
from paceline.cli.serve import serve
from paceline.cli.trace import trace
from paceline.cli.ui import ui
from paceline.config import read_settings
from paceline.errors import PacelineError, SettingError

app = typer.Typer(
    help="Scheduled federated learning: who trains when, who waits for whom, who averages with whom.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(data_app, name="data")
app.add_typer(plan_app, name="plan")
app.add_typer(deploy_app, name="deploy")
app.command()(serve)
app.command()(ui)
app.command()(join)
app.command()(reproduce)
app.command()(figure)
app.command()(trace)
app.command(cls=NamesAlgorithms)(chaos)
app.command()(choose)
app.command()(algorithms)
app.command()(new)


class WorldKind(StrEnum):
    """Where devices are: in a simulation, or as processes of this machine."""

    simulation = "simulation"
    local = "local"


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"paceline {version('paceline')}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Scheduled federated learning: who trains when, who waits for whom, who averages with whom."""


@app.command(cls=NamesAlgorithms)
def run(
    algorithm: Annotated[
        str, typer.Argument(help="One of {names}; or your own, package.module:Class.", autocompletion=begun)
    ],
    settings: Set = None,
    config: Config = None,
    until: UntilOption = None,
    seeds: Seeds = 1,
    out: Out = None,
    dry_run: Dry = False,
    json: Json = False,
    quiet: Quiet = False,
    no_spans: NoSpans = False,
    absence: Absence = None,
    check_places: CheckPlaces = False,
    world: Annotated[
        WorldKind, typer.Option("--world", help="A simulation, or processes of this machine on the wall clock.")
    ] = WorldKind.simulation,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", help="Processes of --world local; as many as cores unless given.", click_type=some_workers
        ),
    ] = None,
    trust: Trust = False,
    checkpoint: Checkpoint = None,
    memory: Memory = None,
    trainer: TrainerOption = None,
    ray: RayOption = None,
    track: Track = None,
) -> None:
    """Run one algorithm."""
    more = More(
        absence, check_places, world == WorldKind.local, workers, trust, checkpoint, memory, trainer, ray, track
    )
    perform_named([algorithm], settings, config, until, seeds, out, dry_run, json, quiet, no_spans, more)


@app.command(cls=NamesAlgorithms)
def compare(
    algorithms: Annotated[
        list[str],
        typer.Argument(
            help="Some of {names}; or package.module:Class; a variant is NAME@SETTING=VALUE.", autocompletion=begun
        ),
    ],
    settings: Set = None,
    config: Config = None,
    until: UntilOption = None,
    seeds: Seeds = 1,
    out: Out = None,
    dry_run: Dry = False,
    json: Json = False,
    quiet: Quiet = False,
    no_spans: NoSpans = False,
    absence: Absence = None,
    check_places: CheckPlaces = False,
    trust: Trust = False,
    checkpoint: Checkpoint = None,
    memory: Memory = None,
    trainer: TrainerOption = None,
    ray: RayOption = None,
    track: Track = None,
) -> None:
    """Run several algorithms side by side, their learning batched together."""
    more = More(
        absence,
        check_places,
        trust=trust,
        checkpoint=checkpoint,
        memory=memory,
        trainer=trainer,
        ray=ray,
        track=track,
    )
    perform_named(algorithms, settings, config, until, seeds, out, dry_run, json, quiet, no_spans, more)


@app.command(cls=NamesAlgorithms)
def sweep(
    algorithm: Annotated[
        str, typer.Argument(help="One of {names}; or your own, package.module:Class.", autocompletion=begun)
    ],
    over: Annotated[
        list[str], typer.Option("--over", help="A setting and its values: local.lr=0.01,0.03,0.1; may be repeated.")
    ],
    settings: Set = None,
    config: Config = None,
    until: UntilOption = None,
    seeds: Seeds = 1,
    out: Out = None,
    dry_run: Dry = False,
    json: Json = False,
    quiet: Quiet = False,
    no_spans: NoSpans = False,
    absence: Absence = None,
    trust: Trust = False,
    checkpoint: Checkpoint = None,
    memory: Memory = None,
    trainer: TrainerOption = None,
    ray: RayOption = None,
    track: Track = None,
) -> None:
    """Run one algorithm with every combination of some settings, as one batched run."""
    from paceline.api.sweeping import variants

    names = variants(algorithm, _each_once(over))
    more = More(absence, trust=trust, checkpoint=checkpoint, memory=memory, trainer=trainer, ray=ray, track=track)
    perform_named(names, settings, config, until, seeds, out, dry_run, json, quiet, no_spans, more)


def _values(text: str) -> tuple[str, list[str]]:
    name, equals, values = text.partition("=")
    found = [value.strip() for value in values.split(",")]
    if not equals or not name.strip() or not all(found):
        raise SettingError(f"--over {text!r} is not a sweep; wanted name=value,value, such as local.lr=0.01,0.1")
    return name.strip(), found


def _each_once(over: list[str]) -> dict[str, list[str]]:
    """Settings and their values; one that is swept over twice would be swept over its last values alone."""
    found: dict[str, list[str]] = {}
    for name, values in map(_values, over):
        if name in found:
            raise SettingError(
                f"--over {name} is said twice; say all its values at once: {name}={','.join(found[name] + values)}"
            )
        found[name] = values
    return found


@app.command()
def resume(
    directory: Annotated[Path, typer.Argument(help="The directory that was written (--out) when it was cut off.")],
    json: Json = False,
    quiet: Quiet = False,
    trust: Trust = False,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", help="Go on although this has changed since (torch, device, a file, ..., or all)."),
    ] = None,
    track: Track = None,
) -> None:
    """Go on with a run or a comparison that was interrupted or killed: the same results as if it had not been."""

    def prepare() -> Doing:
        from paceline.api.resuming import lend_again
        from paceline.runs.performing import read_resumption
        from paceline.runs.performing import resume as go_on
        from paceline.tracking.following import check_trackers, followed

        check_trackers(track or ())
        lend_again(directory)  # what only a program had cannot be said here
        resumption = read_resumption(directory, trust=trust, accept=accept or ())
        return Doing(
            resumption.experiment,
            lambda progress: followed(
                track or (), directory, progress, lambda told: go_on(resumption, told, progress)
            ),
        )

    show(str(directory), prepare, json=json, quiet=quiet)


@app.command()
def replay(
    directory: Annotated[Path, typer.Argument(help="The directory of a run with --world local.")],
    json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    trust: Trust = False,
) -> None:
    """Run a recorded wall-clock run again in the simulation, with its durations and absences, and compare."""
    from paceline.cli.show import print_replay
    from paceline.runs.replay import replay as run_again

    found = run_again(directory, trust=trust)
    print_replay(found, as_json=json)
    if not found.equal:
        raise typer.Exit(1)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or directories of run directories.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[
        str | None, typer.Option("--title", help="The heading of the page; algorithms and data unless given.")
    ] = None,
) -> None:
    """Write one self-contained HTML page about some runs."""
    from paceline.report.page import write_report

    typer.echo(write_report(run_directories(runs), out, title))


@app.command(cls=NamesAlgorithms)
def settings(
    algorithm: Annotated[
        str, typer.Argument(help="One of {names}; or your own, package.module:Class.", autocompletion=begun)
    ],
    settings: Set = None,
    config: Config = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what each setting means, and in which forms it can be written.")
    ] = False,
) -> None:
    """Show every setting of an algorithm with its value."""
    from paceline.cli.show import print_settings
    from paceline.runs.settings import make_settings

    file = read_settings(config, [algorithm], trust=True) if config else None  # shown, and not imported
    made = make_settings(algorithm, settings or (), file)
    print_settings(made, explain=explain)


def main(arguments: list[str] | None = None) -> Any:
    """The console script: what Paceline can explain is printed without a traceback."""
    try:
        app(arguments)
    except PacelineError as problem:
        # As a text, not as markup: what somebody else wrote may look like it.
        said = Text.assemble(("error:", "bold red"), f" {problem}")
        Console(stderr=True, highlight=False).print(said, soft_wrap=True)
        sys.exit(1)
    except OSError as problem:
        Console(stderr=True, highlight=False, markup=False).print(f"error: {problem}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:  # before a command has begun: those that run say more
        sys.exit(130)


if __name__ == "__main__":
    main()
