"""Runs on the wall clock, repeated in the simulation: the same weights to the last bit, at the same times."""

import json
import shutil
import sys
from types import SimpleNamespace

import pytest

from paceline.errors import DataError, Misplaced, SettingError
from paceline.runs.driver import drive, make_executor
from paceline.runs.local import JOURNAL, make_local_run
from paceline.runs.making import make_run
from paceline.runs.problem import make_space
from paceline.runs.replay import ALONE, replay
from paceline.runs.settings import make_settings
from paceline.worlds.local.arrivals import Arrivals
from paceline.worlds.local.holdings import Holdings, Sent
from paceline.worlds.local.journal import read_journal
from paceline.worlds.local.scoring import Scorer
from tests.worlds.threads import Thread
from tests.worlds.worlds import SPACE

SMALL = ["clients=5", "partition=iid", "local.steps=4"]
RUNS = {
    "fedavg": ["rounds=3"],
    "psfl": ["rounds=2", "psfl.warmup.rounds=2"],
    "apfl": ["rounds=12", "every=4"],
    "fedbuff": ["rounds=5", "fedbuff.buffer=2", "fedbuff.concurrency=3"],
    "p-fedavg": ["clients=6", "rounds=3", "p-fedavg.topology=ring:3", "p-fedavg.participants=2"],
    "da-dpfl": ["rounds=4", "da-dpfl.pruning.threshold=1000", "da-dpfl.neighbours.degree=2"],
    "beer": ["rounds=3", "beer.degree=2"],
}


PROCESSES = ("psfl", "apfl")
"""With real processes; the others with threads that are spoken to in the same words: processes import torch first."""


def recorded(name, words, directory, workers=2, **more):
    run = make_local_run(make_settings(name, [*SMALL, *words]), workers=workers, directory=directory, **more)
    drive([run], make_executor(ALONE))
    assert run.failure is None, run.failure
    return run


def test_what_another_device_holds_cannot_be_asked_of_one():
    holdings = Holdings(make_run(make_settings("fedavg", SMALL), dry=True).world.learner)
    model = holdings.held(0, SPACE, "it")
    assert Sent(holdings, 0).add(2.0 * model) == 1
    with pytest.raises(Misplaced, match="client 1 does not have"):
        Sent(holdings, 1).add(2.0 * model)


def test_what_arrived_is_read_from_its_place(tmp_path):
    arrivals = Arrivals(tmp_path / "arrivals", 8)
    places = arrivals.add([b"one", b"three"])
    assert [arrivals.read(*place) for place in places] == [b"one", b"three"]
    assert arrivals.complete and arrivals.add([b"!"]) == () and not arrivals.complete
    with pytest.raises(DataError, match="ends before what came at byte 3"):
        arrivals.read(3, 6)
    arrivals.close()


def test_clients_can_score_where_each_has_its_own_or_a_server_has_it():
    scorer = Scorer(SimpleNamespace(clients=set), None, None)
    assert scorer.can([{0}, set(), {2}])
    assert not scorer.can([{0}, {0}]) and not scorer.can([{0, 1}, {1}])


def test_a_replay_with_another_network_names_it(tmp_path, monkeypatch):
    """The network's module was edited since."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    layers = "nn.Flatten(), nn.Linear(64, {0}), nn.Linear({0}, 10)"
    text = f"from torch import nn\ndef make():\n    return nn.Sequential({layers})\n"
    (tmp_path / "edited_net.py").write_text(text.format(4))
    recorded("fedavg", ["rounds=1", "model=edited_net:make"], tmp_path / "run", 1, launch=Thread)
    (tmp_path / "edited_net.py").write_text(text.format(5))
    del sys.modules["edited_net"]
    make_space.cache_clear()  # as in a process of its own
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    with pytest.raises(DataError, match="holds weights that do not fit the edited_net:make of today"):
        replay(tmp_path / "run", trust=True)


@pytest.mark.parametrize("name", RUNS)
def test_a_local_run_is_repeated_to_the_last_bit(name, tmp_path):
    # Two processes where devices go their own ways; elsewhere one will do, and starts sooner.
    more = {} if name in PROCESSES else {"launch": Thread}
    run = recorded(name, RUNS[name], tmp_path / "run", workers=1 if name == "psfl" else 2, **more)
    found = replay(tmp_path / "run")
    assert found.equal and found.max_difference == 0.0 and found.acts_elsewhere == 0
    assert found.simulated_seconds == found.recorded_seconds == run.world.now()
    assert found.rounds == run.world.progress


def test_the_ledger_has_real_seconds_and_real_bytes(tmp_path):
    run = recorded("fedavg", ["rounds=2"], tmp_path / "run", workers=1, launch=Thread)
    acts = read_journal(tmp_path / "run" / JOURNAL)
    assert sum(entry.bytes for entry in acts) == run.world.ledger.bytes
    visits = [entry for entry in acts if entry.what == "visit"]
    assert len(visits) == run.world.ledger.visits == 10
    assert all(0 < entry.end - entry.start < 60 for entry in visits)
    kept = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert kept["status"] == "done" and kept["time"] == run.world.now()

    weights = tmp_path / "run" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\1")  # another weight: a difference is found
    assert not replay(tmp_path / "run").equal


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fleet.times=uniform"], "fleet settings describe simulated devices"),
        (["hostile=random:0.4"], "are what they are"),
        (["faults=lost:0.1"], "messages of real devices"),
        (["executor.dtype=float64"], "4 bytes a number"),
    ],
)
def test_what_real_processes_cannot_be_told_is_refused_before_any_starts(words, said):
    with pytest.raises(SettingError, match=said):
        make_local_run(make_settings("fedavg", [*SMALL, *words]), workers=1)


def test_only_a_run_with_a_journal_can_be_repeated(tmp_path):
    with pytest.raises(DataError, match="no finished run"):
        replay(tmp_path)
