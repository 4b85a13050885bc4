"""What every world must do, as the simulation and processes of one machine do it: on nodes of a federation."""

from inspect import signature

import pytest

from paceline.runs.local import make_local_run
from paceline.runs.settings import make_settings
from tests.contract import test_worlds as contract
from tests.federation.memory import MemoryGrid

ASKED = {name: one for name, one in vars(contract).items() if name.startswith("test_")}
globals().update({name: one for name, one in ASKED.items() if "world" in signature(one).parameters})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    grid = MemoryGrid(tmp_path_factory.mktemp("nodes"), 4)
    found = make_local_run(make_settings("fedavg", contract.WORDS), workers=1, make_hosts=grid.hosts())
    found.on_start()
    yield found
    found.close()
    grid.stop()


@pytest.fixture
def world(run):
    return run.world
