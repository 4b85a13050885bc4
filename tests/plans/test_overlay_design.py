"""Overlays made for capacities: limits are kept, the search is near the best of all overlays, files are read."""

from itertools import combinations

import pytest

from paceline.errors import DataError, PacelineError, SettingError
from paceline.plans.capacities import Capacities, read_capacities
from paceline.plans.demand import Demand
from paceline.plans.overlay_design import designs
from paceline.plans.servers import _candidate, plan_servers
from paceline.topology import Graph, make_mixing, parse_graph

UNEQUAL = Capacities(
    (400.0, 50.0, 100.0, 50.0, 20.0),
    {(0, 1): 50.0, (0, 2): 200.0, (0, 3): 20.0, (0, 4): 50.0, (1, 2): 50.0, (2, 3): 50.0, (3, 4): 20.0},
    tuple("abcde"),
    "five.csv",
)


def test_a_link_is_as_slow_as_its_slowest_part():
    """Eq. 18 by hand."""
    assert UNEQUAL.seconds(Graph.of(5, [(0, 1), (0, 2), (0, 3)]), 10.0) == (10 / 20, False)  # the link a-d
    assert UNEQUAL.seconds(Graph.of(5, [(0, 4), (3, 4)]), 10.0) == (10 / (20 / 2), True)  # e has two neighbours
    alike = Capacities.alike(9, 100.0, 820.0)
    assert alike.seconds(parse_graph("torus:3x3"), 13.0) == (13 / 25, True)


@pytest.mark.parametrize("capacities", [UNEQUAL, Capacities.alike(6, 100.0, 30.0)])
def test_every_design_is_an_overlay_of_links_that_can_be_had(capacities):
    found = list(designs(capacities, 13.0))
    assert len(found) > 2
    for graph in found:
        assert graph.connected
        capacities.require(graph)
    times = [capacities.seconds(graph, 13.0)[0] for graph in found]
    assert times == sorted(times)


def test_the_design_is_near_the_best_of_all_overlays():
    """All connected overlays of the seven links, each with its best weights."""
    demand = Demand(network=UNEQUAL, participants=20, clients=100, drift=0.2)
    graphs = [Graph.of(5, links) for count in range(4, 8) for links in combinations(UNEQUAL.links, count)]
    best = min(_candidate("any", graph, demand).score for graph in graphs if graph.connected)
    plan = plan_servers(demand, ("star",), design=True)
    designed = next(one for one in plan.candidates if one.designed)
    assert best <= designed.score <= 1.01 * best
    assert plan.best is designed


def test_known_best_graphs_are_found():
    """Of ten servers with three neighbours, Petersen's graph; of nine with four, the torus."""
    three = next(one for one in designs(Capacities.alike(10, 100.0, 820.0), 13.0) if max(one.degrees) == 3)
    assert make_mixing(three).p == pytest.approx(1 - (3 / 7) ** 2)
    four = next(one for one in designs(Capacities.alike(9, 100.0, 820.0), 13.0) if max(one.degrees) == 4)
    assert make_mixing(four).p == pytest.approx(8 / 9)


def test_designs_are_the_same_every_time_and_beat_the_cube():
    def made():
        return plan_servers(Demand(drift=0.3), ("hypercube",), (8,), simulate=False, design=True)

    plan = made()
    assert plan.best.name == "designed:8"
    assert plan.best.p > next(one.p for one in plan.candidates if one.name == "hypercube:3") + 0.05
    assert [one.graph for one in plan.candidates] == [one.graph for one in made().candidates]


def test_a_design_that_is_there_already_is_not_told_twice():
    plan = plan_servers(Demand(), ("complete", "ring"), (4,), simulate=False, design=True)
    assert [one.name for one in plan.candidates if one.servers == 4] == ["ring:4", "complete:4"]


def test_overlays_that_the_network_has_not_are_left_out():
    plan = plan_servers(Demand(network=UNEQUAL, participants=20, clients=100), ("ring", "complete", "ring:6"))
    assert {one.name: one.reason for one in plan.skipped} == {
        "complete:5": "there is no link between b and d",
        "ring:6": "6 servers, where five.csv has 5",
    }
    assert {one.name for one in plan.candidates} == {"one server", "ring:5"}
    assert all(one.time_simulated is None for one in plan.candidates)


# -- files --------------------------------------------------------------------------------------------------------

GOOD = "server,neighbour,mbps\nparis,,100\nparis,rome,50\nrome,oslo,20\n"


def test_a_file_is_read(tmp_path):
    (tmp_path / "net.csv").write_text(GOOD)
    found = read_capacities(str(tmp_path / "net.csv"))
    assert found.nodes == (100.0, float("inf"), float("inf"))
    assert dict(found.links) == {(0, 1): 50.0, (1, 2): 20.0}
    assert found.names == ("paris", "rome", "oslo")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD + "rome,paris,30\n", "row 5: this link stands there twice"),
        (GOOD + "paris,,30\n", "row 5: the rate of paris stands there twice"),
        (GOOD + "rome,rome,30\n", "row 5: a link with itself"),
        (GOOD + "rome,bonn,0\n", "row 5: mbps is 0"),
        (GOOD + "bonn,berlin,10\n", "not connected"),
        ("server,neighbour,mbps\nparis,,100\n", "names 1 servers"),
        ("server,mbps\nparis,100\n", "neighbour"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path, text, complaint):
    (tmp_path / "net.csv").write_text(text)
    with pytest.raises(PacelineError, match=complaint) as raised:
        read_capacities(str(tmp_path / "net.csv"))
    assert isinstance(raised.value, DataError | SettingError)
