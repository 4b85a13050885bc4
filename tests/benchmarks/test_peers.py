"""The peers' benchmark on a tiny workload: the plain loop and Paceline learn the same, and the tables say so."""

import json
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from benchmarks.peers.__main__ import disagrees, run_peer
from benchmarks.peers.environments import HERE, PEERS, NotHereError, python_of
from benchmarks.peers.page import LOSS_TOLERANCE, agreement, page, rate
from benchmarks.peers.workload import FEDERATIONS, read, write

TINY = replace(FEDERATIONS["visits-mlp"], name="tiny", rounds=3, clients=6, participants=3, samples=40)


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    path = tmp_path_factory.mktemp("peers") / "tiny.npz"
    write(path, TINY, None)
    return path


def test_batches_are_the_participants_own(workload):
    work = read(workload)
    assert work.federation == TINY
    assert work.batches.shape == (3, 3, 2, 20)
    for round, cohort in enumerate(work.participants):
        for client in cohort:
            visited = np.sort(work.batches_of(client, round).reshape(-1))
            assert (visited == np.sort(work.rows[client])).all()  # one epoch: everything once


def test_plain_and_paceline_learn_the_same(workload):
    runs = {
        name: [asdict(run_peer(PEERS[name], sys.executable, workload, limit=200))] for name in ("plain", "paceline")
    }
    for several in runs.values():
        assert several[0]["error"] == ""
        assert several[0]["wall"] > 0 and several[0]["largest"] > 0
    plain, ours = runs["plain"][0]["told"], runs["paceline"][0]["told"]
    assert len(plain["losses"]) == TINY.rounds
    # Sums are taken in another order: float32 has 7 digits, and six steps enlarge that little.
    assert ours["losses"] == pytest.approx(plain["losses"], rel=1e-5)
    assert ours["accuracies"] == pytest.approx(plain["accuracies"], abs=0.011)  # at most one of 100 samples
    assert not disagrees(runs)
    result = {"hardware": "a machine", "cores": 2, "load": [0, 0], "repeat": 1, "runs": {"tiny": runs}}
    text = page({**result, "workloads": {"tiny": json.loads(json.dumps(asdict(TINY)))}})
    assert "| Paceline |" in text and "loss within" in text


def told(loss, accuracy):
    seconds = {"imports": 0.25}
    return {"error": "", "told": {"losses": [loss], "accuracies": [accuracy], "marks": [1.0], "seconds": seconds}}


def test_a_loss_apart_is_told():
    plain = told(1.0, 0.5)
    assert agreement("pfl", told(1 + LOSS_TOLERANCE / 2, 0.5), plain)[0] is True
    assert agreement("pfl", told(1 + LOSS_TOLERANCE * 2, 0.5), plain)[0] is False
    assert agreement("pfl", told(1.0, 0.5), None)[0] is None
    assert disagrees({"plain": [plain], "pfl": [told(2.0, 0.5)]})


def test_a_peer_that_cannot_run_is_shown_as_such():
    with pytest.raises(NotHereError, match="BlazeFL"):
        python_of(PEERS["blazefl"])
    runs = {"tiny": {"plain": [told(1.0, 0.5)], "blazefl": [{"error": "no | wheel"}]}}
    runs["tiny"]["plain"][0] |= {"wall": 1.0, "largest": 1.0, "tree": None}
    runs["tiny"]["plain"][0]["told"]["versions"] = {"torch": "1"}
    result = {"hardware": "a machine", "cores": 2, "load": [0, 0], "repeat": 1, "runs": runs}
    text = page({**result, "workloads": {"tiny": asdict(TINY)}})
    assert "did not run: `no / wheel`" in text


def test_warm_rounds_alone_count():
    marks = [10.0, 11, 12, 13, 14, 15, 16, 17]
    assert rate({"told": {"marks": marks}}, participants=20) == pytest.approx(20 * 2 / 2)


def test_every_peer_has_a_script_and_pins():
    for peer in PEERS.values():
        if not peer.absent:
            assert (HERE / f"{peer.module}.py").is_file()
            assert not peer.own or (HERE / "requirements" / f"{peer.name}.txt").is_file()
