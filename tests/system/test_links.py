"""Links: rates, recorded rates, who pays which energy."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import CostError, SettingError
from paceline.system import (
    Constant,
    Cost,
    FreeLinks,
    LinkPower,
    Links,
    RateLinks,
    Trace,
    TraceLinks,
    Uniform,
)
from paceline.system.links import SecondsLinks, parse_links

MB = 1_000_000
SITES = st.integers(-3, 50)


def recordings():
    return [
        (Trace([1.0, 1.0], [4.0, 0.0]), Trace([2.0, 1.0], [16.0, 8.0])),
        (Trace([5.0], [2.0]), Trace([3.0, 3.0], [1.0, 40.0])),
    ]


FAMILY: list[Links] = [
    FreeLinks(),
    RateLinks(up=8.0, down=80.0, latency=0.25),
    RateLinks(up=Uniform(1, 20), down=Uniform(5, 50), seed=3, server_mbps=30),
    SecondsLinks(up=4.0, down=2.0, latency=0.1),
    TraceLinks(recordings(), seed=3, latency=0.1),
    TraceLinks(recordings(), seed=3, server_mbps=30),
]


def test_free_links_are_free():
    assert FreeLinks().cost(0, -1, 1e12, 5.0) == Cost(0.0, 0.0)


@pytest.mark.parametrize(
    ("source", "target", "seconds"),
    [(0, -1, 1.0), (-1, 0, 0.1), (0, 1, 1.0), (-1, -2, 0.0)],
    ids=["up", "down", "peer", "server to server"],
)
def test_constant_rates(source, target, seconds):
    """1 MB is 8 Mbit: a second at 8 Mbit/s up, a tenth at 80 down. A peer pays the slower one."""
    links = RateLinks(up=8.0, down=80.0, latency=0.25)
    assert links.cost(source, target, MB, 3.0).seconds == pytest.approx(0.25 + seconds)


@pytest.mark.parametrize(
    ("source", "target", "seconds"),
    [(0, -1, 4.0), (-1, 0, 2.0), (0, 1, 4.0), (-1, -2, 0.0)],
    ids=["up", "down", "peer", "server to server"],
)
@pytest.mark.parametrize("size", [0.0, 1.0, 44.7e6])
def test_seconds_whatever_the_size(source, target, seconds, size):
    """NI-E4: T_c = 6 s up and down together is an input."""
    links = SecondsLinks(up=4.0, down=2.0, latency=0.25, power=LinkPower(2.0, receive=0.5, server=30.0))
    watts = LinkPower(2.0, receive=0.5, server=30.0).of(source, target)
    assert links.cost(source, target, size, 3.0) == Cost(0.25 + seconds, seconds * watts)
    assert math.isnan(SecondsLinks(up=4.0, down=2.0).cost(0, -1, size, 0.0).joules)


def test_a_server_rate_that_was_given_counts():
    links = RateLinks(up=8.0, down=80.0, server_mbps=4.0)
    assert links.cost(0, -1, MB, 0.0).seconds == pytest.approx(2.0)
    assert links.cost(-1, -2, MB, 0.0).seconds == pytest.approx(2.0)


def test_nothing_moves_from_a_site_to_itself():
    for links in FAMILY:
        assert links.cost(4, 4, MB, 1.0) == Cost(0.0, 0.0)


def test_energy_is_that_of_both_ends_while_bytes_flow():
    links = RateLinks(up=8.0, down=8.0, latency=10.0, power=LinkPower(2.0, receive=0.5, server=30.0))
    joules = {pair: links.cost(*pair, MB, 0.0).joules for pair in [(0, 1), (0, -1), (-1, 0)]}
    assert joules == pytest.approx({(0, 1): 2.5, (0, -1): 32.0, (-1, 0): 30.5})


def test_a_link_of_one_watt_costs_what_da_dpfl_says():
    """DA-T6: T_comm = D / 1 Gbps and C_comm = 1 W * T_comm, for one link: the sender's end."""
    links = RateLinks(up=1000.0, down=1000.0, power=LinkPower(1.0, receive=0.0))
    assert links.cost(0, 1, 44.7e6, 0.0) == Cost(pytest.approx(0.3576), pytest.approx(0.3576))


def test_undefined_power_is_nan_everywhere_and_a_server_counts_nothing_beside_a_defined_one():
    undefined = RateLinks(up=8.0, down=8.0)
    assert all(math.isnan(undefined.cost(s, t, MB, 0.0).joules) for s, t in [(0, 1), (0, -1), (-1, -2)])
    assert LinkPower(2.0).of(0, -1) == 2.0
    assert LinkPower(2.0).of(0, 1) == 4.0
    assert LinkPower(2.0).of(-1, -2) == 0.0
    assert math.isnan(LinkPower(server=5.0).of(0, -1))
    assert LinkPower(server=5.0).of(-1, -2) == 10.0


def test_rates_are_drawn_once_a_device():
    links = RateLinks(up=Uniform(1, 20), down=Uniform(1, 20), seed=3)
    up = [links.cost(device, -1, MB, 0.0).seconds for device in range(30)]
    down = [links.cost(-1, device, MB, 0.0).seconds for device in range(30)]
    again = RateLinks(up=Uniform(1, 20), down=Uniform(1, 20), seed=3)
    assert [again.cost(device, -1, MB, 9.0).seconds for device in reversed(range(30))] == up[::-1]
    assert len({*up, *down}) == 60
    assert all(8 / 20 <= seconds <= 8 for seconds in up + down)


@pytest.mark.parametrize("links", FAMILY, ids=lambda links: type(links).__name__)
@given(source=SITES, target=SITES, sizes=st.tuples(st.floats(0, 1e8), st.floats(0, 1e8)), now=st.floats(0, 1e7))
def test_a_transfer_takes_no_negative_time_and_is_monotone_in_size(links, source, target, sizes, now):
    small, large = (links.cost(source, target, size, now).seconds for size in sorted(sizes))
    assert 0 <= small <= large


@pytest.mark.parametrize("size", [math.nan, -1.0, math.inf])
@pytest.mark.parametrize("links", FAMILY[1:], ids=lambda links: type(links).__name__)
def test_a_size_that_nobody_defined_is_an_error(links, size):
    with pytest.raises(CostError, match="from site 0 to site -1 has a size of"):
        links.cost(0, -1, size, 0.0)


def test_trace_links_integrate_the_recording_of_the_device():
    links = TraceLinks(recordings(), seed=3, latency=0.5)
    for device in range(20):
        index, offset = links.address(device)
        up, down = recordings()[index]
        assert 0 <= offset < down.duration
        assert links.cost(device, -1, MB, 7.0).seconds == 0.5 + up.seconds(MB, 7.0 + offset)
        assert links.cost(-1, device, MB, 7.0).seconds == 0.5 + down.seconds(MB, 7.0 + offset)
    assert {links.address(device)[0] for device in range(60)} == {0, 1}


def test_a_peer_transfer_over_traces_takes_at_least_what_each_end_takes():
    links = TraceLinks(recordings(), seed=3)
    for device in range(20):
        both = links.cost(device, device + 1, MB, 2.0).seconds
        assert both >= links.cost(device, -1, MB, 2.0).seconds - 1e-9
        assert both >= links.cost(-1, device + 1, MB, 2.0).seconds - 1e-9


def test_words_name_links(tmp_path):
    (tmp_path / "down.csv").write_text("trace,direction,t_s,mbps\na,down,0,8\n")
    assert isinstance(parse_links("free", seed=1), FreeLinks)
    assert parse_links("rate:8,80", seed=1).cost(0, -1, MB, 0.0).seconds == pytest.approx(1.0)
    fixed = parse_links("seconds:6,0", seed=1, latency=1.0, power=LinkPower(3.0))
    assert fixed.cost(0, -1, MB, 0.0) == Cost(7.0, 18.0)
    assert fixed.cost(-1, 0, MB, 0.0) == Cost(1.0, 0.0)
    drawn = parse_links("rate:uniform,1,2/40", seed=1)
    assert 4 <= drawn.cost(0, -1, MB, 0.0).seconds <= 8
    assert drawn.cost(-1, 0, MB, 0.0).seconds == pytest.approx(0.2)
    same = parse_links(f"trace:{tmp_path}/down.csv,same", seed=1, latency=1.0)
    assert same.cost(0, -1, MB, 0.0).seconds == pytest.approx(2.0)
    given = parse_links(f"trace:{tmp_path}/down.csv,2", seed=1)
    assert given.cost(0, -1, MB, 0.0).seconds == pytest.approx(4.0)
    assert given.cost(-1, 0, MB, 0.0).seconds == pytest.approx(1.0)


def test_a_direction_that_nobody_recorded_is_an_error(tmp_path):
    (tmp_path / "down.csv").write_text("trace,direction,t_s,mbps\na,down,0,8\n")
    with pytest.raises(CostError, match="records one direction only"):
        parse_links(f"trace:{tmp_path}/down.csv", seed=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fre", "did you mean 'free'"),
        ("free:1", "takes nothing after it"),
        ("rate:10", "wanted rate:UP,DOWN"),
        ("rate:1,2,3", "wanted rate:UP,DOWN"),
        ("rate:0,5", "above 0"),
        ("rate:fast,5", "known: constant"),
        ("second:3,3", "did you mean 'seconds'"),
        ("seconds", "wanted seconds:UP,DOWN"),
        ("seconds:6", "wanted seconds:UP,DOWN"),
        ("seconds:6,6,6", "wanted seconds:UP,DOWN"),
        ("seconds:6,soon", "wanted seconds:UP,DOWN"),
        ("seconds:6,inf", "wanted seconds:UP,DOWN"),
        ("seconds:-1,6", "the seconds upward is -1.0; wanted a finite number of at least 0"),
    ],
)
def test_links_that_cannot_be_are_named(text, message):
    with pytest.raises(SettingError, match=message):
        parse_links(text, seed=1)


def test_bad_numbers_are_named():
    with pytest.raises(SettingError, match="latency is -1"):
        RateLinks(up=1.0, down=Constant(1.0), latency=-1)
    with pytest.raises(SettingError, match="server_mbps is 0"):
        RateLinks(up=1.0, down=1.0, server_mbps=0)
    with pytest.raises(SettingError, match="without a trace"):
        TraceLinks([])


def test_without_a_rate_downwards_devices_receive_as_fast_as_they_send():
    links = RateLinks(up=Uniform(1, 20), down=None, seed=3)
    assert [links.down(device) for device in range(20)] == [links.up(device) for device in range(20)]
    assert links.cost(4, -1, MB, 0.0).seconds == links.cost(-1, 4, MB, 0.0).seconds
    assert len({links.up(device) for device in range(20)}) == 20
