"""The command line: words in, words out; no logic lives here.

Rooms that need torch are imported inside the commands that use them, so that help and plans come at once.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from paceline.cli.data import data_app
from paceline.cli.limits import few_seeds, some_workers
from paceline.cli.names import NamesAlgorithms, algorithms, begun
from paceline.cli.plan import plan_app
from paceline.cli.reproduce import reproduce
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
app.command()(reproduce)
app.command()(algorithms)

Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", help="A setting, such as fleet.times=uniform or psfl.width=8."),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="A TOML file of settings, or the directory of a run; --set wins over it."),
]
UntilOption = Annotated[
    list[str] | None,
    typer.Option("--until", help="Stop at accuracy=0.9, loss=0.3, time=3600 (virtual seconds) or visits=1000."),
]
Seeds = Annotated[
    int,
    typer.Option("--seeds", help="Repeat with this many seeds; shows mean and 95 % interval.", callback=few_seeds),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Directory to write; default runs/DATE-NAME.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="The schedule and its costs only; nothing is learned.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summaries as JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Absence = Annotated[
    str | None,
    typer.Option(
        "--absence", help="What becomes of devices that are away, for all algorithms: skip, wait or deadline:30."
    ),
]
CheckPlaces = Annotated[
    bool, typer.Option("--check-places", help="Fail if a model is used where it was never sent (slower).")
]
NoSpans = Annotated[
    bool, typer.Option("--no-spans", help="Keep no record of single spans (smaller, no Gantt chart).")
]


Trust = Annotated[
    bool, typer.Option("--trust", help="Import the code that the settings of a run on disk name (a network, say).")
]


class WorldKind(StrEnum):
    """Where devices are: in a simulation, or as processes of this machine."""

    simulation = "simulation"
    local = "local"


@dataclass(frozen=True)
class _More:
    """Options of a run that not every command has."""

    absence: str | None = None
    check_places: bool = False
    local: bool = False
    workers: int | None = None
    trust: bool = False


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
            "--workers", help="Processes of --world local; as many as cores unless given.", callback=some_workers
        ),
    ] = None,
    trust: Trust = False,
) -> None:
    """Run one algorithm."""
    more = _More(absence, check_places, world == WorldKind.local, workers, trust)
    _perform([algorithm], settings, config, until, seeds, out, dry_run, json, quiet, no_spans, more)


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
) -> None:
    """Run several algorithms side by side, their learning batched together."""
    more = _More(absence, check_places, trust=trust)
    _perform(algorithms, settings, config, until, seeds, out, dry_run, json, quiet, no_spans, more)


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
) -> None:
    """Run one algorithm with every combination of some settings, as one batched run."""
    from paceline.api.comparing import variants

    names = variants(algorithm, dict(_values(text) for text in over))
    _perform(names, settings, config, until, seeds, out, dry_run, json, quiet, no_spans, _More(absence, trust=trust))


def _values(text: str) -> tuple[str, list[str]]:
    name, equals, values = text.partition("=")
    if not equals or not name.strip() or not values.strip():
        raise SettingError(f"--over {text!r} is not a sweep; wanted name=value,value, such as local.lr=0.01,0.1")
    return name.strip(), [value.strip() for value in values.split(",") if value.strip()]


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
    title: Annotated[str, typer.Option("--title", help="The heading of the page.")] = "Paceline report",
) -> None:
    """Write one self-contained HTML page about some runs."""
    from paceline.report.page import write_report

    typer.echo(write_report(_run_directories(runs), out, title))


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

    made = make_settings(algorithm, settings or (), read_settings(config, [algorithm]) if config else None)
    print_settings(made, explain=explain)


def _perform(
    names: list[str],
    overrides: list[str] | None,
    config: Path | None,
    until: list[str] | None,
    seeds: int,
    out: Path | None,
    dry: bool,
    json: bool,
    quiet: bool,
    no_spans: bool,
    more: _More,
) -> None:
    from paceline.api.progress import LiveProgress
    from paceline.cli.show import print_failures, print_table, summaries_json
    from paceline.ledger.directory import refuse_taken
    from paceline.report.page import write_report
    from paceline.runs.experiment import make_experiment, perform
    from paceline.runs.until import Until

    out = out or _fresh(Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{_short(names)}")
    refuse_taken(out)
    experiment = make_experiment(
        names,
        overrides=[*(overrides or ()), *([f"absence={more.absence}"] if more.absence else [])],
        file=read_settings(config, names, trust=more.trust) if config else None,
        seeds=seeds,
        until=Until.parse(until or []),
        dry=dry,
        out=out,
        keep_spans=not no_spans,
        check_places=more.check_places,
        workers=(more.workers or os.cpu_count() or 1) if more.local else None,
    )
    try:
        with LiveProgress(quiet=quiet) as progress:
            outcome = perform(experiment, progress)
    except KeyboardInterrupt:
        # typer would end silently here.
        typer.echo(f"interrupted; what was computed until then is in {out}", err=True)
        raise typer.Exit(130) from None
    directories = [run.directory for run in outcome.runs if run.directory is not None]
    if json:
        typer.echo(summaries_json(outcome))
    else:
        print_table(directories, outcome.statistics)
    if len(outcome.failures) < len(outcome.runs):
        page = write_report(
            directories, out / "report.html", f"{', '.join(names)} on {experiment.settings[0].dataset}"
        )
        Console(stderr=True, quiet=quiet, highlight=False).print(f"report: {page}", soft_wrap=True)
    if outcome.failures:
        print_failures(outcome)
        raise typer.Exit(1)


def _short(names: list[str]) -> str:
    """Whom a directory is about, in letters that every file system takes."""
    algorithms = dict.fromkeys(name.partition("@")[0].rpartition(":")[2] for name in names)
    return "-".join(algorithms)[:80]


def _fresh(path: Path) -> Path:
    """This path, or the next one like it that is not taken."""
    return next(p for k in count(1) if not (p := path if k == 1 else path.with_name(f"{path.name}-{k}")).exists())


def _run_directories(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.suffix == ".html" and path.is_file():  # the page beside the runs, where a shell named all in there
            continue
        inside = sorted(p.parent for p in path.glob("*/settings.json")) if path.is_dir() else []
        found += [path] if (path / "settings.json").exists() or not inside else inside
    return found


def main(arguments: list[str] | None = None) -> Any:
    """The console script: what Paceline can explain is printed without a traceback."""
    try:
        app(arguments)
    except PacelineError as problem:
        Console(stderr=True, highlight=False).print(f"[bold red]error:[/] {_escaped(problem)}", soft_wrap=True)
        sys.exit(1)
    except OSError as problem:
        Console(stderr=True, highlight=False, markup=False).print(f"error: {problem}", soft_wrap=True)
        sys.exit(1)


def _escaped(problem: PacelineError) -> str:
    return str(problem).replace("[", "\\[")


if __name__ == "__main__":
    main()
