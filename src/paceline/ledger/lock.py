"""A lock on a directory that ends with its holder: flock, on a file that names the holding process.

The holder keeps the file open, and its child processes do not. If a file system has no such locks, the file is valid
while the process that it names still runs. A process is identified by its number and its start time, since numbers
are used again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

from paceline.errors import DataError, SettingError
from paceline.reading import parse_object, read_text

FILE = "running.lock"
LARGEST = 4096
"""Bytes of such a file; one that is larger is not ours."""
PAUSE, PATIENCE = 0.01, 10.0
"""Seconds between two looks, and the longest time for which the files of a dead process may stay open."""


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
        self._handle: int | None = None

    def __enter__(self) -> Lock:
        path, holder = self._directory / FILE, Holder(os.getpid(), started(os.getpid()))
        try:
            while (handle := _taken(path)) is None:  # somebody only looked, or has just gone
                time.sleep(PAUSE)
            self._handle = handle
            os.ftruncate(handle, 0)
            os.write(handle, json.dumps(asdict(holder)).encode())
        except OSError as problem:
            self.__exit__()
            raise SettingError(f"{path} cannot be written: {problem.strerror}") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle in _HELD:  # else this process was made by the holder
            (self._directory / FILE).unlink(missing_ok=True)
            _HELD.discard(self._handle)
            os.close(self._handle)


_HELD: set[int] = set()
"""Descriptors of the open files with which this process holds locks."""


def _forget() -> None:
    """Close the inherited descriptors in a forked process, which would otherwise hold its parent's locks."""
    while _HELD:
        os.close(_HELD.pop())


os.register_at_fork(after_in_child=_forget)


def _taken(path: Path) -> int | None:
    """Lock the file and return its descriptor; None if it was held or removed in the meantime."""
    if path.exists() and not path.is_file():
        raise SettingError(f"{path} cannot be written: it is not a regular file; remove it")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    try:
        if not (free := _locked(handle, fcntl.LOCK_EX)):
            refuse_held(path.parent)
        if free is None:
            warnings.warn(f"{path.parent} has no locks (flock); write there from one machine only", stacklevel=3)
        if free is not False and os.fstat(handle).st_nlink:  # else whoever held it has just removed it
            _HELD.add(handle)
    finally:
        if handle not in _HELD:
            os.close(handle)
    return handle if handle in _HELD else None


def _locked(handle: int, kind: int) -> bool | None:
    """Try to lock an open file. Return whether that succeeded, or None if the system cannot lock it."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def is_held(directory: Path) -> bool:
    """Return whether a process writes to a directory now."""
    if not (directory / FILE).is_file():
        return False
    try:
        handle = os.open(directory / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        free = _locked(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)
    holder = read_holder(directory) if free is None else None
    return free is False or (holder is not None and holder.runs)


def refuse_held(directory: Path) -> None:
    """Refuse a directory that another process writes to now."""
    until = time.monotonic() + PATIENCE
    while is_held(directory):
        holder = read_holder(directory)
        if (holder is not None and holder.runs) or time.monotonic() >= until:
            who = "another process" if holder is None else f"process {holder.pid}, which still runs"
            raise SettingError(f"{directory} is being written by {who}; wait, stop it, or name another directory")
        time.sleep(PAUSE)


def read_holder(directory: Path) -> Holder | None:
    """Return the process named by a directory's lock, dead or alive; None if the file cannot be read."""
    try:
        words = parse_object(read_text(directory / FILE, most=LARGEST), FILE)
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
