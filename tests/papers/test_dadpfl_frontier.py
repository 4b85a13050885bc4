"""DA-DPFL's frontier over N: prices of links, who is first, and a small run of all of it."""

import numpy as np
import pytest

from paceline.papers.dadpfl import frontier
from paceline.papers.dadpfl.frontier import _priced, frontier_rows
from paceline.papers.dadpfl.setups import SMALL
from paceline.papers.result import Request
from paceline.papers.trials import Finished
from tests.papers.test_dadpfl_trained import TINY


def run(seconds, seed):
    """A run that gains a hundredth a round from 0.9 on; rounds take so many seconds."""
    rounds = np.arange(1.0, 21.0)
    accuracy = np.minimum(0.9 + 0.01 * rounds, 0.99)
    trial = SMALL["digits"].scene.trial("case", "da-dpfl", seed)
    return Finished(
        trial=trial, status="done", reached=None, rounds=None, time=seconds * (1 + 0.01 * seed) * rounds,
        accuracy=accuracy, loss=accuracy, columns={"round": rounds, "accuracy": accuracy}, notes=(),
        totals={"time": 20 * seconds, "rounds": 20.0},
    )  # fmt: skip


def test_the_first_is_told_and_those_that_cannot_be_told_from_it():
    runs = {
        "N = 0": [run(1.0, seed) for seed in range(3)],
        "N = 1": [run(2.0 + 0.02 * seed, seed) for seed in range(3)],
    }
    rows = {row.name: row for row in frontier_rows("here", runs, (0.95, 0.995))}
    assert rows["here, N = 1: time"].ours.startswith("2.02 (")
    # The mean of rounds 3 to 7 is 0.95: crossed in the middle of them, at round 5.
    assert rows["here, N = 0: time to 95 %"].ours.startswith("5.05")
    assert rows["here: first at 95 %"].ours == "N = 0"
    assert "N = 1 x2.02 (" in rows["here: first at 95 %"].note
    level = {"N = 0": runs["N = 0"], "N = 1": [run(1.0 + 0.1 * (-1) ** seed, seed) for seed in range(3)]}
    assert frontier_rows("here", level, (0.95,))[-1].ours in ("N = 0 or N = 1", "N = 1 or N = 0")
    assert rows["here, N = 0: time to 99.5 %"].ours == "not reached"
    assert rows["here: first at 99.5 %"].ours == "no N with all seeds"


def test_an_n_of_which_a_seed_never_arrives_is_not_first():
    late = [run(0.5, 0), run(0.5, 1)]
    late[1].accuracy[:] = 0.5
    runs = {"N = 0": late, "N = 1": [run(2.0, seed) for seed in range(2)]}
    rows = {row.name: row for row in frontier_rows("here", runs, (0.95,))}
    assert rows["here: first at 95 %"].ours == "N = 1"
    assert rows["here, N = 0: time to 95 %"].note == "1 of 2 seeds"


def test_links_are_as_slow_as_is_said():
    """Ten dense models of 4,810 numbers, 19,240 bytes each, in seven seconds."""
    words = _priced(SMALL["digits"], 7.0)
    rate = float(words[-1].partition(":")[2].split(",")[0])
    assert rate == pytest.approx(10 * 4810 * 32 / 7 / 1e6, rel=1e-5)
    assert _priced(SMALL["digits"], 0.0)[-1] == "fleet.links=free"


def test_it_runs(monkeypatch):
    monkeypatch.setitem(SMALL, "digits", TINY)
    monkeypatch.setattr(frontier, "WAITS", (0, 3))
    monkeypatch.setattr(frontier, "COSTS", (0.0, 7.0))
    found = frontier.frontier(Request(scale="small", seeds=1, quiet=True))
    assert len({row.name for row in found.rows}) == len(found.rows)
    times = {row.name: float(row.ours) for row in found.rows if row.unit == "s a round"}
    assert times["digits, transfers 7 s, N = 0: time"] > times["digits, transfers 0 s, N = 0: time"]
    assert times["digits, transfers 0 s, N = 3: time"] > times["digits, transfers 0 s, N = 0: time"]
