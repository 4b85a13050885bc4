"""Trackers follow a federation as they follow a run of one machine."""

import json

import pytest

from paceline.errors import SettingError
from paceline.federation.conducting import conduct
from paceline.federation.config import RunConfig
from paceline.federation.serving import Server
from paceline.federation.trying import write_federation
from paceline.tracking.following import TRACKERS, Kind
from tests.federation.memory import MemoryGrid
from tests.tracking.books import read


def served(tmp_path, tracker):
    run = RunConfig(settings=["partition=iid", "rounds=2"], out=str(tmp_path / "run"), track=[tracker])
    file, _ = write_federation(tmp_path / "place", run, 3)
    return Server(file, print)


def test_rows_and_summary_of_a_federation_are_in_the_book(tmp_path, monkeypatch):
    monkeypatch.setitem(TRACKERS, "lines", Kind("json", "tests.tracking.books", "Lines"))
    server = served(tmp_path, "lines")
    server.check()
    grid = MemoryGrid(tmp_path, 3)
    conduct(grid, server.file, "first")
    grid.stop()
    _, *rows, end = read(tmp_path / "run")
    metrics = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [(row["step"], row["figures"]["accuracy"]) for row in rows] == [
        (row["round"], row["accuracy"]) for row in metrics
    ]
    assert len(rows) == 2
    assert end["end"] == "done"


def test_a_tracker_that_nobody_knows_is_named_before_anything_starts(tmp_path):
    with pytest.raises(SettingError, match=r"--track tensorbord: .*did you mean 'tensorboard'"):
        served(tmp_path, "tensorbord").check()
