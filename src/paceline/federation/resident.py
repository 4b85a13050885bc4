"""The resident worker of a node: it keeps torch, programs and data warm, and answers whoever opens its socket.

What it holds and what it answered is on disk. A task that comes a second time, because its answer was lost on the
way, is answered from there, also by the next worker if this one dies.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError, SettingError, WireError
from paceline.federation.config import NodeConfig, read_node
from paceline.federation.flower import secret_at
from paceline.federation.terms import FORMAT, problem_of, read_terms
from paceline.reading import cleaned, shown
from paceline.runs.settings import Settings
from paceline.worlds.local.frames import Frame, packed, read, unpacked, write
from paceline.worlds.local.worker import Worker, answered
from paceline.worlds.problem import Problem

NAME = re.compile(r"[\w-]{1,80}", re.ASCII)
"""What runs and tasks may be called: no path leads out of the node's directory."""
KEPT = 16
"""Answers that are kept: more than can be under way at once."""


class Answers:
    """What was answered last, by the task's number, in files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def get(self, number: str) -> Frame | None:
        """What was answered, if it was."""
        try:
            return unpacked(self._file(number).read_bytes())
        except FileNotFoundError:
            return None

    def keep(self, number: str, answer: Frame) -> None:
        """Write it down whole, and let the oldest go."""
        path = self._file(number)
        path.with_suffix(".new").write_bytes(packed(answer))
        path.with_suffix(".new").replace(path)
        files = sorted(self._directory.glob("*.frame"), key=lambda file: file.stat().st_mtime_ns)
        for file in files[:-KEPT]:
            file.unlink(missing_ok=True)

    def _file(self, number: str) -> Path:
        return self._directory / f"{named(number)}.frame"


class Resident:
    """Answers for one client, in whichever run the server speaks of."""

    def __init__(self, config: NodeConfig, prepare: Callable[[Settings, str], Problem]) -> None:
        self._config = config
        self._prepare = prepare
        self._run: str | None = None
        self._worker: Worker | None = None
        self._answers: Answers | None = None
        self._one = threading.Lock()

    def answer(self, frame: Frame) -> Frame:
        """Do what is asked, one thing at a time."""
        with self._one:
            began = time.time()
            try:
                reply = self._answer(frame)
            except Exception as problem:  # told to the server, which shows it
                reply = Frame({"error": cleaned(f"{type(problem).__name__}: {problem}")})
            return Frame({**reply.words, "times": {"began": began, "ended": time.time()}}, reply.blobs)

    def _answer(self, frame: Frame) -> Frame:
        words = frame.words
        if words.get("format") != FORMAT:
            raise WireError(f"the server speaks format {words.get('format')!r} and this node {FORMAT}; update one")
        if words["do"] == "hello":
            return self._greet(named(words["run"]), words["terms"])
        if named(words["run"]) != self._run:
            self._recall(words["run"])
        answers: list[dict[str, Any]] = []
        blobs: list[bytes] = []
        start = 0
        for ask in words["asks"]:
            task = Frame({**ask["words"], "task": 0}, frame.blobs[start : start + ask["blobs"]])
            start += ask["blobs"]
            found = self._once(str(ask["id"]), task)
            answers.append({"id": ask["id"], "words": found.words, "blobs": len(found.blobs)})
            blobs += found.blobs
        return Frame({"answers": answers}, tuple(blobs))

    def _once(self, number: str, task: Frame) -> Frame:
        """Do a task, unless it was done."""
        assert self._worker is not None and self._answers is not None
        if (known := self._answers.get(number)) is not None:
            self._worker.forget(task)  # which may be more than it was then
            return known
        found = answered(self._worker, task)
        if "error" in found.words:
            return Frame({"error": cleaned(found.words["error"])})
        if task.words.get("do") != "receive":  # to read a model again is no harm
            self._answers.keep(number, found)
        return found

    # -- runs -------------------------------------------------------------------------------------------------------

    def _greet(self, run: str, terms: object) -> Frame:
        """Say who one is, ready to begin."""
        if run != self._run:
            self._begin(run, terms)
            (self._place(run) / "run.frame").write_bytes(packed(Frame({"terms": terms})))
        secret = secret_at(self._config.directory / "secret").read_bytes().hex()
        return Frame({"client": self._config.client, "secret": secret, "format": FORMAT})

    def _begin(self, run: str, said: object) -> None:
        terms = read_terms(said, trust=self._config.trust)
        if self._config.client >= terms.clients:
            raise SettingError(f"this node is client {self._config.client}, and the run has {terms.clients} clients")
        problem = self._prepare(terms, self._config.data)
        place = self._place(run)
        self._worker = Worker(problem, {"clients": [self._config.client], "directory": str(place / "devices")})
        self._answers = Answers(place / "answers")
        self._run = run

    def _recall(self, run: str) -> None:
        """A run that began before this process did."""
        try:
            noted = unpacked((self._place(run) / "run.frame").read_bytes())
        except FileNotFoundError:
            noted = None
        if noted is None:
            raise WireError(f"this node knows nothing of run {run}; it must be greeted first")
        self._begin(run, noted.words["terms"])

    def _place(self, run: str) -> Path:
        return self._config.directory / "runs" / named(run)


def named(text: object) -> str:
    """A text that may be a file's name."""
    if not isinstance(text, str) or not NAME.fullmatch(text):
        raise WireError(f"{shown(text)} names nothing; use letters, digits and signs")
    return text


def listen(resident: Resident, path: Path) -> None:
    """Answer whoever opens the socket, which is this user's alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.stat().st_uid != os.getuid():
        raise SettingError(f"{path.parent} belongs to somebody else; remove it, or choose a shorter state directory")
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as door:
        before = os.umask(0o177)
        try:
            door.bind(str(path))
        finally:
            os.umask(before)
        door.listen(8)
        while True:
            connection, _ = door.accept()
            threading.Thread(target=_attend, args=(resident, connection), daemon=True).start()


def _attend(resident: Resident, connection: socket.socket) -> None:
    with connection:
        try:
            if (frame := read(connection)) is not None:
                reply = resident.answer(frame)
                write(connection, reply.words, reply.blobs)
        except (OSError, ValueError, PacelineError) as problem:
            print(f"a message was not answered: {cleaned(str(problem))}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> None:
    """Started with the path of the node's file."""
    import torch

    config = read_node(Path(arguments[0]))
    config.directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    listen(Resident(config, problem_of), config.socket)


if __name__ == "__main__":
    main(sys.argv[1:])
