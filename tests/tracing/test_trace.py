"""Traces for Perfetto: every span once and where it belongs, every wait with an arrow from its cause."""

import json
import subprocess
import sys
from collections import Counter
from fractions import Fraction

import pyarrow.compute as pc
import pytest

import paceline
from paceline.errors import DataError, PacelineError, SettingError
from paceline.ledger.directory import RunDirectory
from paceline.ledger.spans import Ledger
from paceline.report.spans import read_spans
from paceline.tracing.writing import write_trace
from tests.tracing.reader import Trace


@pytest.fixture
def by_hand(tmp_path):
    """Two clients and a server: 0 is slow, 1 waits for it, the server then works and both wait for it."""
    directory = RunDirectory.create(tmp_path / "run", {"algorithm": "fedavg", "seed": 7})
    ledger = Ledger(path=directory.spans)
    for client in (0, 1):
        ledger.transfer(-1, client, 0.0, 1.0, 0, 5e6, 2.0)
    ledger.train(1, 1.0, 2.0, 0, 1e9, 10.0)
    ledger.transfer(1, -1, 2.0, 2.5, 0, 5e6, 1.0)
    ledger.train(0, 1.0, 4.0, 0, 1e9, 30.0)
    ledger.transfer(0, -1, 4.0, 5.0, 0, 5e6, 2.0)
    ledger.wait(1, 2.5, 5.0, 0, 0)
    ledger.work(-1, 5.0, 6.0, 0, 1e8, 1.0)
    for client in (0, 1):
        ledger.wait(client, 5.0, 6.0, 0, -1)
    ledger.close()
    directory.metric({"round": 1, "time": 6.0, "accuracy": 0.5, "loss": 1.5})
    note = {"time": 3.0, "kind": "decision", "text": 'width 2 "</script>', "sites": [], "name": "", "figures": {}}
    directory.finish({"status": "done", "notes": [note]})
    return directory.path


def test_a_timeline_by_hand(by_hand, tmp_path):
    traced = write_trace(by_hand, tmp_path / "trace.json")
    trace = Trace(tmp_path / "trace.json")
    shown = [
        (
            trace.processes[span.pid],
            trace.threads[span.tid],
            span.name,
            float(span.start) / 1e6,
            float(span.end) / 1e6,
        )
        for span in trace.spans
    ]
    assert sorted(shown) == sorted(
        [
            ("server", "uplink", "send to client 0", 0.0, 1.0),
            ("server", "uplink 2", "send to client 1", 0.0, 1.0),
            ("client 0", "downlink", "receive from server", 0.0, 1.0),
            ("client 1", "downlink", "receive from server", 0.0, 1.0),
            ("client 1", "compute", "train", 1.0, 2.0),
            ("client 1", "uplink", "send to server", 2.0, 2.5),
            ("server", "downlink", "receive from client 1", 2.0, 2.5),
            ("client 0", "compute", "train", 1.0, 4.0),
            ("client 0", "uplink", "send to server", 4.0, 5.0),
            ("server", "downlink", "receive from client 0", 4.0, 5.0),
            ("client 1", "waiting", "wait for client 0", 2.5, 5.0),
            ("server", "compute", "work", 5.0, 6.0),
            ("client 0", "waiting", "wait for server", 5.0, 6.0),
            ("client 1", "waiting", "wait for server", 5.0, 6.0),
        ]
    )
    arrows = sorted((trace.processes[a.pid], a.name, trace.processes[b.pid], b.name) for a, b in trace.flows)
    assert arrows == [
        ("client 0", "train", "client 1", "wait for client 0"),
        ("server", "work", "client 0", "wait for server"),
        ("server", "work", "client 1", "wait for server"),
    ]
    assert (traced.spans, traced.waits, traced.flows) == (14, 3, 3)
    costs = next(span.args for span in trace.spans if span.name == "train" and span.end == 4_000_000)
    assert costs == {"round": 0, "flops": 1e9, "joules": 30}


def test_figures_and_decisions_are_there_too(by_hand, tmp_path):
    write_trace(by_hand, tmp_path / "trace.json")
    events = Trace(tmp_path / "trace.json").events
    counted = {event["name"]: (event["ts"], event["args"]["value"]) for event in events if event["ph"] == "C"}
    assert counted == {"accuracy": (6_000_000, Fraction("0.5")), "loss": (6_000_000, Fraction("1.5"))}
    (note,) = [event for event in events if event["ph"] == "i"]
    assert (note["name"], note["ts"]) == ('width 2 "</script>', 3_000_000)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Schedules with barriers, riders behind each other, several servers and queues at a link."""
    out = tmp_path_factory.mktemp("trace") / "runs"
    fleet = {"fleet.links": "rate:5,20", "fleet.server_mbps": 50}
    paceline.compare(
        ["fedavg", "psfl", "fedbuff", "p-fedavg"], clients=40, rounds=3, dry=True, settings=fleet, out=out
    )
    return out


@pytest.mark.parametrize("name", ["fedavg", "psfl", "fedbuff", "p-fedavg"])
def test_all_that_was_booked_is_in_the_trace(runs, tmp_path, name):
    run = runs / f"{name}-seed0"
    traced = write_trace(run, tmp_path / "trace.json.gz")
    trace, booked = Trace(tmp_path / "trace.json.gz"), read_spans(run / "spans")
    kinds = booked["kind"].cast("string")
    assert Counter(span.kind for span in trace.spans) == Counter(kinds.to_pylist())
    for kind in set(kinds.to_pylist()):
        some = booked.filter(pc.equal(kinds, kind))
        seconds = pc.sum(pc.subtract(some["end"], some["start"])).as_py()
        drawn = sum(span.end - span.start for span in trace.spans if span.kind == kind)
        assert float(drawn) / 1e6 == pytest.approx(seconds, abs=1e-8 * len(trace.spans))
    moved = sum(span.args.get("bytes", 0) for span in trace.spans if span.kind == "send")
    assert float(moved) == pytest.approx(json.loads((run / "summary.json").read_text())["bytes"])
    assert traced.spans == len(booked)
    for cause, wait in trace.flows:
        assert wait.name == f"wait for {trace.processes[cause.pid]}"
        assert cause.start < wait.end, "what caused a wait was done during it"
        assert cause.end > wait.start, "what caused a wait was done during it"
    waits = [span for span in trace.spans if span.kind == "wait"]
    assert len({wait for _, wait in trace.flows}) == traced.flows == len(waits)


def test_the_same_run_gives_the_same_file(runs, tmp_path):
    first, second = (write_trace(runs / "psfl-seed0", tmp_path / f"{k}.json.gz").path for k in (1, 2))
    assert first.read_bytes() == second.read_bytes()


def test_what_cannot_be_traced_is_said_before_anything_is_written(by_hand, tmp_path):
    with pytest.raises(SettingError, match=r"ends in \.json\.gz or \.json"):
        write_trace(by_hand, tmp_path / "trace.txt")
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="cannot be written"):
        write_trace(by_hand, tmp_path / "file" / "trace.json")
    for part in (by_hand / "spans").iterdir():
        part.unlink()
    with pytest.raises(DataError, match="keeps no spans"):
        write_trace(by_hand, tmp_path / "trace.json")
    assert not list(tmp_path.glob("trace*"))


def test_a_trace_is_of_one_run(runs, tmp_path):
    from paceline.cli.trace import trace

    with pytest.raises(PacelineError, match="holds 4 runs, and a trace is of one; give one of them: fedavg-seed0"):
        trace(runs, tmp_path / "trace.json")


def test_the_command_says_what_it_wrote(runs, tmp_path, capsys):
    from paceline.cli.main import main

    with pytest.raises(SystemExit) as end:
        main(["trace", str(runs / "fedavg-seed0"), "--out", str(tmp_path / "trace.json.gz")])
    assert end.value.code == 0
    assert "waits" in capsys.readouterr().out
    assert Trace(tmp_path / "trace.json.gz").about["algorithm"] == "fedavg"


MANY = """
import resource, sys
from pathlib import Path
from paceline.ledger.directory import RunDirectory
from paceline.ledger.spans import Ledger
from paceline.tracing.writing import write_trace

directory = RunDirectory.create(Path(sys.argv[1]), {"algorithm": "fedavg", "seed": 0})
ledger = Ledger(path=directory.spans)
for turn in range(250):
    for client in range(1000):
        begin, end = 10.0 * turn, 10.0 * turn + 1 + client / 125
        ledger.transfer(-1, client, begin, begin + 1, turn, 1e6, 0.0)
        ledger.train(client, begin + 1, end, turn, 1e9, 0.0)
        ledger.wait(client, end, begin + 10, turn, 999)
ledger.close()
directory.finish({"status": "done"})
spans = write_trace(directory.path, Path(sys.argv[2])).spans
print(spans, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_a_million_spans_need_no_gigabytes(tmp_path):
    words = [sys.executable, "-c", MANY, str(tmp_path / "run"), str(tmp_path / "trace.json.gz")]
    spans, megabytes = map(int, subprocess.run(words, check=True, capture_output=True, text=True).stdout.split())
    assert spans == 1_000_000
    assert megabytes < 600
