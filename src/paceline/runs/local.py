"""A run on the wall clock, the same run gone on with, and the same run again from its journal."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from paceline.clock import VirtualLoop, WallClock, make_loop
from paceline.errors import Reason, SettingError
from paceline.ledger import Ledger
from paceline.ledger.events import Event
from paceline.runs.making import flush_limit, prepared
from paceline.runs.observations import Observations
from paceline.runs.recorder import Row, describe
from paceline.runs.run import Run
from paceline.runs.settings import Settings
from paceline.runs.until import Until
from paceline.system import FleetSettings
from paceline.worlds.absence import parse_absence
from paceline.worlds.learner import Learner
from paceline.worlds.local.checks import Checks
from paceline.worlds.local.hands import WorkerHands
from paceline.worlds.local.hosts import MakeHosts, Scene
from paceline.worlds.local.journal import Entry, Journal, read_journal
from paceline.worlds.local.machines import WallMachines
from paceline.worlds.local.presence import GRACE, WallPresence
from paceline.worlds.local.recalling import RecallingHands
from paceline.worlds.local.recorded import RecordedHands, repeat_presence
from paceline.worlds.local.workers import Launch, Workers, process_of
from paceline.worlds.places import CheckedMachines
from paceline.worlds.stage import Stage

JOURNAL = "journal.jsonl"
PROCESS: Launch = partial(process_of, "paceline.runs.worker")
"""How a worker is started."""


def make_local_run(
    settings: Settings,
    *,
    workers: int,
    until: Until | None = None,
    directory: Path | None = None,
    keep_spans: bool = True,
    on_row: Callable[[Run, Row], None] | None = None,
    grace: float = GRACE,
    observations: Observations | None = None,
    launch: Launch = PROCESS,
    make_hosts: MakeHosts | None = None,
    checks: Checks | None = None,
) -> Run:
    """A run whose devices are processes of this machine, which start and end with it; or are with other hosts.

    With ``observations`` the run can be gone on with, should it be cut off, or is gone on with.
    """
    check_real(settings, workers)
    settings, traits, problem = prepared(settings)
    clock = WallClock()
    loop = make_loop(clock)
    ledger = Ledger(keep=keep_spans)
    journal = Journal(durable=observations is not None and observations.durable)
    presence = WallPresence(loop, settings.clients, parse_absence(settings.absence), grace)
    learner = Learner(loop, problem, settings.seed, flush=0)  # what is learned is shown at once
    folder = tempfile.TemporaryDirectory(prefix="paceline-") if observations is None else None
    place = Path(folder.name) if folder is not None else observations.folder / "devices"  # type: ignore[union-attr]
    scene = Scene(clock, describe(settings), settings.clients, place, _noted(journal, presence))
    hosts = (make_hosts or partial(Workers, workers, launch))(scene)
    arrivals = None if observations is None else observations.arrivals
    hands = WorkerHands(loop, clock, learner, hosts, presence, arrivals, checks)
    hands.observer.patience = max(hands.observer.patience, grace)
    past = None
    if observations is not None and observations.again and directory is not None:
        past = _Past(directory, loop, hands, observations)
    machines = WallMachines(loop, settings.clients, past.hands if past else hands, presence, ledger, journal)

    def begin() -> None:
        hosts.start()
        if directory is not None:
            journal.open(directory / JOURNAL, past.entries if past else None)
        if past is None:
            clock.restart()
        else:
            past.repeat(loop, clock, presence, _noted(journal, presence))

    stage = _stage(machines, learner, ledger)
    hands.on_lost = partial(_tell_lost, stage)
    run = Run(
        settings, traits, stage, until=until, directory=directory,
        keep_spans=keep_spans, on_row=on_row, keeps_model=True,
    )  # fmt: skip
    run.on_start = begin
    if folder is not None:
        run.on_close = folder.cleanup
    return run


class _Past:
    """What a run did before it was cut off."""

    def __init__(self, directory: Path, loop: VirtualLoop, hands: WorkerHands, observations: Observations) -> None:
        path = directory / JOURNAL
        self.entries = read_journal(path, torn=True) if path.exists() else []
        self.hands = RecallingHands(loop, hands, self.entries, observations.arrivals, observations.is_past)
        self._observations = observations

    def repeat(
        self, loop: VirtualLoop, clock: WallClock, presence: WallPresence, change: Callable[[int, bool], None]
    ) -> None:
        """Let all that happened happen again at once, and the clock go on from there."""
        last = max((entry.end for entry in self.entries), default=0.0)
        kept = (begin + size for entry in self.entries for begin, size in entry.kept)
        self._observations.arrivals.cut(max(kept, default=0))
        repeat_presence(loop, presence, self.entries)

        def go_on() -> None:
            for client in presence.away():  # every worker was started anew
                change(client, True)
            self.hands.go_on()

        clock.recall(max(last, self._observations.last), go_on)


def make_replay(settings: Settings, directory: Path, until: Until) -> tuple[Run, RecordedHands]:
    """The run in a directory again, in a simulation: with its durations and absences."""
    settings, traits, problem = prepared(settings)
    entries = read_journal(directory / JOURNAL)
    loop, ledger = make_loop(), Ledger(keep=False)
    presence = WallPresence(loop, settings.clients, parse_absence(settings.absence))
    repeat_presence(loop, presence, entries)
    learner = Learner(loop, problem, settings.seed, flush=flush_limit(settings, traits, problem))
    hands = RecordedHands(loop, learner, entries)
    machines = WallMachines(loop, settings.clients, hands, presence, ledger, Journal())
    stage = _stage(machines, learner, ledger)
    return Run(settings, traits, stage, until=until, keep_spans=False, keeps_model=True), hands


def _stage(machines: WallMachines, learner: Learner, ledger: Ledger) -> Stage:
    stage = Stage(CheckedMachines(machines), learner, ledger, machines.diary)
    machines.presence.on_absence = stage.note
    return stage


def _tell_lost(stage: Stage, client: int, reason: Reason, why: str) -> None:
    """A device that dropped out, and why, goes into the run's log."""
    text = f"client {client} dropped out ({reason}): {why}"
    stage.log.tell(Event(text=text, figures={"client": client, "reason": reason}))
    stage.log.count(f"dropped_{reason}", client)


def _noted(journal: Journal, presence: WallPresence) -> Callable[[int, bool], None]:
    """Devices that come and go go into the journal."""

    def change(client: int, online: bool) -> None:
        presence.change(client, online)
        journal.add(Entry(what="online" if online else "offline", site=client, end=presence.now()))

    return change


def check_real(settings: Settings, workers: int) -> None:
    """Refuse what real processes and machines cannot be told."""
    if workers < 1:
        raise SettingError(f"--workers is {workers}; it must be 1 or more")
    if settings.fleet != FleetSettings():
        raise SettingError(
            "fleet settings describe simulated devices, but with --world local and in a federation they are real, and"
            " take the time they take; leave fleet.* out"
        )
    if settings.hostile != "none":
        raise SettingError(f"hostile is {settings.hostile!r}, but real devices are what they are; leave it out")
    if settings.privacy.clip is not None:
        raise SettingError("privacy.clip is given, but real devices send what they trained; leave it out")
    if settings.faults != "none":
        raise SettingError(f"faults is {settings.faults!r}, but messages of real devices are real; leave it out")
    if settings.executor.dtype != "float32":
        raise SettingError("models of real devices travel in 4 bytes a number; use executor.dtype=float32")
