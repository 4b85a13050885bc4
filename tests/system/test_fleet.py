"""Fleets from settings: each word reaches its class, and what cannot be is an error before work starts."""

import ast
import math
import pickle
import sys
from pathlib import Path

import pytest
from tests.effort import calls

import paceline.system
from paceline.errors import CostError, PacelineError, SettingError
from paceline.system import (
    AlwaysOn,
    Cost,
    Fleet,
    FleetSettings,
    FlopTimes,
    FreeLinks,
    LawTimes,
    MeasuredTimes,
    build_fleet,
)


def test_the_default_fleet_is_that_of_psfl():
    fleet = build_fleet(FleetSettings(), size=500, seed=1)
    means = {fleet.compute.mean_seconds(device, 0.0) for device in range(500)}
    assert means == {0.5, 1.0, 2.0, 4.0, 5.0}
    assert fleet.compute.cost(0, 0, 0.0).seconds != fleet.compute.mean_seconds(0, 0.0)
    assert isinstance(fleet.links, FreeLinks)
    assert isinstance(fleet.availability, AlwaysOn)
    assert fleet.work(1e9) == Cost(0.0, 0.0)


def test_every_setting_arrives(tmp_path):
    (tmp_path / "times.csv").write_text("device,seconds\na,3\n")
    settings = FleetSettings(
        times="flops:1e9",
        jitter=0.0,
        links="rate:8,80",
        latency=0.5,
        watts=10.0,
        link_watts=2.0,
        receive_watts=1.0,
        availability="vanish:1,60",
        server="flops:1e12",
        server_watts=100.0,
        server_mbps=4.0,
        server_link_watts=7.0,
    )
    fleet = build_fleet(settings, size=3, seed=1)
    assert fleet.compute.cost(0, 0, 2e9) == Cost(2.0, 20.0)
    assert fleet.links.cost(0, -1, 1e6, 0.0) == Cost(2.5, 2.0 * (2.0 + 7.0))
    assert fleet.links.cost(0, 1, 1e6, 0.0) == Cost(1.5, 3.0)
    assert fleet.availability.leaves(0, 0, 1.0, 1.0).back == 61.0
    assert fleet.work(3e12) == Cost(3.0, 300.0)
    measured = build_fleet(FleetSettings(times=f"csv:{tmp_path}/times.csv,bootstrap"), size=3, seed=1)
    assert isinstance(measured.compute, MeasuredTimes)
    assert measured.compute.cost(2, 1, 0.0).seconds == 3.0
    drawn = build_fleet(FleetSettings(times="flops:lognormal,5e9,0.5"), size=3, seed=1)
    assert isinstance(drawn.compute, FlopTimes)


def test_the_fleet_of_no_one_idles():
    """NI-E4 and NI-E5: transfers of 6 s up and down together, a fifth of the devices late at every visit."""
    settings = FleetSettings(links="seconds:3,3", latency=0.5, link_watts=2.0, availability="stragglers:0.2,38")
    fleet = build_fleet(settings, size=21, seed=1)
    assert fleet.links.cost(0, -1, 44.7e6, 0.0) == Cost(3.5, 6.0)
    late = [fleet.availability.leaves(device, 0, 1.0, 1.0) for device in range(21)]
    assert [leave.back for leave in late if leave is not None] == [39.0] * 4
    copy = pickle.loads(pickle.dumps(fleet))
    assert [copy.availability.leaves(device, 0, 1.0, 1.0) for device in range(21)] == late


def test_the_seed_decides_the_fleet():
    def times(seed):
        fleet = build_fleet(FleetSettings(times="uniform"), size=10, seed=seed)
        return [fleet.compute.cost(device, 0, 0.0) for device in range(10)]

    assert [c.seconds for c in times(1)] == [c.seconds for c in times(1)]
    assert [c.seconds for c in times(1)] != [c.seconds for c in times(2)]


def test_server_work_that_nobody_defined_is_an_error():
    fleet = Fleet(size=1, compute=LawTimes(law="discrete", seed=0), links=FreeLinks(), availability=AlwaysOn())
    with pytest.raises(CostError, match=r"set fleet\.server"):
        fleet.work(1e9)
    with pytest.raises(CostError, match=r"set fleet\.server"):
        build_fleet(FleetSettings(server="undefined"), size=1, seed=0).work(1e9)
    with pytest.raises(CostError, match="a server job counts nan"):
        build_fleet(FleetSettings(server="flops:1e9"), size=1, seed=0).work(math.nan)


def test_energy_that_nobody_defined_is_nan():
    fleet = build_fleet(FleetSettings(server="constant:2", links="rate:8,8"), size=1, seed=0)
    assert fleet.work(math.nan).seconds == 2.0
    assert math.isnan(fleet.work(0.0).joules)
    assert math.isnan(fleet.compute.cost(0, 0, 0.0).joules)
    assert math.isnan(fleet.links.cost(0, -1, 1.0, 0.0).joules)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"times": "discreet"}, "fleet.times is 'discreet'; did you mean 'discrete'"),
        ({"times": "flops:"}, "flops:"),
        ({"times": "flops:-1"}, "above 0"),
        ({"times": "csv:nowhere.csv"}, "there is no file nowhere.csv"),
        ({"jitter": -0.1}, "jitter is -0.1"),
        ({"links": "ratio:1,2"}, "fleet.links is 'ratio:1,2'; did you mean 'rate'"),
        ({"links": "trace:nowhere.csv"}, "there is no file nowhere.csv"),
        ({"links": "rate:1,2", "latency": math.inf}, "latency is inf"),
        ({"watts": -1.0}, "watts is -1"),
        ({"link_watts": -1.0}, "link_watts is -1"),
        ({"availability": "dropuot:0.1"}, "did you mean 'dropout'"),
        ({"server": "fee"}, "fleet.server is 'fee'; did you mean 'free'"),
        ({"server": "flops:many"}, "RATE is 'many', which is not a number"),
        ({"server": "constant:0"}, "above 0"),
    ],
)
def test_a_fleet_that_cannot_be_is_an_error_before_work_starts(settings, message):
    with pytest.raises(PacelineError, match=message):
        build_fleet(FleetSettings(**settings), size=10, seed=0)


def test_an_empty_fleet_is_an_error():
    with pytest.raises(SettingError, match="a fleet of 0 devices"):
        build_fleet(FleetSettings(), size=0, seed=0)


def test_a_fleet_survives_pickling():
    settings = FleetSettings(links="rate:lognormal,8,1/80", availability="duty:60,0.5+dropout:0.1")
    fleet = build_fleet(settings, size=10, seed=1)
    copy = pickle.loads(pickle.dumps(fleet))
    assert copy.compute.cost(3, 2, 0.0).seconds == fleet.compute.cost(3, 2, 0.0).seconds
    assert copy.links.cost(3, -1, 1e6, 0.0).seconds == fleet.links.cost(3, -1, 1e6, 0.0).seconds
    assert copy.availability.next_online(3, 50.0) == fleet.availability.next_online(3, 50.0)


def test_a_million_devices_are_built_and_asked_as_a_thousand_are():
    def build_and_ask(size):
        fleet = build_fleet(FleetSettings(times="gaussian", links="rate:lognormal,8,1/80"), size=size, seed=1)
        for device in range(0, size, size // 100):
            fleet.compute.cost(device, 0, 0.0)
            fleet.links.cost(device, -1, 1e6, 0.0)

    build_and_ask(1000)  # what is imported or remembered once
    assert calls(lambda: build_and_ask(10**6)) == calls(lambda: build_and_ask(1000)) < 10_000


def test_the_public_names_are_there():
    assert all(hasattr(paceline.system, name) for name in paceline.system.__all__)


def test_the_room_imports_only_what_lies_below_it():
    below = tuple(
        f"paceline.{room}"
        for room in ("errors", "reading", "bounds", "seeds", "references", "config", "forms", "system")
    )
    for file in Path(paceline.system.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.startswith(below) or name.split(".")[0] in sys.stdlib_module_names, (file, name)
