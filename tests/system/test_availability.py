"""Who is there when, and who leaves."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import calls, most_bytes

from paceline.errors import DataError, SettingError
from paceline.system import (
    AlwaysOn,
    Combined,
    Dropouts,
    Exponential,
    Leave,
    Schedule,
    Uniform,
    Vanishing,
    Windows,
)
from paceline.system.availability import Stragglers, parse_availability, whole_part

VISITS = 20_000


def binomial(p):
    """Five standard errors of a share: a false-alarm rate of 6e-7."""
    return 5 * math.sqrt(p * (1 - p) / VISITS)


def test_always_on():
    assert AlwaysOn().next_online(3, 7.5) == 7.5
    assert AlwaysOn().leaves(3, 0, 7.5, 1e9) is None


def test_dropouts_leave_with_probability_p_at_a_uniform_moment():
    """A share and a mean, each within 5 standard errors: false-alarm rate 1.2e-6."""
    drop = Dropouts(0.2, seed=1)
    found = [drop.leaves(visit % 100, visit // 100, 10.0, 4.0) for visit in range(VISITS)]
    left = [leave for leave in found if leave is not None]
    assert abs(len(left) / VISITS - 0.2) < binomial(0.2)
    assert all(10.0 <= leave.at < 14.0 and leave.back == 14.0 for leave in left)
    mean = sum(leave.at for leave in left) / len(left)
    assert abs(mean - 12.0) < 5 * 4 / math.sqrt(12 * len(left))
    assert drop.next_online(0, 3.0) == 3.0


def test_dropouts_at_the_ends_of_probability():
    assert all(Dropouts(0.0, seed=1).leaves(d, 0, 0.0, 1.0) is None for d in range(100))
    assert all(Dropouts(1.0, seed=1).leaves(d, 0, 0.0, 1.0) is not None for d in range(100))
    assert Dropouts(1.0, seed=1, forever=True).leaves(0, 0, 0.0, 1.0).back == math.inf


def test_leaving_is_a_function_of_the_address():
    for make in (lambda s: Dropouts(0.5, seed=s), lambda s: Vanishing(0.5, Exponential(9.0), seed=s)):
        first = [make(1).leaves(d, v, 0.0, 1.0) for d in range(20) for v in range(5)]
        again = [make(1).leaves(d, v, 0.0, 1.0) for d in reversed(range(20)) for v in reversed(range(5))]
        assert again[::-1] == first
        assert [make(2).leaves(d, v, 0.0, 1.0) for d in range(20) for v in range(5)] != first


def test_a_straggler_vanishes_at_the_start_and_is_away_for_a_while():
    """Share and mean time away, each within 5 standard errors: false-alarm rate 1.2e-6."""
    straggler = Vanishing(0.1, Exponential(60.0), seed=4)
    found = [straggler.leaves(7, visit, 100.0, 2.0) for visit in range(VISITS)]
    left = [leave for leave in found if leave is not None]
    assert abs(len(left) / VISITS - 0.1) < binomial(0.1)
    assert all(leave.at == 100.0 < leave.back for leave in left)
    away = [leave.back - 100.0 for leave in left]
    assert abs(sum(away) / len(away) - 60.0) < 5 * 60.0 / math.sqrt(len(away))


@given(percent=st.integers(0, 100), size=st.integers(1, 200), seed=st.integers(0, 10**6), visit=st.integers(0, 10**6))
def test_exactly_the_whole_part_of_the_share_straggles_at_every_visit(percent, size, seed, visit):
    stragglers = Stragglers(percent / 100, 30.0, size=size, seed=seed)
    for v in range(visit, visit + 3):
        found = [stragglers.leaves(device, v, 5.0, 1.0) for device in range(size)]
        assert sum(leave is not None for leave in found) == percent * size // 100
        assert {leave for leave in found if leave is not None} <= {Leave(5.0, 35.0)}


def test_every_device_straggles_as_often_as_any_other():
    """A share of 2,000 visits for each of 10 devices, and of each pair: 5 standard errors, 55 of them: 3e-5."""
    stragglers = Stragglers(0.3, 30.0, size=10, seed=1)
    visits = range(2000)
    late = [[stragglers.leaves(device, v, 0.0, 1.0) is not None for v in visits] for device in range(10)]
    for a in range(10):
        for b in range(a + 1):
            p = 0.3 if a == b else 0.3 * 2 / 9
            both = sum(x and y for x, y in zip(late[a], late[b], strict=True)) / 2000
            assert abs(both - p) < 5 * math.sqrt(p * (1 - p) / 2000)


def test_stragglers_are_a_function_of_the_address():
    def found(seed, visits):
        made = Stragglers(0.4, Exponential(9.0), size=20, seed=seed)
        return {(d, v): made.leaves(d, v, 0.0, 1.0) for v in visits for d in range(20)}

    first = found(1, range(100))
    assert found(1, reversed(range(100))) == first  # more visits than are kept at once
    assert found(2, range(100)) != first
    assert Stragglers(0.4, 9.0, size=20, seed=1).next_online(3, 7.5) == 7.5


def test_asking_for_stragglers_takes_no_work_that_grows_with_the_fleet():
    stragglers = Stragglers(0.2, 30.0, size=200_000, seed=1)
    stragglers.leaves(0, 0, 0.0, 1.0)

    def ask():
        for device in range(0, 200_000, 20):
            stragglers.leaves(device, 0, 0.0, 1.0)

    assert calls(ask) < 10**4 * 5
    assert most_bytes(ask) < 10_000, "a visit's stragglers, found anew, take 200,000 and more"


@pytest.mark.parametrize(
    ("part", "size", "wanted"), [(0.29, 100, 29), (0.2, 5, 1), (0.2, 4, 0), (1.0, 7, 7), (1e-9, 10, 0)]
)
def test_the_whole_part_of_a_share_is_that_of_the_number_as_written(part, size, wanted):
    assert whole_part(part, size) == wanted


def test_a_schedule_by_hand():
    windows = Windows([Schedule([(10.0, 20.0), (15.0, 30.0), (50.0, 60.0)])], seed=0)
    assert [windows.next_online(0, now) for now in (0.0, 10.0, 29.9, 30.0, 55.0, 60.0)] == [
        10.0,
        10.0,
        29.9,
        50.0,
        55.0,
        math.inf,
    ]
    assert windows.leaves(0, 0, 12.0, 18.0) is None
    assert windows.leaves(0, 0, 12.0, 18.5) == Leave(30.0, 50.0)
    assert windows.leaves(0, 0, 55.0, 6.0) == Leave(60.0, math.inf)
    assert windows.leaves(0, 0, 35.0, 1.0) == Leave(35.0, 50.0)


def test_a_schedule_repeats_and_joins_over_the_turn_of_its_period():
    windows = Windows([Schedule([(0.0, 2.0), (4.0, 5.0), (8.0, 10.0)], 10.0)], seed=0)
    assert windows.leaves(0, 0, 9.0, 2.5) is None
    assert windows.leaves(0, 0, 9.0, 3.5) == Leave(12.0, 14.0)
    assert windows.next_online(0, 1.0) == 1.0
    assert windows.next_online(0, 106.0) == 108.0
    always = Windows([Schedule([(0.0, 6.0), (5.0, 10.0)], 10.0)], seed=0)
    assert always.leaves(0, 0, 9.0, 1e6) is None
    assert always.next_online(0, 123.0) == 123.0


def test_a_duty_cycle_is_online_for_its_share_with_phases_of_its_own():
    """20,000 devices at one instant: 5 standard errors, false-alarm rate 6e-7."""
    duty = Windows.duty(3600.0, 0.3, seed=2)
    for now in (0.0, 1e6):
        online = sum(duty.next_online(device, now) == now for device in range(VISITS)) / VISITS
        assert abs(online - 0.3) < binomial(0.3)


@given(
    device=st.integers(0, 10**6),
    now=st.floats(0, 1e8),
    period=st.floats(0.1, 1e5),
    share=st.floats(0.01, 0.99),
    seconds=st.floats(0.001, 1e5),
)
def test_a_duty_cycle_keeps_its_promises(device, now, period, share, seconds):
    duty = Windows.duty(period, share, seed=2)
    start = duty.next_online(device, now)
    assert now <= start <= now + period * (1 - share) * (1 + 1e-6) + 1e-6
    assert duty.next_online(device, start) == start
    leave = duty.leaves(device, 0, start, seconds)
    if leave is None:
        assert seconds <= period * share * (1 + 1e-6) + 1e-6
    else:
        assert start < leave.at < start + seconds
        assert leave.at < leave.back
        assert duty.next_online(device, leave.back) == leave.back
        assert duty.next_online(device, leave.at) == leave.back


def test_windows_from_a_file(tmp_path):
    path = tmp_path / "windows.csv"
    path.write_text("device,start,end\nlisa,0,10\nmax,5,20\nlisa,30,40\n")
    windows = Windows.read(path, seed=1)
    assert windows.next_online(0, 12.0) == 30.0
    assert windows.next_online(1, 0.0) == 5.0
    borrowed = {windows.next_online(device, 25.0) for device in range(2, 62)}
    assert borrowed == {30.0, math.inf}
    assert Windows.read(path, seed=1, period=50.0).next_online(1, 25.0) == 55.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("device,start\na,1\n", "row 1: no column 'end'"),
        ("device,start,end\na,1,2\na,5,5\n", "row 3: the interval from 5 to 5 is empty"),
        ("device,start,end\na,-1,2\n", "row 2: start is -1"),
        ("device,start,end\na,1,nan\n", "row 2: end is nan"),
    ],
)
def test_a_bad_file_is_an_error_that_names_the_row(tmp_path, text, message):
    path = tmp_path / "windows.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        Windows.read(path, seed=1)


def test_combined_waits_for_all_and_leaves_with_the_first():
    early = Windows([Schedule([(0.0, 10.0), (20.0, 30.0)])], seed=0)
    late = Windows([Schedule([(12.0, 18.0), (25.0, 40.0)])], seed=0)
    both = Combined([early, late])
    assert both.next_online(0, 0.0) == 25.0
    assert both.leaves(0, 0, 25.0, 20.0) == Leave(30.0, math.inf)
    assert both.next_online(0, 31.0) == math.inf


def test_words_name_availability(tmp_path):
    path = tmp_path / "w.csv"
    path.write_text("device,start,end\na,0,10\n")
    assert isinstance(parse_availability("always", seed=1), AlwaysOn)
    assert parse_availability("dropout:0.2", seed=1).p == 0.2
    assert parse_availability("dropout:1,forever", seed=1).leaves(0, 0, 0.0, 1.0).back == math.inf
    assert parse_availability("duty:3600,0.5", seed=1).leaves(0, 0, 0.0, 3600.0) is not None
    assert parse_availability("vanish:1,60", seed=1).leaves(0, 0, 5.0, 1.0) == Leave(5.0, 65.0)
    assert parse_availability("vanish:1,exponential,60", seed=1).away == Exponential(60.0)
    assert parse_availability(f"windows:{path}", seed=1).next_online(0, 15.0) == math.inf
    assert parse_availability(f"windows:{path},20", seed=1).next_online(0, 15.0) == 20.0
    assert parse_availability("stragglers:1,60", seed=1, size=3).leaves(0, 0, 5.0, 1.0) == Leave(5.0, 65.0)
    assert parse_availability("stragglers:1,uniform,1,2", seed=1, size=3).away == Uniform(1.0, 2.0)
    mixed = parse_availability("stragglers:1,60+dropout:0", seed=1, size=3)
    assert mixed.leaves(2, 4, 5.0, 1.0) == Leave(5.0, 65.0)
    joined = parse_availability(f"windows:{path},20+vanish:1,60", seed=1)
    assert joined.next_online(0, 15.0) == 20.0
    assert joined.leaves(0, 0, 21.0, 1.0) == Leave(21.0, 81.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alway", "did you mean 'always'"),
        ("always:1", "takes nothing after it"),
        ("dropout:1.5", "wanted a number from 0 to 1"),
        ("dropout:often", "wanted dropout:P"),
        ("dropout:0.5,later", "wanted dropout:P"),
        ("dropout", "wanted dropout:P"),
        ("duty:3600", "wanted duty:PERIOD,ONLINE"),
        ("duty:3600,1", "wanted it between 0 and 1"),
        ("duty:0,0.5", "above 0"),
        ("vanish:0.1", "wanted vanish:P"),
        ("vanish:0.1,-5", "above 0"),
        ("stragler:0.2,60", "did you mean 'stragglers'"),
        ("stragglers:0.2", "wanted stragglers:SHARE,AWAY"),
        ("stragglers:some,60", "wanted stragglers:SHARE,AWAY"),
        ("stragglers:1.5,60", "from 0 to 1"),
        ("stragglers:0.2,0", "above 0"),
        ("stragglers:0.2,unifrom,1,2", "did you mean 'uniform'"),
        ("windows", "wanted windows:PATH"),
        ("always+dropout:2", "from 0 to 1"),
    ],
)
def test_availability_that_cannot_be_is_named(text, message):
    with pytest.raises(SettingError, match=message):
        parse_availability(text, seed=1, size=10)


def test_stragglers_of_an_unknown_fleet_are_an_error():
    with pytest.raises(SettingError, match="give its size"):
        parse_availability("stragglers:0.2,60", seed=1)
