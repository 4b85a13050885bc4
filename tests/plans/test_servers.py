"""How many servers: formulas against Table III, the dry run against both, and what is recommended when."""

import math
from dataclasses import replace

import pytest

from paceline.algorithms.psfl import PSFL
from paceline.algorithms.structure import expected_maximum
from paceline.errors import SettingError
from paceline.ledger import Ledger
from paceline.papers.pfedavg import theory
from paceline.plans.demand import Demand
from paceline.plans.servers import (
    ONE,
    TIE,
    closed_form,
    error_growth,
    plan_servers,
    slowest_link,
    traffic,
)
from paceline.plans.servers_dry import measure
from paceline.plans.servers_reasons import drift_range, explain
from paceline.runs.dry import follow
from paceline.runs.problem import make_space
from paceline.system.fleet import build_fleet
from paceline.topology import parse_graph
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.machines import simulate

GRAPHS = ("complete:9", "torus:3x3", "tree:9", "ring:9", "barbell:3,3", "star:9")


def names(plan):
    return [one.name for one in plan.candidates]


# -- formulas -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", GRAPHS)
def test_table_3_counts_the_same_models_and_seconds(word):
    """PF-9 and PF-10, against transfers counted one by one on the graph."""
    graph = parse_graph(word)
    peak, total, seconds = theory.traffic(graph, 36)
    assert traffic(graph, 4, 1.0) == (peak, total)
    demand = Demand(megabits=1, server=theory.RATE_CLIENTS, node=theory.RATE_SERVERS, link=math.inf)
    parts = closed_form(graph, 4, demand)
    assert parts.server + parts.backbone == pytest.approx(seconds)


def test_a_link_is_as_slow_as_its_slowest_part():
    """Eq. 18: the rate of the link, or the share that a link has of its ends."""
    ring = parse_graph("ring:9")
    assert slowest_link(ring, Demand(megabits=10, node=100, link=20)) == (0.5, False)
    assert slowest_link(ring, Demand(megabits=10, node=20, link=100)) == (1.0, True)
    assert slowest_link(parse_graph("star:9"), Demand(megabits=10, node=20, link=100)) == (4.0, True)
    assert slowest_link(parse_graph("complete:1"), Demand()) == (0.0, False)


def test_rounds_needed_follow_theorem_2():
    assert error_growth(1.0, 36, 36) == 0
    assert error_growth(0.5, 36, 36) == pytest.approx((512 + 128 + 4 / 36) / (192 + 4 / 36) - 1)
    assert error_growth(1.0, 48, 36) < 0  # more clients a round: PE is smaller
    plan = plan_servers(Demand(drift=0.3), ["ring"], [9], simulate=False)
    ring = next(one for one in plan.candidates if one.name == "ring:9")
    assert ring.rounds_factor == pytest.approx(0.7 + 0.3 * (1 + error_growth(ring.p, 36, 36)))
    assert plan.one.rounds_factor == 1


# -- dry runs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [*GRAPHS, "complete:1", "ring:25"])
def test_the_ledger_of_a_dry_run_agrees_with_pf_9(word):
    graph, size = parse_graph(word), 13e6 / 8
    told = measure(graph, 2, Demand())
    assert (told.peak_bytes, told.total_bytes) == pytest.approx(traffic(graph, 2, size))


@pytest.mark.parametrize("word", ["complete:9", "torus:3x3", "ring:9", "complete:1"])
@pytest.mark.parametrize("server", [30.0, 1000.0])
def test_a_simulated_round_on_a_regular_graph_by_hand(word, server):
    """A transfer is as fast as the slower of its ends, where PF-10 takes both times; the rest is PF-10's."""
    graph, demand = parse_graph(word), Demand(server=server, client_up=5.0, client_down=20.0)
    told = measure(graph, 4, demand)
    share = 4 * 13 / server
    expected = max(share, 13 / 20) + 1.0 + max(share, 13 / 5) + slowest_link(graph, demand)[0]
    assert told.time_simulated == pytest.approx(expected)
    assert told.time_error == 0
    assert told.time_simulated <= closed_form(graph, 4, demand).seconds


def test_one_server_is_the_shipped_fedavg():
    demand = Demand(spread=0.3)
    fleet = build_fleet(demand.fleet(), 36, 0)
    problem = Problem(make_space("logistic", (203_124,), 2, "float32"), "none", nominal=1)
    assert problem.space.nbytes == 13e6 / 8
    world = simulate(fleet, problem, 0, Ledger(keep=False), learning=False)
    times = follow(world, PSFL(rounds=60, width=36, length=1, sampler="uniform"))
    told = measure(parse_graph("complete:1"), 36, demand)
    assert told.time_simulated == pytest.approx((times[-1] - times[2]) / 57, rel=0.02)


def test_the_slowest_visit_is_waited_for_as_the_formula_says():
    """Servers without limits: only the clients' links and the longest of 36 visits are left, E Z_(K) of PF-11.

    Seeded. Five standard errors of a mean of 52 rounds: a false alarm once in two million seeds.
    """
    demand = Demand(server=math.inf, spread=0.3)
    told = measure(parse_graph("complete:1"), 36, demand)
    expected = 2.6 + 1 + 0.3 * expected_maximum(36)
    assert closed_form(parse_graph("complete:1"), 36, demand).seconds == pytest.approx(expected)
    assert 0 < told.time_error < 0.05
    assert abs(told.time_simulated - expected) < 5 * told.time_error


# -- recommendations ------------------------------------------------------------------------------------------


def test_the_scarce_server_asks_for_more_of_them_and_the_free_one_for_none():
    starved = plan_servers(Demand(server=20), servers=[1, 4, 9])
    assert starved.best.servers == 9
    plenty = plan_servers(Demand(server=math.inf), servers=[1, 4, 9])
    assert plenty.best is plenty.one
    assert explain(plenty)[0].startswith("one server: nobody's rounds")


def test_dense_overlays_lose_where_servers_are_slow_and_win_where_links_are():
    """Theorem 3's third remark, and PF-T4: complete is bad on node-capacitated networks, good on others."""
    node = plan_servers(Demand(node=20, link=math.inf), ["complete", "torus"], [9])
    edge = plan_servers(Demand(node=math.inf, link=20), ["complete", "torus"], [9])
    assert names(node)[0] == "torus:3x3"
    assert names(edge)[0] == "complete:9"
    denser = next(line for line in explain(node) if line.startswith("Denser"))
    assert "since a server has up to 8 neighbours, not 4" in denser
    sparser = next(line for line in explain(edge) if line.startswith("Sparser"))
    assert "servers agree more slowly (p = 0.889 against 1)" in sparser


@pytest.mark.parametrize(
    ("demand", "bound"),
    [
        (Demand(client_up=1), "the clients' own links: no number"),
        (Demand(server=5), "the rate that a server's clients share: more servers"),
        (Demand(compute=100, server=50), "local training: no number"),
        (Demand(node=1, server=5), "the rate of servers between one another: fewer links"),
        (Demand(link=0.5, server=5), "the links between servers: only faster links"),
    ],
)
def test_the_bound_of_a_round_is_named(demand, bound):
    plan = plan_servers(demand, ["ring"], [9], simulate=False)
    chosen = next(one for one in plan.candidates if one.servers == 9)
    forced = replace(plan, candidates=(chosen, *(one for one in plan.candidates if one is not chosen)))
    assert bound in explain(forced)[1]


def test_a_recommendation_holds_just_as_far_as_it_says():
    demand = Demand(server=30)
    plan = plan_servers(demand, simulate=False)
    low, below, high, above = drift_range(plan)
    assert 0 < low < demand.drift < high < 1

    def winner(drift):
        return plan_servers(replace(demand, drift=drift), simulate=False).best

    # Scores nearer than TIE count as equal, so the change may come a little away from the crossing.
    assert {winner(low + 0.05 * (high - low)).name, winner(high - 0.05 * (high - low)).name} == {plan.best.name}
    assert winner(high + 0.02).name == above.name
    assert winner(0.5 * low).name == below.name
    assert f"from {low:.2g} to {high:.2g}; {below.name} below and {above.name} above" in explain(plan)[-1]


def test_of_equals_the_one_with_less_traffic_is_best():
    """With 4 clients or fewer a server, the clients' own links are the limit: 9 and 16 servers are as fast."""
    plan = plan_servers(Demand(node=math.inf, link=20, server=50), ["complete"], [16, 9])
    nine, sixteen = (next(one for one in plan.candidates if one.servers == count) for count in (9, 16))
    assert sixteen.score < nine.score < sixteen.score * (1 + TIE)  # 16 servers train a few more clients
    assert plan.best is nine
    assert "More servers: complete:16 is as fast, but moves more bytes." in explain(plan)


# -- candidates -----------------------------------------------------------------------------------------------


def test_impossible_candidates_are_left_out_with_a_reason():
    plan = plan_servers(Demand(), ["torus", "hypercube", "ring"], [4, 7, 9, 12], simulate=False)
    assert set(names(plan)) == {ONE, "hypercube:2", "ring:7", "torus:3x3", "ring:9", "torus:3x4", "ring:12"}
    reasons = {one.name: one.reason for one in plan.skipped}
    assert "3 rows or more" in reasons["torus of 7"]
    assert "2, 4, 8, 16" in reasons["hypercube of 12"]
    assert reasons["ring:4"] == "the same graph as hypercube:2"


def test_a_server_cannot_ask_more_clients_than_it_has():
    plan = plan_servers(Demand(clients=40), ["ring"], [9, 16], simulate=False)
    assert names(plan) == ["ring:9", ONE]
    (left,) = plan.skipped
    assert (left.name, left.reason) == ("ring:16", "40 clients leave 2 to some server, which needs 3 a round")


def test_whole_overlays_bring_their_own_numbers(tmp_path):
    file = tmp_path / "links.txt"
    file.write_text("a b\nb c\nc a\nc d\n")
    plan = plan_servers(Demand(), ["random:9,0.5", str(file)], simulate=True)
    found = {one.name: one for one in plan.candidates}
    assert found["random:9,0.5"].graph == parse_graph("random:9,0.5")
    assert found[str(file)].servers == 4
    # The graph that was simulated is the one whose p is given: its ledger has its links.
    links = len(found["random:9,0.5"].graph.edges)
    assert found["random:9,0.5"].total_bytes == pytest.approx(2 * (36 + links) * 13e6 / 8)


def test_clients_that_cannot_be_divided_are_rounded_up():
    plan = plan_servers(Demand(server=20), ["torus"], [16], simulate=False)
    assert (plan.best.each, plan.best.clients) == (3, 48)
    assert "(48 in all: 36 cannot be divided evenly)" in explain(plan)[0]


def test_where_one_is_too_large_to_simulate_all_are_judged_by_the_formula(monkeypatch):
    monkeypatch.setattr("paceline.plans.servers.MOST_TRANSFERS", {False: 100, True: 100})
    plan = plan_servers(Demand(), ["ring", "complete"], [9])
    simulated = {one.name: one.time_simulated is not None for one in plan.candidates}
    assert simulated == {"ring:9": True, "complete:9": False, ONE: True}
    assert all(one.seconds == one.time_closed_form for one in plan.candidates)
    assert explain(plan)[-1].endswith("to be simulated: complete:9.")


@pytest.mark.parametrize(
    ("topologies", "servers", "complaint"),
    [
        (["torus"], [7], "no candidate is left but one server; torus of 7: a torus has 3 rows"),
        (["tours"], [9], "did you mean 'torus'"),
        (["regular"], [9], "needs numbers of its own, as in regular:100,4"),
        (["rong:9"], [9], "did you mean 'ring'"),
        (["ring"], [0], "servers is 0; give numbers from 1 to 100"),
        (["ring:200"], [9], "200 servers; at most 100"),
    ],
)
def test_what_cannot_be_is_refused(topologies, servers, complaint):
    with pytest.raises(SettingError, match=complaint):
        plan_servers(Demand(), topologies, servers, simulate=False)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"clients": 10}, "36 participants of 10 clients"),
        ({"participants": 0}, "0 participants"),
        ({"megabits": 0.0}, "megabits is 0"),
        ({"compute": -1.0}, "compute is -1"),
        ({"server": 0.0}, "server is 0; give a rate"),
        ({"client_up": math.inf}, "client_up is inf"),
        ({"node": math.nan}, "node is nan"),
        ({"spread": 0.9}, "spread is 0.9"),
        ({"drift": 2.0}, "drift is 2"),
        ({"weights": "best"}, "weights are 'best'"),
    ],
)
def test_a_demand_that_makes_no_sense_is_refused(wrong, complaint):
    with pytest.raises(SettingError, match=complaint):
        Demand(**wrong)
