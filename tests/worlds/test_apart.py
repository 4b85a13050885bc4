"""Devices whose hours never meet: that takes long to find out, and is found out once."""

import pytest

from paceline.errors import Fruitless
from paceline.learn.executor import Executor
from paceline.learn.reference import ReferenceTrainer
from paceline.runs.driver import drive
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.system.availability import Combined

WORDS = ["clients=12", "seed=5", "partition=iid", "fleet.availability=duty:50,0.1+duty:7,0.1",
         "fleet.times=constant:1", "dispfl.neighbours.graph=complete", "dispfl.neighbours.degree=11"]  # fmt: skip


@pytest.fixture
def asked(monkeypatch):
    """How often a device's hours were looked at."""
    count, next_online = [0], Combined.next_online

    def counted(self, device, now):
        count[0] += 1
        return next_online(self, device, now)

    monkeypatch.setattr(Combined, "next_online", counted)
    return count


def looked_at(asked, rounds):
    asked[0] = 0
    run = make_run(make_settings("dispfl", [*WORDS, f"rounds={rounds}"]), dry=True)
    drive([run], Executor(ReferenceTrainer()))
    assert isinstance(run.failure, Fruitless)
    return asked[0]


def test_who_never_meets_is_not_looked_for_in_every_round(asked):
    few, many = looked_at(asked, 3), looked_at(asked, 12)
    assert few < many < 2 * few
