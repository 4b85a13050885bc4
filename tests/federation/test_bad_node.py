"""A real node that sends NaN, wrong shapes, a huge array and an update beyond the bound, one after the other."""

import json
import sys

import pytest

from paceline.federation.config import Limits
from paceline.federation.flower import home
from paceline.federation.processes import Child, environment
from paceline.runs.replay import replay
from tests.federation import real as federations
from tests.federation.bad_worker import KINDS
from tests.federation.real import Real
from tests.federation.test_refusing import BAD

pytestmark = [pytest.mark.slow, pytest.mark.federation, pytest.mark.timeout(600)]


def test_whatever_a_bad_node_sends_is_refused_by_name_and_never_averaged(tmp_path, monkeypatch):
    usual = federations.node_process

    def process(file):
        if file.stem != "node1":
            return usual(file)
        place = file.with_suffix("")
        command = [sys.executable, "-m", "tests.federation.bad_worker", "join", str(file)]
        return Child(file.stem, command, place / "logs" / "join.log", environment(home(place)))

    monkeypatch.setattr(federations, "node_process", process)
    with Real(tmp_path, limits=Limits(bytes=1_000_000, norm=100.0)) as real:
        out = real.run("fedavg", [f"rounds={len(KINDS)}", "model=mlp:32"], "run")
    summary = json.loads((out / "summary.json").read_text())
    told = [note["text"] for note in summary["notes"]]
    print("\n" + "\n".join(told))
    assert len(told) == len(KINDS)
    for kind in KINDS:
        assert sum("client 1 dropped out (refused)" in text and BAD[kind][1] in text for text in told) == 1, kind
    assert summary["distributions"]["dropped_refused"] == {"1": len(KINDS)}
    found = replay(out)  # a simulation in which those visits drop out
    assert found.equal and found.rounds == len(KINDS)
