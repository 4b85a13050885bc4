"""A run on the wall clock that was cut off anywhere goes on: nothing that was done is done again, nothing is lost."""

import json
import shutil
import signal
from functools import partial

import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import DataError, SettingError
from paceline.ledger import lock
from paceline.ledger.checkpoints import FOLDER
from paceline.runs import performing
from paceline.runs.experiment import make_experiment
from paceline.runs.keeper import Keeping
from paceline.runs.local import JOURNAL, make_local_run
from paceline.runs.observations import Observations
from paceline.runs.performing import perform, read_resumption, resume
from paceline.runs.replay import replay
from paceline.worlds.local.journal import Journal, read_journal
from paceline.worlds.local.worker import Device
from tests.cli.conftest import Zygote
from tests.contract.test_places import SMALL
from tests.contract.test_resume import Cut, full_disk
from tests.worlds.threads import Thread

ENTRIES = (9, 6)
"""Of the journal, until a process ends, and until the next does: no algorithm has fewer than these together."""
LAST = -1
"""The stop at which a run ends; how many come before may depend on the clock."""
ROUNDS = {"fedavg": 3, "da-dpfl": 5}
WORDS = [word for word in SMALL if not word.startswith("fleet.")] + ["every=1"]


@pytest.fixture(scope="module")
def zygote():
    """A process that makes others of itself, which can really be killed."""
    made = Zygote(1)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    monkeypatch.setattr(performing, "make_local_run", partial(make_local_run, launch=Thread))


def copied(directory, copy):
    """Copy again what changes meanwhile: threads go on to write what devices hold, and to forget it."""
    while True:
        try:
            shutil.copytree(directory, copy, ignore=shutil.ignore_patterns(lock.FILE))
            return
        except (shutil.Error, FileNotFoundError):
            shutil.rmtree(copy)


def cutting(monkeypatch, directory, copy, entries, stops=None):
    """Have the next process end after so many entries of its journal, or stops; its files are copied as they are."""
    added, learned, stopped = Journal.add, Observations.learn, Observations.stopped
    seen = {"entries": 0, "stops": 0}

    def happens(what, limit):
        seen[what] += 1
        if seen[what] == limit:
            copied(directory, copy)
            raise Cut

    def add(self, entry):
        is_new = entry.act not in self._past
        added(self, entry)
        if is_new:
            happens("entries", entries)

    def learn(self, runs):
        found = learned(self, runs)
        seen["last"] = runs[0].done
        return found

    def stop(self):
        stopped(self)
        happens("stops", seen["stops"] + 1 if stops == LAST and seen["last"] else stops)

    monkeypatch.setattr(Journal, "add", add)
    monkeypatch.setattr(Observations, "learn", learn)
    monkeypatch.setattr(Observations, "stopped", stop)
    return seen


def cut_off(monkeypatch, doing, directory, copy, entries, stops=None):
    with monkeypatch.context() as patched:
        cutting(patched, directory, copy, entries, stops)
        with pytest.raises(Cut):
            doing()
    return copy


def started(name, out, words=WORDS, **options):
    return perform(make_experiment([name], overrides=list(words), out=out, workers=2, keep_models=True, **options))


def rows(directory):
    path = directory / "metrics.jsonl"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("name", ALGORITHMS)
def test_cut_off_twice_and_resumed(name, tmp_path, zygote):
    directory = tmp_path / "out"
    command = ["run", name, "--world", "local", "--workers", "2", "--out", "out", *(f"--set={one}" for one in WORDS)]
    assert zygote.run(tmp_path, *command, dies={"entries": ENTRIES[0]}) == -signal.SIGKILL
    known = rows(directory)
    assert zygote.run(tmp_path, "resume", "out", dies={"entries": ENTRIES[1]}) == -signal.SIGKILL
    assert rows(directory)[: len(known)] == known
    known, past = rows(directory), (directory / JOURNAL).read_text()
    outcome = resume(read_resumption(directory))
    assert outcome.failures == [] and not (directory / FOLDER).exists()
    assert rows(directory)[: len(known)] == known and (directory / JOURNAL).read_text().startswith(past)
    found = replay(directory)
    assert found.equal and found.max_difference == 0.0 and found.acts_elsewhere == 0
    assert found.rounds == outcome.runs[0].world.progress


@pytest.mark.parametrize(("name", "stops"), [("fedavg", 2), ("fedavg", 3), ("fedavg", LAST), ("da-dpfl", LAST)])
def test_cut_off_at_a_stop(name, stops, tmp_path, monkeypatch):
    """At the last of all nothing is left but its files: they are as they would have been."""
    directory = cut_off(
        monkeypatch, lambda: started(name, tmp_path / "one"), tmp_path / "one", tmp_path / "two", None, stops
    )
    (directory / "model.safetensors").unlink(missing_ok=True)
    resume(read_resumption(directory))
    assert replay(directory).equal
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["status"] == "done" and len(rows(directory)) == ROUNDS[name]


def test_lines_that_were_not_written_to_their_ends_are_done_again(tmp_path, monkeypatch):
    directory = cut_off(
        monkeypatch, lambda: started("fedavg", tmp_path / "one"), tmp_path / "one", tmp_path / "two", 30
    )
    for name in (JOURNAL, f"{FOLDER}/learned.jsonl"):
        path = directory / name
        path.write_bytes(path.read_bytes()[:-7])
    with (directory / FOLDER / "arrivals.bin").open("ab") as file:
        file.write(b"half of a mod")
    resume(read_resumption(directory))
    assert replay(directory).equal


def test_what_came_is_kept_only_as_far_as_there_is_room(tmp_path, monkeypatch):
    small = Keeping(budget=3000.0)
    directory = cut_off(
        monkeypatch,
        lambda: started("fedavg", tmp_path / "one", keeping=small),
        tmp_path / "one",
        tmp_path / "two",
        40,
    )
    assert (directory / FOLDER / "arrivals.bin").stat().st_size <= 3000
    with pytest.raises(DataError, match="--checkpoint 20,30GB"):
        resume(read_resumption(directory))
    whole = started("fedavg", tmp_path / "whole", keeping=small)
    assert any("could not have been gone on with" in line for line in whole.kept.said)


def test_another_course_is_an_error_that_says_so(tmp_path, monkeypatch):
    directory = cut_off(
        monkeypatch, lambda: started("fedavg", tmp_path / "one"), tmp_path / "one", tmp_path / "two", 30
    )
    path = directory / JOURNAL
    lines = path.read_text().splitlines()
    changed = json.loads(lines[3]) | {"start": 12.5}
    path.write_text("\n".join([*lines[:3], json.dumps(changed), *lines[4:]]) + "\n")
    assert len(read_journal(path)) == len(lines)
    with pytest.raises(DataError, match="takes another course"):
        resume(read_resumption(directory))


@pytest.mark.parametrize(
    ("where", "algorithm", "entries"),
    [((Device, "hold"), "fedavg", 5), *(((Journal, "add"), name, k) for name, k in (("fedavg", 5), ("da-dpfl", 15)))],
)
def test_a_disk_that_is_full_is_not_the_end_of_a_run(where, algorithm, entries, tmp_path, monkeypatch):
    """Neither where a worker writes what it holds, nor where the run writes what happened: in whatever branch."""
    kind, name = where
    done, left = getattr(kind, name), iter(range(entries))

    def until_full(self, *words):
        return done(self, *words) if next(left, None) is not None else full_disk()

    with monkeypatch.context() as patched:
        patched.setattr(kind, name, until_full)
        with pytest.raises(OSError, match="No space left"):
            started(algorithm, tmp_path / "out")
    assert resume(read_resumption(tmp_path / "out")).failures == []
    assert replay(tmp_path / "out").equal


def half_done(monkeypatch, tmp_path):
    out = tmp_path / "out"
    return cut_off(monkeypatch, lambda: started("fedavg", out), out, tmp_path / "cut", ENTRIES[0])


def test_what_a_link_points_to_is_left_as_it_is(tmp_path, monkeypatch):
    """Nothing is cut off before everything was looked at."""
    directory = half_done(monkeypatch, tmp_path)
    (tmp_path / "mine").write_text("one line\nand half a line")
    learned = directory / FOLDER / "learned.jsonl"
    learned.unlink(missing_ok=True)
    learned.symlink_to(tmp_path / "mine")
    with pytest.raises(SettingError, match="is a symbolic link"):
        resume(read_resumption(directory))
    assert (tmp_path / "mine").read_text() == "one line\nand half a line"


def test_who_read_what_another_process_has_gone_on_with_since_is_refused(tmp_path, monkeypatch):
    """Two begin to resume at once, and one has ended before the other has its data: the journal stays as it is."""
    directory = half_done(monkeypatch, tmp_path)
    late = read_resumption(directory)
    resume(read_resumption(directory))
    journal = (directory / JOURNAL).read_bytes()
    with pytest.raises(SettingError, match="was gone on with by another process just now"):
        resume(late)
    assert (directory / JOURNAL).read_bytes() == journal and replay(directory).equal


def test_what_is_being_written_is_not_read(tmp_path, monkeypatch):
    directory = half_done(monkeypatch, tmp_path)
    with lock.Lock(directory), pytest.raises(SettingError, match="is being written by process"):
        read_resumption(directory)
