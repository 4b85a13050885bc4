"""The laboratory finds what goes wrong, and the table in the documentation is its own."""

import gc
import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.chaos import killed, trial
from paceline.chaos.books import broken
from paceline.chaos.injections import INJECTIONS
from paceline.chaos.killed import Mortals
from paceline.chaos.laboratory import Bench, Cell, Table, experiment, from_plain
from paceline.chaos.limits import Hang, at_most
from paceline.chaos.page import page
from paceline.chaos.trial import simulated, with_workers
from paceline.errors import DataError, SettingError, SiteError
from paceline.ledger import Ledger

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = "chaos" + ".md"
BAD = "tests.chaos.bad"
FEW = ("rounds=4",)


@pytest.fixture(scope="module")
def kept():
    return from_plain(json.loads((DOCS / "results/chaos.json").read_text(encoding="utf-8")))


# -- the table -------------------------------------------------------------------------------------------------------


def test_the_table_has_every_algorithm_and_every_fault_and_nothing_is_bad(kept):
    assert [(cell.algorithm, cell.fault) for cell in kept.cells] == [(a, f) for a in ALGORITHMS for f in INJECTIONS]
    assert kept.bad == []
    assert [cell for cell in kept.cells if not cell.struck] == []
    assert all(cell.message for cell in kept.cells if cell.outcome == "ends")
    assert kept.settings == ()


def test_the_page_is_written_from_the_table(kept):
    assert (DOCS / PAGE).read_text(encoding="utf-8") == page(kept)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("fedavg", "lost"),
        ("spfl", "stragglers"),
        ("mifa", "server crash"),
        ("dpsgd", "server crash"),
        ("beer", "nan"),
    ],
)
def test_a_cell_comes_out_again(kept, name, fault):
    (cell,) = experiment([name], [fault]).cells
    (before,) = (one for one in kept.cells if (one.algorithm, one.fault) == (name, fault))
    assert (cell.outcome, cell.message, cell.struck) == (before.outcome, before.message, before.struck)
    assert cell.time == before.time  # virtual time is the same on every machine; accuracy may differ in the last bits
    assert cell.accuracy == pytest.approx(before.accuracy, abs=0.01)


def test_faults_and_files_that_are_not_there_are_refused():
    with pytest.raises(SettingError, match="no fault is called 'lots'; did you mean 'lost'"):
        experiment(["fedavg"], ["lots"])
    good = Table(seed=0, settings=(), cells=(Cell(algorithm="a", fault="lost", outcome="waits", time=2.0),))
    assert from_plain(json.loads(json.dumps(good.plain()))) == good
    for wrong in ({}, {"cells": [{}], "seed": 0, "settings": []}, {"cells": [{"algorithm": "a"}]}, []):
        with pytest.raises(DataError, match="no table"):
            from_plain(wrong)
    cell = good.plain()["cells"][0]
    for change in ({"outcome": "fine"}, {"time": "late"}, {"message": 3}):
        with pytest.raises(DataError, match="is no cell"):
            from_plain({**good.plain(), "cells": [{**cell, **change}]})


# -- judging ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "end", "said"),
    [
        ("Good", "done", ""),
        ("Spins", "hang", "not over after 0.5 s"),
        ("Blocks", "hang", "wait"),
        ("Slips", "wrong", "IndexError"),
        ("Spoils", "wrong", "training diverged to NaN"),
        ("Strays", "wrong", "does not have that model"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_bad_algorithms_are_found(name, end, said, monkeypatch):
    """What an alarm struck in the middle of a step cannot always be ended cleanly; Python says so when it goes."""
    monkeypatch.setattr(trial, "SECONDS", 0.5 if name == "Spins" else 60.0)
    found = simulated(f"{BAD}:{name}", 0, FEW)
    assert found.end == end and said in found.message
    gc.collect()


def test_that_training_diverges_among_hostile_devices_is_no_error():
    found = simulated(f"{BAD}:Spoils", 0, [*FEW, "hostile=sign-flip:0.25"])
    assert found.end == "ends" and "training diverged to NaN" in found.message


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("client 0 could not bring: FileNotFoundError: no such file", True),
        ("client 0 could not visit: Diverged: NaN", False),
        ("server 1 failed at t=3 s", False),
    ],
)
def test_an_error_that_nobody_foresaw_is_known_in_a_worker_too(said, wrong):
    assert trial._unforeseen(SiteError(said)) == wrong


def test_a_run_that_is_not_over_in_time_hangs():
    found = simulated(f"{BAD}:Good", 0, FEW, limit=3.0)
    assert found.end == "hang" and "of 4 rounds at t=3 s" in found.message


def test_what_does_not_run_undisturbed_is_no_matter_of_faults():
    with Mortals() as mortals, pytest.raises(SiteError, match="does not even run undisturbed"):
        Bench(f"{BAD}:Slips", 0, FEW, mortals)


def test_a_score_that_is_no_number_is_wrong(monkeypatch):
    evaluate = trial.make_executor

    def nonsense(settings):
        executor = evaluate(settings)
        score = executor.trainer.evaluate
        executor.trainer.evaluate = lambda jobs: [type(s)(s.accuracy, float("nan"), s.samples) for s in score(jobs)]
        return executor

    monkeypatch.setattr(trial, "make_executor", nonsense)
    found = simulated(f"{BAD}:Good", 0, FEW)
    assert (found.end, found.message) == ("wrong", "loss of round 1 is nan")


def book(*acts):
    ledger = Ledger()
    for verb, *given in acts:
        getattr(ledger, verb)(*given)
    return ledger


@pytest.mark.parametrize(
    ("acts", "said"),
    [
        (
            [("train", 0, 0.0, 2.0, 0, 1.0, 0.0), ("wait", 0, 2.0, 3.0, 0, 1), ("transfer", 0, -1, 3, 4, 0, 8, 0)],
            None,
        ),
        ([("train", 0, 0.0, 2.0, 0, 1.0, 0.0), ("train", 0, 1.0, 3.0, 0, 1.0, 0.0)], "computes two things"),
        ([("train", 0, 2.0, 1.0, 0, 1.0, 0.0)], "ends before it begins"),
        ([("train", 0, 0.0, float("inf"), 0, 1.0, 0.0)], "or never"),
        ([("train", 0, 0.0, 2.0, 0, 1.0, 0.0), ("wait", 0, 1.0, 3.0, 0, 1)], "waits while"),
        ([("wait", 0, 0.0, 2.0, 0, 1), ("wait", 0, 1.0, 3.0, 0, 1)], "waits for two things"),
        ([("transfer", 0, -1, 0.0, 1.0, 0, -8.0, 0.0)], "negative cost"),
    ],
)
def test_books_that_do_not_add_up_are_found(acts, said):
    found = broken(book(*acts))
    assert found is None if said is None else said in found


def test_bytes_that_nobody_received_are_found():
    ledger = book(("transfer", 0, -1, 0.0, 1.0, 0, 8.0, 0.0))
    ledger.bytes += 1
    assert "9 are in the sums" in broken(ledger)


def test_an_alarm_that_was_set_before_goes_on():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    left = signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Hang), at_most(0.05):
            time.sleep(5)
        time.sleep(0.5)
        assert len(rung) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)  # that of whoever runs the tests
        signal.signal(signal.SIGALRM, before)


# -- processes -------------------------------------------------------------------------------------------------------


def test_a_killed_and_resumed_run_is_the_undisturbed_one():
    with Mortals() as mortals:
        found = mortals.killed("fedavg", 0, ["rounds=4", "faults=lost:0.1+nan:0.1"])
        zygote = mortals._zygote
    assert (found.kills, found.same) == (2, True)
    with pytest.raises(ProcessLookupError):
        os.killpg(zygote.pid, 0)


def test_that_the_process_behind_all_dies_is_wrong_and_the_next_has_another():
    with Mortals() as mortals:
        mortals._started().kill()
        found = mortals.killed("fedavg", 0, FEW)
        assert not found.same and found.message == "the process that makes others of itself is gone (exit code -9)"
        assert mortals.killed("fedavg", 0, FEW).same


def test_another_result_after_resuming_is_wrong(monkeypatch):
    def ordered(self, name, said, out, **how):
        out.mkdir(exist_ok=True)
        (out / "metrics.jsonl").write_text("{}\n" * 9)
        return 0

    monkeypatch.setattr(Mortals, "_ordered", ordered)
    monkeypatch.setattr(killed, "_left", lambda directory: directory.name)
    with Mortals() as mortals:
        cell = Bench(f"{BAD}:Good", 0, FEW, mortals).cell(INJECTIONS["killed"])
    assert (cell.outcome, cell.message) == ("wrong", "what it left is not what an undisturbed run leaves")


def test_what_goes_wrong_before_a_run_begins_is_told():
    with Mortals() as mortals:
        bench = Bench(f"{BAD}:Good", 0, FEW, mortals)
        refused = replace(INJECTIONS["lost"], words=lambda traits, seconds: "faults=lots:1")
        assert bench.cell(refused).outcome == "ends" and "did you mean 'lost'" in bench.cell(refused).message


@pytest.mark.slow
def test_a_dead_worker():
    found = with_workers("fedavg", 0, (), kill=True)
    assert (found.end, found.struck) == ("done", True)
