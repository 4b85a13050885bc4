"""Inside the server application: a run is made, driven and written as any other, or gone on with."""

from __future__ import annotations

import json
import logging
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from flwr.serverapp import Grid
from rich.console import Console

from paceline.api.progress import LiveProgress
from paceline.config import read_settings
from paceline.data.partition import parse_partition
from paceline.errors import DataError, PacelineError, SettingError, SiteError
from paceline.federation.config import ServerConfig, read_server
from paceline.federation.members import members_of
from paceline.federation.nodes import Nodes
from paceline.ledger.directory import EXPERIMENT, write_json
from paceline.ledger.lock import Holder, started
from paceline.reading import parse_object, read_text
from paceline.runs.experiment import Experiment, make_experiment
from paceline.runs.keeper import Keeping
from paceline.runs.local import check_real
from paceline.runs.performing import Hosting, Resumption, perform, read_resumption
from paceline.runs.settings import OWN
from paceline.runs.stopping import Stopped
from paceline.runs.until import Until
from paceline.tracking.following import followed
from paceline.worlds.absence import parse_absence
from paceline.worlds.local.checks import Checks

TRIPS = "trips.jsonl"
"""Every message of a run: when it was sent, taken up, done and answered, and how many bytes it had."""


def conduct(grid: Grid, file: Path, attempt: str) -> None:
    """Run what the server's file says, and write down how it ended for whoever serves it."""
    config = read_server(file)
    log_of(config).parent.mkdir(parents=True, exist_ok=True)
    log = logging.getLogger("paceline")
    log.addHandler(logging.FileHandler(log_of(config), encoding="utf-8"))
    log.setLevel(logging.INFO)
    holder = Holder(os.getpid(), started(os.getpid()))
    write_json(config.state / f"server-{attempt}.json", {"pid": holder.pid, "started": holder.started})
    status, message = "failed", ""
    try:
        _run(grid, config)
        status = "done"
    except Stopped:
        status = "interrupted"
    except PacelineError as problem:
        message = str(problem)
    except BaseException as problem:
        message = f"{type(problem).__name__}: {problem}"
        raise
    finally:
        write_json(config.state / f"outcome-{attempt}.json", {"status": status, "message": message})


def log_of(config: ServerConfig) -> Path:
    """Where the server application says how it goes: Flower shows nobody what it prints."""
    return config.state / "logs" / "run.log"


def _run(grid: Grid, config: ServerConfig) -> None:
    resumption = unfinished(config)
    experiment = make(config) if resumption is None else resumption.experiment
    name, members = run_name(config, again=resumption is not None), members_of(config)
    config.out.mkdir(parents=True, exist_ok=True)
    with (
        Trips(config.out / TRIPS) as trips,
        log_of(config).open("a", encoding="utf-8") as log,
        LiveProgress(console=Console(file=log, highlight=False, width=200)) as progress,
    ):
        hosting = Hosting(
            lambda scene: Nodes(grid, name, config.limits, scene, members, on_trip=trips.add),
            config.limits.grace,
            Checks(config.limits.norm),
        )
        outcome = followed(
            config.run.track,
            config.out,
            progress,
            lambda told: perform(experiment, told, resumption, hosting, progress),
        )
    for run in outcome.failures:
        problem = run.failure
        raise problem if isinstance(problem, PacelineError) else SiteError(f"{type(problem).__name__}: {problem}")


def make(config: ServerConfig) -> Experiment:
    """What the server's file says, ready to run; all of it is checked."""
    said = config.run
    made = make_experiment(
        [said.algorithm],
        overrides=[f"clients={config.federation.nodes}", *said.settings],
        file=read_settings(Path(said.file), [said.algorithm], trust=said.trust) if said.file else None,
        until=Until.parse(said.until),
        out=config.out,
        workers=config.federation.nodes,
        federation=True,
        keep_models=True,
        keeping=Keeping.parse(said.checkpoint or None),
    )
    check_real(made.settings[0], config.federation.nodes)
    if made.settings[0].absence != OWN:  # words that would be read once all processes have started
        parse_absence(made.settings[0].absence)
    parse_partition(made.settings[0].partition)
    made.settings[0].algorithm.check(made.settings[0].clients)
    if made.settings[0].clients != config.federation.nodes:
        raise SettingError(
            f"clients is {made.settings[0].clients}, but [federation] nodes is {config.federation.nodes}; every node"
            " is one client: give the same number, or leave clients out"
        )
    return made


def unfinished(config: ServerConfig) -> Resumption | None:
    """The run in the directory, if it was cut off."""
    if not (config.out / EXPERIMENT).exists():
        return None
    return read_resumption(config.out, trust=config.run.trust)


def run_name(config: ServerConfig, *, again: bool) -> str:
    """What nodes call the run: a new name, or the one it has."""
    path = config.state / "run.json"
    if again:
        try:
            words = parse_object(read_text(path), str(path))
            if words.get("out") == str(config.out):
                return str(words["run"])
        except (FileNotFoundError, KeyError):
            pass
        raise DataError(f"{path} does not say what nodes call the run in {config.out}, so it cannot be gone on with")
    name = f"{config.run.algorithm.rpartition(':')[2]}-{secrets.token_hex(6)}"
    write_json(path, {"out": str(config.out), "run": name})
    return name


class Trips:
    """Writes down messages as they come back."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def __enter__(self) -> Trips:
        self._file = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def add(self, trip: dict[str, Any]) -> None:
        """One more; it is on disk at once."""
        if self._file is not None:
            self._file.write(json.dumps(trip) + "\n")
            self._file.flush()
