"""The seam of all trackers: what they are told of a run, also of one that was interrupted."""

import json

import pytest

import paceline
from paceline.errors import SettingError
from paceline.tracking.following import TRACKERS, Kind
from tests.tracking.books import read

SMALL = {"clients": 6, "rounds": 4, "partition": "iid"}


@pytest.fixture
def lines(monkeypatch):
    """A tracker called ``lines`` whose package is there."""
    monkeypatch.setitem(TRACKERS, "lines", Kind("json", "tests.tracking.books", "Lines"))


def metrics(directory):
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def test_a_tracker_is_told_settings_rows_and_summary(lines, tmp_path):
    paceline.run("fedavg", **SMALL, out=tmp_path / "run", track="lines")
    begin, *rows, end = read(tmp_path / "run")
    assert begin["parameters"]["clients"] == "6"
    assert begin["parameters"]["options.local.lr"]
    assert begin["name"] == "fedavg seed 0"
    told = [(row["step"], row["time"], row["figures"]["accuracy"]) for row in rows]
    assert told == [(row["round"], row["time"], row["accuracy"]) for row in metrics(tmp_path / "run")]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (end["end"], end["figures"]["bytes"]) == ("done", summary["bytes"])
    assert end["figures"]["idle_share"] == summary["idle_share"]


def test_every_run_of_a_comparison_has_a_book_of_its_own(lines, tmp_path):
    paceline.compare(["fedavg", "fedbuff"], **SMALL, seeds=2, dry=True, out=tmp_path / "all", track=["lines"])
    books = {path.parent.name: read(path.parent) for path in (tmp_path / "all").glob("*/book.jsonl")}
    assert set(books) == {f"{name}-seed{seed}" for name in ("fedavg", "fedbuff") for seed in (0, 1)}
    assert len({book[0]["begin"] for book in books.values()}) == 4
    assert all("end" in book[-1] for book in books.values())


@pytest.mark.parametrize("last", [1, 3])
def test_a_resumed_run_goes_on_in_the_same_book_without_doubled_rows(lines, tmp_path, last):
    """It is cut off when its row is written and no tracker knows of it yet."""

    def stop(name, seed, row):
        if row["round"] == last:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        paceline.run("fedavg", **SMALL, out=tmp_path / "run", track="lines", callbacks=[stop])
    before = read(tmp_path / "run")
    assert len(metrics(tmp_path / "run")) >= last
    assert not any("end" in line for line in before)
    paceline.resume(tmp_path / "run")  # who followed is written down
    after = read(tmp_path / "run")
    assert after[: len(before)] == before
    assert [line["step"] for line in after if "step" in line] == [1, 2, 3, 4]
    assert sum("end" in line for line in after) == sum("begin" in line for line in after) == 1


def test_what_is_not_there_is_refused_before_work(tmp_path, monkeypatch):
    with pytest.raises(SettingError, match=r"no such tracker; did you mean 'tensorboard'"):
        paceline.run("fedavg", **SMALL, out=tmp_path / "run", track="tensorbord")
    monkeypatch.setitem(TRACKERS, "mlflow", Kind("no_such_package_at_all", "", ""))
    with pytest.raises(
        SettingError, match=r"not installed; install the extra `no_such_package_at_all`; see docs/install.md"
    ):
        paceline.run("fedavg", **SMALL, out=tmp_path / "run", track="mlflow")
    assert not (tmp_path / "run").exists()


def test_without_a_directory_there_is_nowhere_to_write(lines):
    with pytest.raises(SettingError, match=r"say out=\.\.\."):
        paceline.run("fedavg", **SMALL, track="lines")


def test_extras_are_called_as_the_error_says():
    from pathlib import Path

    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    extras = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    for kind in TRACKERS.values():
        assert f"\n{kind.package} = [" in extras


def test_a_damaged_memory_is_named(lines, tmp_path):
    def stop(name, seed, row):
        if row["round"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        paceline.run("fedavg", **SMALL, out=tmp_path / "run", track="lines", callbacks=[stop])
    (tmp_path / "run" / "tracking.json").write_text('{"trackers": ["nobody"]}')
    with pytest.raises(SettingError, match="does not say which trackers"):
        paceline.resume(tmp_path / "run")
