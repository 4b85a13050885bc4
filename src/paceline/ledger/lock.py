"""A lock on a directory that dies with its holder: a file that only one process can make, with who made it.

Whoever finds the file asks whether that process still runs. A process is known by its number and by when it started,
since numbers come again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import DataError, SettingError
from paceline.reading import parse_object, read_text

FILE = "running.lock"
LARGEST = 4096
"""Bytes of such a file; one that is larger is not ours."""
TRIES, PAUSE = 500, 0.01
"""How often, and after how many seconds, one asks whether others are done with taking their locks."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock."""

    pid: int
    started: str
    """When it started, as the system counts; empty where the system does not say."""

    @property
    def runs(self) -> bool:
        """Whether it is still there."""
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:  # it is there, and somebody else's
            pass
        return started(self.pid) == self.started


class Lock:
    """``with Lock(directory):`` nobody else writes there meanwhile."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / FILE

    def __enter__(self) -> Lock:
        with _one_at_a_time(self._directory):
            refuse_held(self._directory)
            try:
                self._path.unlink(missing_ok=True)  # the file of a process that died
                self._make(Holder(os.getpid(), started(os.getpid())))
            except FileExistsError:  # where nobody can be kept out, somebody may be quicker
                raise _taken(self._directory, "another process, which has just begun") from None
            except OSError as problem:
                raise SettingError(f"{self._path} cannot be written: {problem.strerror}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)

    def _make(self, holder: Holder) -> None:
        file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o644)
        with os.fdopen(file, "w", encoding="utf-8") as words:
            json.dump({"pid": holder.pid, "started": holder.started}, words)


def refuse_held(directory: Path) -> None:
    """Refuse a directory into which somebody writes now."""
    holder = read_holder(directory)
    if holder is not None and holder.runs:
        raise _taken(directory, f"process {holder.pid}, which still runs")


def _taken(directory: Path, who: str) -> SettingError:
    return SettingError(f"{directory} is being written by {who}; wait for it, stop it, or choose another --out")


@contextmanager
def _one_at_a_time(directory: Path) -> Iterator[None]:
    """Nobody else takes a lock here meanwhile: between looking at a dead process's file and making one's own, or
    between making it and writing into it, another could take it for nobody's.

    The system forgets who waits here when they die. Where it cannot do that (some network drives), or somebody holds
    the directory for a purpose of their own, we go on without.
    """
    handle = os.open(directory, os.O_RDONLY)
    try:
        for _ in range(TRIES):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(PAUSE)
            except OSError:
                break
        yield
    finally:
        os.close(handle)


def read_holder(directory: Path) -> Holder | None:
    """Who writes in a directory, or did when it died; None if nobody can be made out."""
    return _read(directory / FILE)


def _read(path: Path) -> Holder | None:
    try:
        words = parse_object(read_text(path, most=LARGEST), str(path))
        return Holder(int(words["pid"]), str(words["started"]))
    except (OSError, DataError, ValueError, KeyError, TypeError):
        return None


def started(pid: int) -> str:
    """When a process started, in the ticks of this boot, where the system tells; one that has ended never did, though
    nobody may have asked yet how it ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    state, *rest = text.rpartition(")")[2].split()  # the name before it may hold spaces
    return "ended" if state in "ZX" else f"{rest[18]} {boot}"
