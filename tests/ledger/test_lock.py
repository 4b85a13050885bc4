"""A lock on a directory that dies with its holder."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from paceline.errors import SettingError
from paceline.ledger.lock import FILE, Holder, Lock, is_held, read_holder, started

MINE = {"pid": os.getpid(), "started": started(os.getpid())}
OTHERS = {"pid": 99_999_999, "started": "1 another boot"}


def in_a_process(directory, *then):
    """The code of one that holds the lock."""
    lines = ["import os, pathlib, signal, subprocess, sys", "from paceline.ledger.lock import Lock"]
    return "\n".join([*lines, f"lock = Lock(pathlib.Path({str(directory)!r}))", "lock.__enter__()", *then])


def test_one_at_a_time(tmp_path):
    with Lock(tmp_path):
        assert is_held(tmp_path) and read_holder(tmp_path).pid == os.getpid()
        with pytest.raises(SettingError, match=f"is being written by process {os.getpid()}, which still runs"):
            Lock(tmp_path).__enter__()
    assert not (tmp_path / FILE).exists() and not is_held(tmp_path)
    with Lock(tmp_path):
        pass


def test_it_dies_with_its_holder(tmp_path):
    code = in_a_process(tmp_path, "os._exit(9)")
    subprocess.run([sys.executable, "-c", code], check=False)
    assert read_holder(tmp_path) is not None
    with Lock(tmp_path):
        assert read_holder(tmp_path).pid == os.getpid()


@pytest.mark.parametrize(
    "child",
    [
        "child = os.fork() or signal.pause()",
        "child = subprocess.Popen(['sleep', '600']).pid",
        "child = subprocess.Popen(['sleep', '600'], close_fds=False, preexec_fn=lambda: None).pid",
    ],
)
def test_it_dies_with_its_holder_though_a_process_that_was_made_by_it_lives_on(child, tmp_path):
    """Such as a worker, after ``kill -9``."""
    code = in_a_process(tmp_path, child, "print(child, flush=True)", "os.kill(os.getpid(), signal.SIGKILL)")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        child = int(holder.stdout.readline())
        try:
            holder.wait()
            os.kill(child, 0)
            with Lock(tmp_path):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_process_that_was_made_by_the_holder_ends_no_lock(tmp_path):
    code = in_a_process(
        tmp_path,
        "if not os.fork():",
        "    lock.__exit__()",
        "    os._exit(0)",
        "os.wait()",
        "print(1, flush=True)",
        "sys.stdin.read()",
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        holder.stdout.readline()
        assert is_held(tmp_path) and (tmp_path / FILE).exists()
        holder.stdin.close()


def test_who_has_died_is_given_time_to_close_its_files(tmp_path, monkeypatch):
    """A process may have ended, and be waited for, some moments before the system lets go of what it held."""
    monkeypatch.setattr("paceline.ledger.lock.PATIENCE", 600.0)  # also on a busy machine
    (tmp_path / FILE).write_text(json.dumps(OTHERS))
    held = os.open(tmp_path / FILE, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    later = threading.Timer(0.1, os.close, [held])
    later.start()
    with Lock(tmp_path):
        later.join()


def test_numbers_of_processes_say_nothing(tmp_path, monkeypatch):
    """Two containers count their processes by themselves: others may have the same number, or an unknown one."""
    monkeypatch.setattr("paceline.ledger.lock.PATIENCE", 0.0)
    with Lock(tmp_path):
        (tmp_path / FILE).write_text(json.dumps(OTHERS))
        with pytest.raises(SettingError, match="is being written by process 99999999"):
            Lock(tmp_path).__enter__()
    (tmp_path / FILE).write_text(json.dumps(MINE))
    with Lock(tmp_path):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 99999999999999999999, "started": ""}'])
def test_what_is_no_lock_holds_nothing(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with Lock(tmp_path):
        pass


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingError, match=f"{FILE} cannot be written"):
        Lock(tmp_path).__enter__()
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_pipe_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / FILE)
    assert not is_held(tmp_path)
    with pytest.raises(SettingError, match=f"{FILE} cannot be written"):
        Lock(tmp_path).__enter__()


def test_who_only_looks_keeps_nobody_out(tmp_path):
    (tmp_path / FILE).touch()
    looking = os.open(tmp_path / FILE, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    later = threading.Timer(0.05, os.close, [looking])
    later.start()
    with Lock(tmp_path):
        assert is_held(tmp_path)
    later.join()


def test_a_file_that_its_holder_removes_just_now_is_not_taken_for_the_lock(tmp_path, monkeypatch):
    """Who has opened it before that would hold a file that nobody else finds."""
    flock, first = fcntl.flock, Lock(tmp_path)
    first.__enter__()

    def end_first(*words):
        monkeypatch.setattr(fcntl, "flock", flock)
        first.__exit__()
        flock(*words)

    monkeypatch.setattr(fcntl, "flock", end_first)
    with Lock(tmp_path):
        assert is_held(tmp_path)


def test_without_locks_of_the_system_processes_are_asked_for_and_that_is_said(tmp_path, monkeypatch):
    def unable(*_):
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(fcntl, "flock", unable)
    with pytest.warns(UserWarning, match="has no locks"):
        lock = Lock(tmp_path).__enter__()
    assert is_held(tmp_path)
    with pytest.raises(SettingError, match=f"is being written by process {os.getpid()}"):
        Lock(tmp_path).__enter__()
    lock.__exit__()
    (tmp_path / FILE).write_text(json.dumps(OTHERS))
    assert not is_held(tmp_path)
    with pytest.warns(UserWarning, match="has no locks"), Lock(tmp_path):
        pass


def test_a_process_is_known_by_its_number_and_by_when_it_started():
    assert Holder(**MINE).runs
    assert not Holder(MINE["pid"], "1 another boot").runs and not Holder(**OTHERS).runs


def test_what_cannot_be_removed_is_named(tmp_path):
    (tmp_path / FILE).mkdir()
    with pytest.raises(SettingError, match=f"{FILE} cannot be written"):
        Lock(tmp_path).__enter__()
