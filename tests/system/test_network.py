"""What transfers share: routes, capacities, words, and max-min fairness as a pure function."""

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SettingError
from paceline.system import (
    Failures,
    FleetSettings,
    FreeLinks,
    LinkPower,
    LogNormal,
    Network,
    RateLinks,
    Route,
    Sharing,
    Trace,
    TraceLinks,
    Uniform,
    build_fleet,
    parse_backbone,
    parse_sharing,
)
from paceline.system.network import Recorded, Steady, fair_rates

MB = 1_000_000
RATES = {"links": "rate:8,80"}


def network(**settings):
    return build_fleet(FleetSettings(**{**RATES, **settings}), size=10, seed=1).network


# -- max-min fairness -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flows", "capacities", "rates"),
    [
        ([], {}, []),
        ([(math.inf, "a")] * 4, {"a": 10.0}, [2.5] * 4),
        ([(1.0, "a"), (math.inf, "a"), (math.inf, "a")], {"a": 10.0}, [1.0, 4.5, 4.5]),
        (
            [(math.inf, "ab"), (math.inf, "a"), (math.inf, "b"), (math.inf, "b")],
            {"a": 3.0, "b": 9.0},
            [1.5, 1.5, 3.75, 3.75],
        ),
        ([(0.0, "a"), (math.inf, "a")], {"a": 10.0}, [0.0, 10.0]),
        ([(math.inf, "a"), (math.inf, ""), (7.0, "")], {"a": math.inf}, [math.inf, math.inf, 7.0]),
    ],
)
def test_fair_rates_by_hand(flows, capacities, rates):
    assert fair_rates(flows, capacities) == rates


@st.composite
def sharings(draw):
    ports = draw(st.integers(1, 6))
    capacity = st.one_of(st.floats(1e-3, 1e9), st.sampled_from([1.0, 2.0, 3.0, 1e6]))
    capacities = dict(enumerate(draw(st.lists(capacity, min_size=ports, max_size=ports))))
    passes = st.lists(st.integers(0, ports - 1), min_size=1, max_size=3, unique=True)
    most = st.one_of(st.just(math.inf), st.just(0.0), capacity)
    return draw(st.lists(st.tuples(most, passes), max_size=15)), capacities


@given(sharings())
def test_every_flow_has_its_bottleneck(sharing):
    """Max-min: a flow has its own most, or passes a full port in which nobody has more than it has."""
    flows, capacities = sharing
    rates = fair_rates(flows, capacities)
    used = {
        port: sum(rate for rate, (_, ports) in zip(rates, flows, strict=True) if port in ports) for port in capacities
    }
    assert all(used[port] <= capacities[port] * (1 + 1e-9) for port in capacities)
    for rate, (most, ports) in zip(rates, flows, strict=True):
        assert rate <= most
        full = [port for port in ports if used[port] >= capacities[port] * (1 - 1e-9)]
        highest = [max(r for r, (_, ps) in zip(rates, flows, strict=True) if port in ps) for port in full]
        assert rate == most or any(rate >= high * (1 - 1e-9) for high in highest)


@given(sharings(), st.randoms())
def test_the_order_of_flows_does_not_matter(sharing, random):
    flows, capacities = sharing
    order = list(range(len(flows)))
    random.shuffle(order)
    shuffled = fair_rates([flows[i] for i in order], capacities)
    assert shuffled == pytest.approx([fair_rates(flows, capacities)[i] for i in order], rel=1e-9)


def test_symmetric_transfers_have_the_same_rate_to_the_last_bit():
    """Every node of a torus sends to four and receives from four. And a third of 0.3 is not quite 0.1."""
    graph = {(i, j) for i in range(9) for j in range(9) if i != j and (i // 3 == j // 3 or i % 3 == j % 3)}
    capacities = {(side, i): 0.1 for side in ("out", "in") for i in range(9)}
    rates = fair_rates([(math.inf, [("out", i), ("in", j)]) for i, j in sorted(graph)], capacities)
    assert set(rates) == {0.025}
    assert len(set(fair_rates([(math.inf, "p")] * 3 + [(math.inf, "q")], {"p": 0.3, "q": 0.1}))) == 1


# -- rates over time --------------------------------------------------------------------------------------------

TRACE = Trace([0.3, 1.0, 0.7], [8.0, 0.0, 4.0])


@given(st.floats(0, 1e6), st.floats(0, 50))
def test_a_recorded_rate_adds_up_along_its_segments(since, length):
    ride = Recorded(TRACE, 0.4)
    at, total = since, 0.0
    while at < since + length:
        rate, until = ride.at(at)
        assert until > at
        total += rate * (min(until, since + length) - at)
        at = until
    assert ride.moved(since, since + length) == pytest.approx(total, rel=1e-6, abs=1.0)
    size = 1e4
    assert ride.moved(since, since + ride.seconds(size, since)) == pytest.approx(size, rel=1e-3)


def test_a_steady_rate():
    assert Steady(4.0).at(3.0) == (4.0, math.inf)
    assert Steady(4.0).seconds(8.0, 3.0) == 2.0
    assert Steady(4.0).moved(3.0, 5.0) == 8.0


# -- routes -----------------------------------------------------------------------------------------------------


def test_without_sharing_there_is_no_network():
    assert network() is None
    assert build_fleet(FleetSettings(links="seconds:3,3"), size=1, seed=1).network is None
    assert build_fleet(FleetSettings(**RATES, server_mbps=4.0), size=1, seed=1).network is None


def test_fair_routes():
    shared = network(sharing="fair", server_mbps=16.0, latency=0.5, link_watts=2.0, receive_watts=1.0)
    up, down, peer = shared.route(3, -2), shared.route(-2, 3), shared.route(3, 4)
    assert up == Route(((("up", 3), Steady(MB)),), (("receive", -2),), None, 0.5, 2.0)
    assert down == Route(((("down", 3), Steady(10 * MB)),), (("send", -2),), None, 0.5, 1.0)
    assert peer == Route(((("up", 3), Steady(MB)), (("down", 4), Steady(10 * MB))), (), None, 0.5, 3.0)
    assert shared.capacity(("send", -2)) == shared.capacity(("receive", -1)) == 2 * MB
    assert shared.route(3, 3) is None


def test_free_servers_take_no_time_and_no_energy():
    assert network(sharing="fair", latency=0.5).route(-1, -2) == Route()
    assert network(sharing="fair").capacity(("send", -1)) == math.inf


def test_cells_are_servers_by_direction():
    cells = network(sharing="ofdma:12", server_mbps=16.0, link_watts=2.0)
    cell = ("cell", -2, "up")
    assert cells.route(3, -2) == Route(((("up", 3), Steady(MB)),), (cell,), cell, 0.0, 2.0)
    assert cells.route(-2, 3).cell == ("cell", -2, "down")
    assert cells.capacity(("cell", -2, "down")) == 2 * MB
    assert cells.route(3, 4).cell is None


def test_subcarriers_are_dealt_out_whole():
    """⌊S/n⌋ of S each; seven devices of twelve subcarriers leave five idle, and thirteen take turns."""
    share = Sharing(12).share
    assert [share(n) * 12 for n in (1, 2, 5, 6, 7, 12)] == pytest.approx([12, 6, 2, 2, 1, 1])
    assert share(13) == pytest.approx(1 / 13)
    assert Sharing(1200).share(36) == 33 / 1200
    assert Sharing().share(9) == 1.0


def test_a_device_on_a_trace_rides_its_own():
    links = TraceLinks([(TRACE, Trace([2.0], [1.0])), (Trace([5.0], [2.0]), TRACE)], seed=3)
    shared = Network(links=links, sharing=Sharing())
    for device in range(10):
        [(key, rate)] = shared.route(device, -1).links
        assert key == ("up", device)
        assert shared.route(-1, device).links[0][1].offset == rate.offset == links.address(device)[1]
        assert rate.seconds(MB, 7.0) == links.cost(device, -1, MB, 7.0).seconds


def test_a_backbone_beside_links_that_are_not_shared():
    """PF-10: B_i in and out of each server, A_ii' on each link; devices stay as they were."""
    for links in ("free", "seconds:3,3", "rate:8,80"):
        backbone = network(links=links, backbone="rate:100,820", latency=0.5, server_link_watts=2.0)
        assert backbone.route(0, -1) is backbone.route(-1, 0) is backbone.route(0, 1) is None
        ports = (("out", -1), ("link", -1, -3), ("in", -3))
        assert backbone.route(-1, -3) == Route((), ports, None, 0.5, 4.0)
        assert [backbone.capacity(port) / 125_000 for port in ports] == [100.0, 820.0, 100.0]


def test_backbones_by_name():
    def mbps(word, *port):
        return network(backbone=word).capacity(port) / 125_000

    assert (mbps("exodus", "in", -4), mbps("exodus", "link", -4, -1)) == (100.0, 820.0)
    assert (mbps("node:30", "out", -4), mbps("node:30", "link", -4, -1)) == (30.0, math.inf)
    assert (mbps("edge:30", "out", -4), mbps("edge:30", "link", -4, -1)) == (math.inf, 30.0)
    assert mbps("geant", "in", -4) == 1000.0
    assert parse_backbone("geant").link.mean == pytest.approx(100.0)
    assert isinstance(parse_backbone("geant").link, LogNormal)


def test_drawn_capacities_live_at_addresses():
    """A server is alike in and out, a link both ways, and nothing else is alike."""
    drawn = network(backbone="rate:uniform,50,150/uniform,500,1500")
    nodes = [drawn.capacity(("out", -i)) for i in range(1, 10)]
    links = [drawn.capacity(("link", -i, -j)) for i in range(1, 10) for j in range(1, i)]
    assert nodes == [drawn.capacity(("in", -i)) for i in range(1, 10)]
    assert links == [drawn.capacity(("link", -j, -i)) for i in range(1, 10) for j in range(1, i)]
    assert len({*nodes, *links}) == 9 + 36
    assert all(50 <= node / 125_000 <= 150 for node in nodes) and all(500 <= link / 125_000 <= 1500 for link in links)
    again = build_fleet(FleetSettings(backbone="rate:uniform,50,150/uniform,500,1500"), size=1, seed=2).network
    assert again.capacity(("out", -1)) != nodes[0]


def test_the_mean_of_geants_links_is_what_the_paper_says():
    """The mean of 10,000 links lies within 5 standard errors of 100 (false alarm: 1 seed in a million)."""
    geant = network(backbone="geant")
    links = [geant.capacity(("link", -1, -i)) / 125_000 for i in range(2, 10_002)]
    error = math.sqrt(parse_backbone("geant").link.variance / len(links))
    assert abs(sum(links) / len(links) - 100) < 5 * error


def test_a_network_survives_pickling():
    shared = network(sharing="ofdma:1200", backbone="geant", links="rate:lognormal,8,1/80")
    copy = pickle.loads(pickle.dumps(shared))
    assert copy.route(3, -1).links == shared.route(3, -1).links
    assert copy.capacity(("link", -1, -2)) == shared.capacity(("link", -1, -2))


def test_failures_arrive_in_the_fleet():
    fleet = build_fleet(FleetSettings(failures="server:4@120+link:1-2@60"), size=1, seed=1)
    assert (fleet.failures.server(-4), fleet.failures.link(-2, -1)) == (120.0, 60.0)
    assert build_fleet(FleetSettings(), size=1, seed=1).failures == Failures()


# -- what cannot be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sharing": "fare"}, "fleet.sharing is 'fare'; did you mean 'fair'"),
        ({"sharing": "fair:2"}, "'fair' takes nothing after it"),
        ({"sharing": "ofdma"}, "wanted ofdma:SUBCARRIERS, as in ofdma:1200"),
        ({"sharing": "ofdma:0"}, "SUBCARRIERS is '0', which is not a whole number of at least 1"),
        ({"sharing": "ofdma:1e3"}, "wanted ofdma:SUBCARRIERS"),
        ({"sharing": "fair", "links": "free"}, "fleet.links is 'free', without a byte rate to share"),
        ({"sharing": "ofdma:12", "links": "seconds:3,3"}, "'seconds:3,3', without a byte rate to share"),
        ({"backbone": "fre"}, "fleet.backbone is 'fre'; did you mean 'free'"),
        ({"backbone": "geant:3"}, "'geant' takes nothing after it"),
        ({"backbone": "rate:10"}, "wanted rate:NODE,LINK"),
        ({"backbone": "rate:10,0"}, "above 0"),
        ({"backbone": "node:"}, "fleet.backbone is 'node:'; wanted node:NODE, as in node:100"),
        ({"backbone": "edge:fast"}, "known: constant"),
        ({"sharing": "fair", "server_mbps": 0.0}, "server_mbps is 0"),
        ({"failures": "servr:3@5"}, "did you mean 'server'"),
    ],
)
def test_networks_that_cannot_be_are_named(settings, message):
    with pytest.raises(SettingError, match=message):
        network(**settings)


def test_links_without_a_rate_cannot_be_shared():
    with pytest.raises(SettingError, match=r"set fleet\.links to rate"):
        Network(links=FreeLinks(), sharing=Sharing())
    assert parse_sharing("none") is None


def test_a_devices_own_link_has_no_fixed_capacity():
    shared = Network(links=RateLinks(up=Uniform(1, 2), down=1.0), sharing=Sharing(), power=LinkPower(1.0))
    with pytest.raises(KeyError, match="own link"):
        shared.capacity(("up", 3))
