"""Spans for the page: what is carried, and what comes out again."""

import base64
import zlib

import numpy as np
import pytest
from report_samples import federated_spans, span, write_spans

from paceline.report.packing import _TYPES, choose, pack
from paceline.report.runs import load_run
from paceline.report.spans import NO_SITE
from paceline.report.timelines import held


def unpacked(packed):
    """As the page's script does it."""
    found = {}
    for name, kind in _TYPES.items():
        planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["columns"][name])), np.uint8)
        found[name] = np.ascontiguousarray(planes.reshape(np.dtype(kind).itemsize, -1).T).view(kind)[:, 0]
    return found


@pytest.fixture
def run_with(write_run):
    def make(rows, **settings):
        path = write_run(spans=False, **settings)
        write_spans(path / "spans.parquet", rows)
        return load_run(path)

    return make


def test_all_spans_come_out_as_they_went_in(run_with):
    rows = federated_spans(clients=7, rounds=5, seed=3)
    packed = pack(run_with(rows), "fedavg", 10_000)
    assert (packed["whole"], packed["count"], packed["of"]) == (True, len(rows), len(rows))
    assert packed["sites"] == ["server", *(f"client {k}" for k in range(7))]
    assert packed["servers"] == 1
    columns = unpacked(packed)
    names = ("train", "send", "receive", "work", "wait")
    sites = [-1, *range(7), NO_SITE]  # what has no peer is at -1, the last
    came = sorted(
        (sites[s], names[k], start, start + length, r, sites[p])
        for s, k, start, length, r, p in zip(
            *(columns[name].tolist() for name in ("site", "kind", "start", "length", "round", "peer")), strict=True
        )
    )
    for one, row in zip(came, sorted((r[0], r[1], r[3], r[4], r[5], r[9]) for r in rows), strict=True):
        assert one == (row[0], row[1], row[2], pytest.approx(row[3], rel=1e-6), row[4], row[5])
    order = list(zip(columns["site"].tolist(), columns["start"].tolist(), strict=True))
    assert order == sorted(order)


def test_of_too_many_spans_a_whole_stretch_is_carried(run_with):
    rows = [span(k, "train", float(t), t + 1.0, t) for t in range(200) for k in range(5)]
    path = run_with(rows).spans
    stretch = choose(path, 300, None, None)
    assert not stretch.whole
    assert stretch.begin == 0.0
    inside = [row for row in rows if row[3] <= stretch.end and row[4] >= stretch.begin]
    assert stretch.spans == len(inside) <= 310
    assert stretch.of == 1000
    later = choose(path, 300, None, around=150.0)
    assert later.begin < 150.0 < later.end
    assert later.spans <= 310
    last = choose(path, 300, None, around=200.0)
    assert last.end == 200.0


def test_so_many_at_one_instant_are_cut_and_the_page_says_so(run_with):
    run = run_with([span(k, "train", 0.0, 1.0) for k in range(500)])
    stretch = choose(run.spans, 100, None, None)
    assert (stretch.spans, stretch.missing) == (200, 300)
    text = held(pack(run, "fedavg", 100))
    assert "the first 200 of the 500 spans" in text and "may have been busy" in text
    assert "all" not in text.split() and "nothing is left out" not in text


def test_several_servers_have_numbers_and_a_cause_without_spans_has_a_row(run_with):
    packed = pack(run_with([span(-2, "work", 0.0, 1.0), span(0, "wait", 0.0, 1.0, peer=-1)]), "a", 100)
    assert packed["sites"] == ["server 1", "server 2", "client 0"]
    columns = unpacked(packed)
    assert columns["peer"].tolist() == [-1, 0]


def test_no_spans_are_no_timeline(run_with):
    assert pack(run_with([]), "a", 100) is None
