"""A server: SuperLink and SuperExec are started and watched, the run is begun, followed, and gone on with."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from paceline.errors import DataError, SettingError
from paceline.federation import flower
from paceline.federation.conducting import log_of, make, unfinished
from paceline.federation.config import ServerConfig, read_server, require_files, split
from paceline.federation.following import Follower
from paceline.federation.members import members_of
from paceline.federation.processes import Child, Children, environment
from paceline.ledger.lock import Holder, Lock
from paceline.reading import parse_object, read_text
from paceline.runs.experiment import Experiment
from paceline.runs.stopping import Stopping
from paceline.tracking.following import check_trackers

GLANCE = 0.2
"""Seconds between two looks."""
UP = 180.0
"""Seconds in which the SuperLink must listen, and in which a server application that was asked for must begin."""
ATTEMPTS = 10
"""Server applications that may die in one run before it is given up."""
PARTING = 20.0
"""Seconds in which a server application that is asked to end may do so."""


class Server:
    """One run of a federation, from the start of the SuperLink to its end."""

    def __init__(self, file: Path, say: Callable[[str], None]) -> None:
        flower.require_flower()
        self.file = file.absolute()
        self.config: ServerConfig = read_server(self.file)
        self.children = Children()
        self._say = say
        self._follower = Follower(log_of(self.config), say)
        self._number = ""

    def check(self) -> Experiment:
        """What will be run; whatever is wrong with it is said before anything starts."""
        check_trackers(self.config.run.track)
        link = self.config.superlink
        require_files(self.file, [link.authority, link.certificate, link.key, *link.keys, self.config.run.file])
        self.config.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        members_of(self.config)
        resumption = unfinished(self.config)
        return make(self.config) if resumption is None else resumption.experiment

    def run(self, tend: Callable[[], None] = lambda: None) -> None:
        """Serve until the run has ended; ``tend`` is called now and then meanwhile."""
        self.config.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with Lock(self.config.state), Stopping(patience=0):
            for old in self.config.state.glob("server-*.json"):  # of a server that was killed, for we are alone here
                end(_holder(old))
            self.check()
            try:
                self.start()
                self.follow(tend)
            finally:
                self.children.stop()

    # -- starting ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Have the SuperLink listen, and somebody who starts the server application."""
        config = self.config
        self._wait_for_port()
        for old in [*config.state.glob("server-*.json"), *config.state.glob("outcome-*.json")]:
            old.unlink()
        flower.write_application(config)
        flower.write_connection(config)
        surroundings, logs = environment(flower.home(config.state)), config.state / "logs"
        link = Child("superlink", flower.superlink_command(config), logs / "superlink.log", surroundings)
        self.children.add(link)
        self._wait_for(link)
        for key in config.superlink.keys:
            flower.register(config, key)
        self.children.add(Child("superexec", flower.superexec_command(config), logs / "server.log", surroundings))

    def _wait_for_port(self) -> None:
        """A SuperLink that was just ended may take a moment; another's is not ours."""
        until = time.monotonic() + PARTING
        while self._is_listened_on():
            if time.monotonic() > until:
                raise SettingError(
                    f"somebody listens at {self.config.superlink.address} already; end that, or name another address"
                    " in [superlink] of the server's file"
                )
            time.sleep(GLANCE)

    def _wait_for(self, link: Child) -> None:
        until = time.monotonic() + UP
        while time.monotonic() < until and link.pid is not None:
            if self._is_listened_on():
                return
            time.sleep(GLANCE)
        raise flower.FlowerError(f"the SuperLink did not start; the end of its log:\n{link.last_words()}")

    def _is_listened_on(self) -> bool:
        host, port = split(flower.local(self.config.superlink.address))
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1.0):
            return True
        return False

    # -- following --------------------------------------------------------------------------------------------------

    def follow(self, tend: Callable[[], None] = lambda: None) -> None:
        """Begin the run, or go on with it, and tell how it goes until it has ended."""
        for _ in range(ATTEMPTS):
            attempt = secrets.token_hex(4)
            self._number = flower.start_run(self.config, self.file, attempt)
            try:
                status, message = self._watch(attempt, tend)
            except KeyboardInterrupt:
                self._part(attempt)
                raise
            if status == "done":
                return
            if status == "failed":
                raise DataError(f"the run has failed: {message}")
            self._say("the server application has ended before the run did; another goes on with it")
            with contextlib.suppress(flower.FlowerError):
                flower.flwr(self.config, "stop", self._number, self.config.federation.name)
        raise flower.FlowerError(f"{ATTEMPTS} server applications have died; see {self.config.state / 'logs'}")

    def _watch(self, attempt: str, tend: Callable[[], None]) -> tuple[str, str]:
        """How an attempt ended: done, failed, interrupted or dead."""
        state, begun = self.config.state, time.monotonic()
        while True:
            self.children.tend(self._say)
            tend()
            self._follower.look()
            if (ended := _words(state / f"outcome-{attempt}.json")) is not None:
                self._follower.look()
                return str(ended["status"]), str(ended["message"])
            holder = _holder(state / f"server-{attempt}.json")
            if holder is None and time.monotonic() > begun + UP:
                return "dead", ""
            if holder is not None and not holder.runs and _words(state / f"outcome-{attempt}.json") is None:
                return "dead", ""
            time.sleep(GLANCE)

    def _part(self, attempt: str) -> None:
        """Have the server application end by itself, if it does so soon."""
        end(_holder(self.config.state / f"server-{attempt}.json"))


def end(holder: Holder | None) -> None:
    """Have a server application end, and wait until it has; one that does not is ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if holder is None or not holder.runs:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(holder.pid, number)
        until = time.monotonic() + PARTING
        while holder.runs and time.monotonic() < until:
            time.sleep(GLANCE)


def refuse_complete(config: ServerConfig) -> None:
    """Refuse to serve what is complete."""
    words = _words(config.out / "paceline.json")
    if words is not None and words.get("status") == "done":
        raise SettingError(f"{config.out} is complete: name another directory in [run] out = ...")


def _words(path: Path) -> dict[str, object] | None:
    try:
        return parse_object(read_text(path), str(path))
    except (FileNotFoundError, DataError):
        return None


def _holder(path: Path) -> Holder | None:
    words = _words(path)
    return None if words is None else Holder(int(str(words["pid"])), str(words["started"]))
