"""Transfers that share a network, on the clock: closed forms, hand-made timelines, and a plain second opinion."""

import asyncio
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paceline.clock import VirtualLoop
from paceline.errors import CostError
from paceline.system import FleetSettings, Network, RateLinks, Sharing, Trace, TraceLinks, build_fleet
from paceline.system.links import LinkPower
from paceline.system.network import Recorded, Route, Steady, fair_rates
from paceline.topology import parse_graph
from paceline.worlds.network import crowd
from paceline.worlds.network import flows as flows_module
from paceline.worlds.network.flows import Flows
from tests.effort import calls

MB = 1_000_000


class Pipes:
    """Ports by hand: what ``Network`` says of capacities, without a fleet."""

    sharing = None

    def __init__(self, capacities):
        self.capacity = capacities.__getitem__

    def watts(self, port):
        return 0.0


def network(**words):
    return build_fleet(FleetSettings(**words), size=100, seed=1).network


def play(net, transfers):
    """End of each (begin, route, size), in order."""
    loop = VirtualLoop()
    flows = Flows(loop, net)

    async def transfer(begin, route, size):
        if begin:
            await loop.at(begin)
        await flows.begin(route, size).done
        return loop.time()

    async def main():
        return await asyncio.gather(*(transfer(*each) for each in transfers))

    ends = loop.run_until_complete(main())
    assert not flows._places, "every port is free when all have ended"
    return ends


def pass_through(*ports, **more):
    return Route(ports=ports, **more)


# -- closed forms -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 7, 50])
def test_equal_transfers_through_one_port_end_together(count):
    """k transfers of s bytes through B end at k s / B, at one instant."""
    ends = play(Pipes({"a": 0.3}), [(0, pass_through("a"), 0.7)] * count)
    assert len(set(ends)) == 1
    assert ends[0] == pytest.approx(count * 0.7 / 0.3)


def test_who_comes_later_waits_for_nobody_and_slows_all():
    """Port of 1 byte/s. A has 4 from t=0, B 4 from t=2: A at half speed until 6, B alone from then on until 8."""
    assert play(Pipes({"a": 1.0}), [(0, pass_through("a"), 4.0), (2, pass_through("a"), 4.0)]) == [6.0, 8.0]


def test_a_timeline_by_hand():
    """A through a (2 byte/s), B through a and b (1 byte/s), C through b from t=2.

    Until 2: B has b's 1, A the other 1 of a. Then B and C have 0.5 each, A 1.5. A (5 bytes) has 2 at 2 and ends at 4.
    B (4 bytes) has 2 at 2 and ends at 6. C (3 bytes) has 2 at 6 and ends with b to itself at 7.
    """
    ends = play(
        Pipes({"a": 2.0, "b": 1.0}),
        [(0, pass_through("a"), 5.0), (0, pass_through("a", "b"), 4.0), (2, pass_through("b"), 3.0)],
    )
    assert ends == [4.0, 6.0, 7.0]


def test_latency_occupies_nothing():
    """The second one's bytes come 3 s late, and until then the first has the port to itself."""
    ends = play(Pipes({"a": 1.0}), [(0, pass_through("a"), 4.0), (0, pass_through("a", latency=3.0), 4.0)])
    assert ends == [5.0, 8.0]


def test_nothing_to_move_and_nothing_in_the_way():
    net = Pipes({"a": 1.0, "wide": math.inf})
    routes = [pass_through("a", latency=3.0), pass_through("a")]
    assert play(net, [(1, route, 0.0) for route in routes]) == [4.0, 1.0]
    assert play(net, [(1, Route(latency=2.0), 9.0), (1, Route(), 9.0), (1, pass_through("wide"), 9.0)]) == [
        3.0,
        1.0,
        1.0,
    ]


@pytest.mark.parametrize("graph", ["torus:3x3", "complete:9", "star:9", "ring:9"])
@pytest.mark.parametrize("backbone", ["exodus", "node:50", "edge:30", "rate:100,60"])
def test_equal_exchanges_between_servers_take_what_pf10_says(graph, backbone):
    """PF-10, Eq. 18: T = s / min{B/deg_i, B/deg_i', A}, where every link has an end of the highest degree."""
    net, links = network(backbone=backbone), parse_graph(graph)
    degrees = [len(near) for near in links.neighbours]
    pairs = [pair for i, j in links.edges for pair in ((i, j), (j, i))]
    ends = play(net, [(0, net.route(-i - 1, -j - 1), MB) for i, j in pairs])
    node, link = net.capacity(("out", -1)), net.capacity(("link", -1, -2))
    expected = [MB / min(node / degrees[i], node / degrees[j], link) for i, j in pairs]
    assert ends == pytest.approx(expected, rel=1e-12)
    assert len(set(ends)) == 1


@pytest.mark.parametrize("graph", ["tree:9", "barbell:3,3", "random:9,0.5", "star:9"])
@pytest.mark.parametrize("backbone", ["exodus", "rate:uniform,50,200/uniform,20,200"])
def test_on_irregular_graphs_nobody_is_slower_than_pf10(graph, backbone):
    """Eq. 18 lets a server's share lie idle where the other end cannot take it; max-min fairness gives it away."""
    net, links = network(backbone=backbone), parse_graph(graph, seed=1)
    degrees = [len(near) for near in links.neighbours]
    pairs = [pair for i, j in links.edges for pair in ((i, j), (j, i))]
    ends = play(net, [(0, net.route(-i - 1, -j - 1), MB) for i, j in pairs])
    for (i, j), end in zip(pairs, ends, strict=True):
        equal = min(net.capacity(("out", -i - 1)) / degrees[i], net.capacity(("in", -j - 1)) / degrees[j])
        assert end <= MB / min(equal, net.capacity(("link", -i - 1, -j - 1))) * (1 + 1e-9)


def test_a_server_is_shared_by_its_devices_and_apart_from_the_backbone():
    """b_i and B_i of PF-10: 4 devices share 8 Mbit/s down, and the exchange with a neighbour has its own 8."""
    net = network(links="rate:80,80", sharing="fair", server_mbps=8.0, backbone="node:8")
    sends = [(-1, 0), (-1, 1), (-1, 2), (-1, 3), (4, -1), (-1, -2), (-2, -1)]
    ends = play(net, [(0, net.route(*pair), MB) for pair in sends])
    assert ends == pytest.approx([4.0] * 4 + [1.0] * 3)


def test_a_devices_own_link_is_shared_by_its_transfers():
    net = network(links="rate:8,80", sharing="fair")
    ends = play(net, [(0, net.route(0, -1), MB), (0, net.route(0, -2), MB), (0, net.route(0, 1), MB)])
    assert ends == pytest.approx([3.0] * 3)


def test_what_a_slow_device_leaves_goes_to_the_others():
    """Three devices of 8, 80 and 80 Mbit/s at a server of 40: 1, 2 and 2 megabytes a second."""
    net = network(links="rate:80,80", sharing="fair", server_mbps=40.0)
    routes = [net.route(device, -1) for device in range(3)]
    routes[0] = routes[0]._replace(links=((("up", 0), Steady(MB)),))
    assert play(net, [(0, route, 4 * MB) for route in routes]) == pytest.approx([4.0, 2.0, 2.0])


# -- cells ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "times"), [(1, 1), (2, 2), (3, 3), (5, 6), (6, 6), (7, 12), (12, 12), (13, 13)])
def test_subcarriers(count, times):
    """12 subcarriers: n devices take n times as long where n divides 12, and 12/⌊12/n⌋ times where not."""
    net = network(links="rate:8,80", sharing="ofdma:12")
    ends = play(net, [(0, net.route(device, -1), MB) for device in range(count)])
    assert ends == pytest.approx([times] * count)
    assert len(set(ends)) == 1


def test_a_cell_is_one_server_and_one_direction():
    net = network(links="rate:8,8", sharing="ofdma:12")
    pairs = [(0, -1), (1, -1), (-1, 2), (3, -2), (4, 5)]
    assert play(net, [(0, net.route(*pair), MB) for pair in pairs]) == pytest.approx([2.0, 2.0, 1.0, 1.0, 1.0])


def test_a_devices_part_of_a_cell_is_shared_by_its_transfers():
    """Two transfers of device 0 and one of device 1: two devices, half the cell each."""
    net = network(links="rate:8,8", sharing="ofdma:12")
    ends = play(net, [(0, net.route(0, -1), MB), (0, net.route(0, -1), MB), (0, net.route(1, -1), MB)])
    # Device 1 ends at 2; device 0 has moved half of both by then, and the cell to itself from then on.
    assert ends == pytest.approx([3.0, 3.0, 2.0])


def test_those_who_leave_a_cell_leave_their_subcarriers():
    """12 subcarriers, 3 MB alone from 0; two more devices of 1 MB from 1 on: 2 + 1/3 a second until 4; then alone."""
    net = network(links="rate:8,8", sharing="ofdma:12")
    sizes = [(0, 3 * MB), (1, MB), (1, MB)]
    ends = play(net, [(begin, net.route(d, -1), size) for d, (begin, size) in enumerate(sizes)])
    assert ends == pytest.approx([5.0, 4.0, 4.0])


def test_a_cells_own_limit():
    """Alone each moves 1 MB/s, two of them half of that; the server takes 0.8 MB/s of both together."""
    net = network(links="rate:8,8", sharing="ofdma:12", server_mbps=6.4)
    assert play(net, [(0, net.route(d, -1), MB) for d in range(2)]) == pytest.approx([2.5, 2.5])


# -- recordings -------------------------------------------------------------------------------------------------

SEGMENTS = st.lists(
    st.tuples(st.floats(0.1, 3.0), st.one_of(st.just(0.0), st.floats(0.1, 50))), min_size=1, max_size=8
)


@pytest.mark.parametrize("sharing", [Sharing(), Sharing(1200)], ids=["fair", "ofdma"])
@given(SEGMENTS.filter(lambda s: any(rate for _, rate in s)), st.floats(0, 1e5), st.floats(1.0, 1e8))
def test_alone_on_a_trace_is_what_the_trace_says(sharing, segments, begin, size):
    trace = Trace(*zip(*segments, strict=True))
    links = TraceLinks([(trace, trace)], seed=3)
    net = Network(links=links, sharing=sharing)
    [end] = play(net, [(begin, net.route(0, -1), size)])
    assert end == begin + links.cost(0, -1, size, begin).seconds


@given(SEGMENTS.filter(lambda s: any(rate for _, rate in s)), st.floats(0, 1e4), st.floats(1e3, 1e7))
def test_beside_a_server_that_is_fast_enough_too(segments, begin, size):
    """Here the flow goes from segment to segment, because the server might have been shared."""
    trace = Trace(*zip(*segments, strict=True))
    links = TraceLinks([(trace, trace)], seed=3)
    net = Network(links=links, sharing=Sharing(), server_mbps=1000.0)
    [end] = play(net, [(begin, net.route(0, -1), size)])
    # Where the last byte falls on the end of a segment, rounding decides whether it waits for the next sound.
    least, most = (begin + links.cost(0, -1, size * by, begin).seconds for by in (1 - 1e-9, 1 + 1e-9))
    assert least - 1e-6 <= end <= most + 1e-6


def test_an_end_that_falls_on_the_end_of_a_segment_does_not_wait_for_the_next():
    """0.1 s of 8 Mbit/s move 0.1 MB; ten minutes of silence follow. At late hours 0.1 s is not 0.1 s to the bit."""
    trace = Trace([0.1, 600.0], [8.0, 0.0])
    route = Route(links=((("up", 0), Recorded(trace, 0.0)),), ports=("wide",))
    for lap in [*range(100), 1000, 123_456]:
        begin = lap * trace.duration
        [end] = play(Pipes({"wide": 1e9}), [(begin, route, 0.1 * MB)])
        assert end - begin < 0.2


def test_two_devices_in_silence_and_in_sound():
    """A port of 1 MB/s; A's link sleeps from 1 to 3 while B has all: B ends 2 MB at 2.5, A at 4.5."""
    trace = Trace([1.0, 2.0, 100.0], [80.0, 0.0, 80.0])
    a = Route(links=((("up", 0), Recorded(trace, 0.0)),), ports=("s",), watts=1.0)
    b = Route(links=((("up", 1), Steady(10 * MB)),), ports=("s",))
    assert play(Pipes({"s": MB}), [(0, a, 2 * MB), (0, b, 2 * MB)]) == pytest.approx([4.5, 2.5])


def test_two_traces_that_never_meet_are_an_error(monkeypatch):
    monkeypatch.setattr(flows_module, "PATIENCE", 50)
    ends = [Recorded(Trace([1.0, 1.0], rates), 0.0) for rates in ([8.0, 0.0], [0.0, 8.0])]
    route = Route(links=((("up", 0), ends[0]), (("down", 1), ends[1])))
    with pytest.raises(CostError, match="between devices 0 and 1 is stuck after 5"):
        play(Pipes({}), [(0, route, 1.0)])
    other = Route(links=((("up", 0), ends[0]), (("down", 2), ends[0])))
    assert play(Pipes({}), [(0, other, 1.5 * MB)]) == pytest.approx([2.5])


# -- stopping, energy, order ------------------------------------------------------------------------------------


def run(net, main):
    loop = VirtualLoop()
    flows = Flows(loop, net)
    return loop.run_until_complete(main(loop, flows))


def test_a_transfer_that_is_stopped_leaves_its_share():
    async def main(loop, flows):
        one, two = flows.begin(pass_through("a"), 4.0), flows.begin(pass_through("a"), 4.0)
        late = flows.begin(pass_through("a", latency=3.0), 1.0)
        await loop.at(2.0)
        assert flows.stop(one) == 1.0
        assert flows.stop(one) == 1.0
        assert flows.stop(late) == 0.0
        await two.done
        assert one.done.cancelled() and late.done.cancelled()
        assert flows.stop(two) == 4.0
        return loop.time()

    assert run(Pipes({"a": 1.0}), main) == 5.0


def test_a_transfer_that_nobody_awaits_any_more_leaves_its_share():
    async def main(loop, flows):
        async def send():
            await flows.begin(pass_through("a"), 4.0).done

        task = loop.create_task(send())
        two = flows.begin(pass_through("a"), 4.0)
        await loop.at(2.0)
        task.cancel()
        await two.done
        return loop.time()

    assert run(Pipes({"a": 1.0}), main) == 5.0


def test_energy_is_that_of_the_time_in_which_bytes_flow():
    async def main(loop, flows):
        watched = flows.begin(pass_through("a", latency=10.0, watts=3.0), 2.0)
        flows.begin(pass_through("a", latency=10.0), 9.0)
        undefined = flows.begin(pass_through("b", watts=math.nan), 2.0)
        seen = [watched.joules]
        for when in (10.0, 11.0, 12.5):
            await loop.at(when)
            seen.append(watched.joules)
        await watched.done
        await loop.at(20.0)
        assert math.isnan(undefined.joules)
        return [*seen, watched.joules]

    assert run(Pipes({"a": 1.0, "b": 1.0}), main) == [0.0, 0.0, 3.0, 7.5, 12.0]


WATTS = {"link_watts": 2.0, "receive_watts": 3.0, "server_link_watts": 0.25}


def spent(net, transfers):
    """(first byte, end, joules) of each (begin, pair, size, stop), where a stop cuts it off."""
    loop = VirtualLoop()
    flows = Flows(loop, net)

    async def transfer(begin, pair, size, stop):
        if begin:
            await loop.at(begin)
        route = net.route(*pair)
        flow = flows.begin(route, size)
        if stop < math.inf:
            await asyncio.wait([flow.done, loop.at(max(stop, begin))], return_when=asyncio.FIRST_COMPLETED)
            flows.stop(flow)
        else:
            await flow.done
        return min(begin + route.latency, loop.time()), loop.time(), flow.joules

    async def main():
        return await asyncio.gather(*(transfer(*each) for each in transfers))

    return loop.run_until_complete(main())


def test_a_devices_watts_are_those_of_its_transfers_together():
    """Device 0 sends 1 MB to each of three others, 1 MB/s in all: three seconds of 2 W for it and of 3 W for each."""
    net = network(links="rate:8,80", sharing="fair", link_watts=2.0, receive_watts=3.0)
    found = spent(net, [(0, (0, k), MB, math.inf) for k in (1, 2, 3)])
    assert [joules for *_, joules in found] == pytest.approx([3 * (2 / 3 + 3)] * 3)


def test_energy_follows_who_comes_and_goes():
    """Device 0 sends 4 MB to server 1 from 0 on, 1 MB to server 2 from 1 on, at 1 MB/s in all; a server's end has
    0.25 W for each transfer. Alone for 1 s, two for 2 s, alone for 2 s: 4 s + 1 s of 2 W, and 5 s + 2 s of 0.25 W."""
    net = network(links="rate:8,80", sharing="fair", **WATTS)
    first, second = spent(net, [(0, (0, -1), 4 * MB, math.inf), (1, (0, -2), MB, math.inf)])
    assert (first[1], second[1]) == pytest.approx((5.0, 3.0))
    assert (first[2], second[2]) == pytest.approx((4 * 2 + 5 * 0.25, 1 * 2 + 2 * 0.25))


def radio_on(found, transfers, way):
    """Seconds in which each device sends (0) or receives (1) anything, added up."""
    spans = {}
    for (_, pair, _, _), (begin, end, _) in zip(transfers, found, strict=True):
        if pair[way] >= 0:
            spans.setdefault(pair[way], []).append((begin, end))
    total = 0.0
    for of_one in spans.values():
        last = -math.inf
        for begin, end in sorted(of_one):
            total += max(0.0, end - max(begin, last))
            last = max(last, end)
    return total


def test_transfers_that_end_together_end_in_the_order_in_which_they_began():
    loop = VirtualLoop()
    flows = Flows(loop, Pipes({"a": 1.0, "b": 1.0}))
    order = []

    async def transfer(name, port, size):
        await flows.begin(pass_through(port), size).done
        order.append((name, loop.time()))

    async def main():
        await asyncio.gather(*(transfer(i, "ab"[i % 2], 1.0) for i in range(6)))

    loop.run_until_complete(main())
    assert order == [(i, 3.0) for i in range(6)]


@pytest.mark.parametrize("size", [math.nan, -1.0, math.inf])
def test_a_size_that_nobody_defined_is_an_error(size):
    with pytest.raises(CostError, match="has a size of"):
        play(Pipes({"a": 1.0}), [(0, pass_through("a"), size)])


# -- work -------------------------------------------------------------------------------------------------------


def test_one_instant_is_divided_once_and_others_are_left_alone(monkeypatch):
    divided = []
    divide = Flows._divide
    monkeypatch.setattr(
        Flows, "_divide", lambda self, group, now: (divided.append(len(group.flows)), divide(self, group, now))
    )
    net = network(links="rate:8,80", sharing="ofdma:1200", server_mbps=100.0)
    first = [(0, net.route(-1, device), MB) for device in range(5)]
    play(
        net, [*first, *((0, net.route(-2, 10 + device), 9 * MB) for device in range(3)), (0.1, net.route(-2, 20), MB)]
    )
    # Five begin and end together at server 1; at server 2 three begin, a fourth comes, and it ends before them.
    assert sorted(divided) == [3, 3, 4, 5]


def test_a_transfer_takes_no_more_work_the_longer_a_run_is():
    """40 rounds of 9 servers with 4 clients each, down, up and over a torus: 4,320 transfers."""
    net = network(
        links="rate:lognormal,10,0.5/lognormal,50,0.5", sharing="fair", server_mbps=100.0, backbone="exodus"
    )
    near = parse_graph("torus:3x3").neighbours
    loop = VirtualLoop()
    flows = Flows(loop, net)

    async def visit(server, client):
        await flows.begin(net.route(server, client), MB).done
        await loop.at(loop.time() + 1.0)
        await flows.begin(net.route(client, server), MB).done

    async def serve(i):
        await asyncio.gather(*(visit(-i - 1, 4 * i + k) for k in range(4)))
        await asyncio.gather(*(flows.begin(net.route(-i - 1, -j - 1), MB).done for j in near[i]))

    async def rounds(count):
        for _ in range(count):
            await asyncio.gather(*map(serve, range(9)))

    first, *_, last = (calls(lambda: loop.run_until_complete(rounds(8))) for _ in range(5))
    assert last < 1.1 * first < 8 * 108 * 1000
    assert len(loop._timers) < 10 and len(flows._events) < 10


# -- a second opinion -------------------------------------------------------------------------------------------


class Plain:
    """All rates anew at every event, for all transfers, with nothing remembered: slow and short."""

    def __init__(self, net, share):
        self.net, self.share = net, share

    def rates(self, flows, now):
        links = {key: rate.at(now) for flow in flows for key, rate in flow["route"].links}
        until = min((end for _, end in links.values()), default=math.inf)
        asked = []
        for flow in flows:
            route, most = flow["route"], math.inf
            if route.cell is not None:
                inside = [other["route"].links[0][0] for other in flows if other["route"].cell == route.cell]
                mine = route.links[0][0]
                most = links[mine][0] * self.share(len(set(inside))) / inside.count(mine)
            asked.append((most, [*route.ports, *(key for key, _ in route.links)]))
        ports = {port for flow in flows for port in flow["route"].ports}
        capacities = {port: self.net.capacity(port) for port in ports} | {
            key: rate for key, (rate, _) in links.items()
        }
        return fair_rates(asked, capacities), until

    def play(self, transfers):
        """(end, bytes) of each (begin, route, size, stop)."""
        flows = [{"route": r, "left": z, "size": z, "begin": b + r.latency, "stop": s} for b, r, z, s in transfers]
        now = 0.0
        while any("end" not in flow for flow in flows):
            for flow in flows:
                if "end" not in flow and (flow["left"] <= flow["size"] * 1e-9 or flow["stop"] <= now):
                    flow["end"] = now
            active = [flow for flow in flows if "end" not in flow and flow["begin"] <= now]
            rates, until = self.rates(active, now)
            later = [
                flow[when] for flow in flows if "end" not in flow for when in ("begin", "stop") if flow[when] > now
            ]
            ends = [now + flow["left"] / rate for flow, rate in zip(active, rates, strict=True) if rate > 0]
            following = min([until, *later, *ends])
            for flow, rate in zip(active, rates, strict=True):
                flow["left"] -= rate * (following - now)
            now = following if following < math.inf else now
        return [(flow["end"], flow["size"] - max(flow["left"], 0.0)) for flow in flows]


def net_of(word, server, traced, power=None):
    links = RateLinks(up=8.0, down=24.0)
    if traced:
        recording = Trace([0.5, 0.25, 1.0], [8.0, 0.0, 20.0]), Trace([1.5, 1.0], [4.0, 16.0])
        links = TraceLinks([recording, recording[::-1]], seed=5)
    sharing = {"fair": Sharing(), "ofdma": Sharing(4)}[word]
    backbone = build_fleet(FleetSettings(backbone="rate:16,8"), size=1, seed=1).network._backbone
    return Network(links=links, sharing=sharing, backbone=backbone, server_mbps=server, latency=0.125, power=power)


SITE = st.integers(-3, 4)
TRANSFERS = st.lists(
    st.tuples(
        st.integers(0, 16).map(lambda n: n / 4),
        st.tuples(SITE, SITE).filter(lambda pair: pair[0] != pair[1]),
        st.sampled_from([0.25 * MB, MB, 2 * MB, 3.3 * MB]),
        st.one_of(st.just(math.inf), st.floats(0.0, 8.0)),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("traced", [False, True], ids=["rate", "trace"])
@pytest.mark.parametrize("word", ["fair", "ofdma"])
@given(TRANSFERS)
@example([(0.0, (0, 1), MB, math.inf), (0.0, (0, 2), MB, 0.5), (0.25, (3, 1), MB, math.inf)])
def test_energy_is_watts_times_the_time_with_the_radio_on(word, traced, transfers):
    """Whoever comes, goes or is cut off: a device's power counts once each way, a server's once a transfer."""
    net = net_of(word, 12.0, traced, LinkPower(2.0, receive=3.0, server=0.25))
    found = spent(net, transfers)
    servers = sum((end - begin) * sum(site < 0 for site in pair)
                  for (_, pair, _, _), (begin, end, _) in zip(transfers, found, strict=True))  # fmt: skip
    expected = 2.0 * radio_on(found, transfers, 0) + 3.0 * radio_on(found, transfers, 1) + 0.25 * servers
    assert sum(joules for *_, joules in found) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("traced", [False, True], ids=["rate", "trace"])
@pytest.mark.parametrize("server", [None, 12.0])
@pytest.mark.parametrize("word", ["fair", "ofdma"])
@given(TRANSFERS)
@example([(0.0, (0, -1), MB, math.inf), (0.0, (0, 1), MB, 0.5), (0.25, (0, -1), MB, math.inf)])
def test_groups_say_the_same_as_dividing_everything_always(word, server, traced, transfers):
    """Ends and bytes of transfers that begin and are stopped at random: no byte is lost, none comes from nowhere."""
    net = net_of(word, server, traced)
    planned = [(begin, net.route(*pair), size, max(stop, begin)) for begin, pair, size, stop in transfers]
    loop = VirtualLoop()
    flows = Flows(loop, net)

    async def transfer(begin, route, size, stop):
        if begin:
            await loop.at(begin)
        flow = flows.begin(route, size)
        if stop < math.inf:
            await asyncio.wait([flow.done, loop.at(stop)], return_when=asyncio.FIRST_COMPLETED)
        else:
            await flow.done
        return loop.time(), flows.stop(flow)

    async def main():
        return await asyncio.gather(*(transfer(*each) for each in planned))

    ends = loop.run_until_complete(main())
    assert not flows._places and not flows._undivided
    for (end, moved), (plain_end, plain_moved) in zip(ends, Plain(net, net.sharing.share).play(planned), strict=True):
        assert end == pytest.approx(plain_end, abs=1e-6)
        assert moved == pytest.approx(plain_moved, abs=1.0)


# -- crowds: very many at once, as columns ------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.5, 1.0, 1.7]),
            st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3, unique=True),
            st.sampled_from([0.0, 0.3, 1.0, 2.5]),
            st.sampled_from([0.0, 0.25]),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_a_crowd_ends_at_the_same_bits_as_one_by_one(transfers):
    capacities = {port: 0.3 + 0.1 * k for k, port in enumerate("abcdefgh")}
    plan = [(begin, pass_through(*ports, latency=late), size) for begin, ports, size, late in transfers]
    ends = []
    for many in (1, 6, 1 << 30):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(crowd, "MANY", many)
            ends.append(play(Pipes(capacities), plan))
    assert ends[0] == ends[1] == ends[2]


def test_who_is_stopped_leaves_a_crowd_with_what_it_has(monkeypatch):
    """Four through a port of 1 byte/s: after 4 s each has 1 byte. One is stopped; the others end at 4 + 3 * 1."""
    monkeypatch.setattr(crowd, "MANY", 2)
    loop = VirtualLoop()
    flows = Flows(loop, Pipes({"a": 1.0}))

    async def main():
        moving = [flows.begin(pass_through("a", watts=2.0), 2.0) for _ in range(4)]
        await loop.at(4.0)
        assert flows.stop(moving[0]) == 1.0
        await asyncio.gather(*(flow.done for flow in moving[1:]))
        return loop.time(), [flow.joules for flow in moving]

    assert loop.run_until_complete(main()) == (7.0, [8.0, 14.0, 14.0, 14.0])
