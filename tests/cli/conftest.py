"""The command line as a user types it: in this process where that is enough, in one of its own where it is not."""

import gc
import json
import os
import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass

import pytest

with warnings.catch_warnings():
    # typer 0.20 imports names that click 8.5 calls deprecated; a user never sees these warnings.
    warnings.simplefilter("ignore", DeprecationWarning)
    from paceline.cli.main import main


class Zygote:
    """A process that others are made of, see ``zygote``."""

    def __init__(self, hash_seed):
        environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PACELINE_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.zygote"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, directory, *words, dies=None, said=("said.txt", "said.txt"), environment=None):
        """Carry out a command; returns its status (-9 if it was killed)."""
        order = [str(directory), [str(word) for word in words], dies, said, environment or {}]
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="session")
def zygotes():
    """Two, with hash seeds of their own."""
    made = [Zygote(seed) for seed in (1, 2)]
    yield made
    for one in made:
        one.close()


@dataclass(frozen=True)
class Result:
    """What a user sees of a command that has ended."""

    status: int
    out: str
    err: str


@pytest.fixture
def paceline(capsys, monkeypatch, tmp_path):
    """Run a command in this process and in an empty directory; returns its ``Result``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")  # no message is wrapped, so that tests can look for whole phrases

    def run(*words):
        try:
            main([str(word) for word in words])
            status = 0
        except SystemExit as ending:
            status = ending.code or 0
        gc.collect(1)  # a coroutine that nobody awaited complains here; what is old need not be walked over
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return run


@pytest.fixture
def separate(zygotes, tmp_path):
    """Run a command in a process of its own and in an empty directory; returns its ``Result``."""

    def run(*words, hash_seed=1):
        said = ("out.txt", "err.txt")
        for name in said:
            (tmp_path / name).unlink(missing_ok=True)
        status = zygotes[hash_seed - 1].run(tmp_path, *words, said=said, environment={"COLUMNS": "400"})
        return Result(status, *((tmp_path / name).read_text() for name in said))

    return run


# A shell's background jobs ignore SIGINT, and their children inherit that; what runs in a terminal does not.
IN_FOREGROUND = """
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
from paceline.cli.main import main

main()
"""


@pytest.fixture
def interrupted(tmp_path):
    """Run a command, send it SIGINT once ``ready()`` holds, and return its ``Result``."""

    def run(*words, ready):
        with subprocess.Popen(
            [sys.executable, "-c", IN_FOREGROUND, *(str(word) for word in words)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                while process.poll() is None and not ready():
                    try:
                        process.wait(0.02)
                    except subprocess.TimeoutExpired:
                        continue
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
            finally:
                process.kill()
        return Result(process.returncode, out, err)

    return run
