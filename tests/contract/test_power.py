"""A power cut: of every file there is what the system was last told to write to the disk, and nothing otherwise.

That is harsher than most file systems, but for the names of files, which are all taken to be there.
"""

import os
import shutil
import stat
from pathlib import Path

import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.ledger.directory import EXPERIMENT
from paceline.ledger.durable import all_to_disk
from paceline.runs.performing import perform, read_resumption, resume
from tests.contract.test_resume import Cut, cutting, experiment, kept_files, uninterrupted

SOME = list(ALGORITHMS)[::7]
"""Of every kind one: the rest is in test_resume."""


class Disk:
    """Knows what every file held when it was last flushed; whoever copies a directory gets that and no more."""

    def __init__(self, monkeypatch, before=None):
        """With what is in the directory of a run from ``before``."""
        there = filter(Path.is_file, before.rglob("*")) if before is not None else ()
        self._flushed = {path.stat().st_ino: path.read_bytes() for path in there}
        self._fsync, self._copytree = os.fsync, shutil.copytree
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(shutil, "copytree", self.copytree)

    def fsync(self, handle):
        self._fsync(handle)
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode):
            self._flushed[found.st_ino] = Path(f"/proc/self/fd/{handle}").read_bytes()

    def copytree(self, source, target, *words, **more):
        """A folder; it calls itself for those inside."""
        self._copytree(source, target, *words, **more)
        for path in filter(Path.is_file, Path(target).iterdir()):
            path.write_bytes(self.left_of(Path(source) / path.name))

    def left_of(self, path):
        """What is left of a file. What was flushed under its number and is not its beginning was another file's."""
        flushed, now = self._flushed.get(path.stat().st_ino, b""), path.read_bytes()
        return flushed if now.startswith(flushed) else b""


def cut_power(monkeypatch, begin, directory, copy, kept, cut):
    """The directory that a power cut leaves, at one stop of a drive that kept a checkpoint at another."""
    with monkeypatch.context() as patched:
        Disk(patched, directory)
        cutting(patched, directory, copy, kept, cut)
        with pytest.raises(Cut):
            begin()
    return copy


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_what_was_kept_is_enough(name, share, tmp_path, monkeypatch):
    _, stops = uninterrupted(monkeypatch, [name], tmp_path / "whole")
    kept = max(1, round(share * (stops - 2)))
    directory = cut_power(
        monkeypatch,
        lambda: perform(experiment([name], tmp_path / "x")),
        tmp_path / "x",
        tmp_path / "cut",
        kept,
        kept + 1,
    )
    assert (directory / "metrics.jsonl").read_bytes() == b""  # nobody waits for the disk at every line
    assert resume(read_resumption(directory)).failures == []
    assert kept_files(directory) == kept_files(tmp_path / "whole")


def test_so_it_is_for_runs_that_had_ended_and_for_a_second_cut(tmp_path, monkeypatch):
    names = ["fedavg@rounds=1", "fedavg@rounds=9", "fedbuff@rounds=9"]
    whole, stops = uninterrupted(monkeypatch, names, tmp_path / "whole")
    first = cut_power(
        monkeypatch,
        lambda: perform(experiment(names, tmp_path / "x")),
        tmp_path / "x",
        tmp_path / "1",
        stops - 2,
        stops - 1,
    )
    second = cut_power(monkeypatch, lambda: resume(read_resumption(first)), first, tmp_path / "2", 1, stops - 1)
    assert resume(read_resumption(second)).statistics == whole.statistics
    folders = [path.name for path in (tmp_path / "whole").iterdir() if path.is_dir()]
    assert len(folders) == len(names)
    for folder in folders:
        assert kept_files(second / folder) == kept_files(tmp_path / "whole" / folder)


def test_what_is_complete_is_on_the_disk_before_its_checkpoints_go(tmp_path, monkeypatch):
    disk, directory = Disk(monkeypatch), tmp_path / "x"
    cutting(monkeypatch, None, None, 1, None)
    perform(experiment(["fedavg"], directory))
    assert not (directory / "checkpoints").exists()
    left = {path.name: disk.left_of(path) == path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert all(left.values()), left
    assert {EXPERIMENT, "metrics.jsonl", "summary.json", "model.safetensors"} <= left.keys()


def test_what_others_have_in_a_directory_is_not_waited_for(tmp_path):
    """An editor's link to nowhere, or a pipe on which nobody writes, is nothing that a run leaves."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    all_to_disk([tmp_path])
