"""Reading run directories and spans files."""

import json
import math
import re
import shutil

import numpy as np
import pyarrow as pa
import pytest
from report_samples import NO_SITE, SCHEMA, write_spans

from paceline.errors import DataError
from paceline.report.runs import common_settings, group_runs, load_run
from paceline.report.spans import read_columns, read_extent, read_waiting
from paceline.report.tables import compared, unfinished


def test_a_run_is_read_with_its_settings_metrics_and_figures(write_run):
    run = load_run(write_run("psfl", 3, rounds=5, clients=4))
    assert (run.algorithm, run.seed, run.settings["fleet.size"]) == ("psfl", 3, "4")
    assert run.metrics["visits"].tolist() == [4, 8, 12, 16, 20]
    assert run.figure("rounds") == 5
    assert run.figure("target", "accuracy") == 0.8
    assert run.figure("joules") is None
    assert run.figure("no", "such") is None


@pytest.mark.parametrize("content", [b"{\n", b"[1]\n", b"\xff\xfe"])
def test_damaged_settings_are_named(write_run, content):
    path = write_run()
    (path / "settings.json").write_bytes(content)
    with pytest.raises(DataError, match=r"settings\.json"):
        load_run(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", bytes(100)])
def test_without_a_whole_summary_the_rest_is_read(write_run, content):
    path = write_run()
    (path / "summary.json").write_bytes(content)
    run = load_run(path)
    assert run.missing == ("its summary, of which there is only something damaged,",)
    assert len(run.metrics["time"])
    assert "something damaged, is missing" in unfinished(group_runs([run]))


def test_without_settings_it_is_no_run(write_run):
    path = write_run()
    (path / "settings.json").unlink()
    with pytest.raises(DataError, match=r"settings\.json is missing"):
        load_run(path)


def test_what_was_cut_off_says_what_is_missing(write_run):
    path = write_run()
    (path / "summary.json").unlink()
    text = (path / "metrics.jsonl").read_text()
    (path / "metrics.jsonl").write_text(text[:-10])
    run = load_run(path)
    assert run.missing == ("its summary", "the rest of its last line of metrics")
    assert len(run.metrics["time"]) == len(text.splitlines()) - 1
    remark = unfinished(group_runs([run]))
    assert remark.startswith(f"not finished: {run.algorithm} seed {run.seed} (running): known until round ")
    assert "its summary is missing; the rest of its last line of metrics is missing" in remark
    (path / "metrics.jsonl").unlink()
    assert load_run(path).missing == ("its summary", "its metrics")
    assert "nothing known; its summary is missing" in unfinished(group_runs([load_run(path)]))


@pytest.mark.parametrize(
    "line",
    [
        '{"round": 1, "accuracy": 0.5}',
        '{"time": 1, "accuracy": "high"}',
        '{"time": ',
        "[1]",
        "\0\0",
        '{"time": 1e999}',
    ],
)
def test_damaged_lines_of_metrics_are_passed_over_and_told(write_run, line):
    path = write_run()
    first, *rest = (path / "metrics.jsonl").read_text().splitlines()
    whole = load_run(path).metrics
    (path / "metrics.jsonl").write_bytes("\n".join([first, line, *rest, ""]).encode("latin1"))
    run = load_run(path)
    assert all(np.array_equal(run.metrics[name], whole[name], equal_nan=True) for name in whole)
    assert unfinished(group_runs([run])).endswith("; line 2 of its metrics (damaged) is missing")  # it had ended
    (path / "metrics.jsonl").write_bytes(f"{line}\n".encode("latin1") * 9)
    (told,) = load_run(path).missing
    assert told == "line 1, 2, 3 and 6 more of its metrics (damaged)" and not len(load_run(path).metrics["time"])


@pytest.mark.parametrize("inside", ["", "psfl-seed3"])
def test_damaged_settings_are_those_of_the_command(write_run, tmp_path, inside):
    path = write_run()
    there = tmp_path / "out" / inside
    shutil.copytree(path, there)
    settings = json.loads((there / "settings.json").read_text())
    kept = {"folders": ["other", inside or "."], "settings": [{}, settings]}
    (tmp_path / "out" / "paceline.json").write_text(json.dumps(kept))
    (there / "settings.json").write_text("{")
    run = load_run(there)
    assert run.settings == load_run(path).settings and "the file of its settings" in run.missing[0]
    (tmp_path / "out" / "paceline.json").write_text(json.dumps(kept | {"settings": 5}))
    with pytest.raises(DataError, match=r"settings\.json is damaged"):
        load_run(there)


def test_settings_without_an_algorithm_and_paths_that_are_no_runs(write_run, tmp_path):
    path = write_run()
    (path / "settings.json").write_text(json.dumps({"seed": 1}))
    with pytest.raises(DataError, match="must name an algorithm"):
        load_run(path)
    with pytest.raises(DataError, match="not a run directory"):
        load_run(tmp_path / "nowhere")


def test_seeds_are_one_group_and_other_settings_are_another(write_run):
    runs = [load_run(write_run("psfl", seed, width=width)) for width in (2, 5) for seed in (1, 0)]
    runs.append(load_run(write_run("fedavg", 0)))
    groups = group_runs(runs)
    assert [group.label for group in groups] == ["psfl (width=2)", "psfl (width=5)", "fedavg"]
    assert [[run.seed for run in group.runs] for group in groups] == [[0, 1], [0, 1], [0]]
    assert common_settings(runs) == {"dataset": "digits", "fleet.size": "8"}


def test_the_same_run_twice_is_refused(write_run, tmp_path):
    first = write_run()
    twin = tmp_path / "twin"
    twin.mkdir()
    for file in first.iterdir():
        (twin / file.name).write_bytes(file.read_bytes())
    with pytest.raises(DataError, match="leave one out"):
        group_runs([load_run(first), load_run(twin)])


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_waiting_is_summed_by_its_cause(tmp_path, kind):
    schema = SCHEMA.set(1, pa.field("kind", kind))
    rows = [
        (0, "wait", 0, 0.0, 3.0, 0, 0.0, 0.0, math.nan, 2),
        (1, "wait", 0, 1.0, 3.0, 0, 0.0, 0.0, math.nan, 2),
        (2, "wait", 0, 3.0, 4.0, 0, 0.0, 0.0, math.nan, -1),
        (2, "wait", 0, 5.0, 5.5, 0, 0.0, 0.0, math.nan, NO_SITE),
        (2, "train", 0, 0.0, 3.0, 0, 0.0, 0.0, math.nan, 2),
    ]
    write_spans(tmp_path / "spans.parquet", rows, schema)
    waiting = read_waiting(tmp_path / "spans.parquet")
    assert waiting.total == 6.5
    assert waiting.causes == ((2, 5.0), (-1, 1.0), (NO_SITE, 0.5))


def test_empty_and_damaged_spans(tmp_path):
    path = tmp_path / "spans.parquet"
    write_spans(path, [])
    assert read_extent(path) is None
    assert read_columns(path, 0.0, 1.0, 5)["start"].tolist() == []
    assert read_waiting(path).total == 0
    path.write_bytes(b"not parquet at all")
    with pytest.raises(DataError, match=r"spans\.parquet is damaged"):
        read_extent(path)
    write_spans(path, [(np.int32(1),)], pa.schema([("site", pa.int32())]))
    with pytest.raises(DataError, match="lacks the columns kind, lane"):
        read_waiting(path)


@pytest.mark.parametrize("column", ["bytes", "flops", "joules"])
def test_infinite_figures_of_spans_are_damage(tmp_path, column):
    path = tmp_path / "spans.parquet"
    row = dict(zip(SCHEMA.names, (0, "train", 0, 0.0, 1.0, 0, 0.0, 0.0, math.nan, NO_SITE), strict=True))
    write_spans(path, [tuple(row.values())])
    assert read_columns(path, 0.0, 9.0, None)["bytes"].tolist() == [0.0]
    write_spans(path, [tuple({**row, column: math.inf}.values())])
    with pytest.raises(DataError, match=f"damaged: {column} is empty, or no number"):
        read_columns(path, 0.0, 9.0, None)


def test_many_seeds_that_were_interrupted_are_told_together(write_run):
    runs = []
    for seed in range(4):
        path = write_run(seed=seed, target=0.999)
        summary = json.loads((path / "summary.json").read_text()) | {"status": "interrupted"}
        (path / "summary.json").write_text(json.dumps(summary))
        runs.append(load_run(path))
    groups = group_runs(runs)
    assert re.fullmatch(
        r"not finished: fedavg, 4 of 4 seeds \(interrupted\): known until round 11, t = [\d.]+ to [\d.]+ s"
        r" \(paceline resume goes on\)",
        unfinished(groups),
    )
    assert compared(groups).rows[0][2] == "not yet", "who was interrupted may arrive"


@pytest.mark.parametrize(("right", "wrong"), [(b"peer", b"p\x80er"), (b"train", b"tr\xff\xfen")])
def test_names_and_words_of_spans_that_are_no_text(tmp_path, right, wrong):
    path = tmp_path / "spans.parquet"
    write_spans(path, [(0, "train", 0, 0.0, 1.0, 0, 0.0, 0.0, 0.0, NO_SITE)], compression="none")
    content = path.read_bytes()
    assert right in content
    path.write_bytes(content.replace(right, wrong))
    with pytest.raises(DataError, match="damaged"):
        read_columns(path, 0.0, 9.0, None)
