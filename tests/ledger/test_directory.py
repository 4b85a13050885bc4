"""A run's directory: never overwritten, readable while it grows, valid JSON whatever the numbers."""

import json
import math
import platform

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SettingError
from paceline.ledger.directory import (
    PACKAGES,
    RunDirectory,
    clean,
    new_directory,
    refuse_links,
    refuse_taken,
    versions,
)
from paceline.ledger.lock import Lock


def strict(text):
    """Parse as JSON proper, in which NaN and Infinity are no words."""

    def refuse(word):
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def lines(directory):
    return [strict(line) for line in (directory.path / "metrics.jsonl").read_text().splitlines()]


def test_settings_are_there_before_anything_runs(tmp_path):
    RunDirectory.create(tmp_path / "deep" / "run", {"seed": 3, "fleet": {"size": 5}})
    held = strict((tmp_path / "deep" / "run" / "settings.json").read_text())
    assert held["seed"] == 3
    assert held["fleet"] == {"size": 5}
    assert held["versions"] == versions()


def test_versions_name_what_can_change_a_number():
    found = versions()
    assert found["python"] == platform.python_version()
    assert set(found) == {"python", *PACKAGES}
    assert found["numpy"] == np.__version__


def test_a_package_that_is_not_installed_is_named_all_the_same(monkeypatch):
    monkeypatch.setattr("paceline.ledger.directory.PACKAGES", ("no-such-package-anywhere",))
    assert versions()["no-such-package-anywhere"] == "not installed"


def test_a_run_is_never_overwritten(tmp_path):
    first = RunDirectory.create(tmp_path / "run", {"seed": 1})
    first.metric({"round": 0})
    first.finish({"status": "done"})
    before = {path.name: path.read_text() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(SettingError, match="already holds a run; choose another --out"):
        RunDirectory.create(tmp_path / "run", {"seed": 2})
    assert {path.name: path.read_text() for path in (tmp_path / "run").iterdir()} == before


def test_an_interrupted_run_is_not_overwritten_either(tmp_path):
    RunDirectory.create(tmp_path / "run", {"seed": 1})
    with pytest.raises(SettingError):
        RunDirectory.create(tmp_path / "run", {"seed": 1})


def test_an_empty_directory_may_be_used(tmp_path):
    assert RunDirectory.create(tmp_path, {}).spans == tmp_path / "spans"


def test_lines_are_on_disk_as_they_come(tmp_path):
    directory = RunDirectory.create(tmp_path / "run", {})
    for k in range(3):
        directory.metric({"round": k, "accuracy": k / 4})
        assert lines(directory) == [{"round": j, "accuracy": j / 4} for j in range(k + 1)]
    assert not (tmp_path / "run" / "summary.json").exists()
    directory.finish({"rounds": 3})
    assert len(lines(directory)) == 3
    assert strict((tmp_path / "run" / "summary.json").read_text()) == {"rounds": 3}


@pytest.mark.parametrize(("rounds", "seconds"), [(1, 9), (3, 2)])
def test_sums_of_more_rounds_are_kept_when_a_run_is_cut_off_again(rounds, seconds, tmp_path):
    directory = RunDirectory.create(tmp_path / "run", {"seed": 1})
    for k in range(3):
        directory.metric({"round": k})
    directory.finish({"rounds": 3, "seconds": 9, "status": "interrupted"})
    again = RunDirectory.reopen(tmp_path / "run", {"seed": 1})
    again.metric({"round": 0})
    again.finish({"rounds": rounds, "seconds": 2, "status": "failed"})
    found = strict((tmp_path / "run" / "summary.json").read_text())
    assert found == {"rounds": 3, "seconds": seconds, "status": "failed"}


def test_a_run_without_rows_is_complete(tmp_path):
    directory = RunDirectory.create(tmp_path / "run", {})
    directory.finish({"best": math.nan})
    assert lines(directory) == []
    assert strict((tmp_path / "run" / "summary.json").read_text()) == {"best": None}


def test_what_is_no_number_becomes_null(tmp_path):
    directory = RunDirectory.create(tmp_path / "run", {})
    directory.metric({"a": math.nan, "b": math.inf, "c": {"d": -math.inf, "e": 1.5}, "f": "NaN", "g": np.nan})
    directory.finish({})
    assert lines(directory) == [{"a": None, "b": None, "c": {"d": None, "e": 1.5}, "f": "NaN", "g": None}]


VALUES = st.recursive(
    st.one_of(st.floats(), st.integers(), st.booleans(), st.none(), st.text(max_size=5)),
    lambda inside: st.dictionaries(st.text(max_size=3), inside, max_size=4),
    max_leaves=10,
)


@given(VALUES)
def test_clean_is_json_and_keeps_every_number(value):
    def same(a, b):
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
        if isinstance(a, float) and not math.isfinite(a):
            return b is None
        return a == b

    assert same(value, strict(json.dumps(clean(value))))


def test_lists_are_cleaned_too():
    assert strict(json.dumps(clean({"a": [math.nan, 1.0]}))) == {"a": [None, 1.0]}


def test_settings_are_json_too(tmp_path):
    RunDirectory.create(tmp_path / "run", {"until": math.inf})
    assert strict((tmp_path / "run" / "settings.json").read_text())["until"] is None


@pytest.mark.parametrize("name", ["settings.json", "paceline.json"])
@pytest.mark.parametrize("depth", ["", "a", "a/b"])
def test_a_directory_that_holds_a_run_is_refused_also_where_that_lies_deeper(tmp_path, name, depth):
    (tmp_path / depth).mkdir(parents=True, exist_ok=True)
    (tmp_path / depth / name).write_text("{}")
    with pytest.raises(SettingError, match="already holds a run"):
        refuse_taken(tmp_path)


def test_a_run_however_deep_is_found(tmp_path):
    RunDirectory.create(tmp_path / "study" / "a" / "b" / "run", {}).finish({})
    with pytest.raises(SettingError, match=r"holds .*/a/b/run, which is a run"):
        refuse_taken(tmp_path / "study")


def test_a_directory_inside_of_a_run_is_refused(tmp_path):
    RunDirectory.create(tmp_path / "run", {}).finish({})
    with pytest.raises(SettingError, match=r"run/a/b lies inside .*run, which holds a run"):
        refuse_taken(tmp_path / "run" / "a" / "b")


def test_a_directory_inside_of_a_run_is_refused_also_where_a_link_leads_there(tmp_path):
    RunDirectory.create(tmp_path / "run", {}).finish({})
    (tmp_path / "run" / "spans").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run" / "spans")
    with pytest.raises(SettingError, match="lies inside"):
        refuse_taken(tmp_path / "link" / "new")


def test_directories_that_overlap_are_refused_before_either_has_written(tmp_path):
    (tmp_path / "out" / "inside").mkdir(parents=True)
    with Lock(tmp_path / "out"), pytest.raises(SettingError, match="lies inside"):
        refuse_taken(tmp_path / "out" / "inside")
    with Lock(tmp_path / "out" / "inside"), pytest.raises(SettingError, match="inside, which is a run"):
        refuse_taken(tmp_path / "out")
    refuse_taken(tmp_path / "out")


def test_links_are_not_written_through(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(SettingError, match="link is a symbolic link; name the directory itself"):
        refuse_taken(tmp_path / "link")
    (tmp_path / "out" / "spans").mkdir(parents=True)
    (tmp_path / "out" / "data.csv").symlink_to(tmp_path / "elsewhere")
    refuse_taken(tmp_path / "out")  # no run writes a file of that name
    (tmp_path / "out" / "data.csv").unlink()
    refuse_links(tmp_path / "out")
    for name in ("metrics.jsonl", "summary.part", "checkpoints"):
        (tmp_path / "out" / name).symlink_to(tmp_path / "elsewhere")
        for refuse in (refuse_taken, refuse_links):
            with pytest.raises(SettingError, match=f"{name} is a symbolic link"):
                refuse(tmp_path / "out")
        (tmp_path / "out" / name).unlink()
    (tmp_path / "out" / "spans" / "part-1.part").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingError, match="is a symbolic link, which no run writes"):
        refuse_links(tmp_path / "out")


def test_who_is_refused_leaves_no_directories(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(SettingError), new_directory(tmp_path / "a" / "b" / "c"):
        raise SettingError("no")
    assert list((tmp_path / "a").iterdir()) == []
    (tmp_path / "a" / "b").mkdir()
    with pytest.raises(SettingError), new_directory(tmp_path / "a" / "b" / "c"):
        raise SettingError("no")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
