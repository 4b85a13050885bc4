"""A lock on a directory that dies with its holder."""

import json
import os
import subprocess
import sys
import threading

import pytest

from paceline.errors import SettingError
from paceline.ledger.lock import FILE, Holder, Lock, _one_at_a_time, read_holder, started


def test_one_at_a_time(tmp_path):
    with Lock(tmp_path):
        assert read_holder(tmp_path).pid == os.getpid()
        with pytest.raises(SettingError, match=f"is being written by process {os.getpid()}, which still runs"):
            Lock(tmp_path).__enter__()
    assert not (tmp_path / FILE).exists()
    with Lock(tmp_path):
        pass


def test_it_dies_with_its_holder(tmp_path):
    imports = "import os, pathlib; from paceline.ledger.lock import Lock"
    code = f"{imports}; Lock(pathlib.Path({str(tmp_path)!r})).__enter__(); os._exit(9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    holder = read_holder(tmp_path)
    assert holder is not None and not holder.runs
    with Lock(tmp_path):
        assert read_holder(tmp_path).pid == os.getpid()


def test_another_process_with_the_same_number_is_not_the_holder(tmp_path):
    with Lock(tmp_path):
        words = json.loads((tmp_path / FILE).read_text())
    assert Holder(**words).runs
    assert not Holder(words["pid"], "1 another boot").runs
    (tmp_path / FILE).write_text(json.dumps(words | {"started": "1 another boot"}))
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
    with Lock(tmp_path):
        pass
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_who_is_about_to_write_who_they_are_is_not_taken_for_dead(tmp_path):
    """Between making the file and writing into it, it is empty: nobody else looks at it meanwhile."""
    made, told = threading.Event(), json.dumps({"pid": os.getpid(), "started": started(os.getpid())})

    def make_slowly():
        with _one_at_a_time(tmp_path):
            (tmp_path / FILE).touch()
            made.set()
            threading.Event().wait(0.1)
            (tmp_path / FILE).write_text(told)

    other = threading.Thread(target=make_slowly)
    other.start()
    made.wait()
    with pytest.raises(SettingError, match="which still runs"):
        Lock(tmp_path).__enter__()
    other.join()
    assert (tmp_path / FILE).read_text() == told


def test_a_directory_that_somebody_holds_for_other_purposes_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("paceline.ledger.lock.TRIES", 2)
    with _one_at_a_time(tmp_path), Lock(tmp_path):
        assert read_holder(tmp_path).pid == os.getpid()


def test_what_cannot_be_removed_is_named(tmp_path):
    (tmp_path / FILE).mkdir()
    with pytest.raises(SettingError, match=f"{FILE} cannot be written"):
        Lock(tmp_path).__enter__()
