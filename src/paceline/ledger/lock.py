"""A lock on a directory that dies with its holder: a file that only one process can make, with who made it.

Whoever finds the file asks whether that process still runs. A process is known by its number and by when it started,
since numbers come again.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import DataError, SettingError
from paceline.reading import parse_object, read_text

FILE = "running.lock"
LARGEST = 4096
"""Bytes of such a file; one that is larger is not ours."""


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
        me = Holder(os.getpid(), started(os.getpid()))
        while not self._make(me):
            holder = read_holder(self._directory)
            if holder is not None and holder.runs:
                raise SettingError(
                    f"{self._directory} is being written by process {holder.pid}, which still runs; wait for it,"
                    " stop it, or choose another --out"
                )
            self._remove_stale(holder)
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)

    def _make(self, holder: Holder) -> bool:
        try:
            file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o644)
        except FileExistsError:
            return False
        with os.fdopen(file, "w", encoding="utf-8") as words:
            json.dump({"pid": holder.pid, "started": holder.started}, words)
        return True

    def _remove_stale(self, stale: Holder | None) -> None:
        """Take the dead process's file away; of several who try, the rename lets one."""
        mine = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.rename(mine)
        except FileNotFoundError:
            return
        if _read(mine) != stale:  # somebody was quicker and has made it anew: it is theirs
            mine.rename(self._path)
            return
        mine.unlink()


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
