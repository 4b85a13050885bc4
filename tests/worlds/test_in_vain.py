"""Devices that finish their visits and are away when they are to send: nothing ever arrives, and a run says so."""

import pytest

from paceline.errors import Fruitless
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings

ASYNCHRONOUS = ("apfl", "fedasync", "fedbuff")
HALF = ["clients=6", "partition=iid", "fleet.availability=duty:1,0.5", "fleet.links=seconds:1,1", "fleet.jitter=0"]
"""There for half of every second; a model is on its way for a whole one, which a device need not be there for."""


def ended(name, *words):
    run = make_run(make_settings(name, words), dry=True)
    drive([run], make_executor(run.settings.executor))
    return run


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_an_asynchronous_run_ends_when_nothing_can_arrive(name):
    """A visit takes as long as a device is there: it is away when it is to send."""
    run = ended(name, *HALF, "rounds=1", "fleet.times=constant:0.5")
    assert isinstance(run.failure, Fruitless), run.failure
    assert "nothing that is trained arrives: the last 2,000 visits of round 0 were finished" in str(run.failure)
    assert run.world.ledger.visits == 2000


def test_with_many_devices_each_may_try_twenty_times():
    run = ended("fedbuff", *HALF, "clients=150", "rounds=1", "fleet.times=constant:0.5")
    assert "the last 3,000 " in str(run.failure)


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_one_that_sends_now_and_then_goes_on(name):
    run = ended(name, *HALF, "rounds=3", "fleet.times=constant:0.3")
    assert run.failure is None and run.world.progress == 3


def test_rounds_in_which_nobody_meets_are_rounds(tmp_path):
    """Peers that are never there at the same time learn alone, for as many rounds as were asked for."""
    path = tmp_path / "hours.csv"
    path.write_text("device,start,end\n" + "".join(f"{k},{2 * k},{2 * k + 1}\n" for k in range(4)))
    words = [f"fleet.availability=windows:{path},8", "clients=4", "partition=iid", "fleet.times=constant:0.5"]
    run = ended(
        "dfedavgm", *words, "rounds=4000", "dfedavgm.neighbours.graph=complete", "dfedavgm.neighbours.degree=3"
    )
    assert run.failure is None and run.world.progress == 4000
    assert run.world.ledger.visits >= 2000
