"""What run, compare, sweep and resume share: do it with progress, print the table, write the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import typer
from rich.console import Console

from paceline.config import read_settings
from paceline.errors import SettingError, is_of_disk

if TYPE_CHECKING:
    from paceline.api.progress import LiveProgress
    from paceline.runs.experiment import Experiment
    from paceline.runs.performing import Outcome


class Doing(NamedTuple):
    """What is to be done with progress."""

    experiment: Experiment
    work: Callable[[LiveProgress], Outcome]


@dataclass(frozen=True)
class More:
    """Options of a run that not every command has."""

    absence: str | None = None
    check_places: bool = False
    local: bool = False
    workers: int | None = None
    trust: bool = False
    checkpoint: str | None = None
    memory: str | None = None
    trainer: str | None = None
    ray: str | None = None
    track: Sequence[str] | None = None

    def overrides(self) -> list[str]:
        """Those of them that are settings with an option of their own; an empty one is refused as any other word."""
        trainer = "ray" if self.trainer is None and self.ray is not None else self.trainer
        said = {
            "absence": self.absence,
            "executor.memory": self.memory,
            "executor.name": trainer,
            "executor.cluster": self.ray,
        }
        return [f"{name}={value}" for name, value in said.items() if value is not None]


def perform_named(
    names: list[str],
    overrides: list[str] | None,
    config: Path | None,
    until: list[str] | None,
    seeds: int,
    out: str | None,
    dry: bool,
    json: bool,
    quiet: bool,
    no_spans: bool,
    more: More,
) -> None:
    """Run what is named, as run, compare and sweep do."""

    def prepare() -> Doing:
        from paceline.ledger.directory import refuse_taken
        from paceline.runs.experiment import make_experiment
        from paceline.runs.keeper import Keeping
        from paceline.runs.performing import perform
        from paceline.runs.until import Until
        from paceline.tracking.following import check_trackers, followed

        if more.workers is not None and not more.local:
            raise SettingError(
                f"--workers {more.workers} is for --world local: a simulation is one process; leave it out, or say"
                " --world local (executor.threads sets the threads of a simulation)"
            )
        track = check_trackers(more.track or ())
        directory = named(out) or fresh(Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{_short(names)}")
        refuse_taken(directory)
        experiment = make_experiment(
            names,
            overrides=[*(overrides or ()), *more.overrides()],
            file=read_settings(config, names, trust=more.trust) if config else None,
            seeds=seeds,
            until=Until.parse(until or []),
            dry=dry,
            out=directory,
            keep_spans=not no_spans,
            check_places=more.check_places,
            workers=(more.workers or os.cpu_count() or 1) if more.local else None,
            keep_models=not dry,
            keeping=Keeping.parse(more.checkpoint),
        )
        return Doing(
            experiment,
            lambda progress: followed(
                track, directory, progress, lambda told: perform(experiment, told, watcher=progress)
            ),
        )

    show(", ".join(names), prepare, json=json, quiet=quiet)


def show(what: str, prepare: Callable[[], Doing], *, json: bool, quiet: bool) -> None:
    """Do it with progress, which begins before anything that takes long is imported; then print the table and write
    the page, also of what was interrupted."""
    from paceline.api.progress import LiveProgress, Told

    told = Told(quiet=quiet)
    experiment: Experiment | None = None
    try:
        with LiveProgress(quiet=quiet) as progress:
            progress.phase("starting", f"{what}: importing what learning needs")
            experiment, work = prepare()
            outcome = work(progress)
    except KeyboardInterrupt as stop:
        if experiment is None or experiment.out is None:
            raise
        _tell_interrupted(experiment, told, stop, json=json)
    except OSError as problem:
        if experiment is not None and is_of_disk(problem):
            _echo(f"cut off; to resume when there is room again: {_resuming(experiment)}")
        raise
    _show_ended(experiment, outcome, told, json=json)


def _tell_interrupted(experiment: Experiment, told: Console, stop: KeyboardInterrupt, *, json: bool) -> NoReturn:
    from paceline.cli.show import kept_json
    from paceline.ledger.directory import SETTINGS
    from paceline.runs.stopping import Stopped

    out = experiment.out
    assert out is not None
    if (out / SETTINGS).exists() or any(out.glob(f"*/{SETTINGS}")):
        _echo(f"interrupted; the results so far are in {out}; to resume: {_resuming(experiment)}")
        _page(experiment, told)
    else:
        _echo("interrupted before anything was written")
    if json:
        with suppress(OSError):  # nobody may read it any more
            typer.echo(kept_json(run_directories([out])))
    raise typer.Exit(stop.status if isinstance(stop, Stopped) else 130) from None


def _resuming(experiment: Experiment) -> str:
    """Return the command that resumes these runs, with the trust that their settings need."""
    from paceline.references import refuse_untrusted
    from paceline.runs.recorder import describe

    command = f"paceline resume {quote(str(experiment.out))}"
    with suppress(SettingError):
        for settings in experiment.settings:
            refuse_untrusted(describe(settings), str(experiment.out))
        return command
    return f"{command} --trust"


def _show_ended(experiment: Experiment, outcome: Outcome, told: Console, *, json: bool) -> None:
    from paceline.cli.show import print_failures, print_table, summaries_json

    directories = [run.directory for run in outcome.runs if run.directory is not None]
    if outcome.kept.checkpoints:
        told.print(outcome.kept.text(), soft_wrap=True, markup=False)
    for line in outcome.kept.said:
        told.print(f"note: {line}", soft_wrap=True, markup=False)
    try:
        if json:
            typer.echo(summaries_json(outcome))
        else:
            print_table(directories, outcome.statistics)
    finally:  # also if nobody reads the table
        if len(outcome.failures) < len(outcome.runs):
            _page(experiment, told)
    if outcome.failures:
        print_failures(outcome)
        raise typer.Exit(1)


def _echo(line: str) -> None:
    """Say something on standard error, if anybody is there."""
    with suppress(OSError):
        typer.echo(line, err=True)


def _page(experiment: Experiment, told: Console) -> None:
    """The report beside the runs."""
    from paceline.report.page import write_report

    out = experiment.out
    assert out is not None
    page = write_report(run_directories([out]), out / "report.html")
    told.print(f"report: {page}", soft_wrap=True, markup=False)


def named(out: str | None) -> Path | None:
    """The directory that is asked for, if one is."""
    if out is not None and not out.strip():
        raise SettingError("--out is empty; name a directory to write, or leave it out for runs/DATE-NAME")
    return None if out is None else Path(out)


def _short(names: list[str]) -> str:
    """Whom a directory is about, in letters that every file system takes."""
    algorithms = dict.fromkeys(name.partition("@")[0].rpartition(":")[2] for name in names)
    return "-".join(algorithms)[:80]


def fresh(path: Path) -> Path:
    """This path, or the next one like it that is not taken."""
    return next(p for k in count(1) if not (p := path if k == 1 else path.with_name(f"{path.name}-{k}")).exists())


def run_directories(paths: list[Path]) -> list[Path]:
    """The directories of runs that are meant by these: themselves, or those in them."""
    found: list[Path] = []
    for path in paths:
        if path.suffix == ".html" and path.is_file():  # the page beside the runs, where a shell named all in there
            continue
        inside = sorted(p.parent for p in path.glob("*/settings.json")) if path.is_dir() else []
        found += [path] if (path / "settings.json").exists() or not inside else inside
    return found
