"""DisPFL is DA-DPFL without waiting and without pruning, and moves more of its masks."""

import itertools

import pytest

from paceline.algorithms import dadpfl
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings


def test_the_share_of_moved_weights_falls_by_a_cosine_and_nobody_waits(monkeypatch):
    """alpha_0 = 0.5 as in DisPFL's script (docs/papers/dadpfl.md#reference-code), not 0.3; rounds count from 1."""
    shares, cosine = [], dadpfl.cosine_fraction
    monkeypatch.setattr(dadpfl, "cosine_fraction", lambda *words: shares.append(cosine(*words)) or shares[-1])
    run = make_run(
        make_settings("dispfl", ["clients=12", "rounds=2", "fleet.times=constant:1", "fleet.jitter=0"]), dry=True
    )
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None, run.failure
    assert shares[:12] == [pytest.approx(0.25)] * 12 and shares[12:] == [pytest.approx(0.0)] * 12
    assert [row["sparsity"] for row in run.rows] == [pytest.approx(0.5, abs=1e-3)] * 2
    starts = [row["start"] for row in run.world.ledger.table().to_pylist() if row["kind"] == "train"]
    assert starts.count(0.0) == 12


@pytest.mark.parametrize("name", ["da-dpfl", "dispfl", "gossipfl", "dfedavgm", "dfedsam", "beer"])
def test_peers_do_without_a_server(name):
    words = ["clients=12", "rounds=3", "da-dpfl.pruning.target=0", "fleet.failures=server:1@0.1"]
    one = make_run(make_settings(name, words), dry=True)
    drive([one], make_executor(one.settings.executor))
    assert one.failure is None and one.world.round == 3


@pytest.mark.parametrize("name", ["da-dpfl", "dispfl"])
@pytest.mark.parametrize("links", ["rate:20,20", "rate:5,40"])
def test_every_moment_of_a_client_is_accounted_for(name, links):
    """It trains, transfers or waits, from the first round to the last; and it waits once, whatever it waits for."""
    words = ["clients=12", "rounds=3", "da-dpfl.pruning.target=0", "da-dpfl.wait=3", f"{name}.neighbours.degree=4"]
    one = make_run(make_settings(name, [*words, f"fleet.links={links}"]), dry=True)
    drive([one], make_executor(one.settings.executor))
    rows = one.world.ledger.table().to_pylist()
    for client in range(12):
        own = sorted((row["start"], row["end"], row["kind"]) for row in rows if row["site"] == client)
        reached = waited = 0.0
        for start, end, kind in own:
            assert start <= reached + 1e-9, "nothing was booked until then"
            assert start >= (reached if kind == "wait" else waited) - 1e-9, "it waits while it is busy or waiting"
            reached = max(reached, end)
            waited = end if kind == "wait" else waited
        assert reached == pytest.approx(one.world.now())
        assert any(kind == "wait" for *_, kind in own)


@pytest.mark.parametrize("name", ["da-dpfl", "dispfl", "dfedavgm", "dfedsam"])
def test_nobody_waits_twice_or_keeps_waiting(name):
    """Where clients come and go: waits of one client do not overlap, and none is left open at the end."""
    words = [
        "clients=12",
        "rounds=12",
        "da-dpfl.pruning.target=0",
        "fleet.links=rate:5,5",
        "fleet.times=uniform:0.01,0.1",
    ]
    one = make_run(
        make_settings(name, [*words, "fleet.availability=duty:2,0.6", f"{name}.neighbours.degree=4"]), dry=True
    )
    drive([one], make_executor(one.settings.executor))
    assert one.failure is None, one.failure
    rows = one.world.ledger.table().to_pylist()
    for client in range(12):
        waits = sorted((r["start"], r["end"]) for r in rows if r["site"] == client and r["kind"] == "wait")
        assert all(end <= start + 1e-9 for (_, end), (start, _) in itertools.pairwise(waits))
    assert not one.world.machines.diary._open
