"""Runs that are killed without warning at any moment, and resumed until they end, are as if nothing had happened."""

import errno
import io
import json
import os
import re
import resource
import signal
import sys
import threading

import numpy as np
import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.report.page import write_report
from paceline.runs.keeper import Keeper
from paceline.runs.replay import replay
from tests.contract.test_places import SMALL
from tests.contract.test_resume import kept_files

TEN = ("fedavg", "sfl", "psfl", "apfl", "fedbuff", "p-fedavg", "da-dpfl", "ditto", "beer", "mifa")
WORDS = [*SMALL, "rounds=16", "apfl.rounds=60", "da-dpfl.rounds=8", "local.steps=5", "every=1", "flush=4"]
COMMON = [word for one in WORDS for word in ("--set", one)] + ["--checkpoint", "0.05"]


def dying(lines, delay=0.0, by=signal.SIGKILL, ignored=()):
    """When a command ends itself: when it has written so many lines of metrics, and so many seconds later."""
    return {"lines": lines, "delay": delay, "by": int(by), "ignored": ignored}


def told_rounds(directory):
    """The rounds of all lines of progress that a user saw."""
    return {int(number) for number in re.findall(r"round +(\d+)  t=", (directory / "said.txt").read_text())}


def killed_until_it_ends(zygotes, directory, command, kills, rng):
    """Start a command and kill it so often; what is there after each kill can be reported.

    The first kill comes at a line that every run reaches, so that it always hits; the others may come too late.
    """
    directory.mkdir()
    words = [*command, "--out", "out"]
    for done in range(kills):
        dies = dying(int(rng.integers(0, 5)), float(rng.uniform(0, 0.1))) if done else dying(int(rng.integers(1, 5)))
        status = zygotes[done % len(zygotes)].run(directory, *words, dies=dies)
        assert status in (0, -9), (directory / "said.txt").read_text()
        if status == 0:
            return done
        check_report(directory)
        manifest = directory / "out" / "paceline.json"
        if manifest.exists():
            words = ["resume", "out"]
            if json.loads(manifest.read_text())["status"] == "done":  # all that was left was the page
                return done + 1
    status = zygotes[0].run(directory, *words)
    assert status == 0, (directory / "said.txt").read_text()
    return kills


def check_report(directory):
    """There is a page about all that had begun, and no line is missing that a user saw."""
    begun = sorted(path.parent for path in (directory / "out").rglob("settings.json"))
    if not begun:
        return
    page = write_report(begun, directory / "page.html").read_text()
    states = {
        json.loads((run / "summary.json").read_text())["status"] for run in begun if (run / "summary.json").exists()
    }
    assert states == {"done"} or "not finished: " in page
    metrics = begun[0] / "metrics.jsonl"
    if len(begun) == 1:
        lines = metrics.read_text().splitlines() if metrics.exists() else []
        assert told_rounds(directory) <= {json.loads(line)["round"] for line in lines}


def check(zygotes, tmp_path, command, kills, seed):
    """So many kills in all, of one run or of several one after the other: each ends as the one that nobody killed."""
    rng = np.random.default_rng([7, seed])
    (tmp_path / "whole").mkdir()
    status = zygotes[0].run(tmp_path / "whole", *command, "--out", "out")
    assert status == 0, (tmp_path / "whole" / "said.txt").read_text()
    runs = [path.parent for path in (tmp_path / "whole" / "out").rglob("settings.json")]
    done, tries = 0, 0
    while done < kills:
        killed = tmp_path / f"killed-{tries}"
        done += killed_until_it_ends(zygotes, killed, command, kills - done, rng)
        tries += 1
        for run in runs:
            assert kept_files(killed / run.relative_to(tmp_path / "whole")) == kept_files(run)
    print(f"{done} kills of {tries} run(s), {len(runs)} directories each: all identical")


@pytest.mark.parametrize("name", TEN)
def test_three_kills(zygotes, tmp_path, name):
    check(zygotes, tmp_path, ["run", name, *COMMON], 3, TEN.index(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_twenty_kills(zygotes, tmp_path, name):
    check(zygotes, tmp_path, ["run", name, *COMMON], 20, 100 + list(ALGORITHMS).index(name))


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_comparison_of_four_with_three_seeds(zygotes, tmp_path, kills):
    command = ["compare", "fedavg", "psfl", "fedbuff", "da-dpfl", "--seeds", "3", *COMMON, "--set", "rounds=5"]
    check(zygotes, tmp_path, command, kills, kills)


def check_local(zygotes, directory, name, kills, rng):
    """A run on real processes goes on after every kill with what was known, and its repetition is the same."""
    words = [word for word in WORDS if not word.startswith(("fleet.", "flush", "rounds"))] + ["rounds=6"]
    command = ["run", name, "--world", "local", "--workers", "1", "--quiet", "--out", "out"]
    command += [part for word in words for part in ("--set", word)]
    directory.mkdir()
    metrics, known, struck = directory / "out" / "metrics.jsonl", "", 0
    for done in range(kills):
        dies = dying(int(rng.integers(1, 3)), float(rng.uniform(0, 0.1)) if done else 0.0)
        struck += zygotes[done % 2].run(directory, *(command if not done else ("resume", "out")), dies=dies) == -9
        check_report(directory)
        assert metrics.read_text().startswith(known)
        known = metrics.read_text()
        if json.loads((directory / "out" / "paceline.json").read_text())["status"] == "done":
            break
    else:
        assert zygotes[0].run(directory, "resume", "out", "--quiet") == 0, (directory / "said.txt").read_text()
    assert struck >= 1 and metrics.read_text().startswith(known)
    assert replay(directory / "out").equal


def test_a_run_on_real_processes_is_killed_and_goes_on(zygotes, tmp_path):
    check_local(zygotes, tmp_path / "killed", "psfl", 1, np.random.default_rng(3))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedavg", "apfl", "beer", "da-dpfl"])
def test_a_run_on_real_processes_is_killed_again_and_again(zygotes, tmp_path, name):
    check_local(zygotes, tmp_path / "killed", name, 5, np.random.default_rng(4))


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_run_that_is_asked_to_end_keeps_all(zygotes, tmp_path, by):
    command = ["run", "fedavg", *COMMON, "--set", "rounds=60", "--checkpoint", "never", "--out", "out"]
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    zygotes[0].run(tmp_path / "whole", *command)
    directory = tmp_path / "stopped"
    status = zygotes[0].run(directory, *command, dies=dying(5, by=by))
    said = (directory / "said.txt").read_text()
    assert status == 128 + by, said
    assert "interrupted; the results so far are in out; to resume: paceline resume out" in said
    assert json.loads((directory / "out" / "summary.json").read_text())["status"] == "interrupted"
    assert json.loads((directory / "out" / "paceline.json").read_text())["status"] == "interrupted"
    assert "not finished: fedavg seed 0 (interrupted)" in (directory / "out" / "report.html").read_text()
    assert len(list((directory / "out" / "checkpoints").glob("stop-*"))) == 1
    assert not (directory / "out" / "running.lock").exists()
    assert zygotes[1].run(directory, "resume", "out") == 0
    assert kept_files(directory / "out") == kept_files(tmp_path / "whole" / "out")


def test_a_closed_terminal_that_is_ignored_ends_nothing(zygotes, tmp_path):
    """As under nohup."""
    dies = dying(2, by=signal.SIGHUP, ignored=[signal.SIGHUP])
    assert zygotes[0].run(tmp_path, "run", "fedavg", *COMMON, "--out", "out", dies=dies) == 0
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["status"] == "done"


def test_who_is_interrupted_before_anything_is_written_leaves_nothing(paceline, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("paceline.runs.performing.make_ready", interrupted)
    done = paceline("run", "fedavg", *COMMON, "--out", "out", "--quiet")
    assert (done.status, done.out, done.err) == (130, "", "interrupted before anything was written\n")
    assert not (tmp_path / "out").exists()


class Gone(io.StringIO):
    """Where nobody reads any more: a pipe whose other end was killed, or a terminal that was closed."""

    def __init__(self, number):
        super().__init__()
        self.number = number
        self.handle = os.open(os.devnull, os.O_WRONLY)

    def fileno(self):
        return self.handle

    def write(self, text):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("number", [errno.EPIPE, errno.EIO])
def test_who_is_interrupted_with_whoever_wrote_its_log_keeps_all(paceline, tmp_path, monkeypatch, number):
    """Ctrl-C ends ``paceline run ... 2>&1 | tee log`` on both sides of the pipe at once."""
    stopped = Keeper.stopped

    def stop(self):
        monkeypatch.setattr(sys, "stderr", Gone(number))
        os.kill(os.getpid(), signal.SIGINT)
        stopped(self)

    monkeypatch.setattr(Keeper, "stopped", stop)
    assert paceline("run", "fedavg", *COMMON, "--out", "out").status == 130
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["status"] == "interrupted"
    assert (tmp_path / "out" / "report.html").exists()
    assert len(list((tmp_path / "out" / "checkpoints").glob("stop-*"))) == 1


def test_a_run_goes_on_when_nobody_reads_its_log_and_its_page_is_written_when_nobody_reads_the_table(
    paceline, tmp_path, monkeypatch
):
    learned = Keeper.learn

    def learn(self, runs):
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, Gone(errno.EPIPE))
        return learned(self, runs)

    monkeypatch.setattr(Keeper, "learn", learn)
    assert paceline("run", "fedavg", *COMMON, "--out", "out").status == 1  # the table could not be printed
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["status"] == "done"
    assert (tmp_path / "out" / "report.html").exists()


def test_a_disk_that_is_full_while_a_checkpoint_is_written_ends_the_command_and_says_how_to_go_on(
    paceline, tmp_path, monkeypatch
):
    save = Keeper.save

    def without_room(self):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))  # its stops have room, its values have not
        try:
            save(self)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    with monkeypatch.context() as patched:
        patched.setattr(Keeper, "save", without_room)
        done = paceline("run", "fedavg", *COMMON, "--set", "model=mlp:32", "--checkpoint", "0", "--out", "out")
    assert done.status == 1, done.err
    assert "cut off; to resume when there is room again: paceline resume out" in done.err
    assert "error: [Errno 27] File too large" in done.err and "Traceback" not in done.err
    assert paceline("resume", "out").status == 0


def test_a_command_that_cannot_be_read_keeps_nobody_from_going_on(paceline, tmp_path, monkeypatch):
    stopped = Keeper.stopped

    def stop(self):
        os.kill(os.getpid(), signal.SIGINT)
        stopped(self)

    with monkeypatch.context() as patched:
        patched.setattr(Keeper, "stopped", stop)
        patched.setattr("paceline.runs.performing.PATIENCE", 600.0)  # also on a busy machine
        done = paceline("run", "fedavg", *COMMON, "--out", "out", "--quiet", "--json")
    assert done.status == 130
    (summary,) = json.loads(done.out)["runs"]  # who is interrupted says how far it has come
    assert summary["status"] == "interrupted"
    (tmp_path / "out" / "command.txt").write_bytes(b"paceline run \xff")
    done = paceline("resume", "out")
    assert (done.status, "error" in done.err) == (0, False), done.err


def test_two_at_once_do_not_mix(zygotes, tmp_path):
    """Of two commands with the same --out one runs, and the other is refused; so is a resumption meanwhile."""
    command = ["run", "fedavg", *COMMON, "--set", "rounds=60", "--out", "out", "--quiet"]
    done = {}

    def start(number):
        done[number] = zygotes[number].run(tmp_path, *command)

    threads = [threading.Thread(target=start, args=[number]) for number in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(done.values()) == [0, 1], (tmp_path / "said.txt").read_text()
    said = (tmp_path / "said.txt").read_text()
    assert "is being written by process" in said or "already holds a run" in said
    lines = (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == list(range(1, 61))
