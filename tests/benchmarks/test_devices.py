"""A visit takes as many steps however many devices are at work: `make bench-growth` in small, and by calls."""

import sys

import pytest
from benchmarks.devices import CASES, FLEETS, LEFT_OUT, MOST, perform, words_of

from paceline.runs.experiment import make_experiment
from paceline.runs.performing import perform as perform_dry
from tests.effort import calls

FEW, MANY, VISITS = 100, 400, 800


def steps(name, fleet, devices, visits):
    """How many calls a run takes, and how many visits are begun in it."""
    experiment = make_experiment([name], overrides=words_of(name, fleet, devices, visits), dry=True)
    outcomes = []
    taken = calls(lambda: outcomes.append(perform_dry(experiment)), turns=True)
    (run,) = outcomes[0].runs
    assert run.failure is None
    return taken, run.world.ledger.visits + devices * CASES[name].goes_on


QUICK = {(name, [*FLEETS][k % len(FLEETS)]) for k, name in enumerate(CASES)} | {
    ("fedbuff", "duty"),
    ("fedasync", "duty"),
}
"""One fleet for each algorithm, and cells in which faults were found; all others are slow."""
CELLS = [
    pytest.param(name, fleet, marks=() if (name, fleet) in QUICK else pytest.mark.slow)
    for name in CASES
    for fleet in FLEETS
    if (name, fleet) not in LEFT_OUT
]


@pytest.mark.parametrize(("name", "fleet"), CELLS)
def test_a_visit_takes_no_more_calls_with_more_devices_at_work(name, fleet):
    steps(name, fleet, 12, 12)  # what is imported or cached by whoever comes first
    start, _ = steps(name, fleet, 12, 12)
    few, many = ((taken - start) / visits for taken, visits in (steps(name, fleet, n, VISITS) for n in (FEW, MANY)))
    assert many < MOST * few, f"{many:.0f} calls a visit with {MANY} devices, {few:.0f} with {FEW}"


@pytest.mark.parametrize("through", ["cli", "python"])
def test_nor_does_what_is_shown_of_it(through, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    taken = []
    for k, devices in enumerate((40, 40, 500, 2_000)):
        folder = tmp_path / str(k)
        folder.mkdir()
        words = words_of("fedavg", "free", devices, 2_000 if devices > 40 else 40)
        taken.append(calls(lambda words=words, folder=folder: perform("fedavg", words, through, folder), turns=True))
    few, many = ((one - taken[1]) / 2_000 for one in taken[2:])
    assert many < MOST * few, f"{many:.0f} calls a visit with 2,000 devices, {few:.0f} with 500"
