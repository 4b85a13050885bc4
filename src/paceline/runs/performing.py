"""Run a whole experiment in one process, keep it while it runs, and go on with one that was cut off."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

from paceline.errors import SettingError
from paceline.learn.executor import Executor, Statistics
from paceline.learn.graph import Model
from paceline.learn.register import Register, registering
from paceline.ledger.directory import new_directory, refuse_links, refuse_taken
from paceline.ledger.durable import all_to_disk
from paceline.ledger.lock import Lock, refuse_held
from paceline.runs.driver import drive, make_executor, make_ready
from paceline.runs.experiment import Experiment
from paceline.runs.keeper import Keeper, Kept
from paceline.runs.local import make_local_run
from paceline.runs.making import make_run
from paceline.runs.manifest import Manifest, Options, edition, read_manifest
from paceline.runs.observations import Observations
from paceline.runs.recorder import Row
from paceline.runs.replay import ALONE
from paceline.runs.run import Run
from paceline.runs.sameness import DATA, circumstances, data_digests, refuse_changed
from paceline.runs.settings import ExecutorSettings, Settings
from paceline.runs.stopping import PATIENCE, Stopping
from paceline.runs.watching import NOBODY, Watcher
from paceline.worlds.local.checks import Checks
from paceline.worlds.local.hosts import MakeHosts

OnRow = Callable[[Run, Row], None]


class Hosting(NamedTuple):
    """Devices that are not with processes of this machine."""

    make_hosts: MakeHosts
    grace: float
    """Seconds after which a device that is away is taken to have left for good."""
    checks: Checks
    """What is believed of what they send."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The runs of a comparison, ended."""

    runs: tuple[Run, ...]
    statistics: Statistics
    kept: Kept

    @property
    def failures(self) -> list[Run]:
        """Runs that did not end well."""
        return [run for run in self.runs if run.failure is not None]


@dataclass(frozen=True, kw_only=True)
class Resumption:
    """An experiment that was cut off, as its directory tells it."""

    experiment: Experiment
    manifest: Manifest
    edition: tuple[int, int]
    """Of the manifest: whoever goes on with these runs writes another."""
    accepted: tuple[str, ...] = ()
    """What may be another than it was."""


def perform(
    experiment: Experiment,
    on_row: OnRow | None = None,
    resumption: Resumption | None = None,
    hosting: Hosting | None = None,
    watcher: Watcher = NOBODY,
) -> Outcome:
    """Run all of it together; what has a directory is kept there while it runs."""
    if experiment.workers is not None:
        if experiment.federation and hosting is None:
            raise SettingError(
                f"{experiment.out} is the run of a federation, whose nodes hold what it needs: go on with it"
                " as it was begun, with paceline serve"
            )
        return _perform_locally(experiment, experiment.workers, on_row, resumption, hosting, watcher)
    register: Register[Model] = Register()
    kept = experiment.out is not None and not experiment.dry
    with registering(register) if kept else nullcontext():  # type: ignore[arg-type]
        executor = make_executor(ExecutorSettings() if experiment.dry else experiment.settings[0].executor)
        with closing(executor):
            return _perform_simulated(experiment, executor, register, on_row, resumption, watcher)


def _perform_simulated(
    experiment: Experiment,
    executor: Executor,
    register: Register[Model],
    on_row: OnRow | None,
    resumption: Resumption | None,
    watcher: Watcher,
) -> Outcome:
    watcher.phase("loading", f"{experiment.settings[0].dataset} for {experiment.text}")
    runs = _make_runs(experiment, on_row, resumption)
    if not experiment.dry:
        watcher.phase("preparing", f"model {runs[0].problem.space.name}: compiling")
        make_ready(runs, executor)
    watcher.watch(runs, None if experiment.dry else executor)
    if experiment.out is None:
        watcher.phase(*_work(experiment))
        with Stopping(patience=0):
            drive(runs, executor)
        return Outcome(runs=tuple(runs), statistics=executor.statistics, kept=Kept())
    out, again, dry = experiment.out, resumption is not None, experiment.dry

    def make_keeper(stopping: Stopping, note_data: Callable[[], None]) -> Keeper:
        return Keeper(out, runs, executor, register, experiment.keeping, stopping, again=again, on_first=note_data)

    return _perform_kept(experiment, out, runs, executor, make_keeper, resumption, 0 if dry else PATIENCE, watcher)


def _work(experiment: Experiment) -> tuple[str, str]:
    """The last phase, and what it is about."""
    where = f"; writing to {experiment.out}" if experiment.out is not None else ""
    return "planning" if experiment.dry else "learning", f"{experiment.text}{experiment.until.text}{where}"


def _perform_kept(
    experiment: Experiment,
    out: Path,
    runs: Sequence[Run],
    executor: Executor,
    make_keeper: Callable[[Stopping, Callable[[], None]], Keeper | Observations],
    resumption: Resumption | None,
    patience: float,
    watcher: Watcher,
) -> Outcome:
    same = circumstances(runs, executor.trainer)
    again = resumption is not None
    manifest = _manifest(experiment, out, runs)
    if resumption is not None:
        known = any(name.startswith(DATA) for name in resumption.manifest.same)
        now = same | (data_digests(runs) if known else {})
        refuse_changed(resumption.manifest.same, now, resumption.accepted)
        same = resumption.manifest.same | now
    manifest.same = same
    # Everything is checked: only now are directories made.
    with new_directory(out), Lock(out), Stopping(patience=patience) as stopping:
        # Once more, now that nobody else writes here: another process may have come and gone since.
        refuse_taken(out) if resumption is None else _refuse_gone_on(out, resumption)
        manifest.write(out)

        def note_data() -> None:
            """Not at once: short runs need not wait for it."""
            manifest.same |= data_digests(runs)
            manifest.write(out)

        keeper = make_keeper(stopping, note_data)
        try:
            watcher.phase(*_work(experiment))
            for run in runs:
                run.start(again=again)
            drive(runs, executor, None if experiment.dry else keeper)
        except BaseException:
            manifest.status = "interrupted"
            raise
        else:
            # A long run, or one on the wall clock: its files must be on disk before its recovery folder is removed.
            if again or keeper.kept.checkpoints or experiment.workers is not None:
                all_to_disk({run.directory or out for run in runs})
            manifest.status = "done"
        finally:
            keeper.close()
            manifest.write(out)
        keeper.forget()  # only now: whoever is killed before can still be resumed
    return Outcome(runs=tuple(runs), statistics=executor.statistics, kept=keeper.kept)


def _refuse_gone_on(out: Path, resumption: Resumption) -> None:
    """What was read of a directory must still be so: another process may have gone on with these runs since."""
    refuse_links(out)
    if edition(out) != resumption.edition:
        raise SettingError(f"{out} was gone on with by another process just now; see how it stands, and try again")


def read_resumption(directory: Path, *, trust: bool = False, accept: Sequence[str] = ()) -> Resumption:
    """What a directory says of the experiment in it; one that is complete is refused, and one that is being written,
    for of that nothing can be read that still holds later."""
    manifest, read = read_manifest(directory), edition(directory)
    if manifest.status == "done":
        raise SettingError(f"{directory} is complete: there is nothing to resume (paceline report {directory})")
    refuse_held(directory)
    refuse_links(directory)
    experiment = Experiment(
        settings=manifest.all_settings(directory, trust=trust),
        until=manifest.limits(),
        out=directory,
        keeping=manifest.keeps(),
        **asdict(manifest.said()),
    )
    return Resumption(experiment=experiment, manifest=manifest, edition=read, accepted=tuple(accept))


def resume(resumption: Resumption, on_row: OnRow | None = None, watcher: Watcher = NOBODY) -> Outcome:
    """Go on with an experiment where it was cut off: the same results as if it had not been."""
    return perform(resumption.experiment, on_row, resumption, watcher=watcher)


def _manifest(experiment: Experiment, out: Path, runs: Sequence[Run]) -> Manifest:
    return Manifest(
        folders=[str((run.directory or out).relative_to(out)) for run in runs],
        settings=[run.recorder.described for run in runs],
        variants=[run.settings.variant for run in runs],
        until=asdict(experiment.until),
        options={each.name: getattr(experiment, each.name) for each in fields(Options)},
        keeping=experiment.keeping.plain(),
    )


def _make_runs(experiment: Experiment, on_row: OnRow | None, resumption: Resumption | None) -> list[Run]:
    directories = [_directory(experiment, settings) for settings in experiment.settings]
    if resumption is not None and experiment.out is not None:
        directories = [experiment.out / folder for folder in resumption.manifest.folders]
    return [
        make_run(
            settings,
            until=experiment.until,
            dry=experiment.dry,
            directory=directory,
            keep_spans=experiment.keep_spans,
            on_row=on_row,
            check_places=experiment.check_places,
            keep_model=experiment.keep_models,
        )
        for settings, directory in zip(experiment.settings, directories, strict=True)
    ]


def _directory(experiment: Experiment, settings: Settings) -> Path | None:
    """Where a run writes: alone in the directory itself, else in a folder of it."""
    if experiment.out is None or len(experiment.settings) == 1:
        return experiment.out
    plain = re.sub(r"[^\w.@=,+-]", "_", settings.method)  # letters that every file system takes
    return experiment.out / f"{plain}-seed{settings.seed}"


def _perform_locally(
    experiment: Experiment,
    workers: int,
    on_row: OnRow | None,
    resumption: Resumption | None,
    hosting: Hosting | None,
    watcher: Watcher,
) -> Outcome:
    """One run on the wall clock; what is scored here is computed as the workers compute."""
    watcher.phase("loading", f"{experiment.settings[0].dataset} for {experiment.text}")
    executor = make_executor(ALONE)
    out, again = experiment.out, resumption is not None
    observations = None
    if out is not None:
        observations = Observations(out, experiment.keeping, executor, again=again, durable=hosting is not None)
    run = make_local_run(
        experiment.settings[0],
        workers=workers,
        until=experiment.until,
        directory=out,
        keep_spans=experiment.keep_spans,
        on_row=on_row,
        observations=observations,
        **({} if hosting is None else hosting._asdict()),
    )
    watcher.watch([run], None)  # its workers learn
    if out is None or observations is None:
        watcher.phase(*_work(experiment))
        with Stopping(patience=0):
            drive([run], executor)
        return Outcome(runs=(run,), statistics=executor.statistics, kept=Kept())

    def make_keeper(stopping: Stopping, note_data: Callable[[], None]) -> Observations:
        observations.on_first = note_data
        return observations

    # Whoever is asked to end ends at once: nothing is lost, and what devices compute may take long.
    return _perform_kept(experiment, out, [run], executor, make_keeper, resumption, patience=0, watcher=watcher)
