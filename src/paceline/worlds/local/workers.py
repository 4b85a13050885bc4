"""The processes that host devices: started, asked, watched, and started again when they die."""

from __future__ import annotations

import itertools
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from paceline.clock import WallClock
from paceline.errors import PacelineError, SiteError
from paceline.worlds.local.frames import Frame, read, write
from paceline.worlds.local.hosts import Answered, Scene


class Host(Protocol):
    """What a worker runs in: a process, as ``subprocess`` has it."""

    @property
    def pid(self) -> int:
        """The number of the process."""
        ...

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        ...

    def kill(self) -> None:
        """End the process at once."""
        ...

    def wait(self) -> int:
        """Wait until the process has ended."""
        ...


Launch = Callable[[socket.socket], Host]
"""Starts a worker that is spoken to over this socket."""
RESTART = 0.5
"""Seconds before a dead worker is started again."""
TRIES = 3
"""Starts in a row that may fail before a worker is given up."""


class Process:
    """One worker, whichever process it is at present; one thread reads what it says."""

    def __init__(
        self, clock: WallClock, hello: dict[str, Any], on_presence: Callable[[bool], None], launch: Launch
    ) -> None:
        self._clock = clock
        self._hello = hello
        self._on_presence = on_presence
        self._launch = launch
        self._asked: dict[int, Answered] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        """Held while a frame is written: whoever observes a run asks from several threads."""
        self._stopping = False
        self.ready = threading.Event()
        self.process: Host | None = None
        self._connection: socket.socket | None = None
        self._thread = threading.Thread(target=self._live, daemon=True)

    def start(self) -> None:
        """Start the process, and the thread that listens to it."""
        self._thread.start()

    def ask(self, words: dict[str, Any], blobs: Sequence[bytes], answered: Answered) -> None:
        """Have it do something; the answer is an event of the clock."""
        self._ask(words, blobs, lambda frame: self._clock.post(partial(answered, frame)))

    def ask_now(self, words: dict[str, Any], blobs: Sequence[bytes]) -> Frame | None:
        """Have it do something and wait for the answer, outside the run's time; None if it dies before."""
        box: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._ask(words, blobs, box.put)
        return box.get()

    def _ask(self, words: dict[str, Any], blobs: Sequence[bytes], answered: Answered) -> None:
        with self._lock:
            number = next(self._numbers)
            connection = self._connection
            if connection is not None:
                self._asked[number] = answered
        if connection is None:
            answered(None)
            return
        try:
            with self._writing:
                write(connection, {**words, "task": number}, blobs)
        except OSError:  # it is dying: the thread that reads will say so
            return

    def stop(self) -> None:
        """End the process and stop listening."""
        self._stopping = True
        with self._lock:
            connection = self._connection
        if connection is not None:
            connection.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    # -- in the thread that reads -----------------------------------------------------------------------------------

    def _live(self) -> None:
        failed = 0
        while not self._stopping and failed < TRIES:
            failed = 0 if self._once() else failed + 1
            if not self._stopping:
                time.sleep(RESTART)
        self.ready.set()

    def _once(self) -> bool:
        """One process, from its start to its end; whether it ever answered."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self.process = self._launch(theirs)
            try:
                write(ours, self._hello)
                there = read(ours) is not None
            except OSError:
                there = False
            if there:
                with self._lock:
                    self._connection = ours
                if self.ready.is_set():  # it is back
                    self._clock.post(lambda: self._present(True))
                self.ready.set()
                self._listen(ours)
                self._gone()
        if self.process is not None:
            self.process.wait()
        return there

    def _listen(self, connection: socket.socket) -> None:
        try:
            while (frame := read(connection)) is not None:
                with self._lock:
                    answered = self._asked.pop(frame.words["task"])
                answered(frame)
        except (OSError, PacelineError, ValueError):
            return

    def _gone(self) -> None:
        """It died: it is away, and whatever was asked of it is lost."""
        with self._lock:
            self._connection = None
            lost, self._asked = list(self._asked.values()), {}
        if self._stopping:
            return
        self._clock.post(lambda: self._present(False))
        for answered in lost:
            answered(None)

    def _present(self, online: bool) -> None:
        self._on_presence(online)


def process_of(module: str, theirs: socket.socket) -> Host:
    """A process of this machine that runs a module, which is told the number of the socket."""
    number = theirs.fileno()
    environment = {**os.environ, "PACELINE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", module, str(number)]
    process: subprocess.Popen[bytes] = subprocess.Popen(
        command, pass_fds=[number], env=environment, stdin=subprocess.DEVNULL
    )
    return process


def _tell_all(clients: Sequence[int], on_presence: Callable[[int, bool], None], online: bool) -> None:
    for client in clients:
        on_presence(client, online)


class Workers:
    """All workers of a run; client k lives in worker k modulo their number."""

    def __init__(self, count: int, launch: Launch, scene: Scene) -> None:
        self._clock = scene.clock
        hosted = [range(k, scene.clients, count) for k in range(count)]
        self.processes = [
            Process(
                scene.clock,
                {"settings": scene.settings, "clients": list(mine), "directory": str(scene.directory)},
                partial(_tell_all, mine, scene.on_presence),
                launch,
            )
            for mine in hosted
        ]

    def start(self, seconds: float = 120.0) -> None:
        """Start them, and wait until all are there."""
        for process in self.processes:
            process.start()
        for process in self.processes:
            if not process.ready.wait(seconds) or process.process is None or process.process.poll() is not None:
                self.stop()
                raise SiteError("a worker process did not start; what it said is above")

    def of(self, client: int) -> Process:
        """The worker that a client lives in."""
        return self.processes[client % len(self.processes)]

    def stop(self) -> None:
        """End all processes, since the run is over."""
        self._clock.expecting = False
        for process in self.processes:
            process.stop()
