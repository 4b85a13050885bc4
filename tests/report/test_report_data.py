"""Reading run directories and spans files."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from report_samples import NO_SITE, SCHEMA, federated_spans, overlapped_spans, span, write_spans

from paceline.errors import DataError
from paceline.report import spans as spans_module
from paceline.report.runs import common_settings, group_runs, load_run
from paceline.report.spans import MAX_SPANS, SHARED_SPANS, read_waiting, read_window, read_windows
from paceline.report.tables import unfinished


def test_a_run_is_read_with_its_settings_metrics_and_figures(write_run):
    run = load_run(write_run("psfl", 3, rounds=5, clients=4))
    assert (run.algorithm, run.seed, run.settings["fleet.size"]) == ("psfl", 3, "4")
    assert run.metrics["visits"].tolist() == [4, 8, 12, 16, 20]
    assert run.figure("rounds") == 5
    assert run.figure("target", "accuracy") == 0.8
    assert run.figure("joules") is None
    assert run.figure("no", "such") is None


@pytest.mark.parametrize("name", ["settings.json", "metrics.jsonl"])
@pytest.mark.parametrize("content", [b"{\n", b"[1]\n", b"\xff\xfe"])
def test_a_damaged_file_is_named(write_run, name, content):
    path = write_run()
    (path / name).write_bytes(content)
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
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
    ("line", "complaint"),
    [
        ('{"round": 1, "accuracy": 0.5}', "needs a 'time'"),
        ('{"time": 1, "accuracy": "high"}', "no number"),
        ('{"time": 1}\n{"time": \n', "line 2"),
    ],
)
def test_damaged_metrics_say_where(write_run, line, complaint):
    path = write_run()
    (path / "metrics.jsonl").write_text(line)
    with pytest.raises(DataError, match=complaint):
        load_run(path)


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


def test_the_first_window_ends_with_the_third_round(tmp_path):
    rows = federated_spans(clients=50, rounds=10, seed=1)
    write_spans(tmp_path / "spans.parquet", rows)
    window = read_window(tmp_path / "spans.parquet")
    assert window.begin == 0
    assert window.end == max(row[4] for row in rows if row[5] < 3)
    assert set(window.columns["round"]) == {0, 1, 2}
    assert window.active == 51
    assert len(window.sites) == 40
    assert window.sites[0] == -1


def test_the_busiest_sites_are_kept(tmp_path):
    """Client k works for k seconds, so the last ones are the busiest; waiting is no activity."""
    rows = [(k, "train", 0, 0.0, float(k), 0, 0.0, 0.0, 0.0, NO_SITE) for k in range(20)]
    rows += [(k, "wait", 0, float(k), 100.0, 0, 0.0, 0.0, 0.0, 19) for k in range(20)]
    write_spans(tmp_path / "spans.parquet", rows)
    assert read_window(tmp_path / "spans.parquet", most=3).sites == (17, 18, 19)


def test_an_asked_for_window_holds_just_what_overlaps_it(tmp_path):
    rows = [(0, "train", 0, float(t), float(t + 1), t, 0.0, 0.0, 0.0, NO_SITE) for t in range(10)]
    write_spans(tmp_path / "spans.parquet", rows)
    window = read_window(tmp_path / "spans.parquet", 2.5, 5.0)
    assert window.columns["start"].tolist() == [2.0, 3.0, 4.0]
    assert read_window(tmp_path / "spans.parquet", 50.0, 60.0) is None


def test_short_rounds_widen_the_window_and_many_spans_shorten_it(tmp_path):
    """An asynchronous run may count a round per arrival; three of them would show next to nothing."""
    rows = [(t % 4, "train", 0, float(t), t + 1.0, t, 0.0, 0.0, 0.0, NO_SITE) for t in range(300)]
    write_spans(tmp_path / "few.parquet", rows)
    assert read_window(tmp_path / "few.parquet").end == 150
    crowd = [(0, "train", 0, float(t), t + 1.0, 0, 0.0, 0.0, 0.0, NO_SITE) for t in range(MAX_SPANS + 500)]
    write_spans(tmp_path / "many.parquet", crowd)
    window = read_window(tmp_path / "many.parquet")
    assert len(window.columns["start"]) == MAX_SPANS
    assert window.end == MAX_SPANS


@pytest.fixture
def files(tmp_path):
    """A function that writes several spans files and returns their paths."""

    def write(*several):
        paths = [tmp_path / f"{place}.parquet" for place in range(len(several))]
        for path, rows in zip(paths, several, strict=True):
            write_spans(path, rows)
        return paths

    return write


def test_several_runs_show_the_time_of_the_slowest(files):
    paths = files(overlapped_spans(False, rounds=50), overlapped_spans(True, rounds=50))
    slow, fast = read_windows(paths)
    # 150 spans are 30 rounds here: 300 s with barriers, of which the other run needs 180 s.
    assert (slow.begin, slow.end) == (fast.begin, fast.end) == (0.0, 300.0)
    assert slow.columns["round"].max() == 29
    assert fast.columns["round"].max() == 49


def test_few_devices_have_the_same_rows_everywhere(files):
    """Also a device that one of the runs leaves alone."""
    one = [span(k, "train", 0.0, 5.0) for k in (0, 3)]
    two = [span(k, "train", 0.0, 5.0) for k in range(11)] + [span(-1, "work", 5.0, 6.0)]
    for window in read_windows(files(one, two)):
        assert window.sites == (-1, *range(11))
    crowd = [span(k, "train", 0.0, 5.0) for k in range(13)]
    first, second = read_windows(files(one, crowd))
    assert first.sites == (0, 3)
    assert second.sites == tuple(range(13))


def test_with_many_devices_several_charts_have_fewer_rows(files):
    crowd = [span(k, "train", 0.0, 1.0 + k) for k in range(60)] + [span(-1, "work", 0.0, 0.5)]
    (alone,) = read_windows(files(crowd))
    assert (len(alone.sites), alone.active) == (40, 61)
    for window in read_windows(files(crowd, crowd)):
        assert window.sites == (-1, *range(41, 60))


def test_one_that_has_too_much_to_draw_shortens_all(files):
    """Rows go first (30 devices become 12), then time; and it stays the same time in all charts."""
    busy = [span(k, "train", float(t), t + 1.0, t) for t in range(2000) for k in range(30)]
    calm = [span(0, "train", 50.0 * t, 50.0 * t + 50.0, t) for t in range(40)]
    many, few = read_windows(files(busy, calm))
    limit = SHARED_SPANS // 2
    assert len(many.sites) == 12
    assert many.end == few.end == limit / 12
    assert len(many.columns["start"]) == limit
    assert few.columns["start"].max() < few.end


def test_what_took_no_time_goes_before_rows_and_time(files):
    lasting = [span(k, "train", float(t), t + 1.0, t) for t in range(100) for k in range(15)]
    instants = [span(-1, "send", float(t), float(t), t, peer=k) for t in range(100) for k in range(15)]
    paths = files(lasting + instants, lasting + instants)
    for window in read_windows(paths, 0.0, 100.0):
        assert window.instants
        assert set(window.columns["kind"]) == {"train", "send"}
    for window in read_windows([*paths, paths[0]], 0.0, 100.0):
        assert not window.instants
        assert set(window.columns["kind"]) == {"train"}
        assert window.sites == (-1, *range(15))
        assert window.end == 100.0


def test_a_run_without_spans_in_the_time_of_the_others_has_no_window(files):
    paths = files([], [span(0, "train", 0.0, 5.0)], [span(0, "train", 9.0, 10.0)])
    assert [window and window.end for window in read_windows(paths, 0.0, 6.0)] == [None, 6.0, None]
    assert read_windows(paths[:1]) == [None]


def test_a_long_file_is_filtered_on_read(tmp_path, monkeypatch):
    """No pass may hold all rows with all columns: batches are small, and only the window is collected."""
    rows = federated_spans(clients=100, rounds=250, seed=0)
    write_spans(tmp_path / "spans.parquet", rows)
    wide, original = [], spans_module._batches

    def counted(path, data, columns, where=None):
        for batch in original(path, data, columns, where):
            if len(columns) == len(spans_module.COLUMNS):
                wide.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(spans_module, "_batches", counted)
    window = read_window(tmp_path / "spans.parquet")
    assert len(rows) > 100_000
    assert sum(wide) == len(window.columns["start"]) == 3 * (39 * 3 + 100 + 1)


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
    assert set(read_window(tmp_path / "spans.parquet").columns["kind"]) == {"wait", "train"}


def test_empty_and_damaged_spans(tmp_path):
    path = tmp_path / "spans.parquet"
    write_spans(path, [])
    assert read_window(path) is None
    assert read_waiting(path).total == 0
    path.write_bytes(b"not parquet at all")
    with pytest.raises(DataError, match=r"spans\.parquet is damaged"):
        read_window(path)
    write_spans(path, [(np.int32(1),)], pa.schema([("site", pa.int32())]))
    with pytest.raises(DataError, match="lacks the columns kind, lane"):
        read_waiting(path)
