"""Recorded rates: hand-computed transfers, properties, and the files as they are."""

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from paceline.errors import CostError, DataError
from paceline.system import Trace, read_traces
from paceline.system.traces import seconds_between

MBIT = 125_000
GOOD = Trace([1.0, 1.0, 2.0], [8.0, 0.0, 16.0])
"""1 MB/s for a second, silence for a second, 2 MB/s for two: 5 MB in 4 s."""

segments = st.lists(
    st.tuples(st.floats(0.01, 100), st.one_of(st.just(0.0), st.floats(0.01, 1000))), min_size=1, max_size=8
)
sizes = st.floats(0, 1e10)


def traces(parts):
    assume(any(rate for _, rate in parts))
    return Trace([length for length, _ in parts], [rate for _, rate in parts])


@pytest.mark.parametrize(
    ("size", "at", "seconds"),
    [
        (0.5e6, 0.0, 0.5),
        (1e6, 0.0, 1.0),  # ends with the segment, and does not wait out the silence
        (1.5e6, 0.0, 2.25),
        (0.5e6, 1.25, 1.0),  # starts in silence
        (5e6, 0.0, 4.0),  # one lap, to its end
        (5.5e6, 0.0, 4.5),
        (2e6, 3.5, 0.5 + 1.0),  # 2 MB/s to the end of the lap, then 1 MB/s for a second
        (50e6, 0.0, 40.0),
        (1e6, 400.5, 0.5 + 1.0 + 0.25),
        (0.0, 1.5, 0.0),
    ],
)
def test_a_transfer_takes_the_time_computed_by_hand(size, at, seconds):
    assert GOOD.seconds(size, at) == pytest.approx(seconds, abs=1e-9)


def test_mean_rate():
    assert GOOD.mean_mbps == pytest.approx(5 * 8 / 4)


def test_a_trace_that_never_moves_a_byte_is_refused():
    with pytest.raises(DataError, match="never moves a byte"):
        Trace([1.0, 1.0], [0.0, 0.0])


@given(segments, st.floats(0, 1e6), sizes, sizes)
def test_a_transfer_takes_no_negative_time_and_is_monotone_in_size(parts, at, one, two):
    trace = traces(parts)
    small, large = sorted((one, two))
    assert 0 <= trace.seconds(small, at) <= trace.seconds(large, at)


@given(segments, st.floats(0, 1e4), st.floats(1, 1e8))
def test_closed_form_agrees_with_walking_the_segments(parts, at, size):
    trace = traces(parts)
    assume(size / trace.total < 100)
    left, elapsed = size, 0.0
    for rate, length in trace.walk(at):
        if rate * length >= left * (1 - 1e-12):
            elapsed += left / rate
            break
        left, elapsed = left - rate * length, elapsed + length
    moved_again = trace.seconds(size, at)
    # Compared in bytes: a rounding error at the edge of a silence is a jump in time and none in bytes.
    assert moved(trace, at, moved_again) == pytest.approx(size, rel=1e-6, abs=1e-2)
    assert moved(trace, at, elapsed) == pytest.approx(size, rel=1e-6, abs=1e-2)


def moved(trace, at, seconds):
    total = 0.0
    for rate, length in trace.walk(at):
        step = min(length, seconds)
        total, seconds = total + rate * step, seconds - step
        if seconds <= 0:
            return total
    raise AssertionError("a walk ended")


@given(segments, segments, st.floats(0, 1e3), st.floats(0, 1e3), st.floats(1, 1e7))
def test_two_ends_are_never_faster_than_either(parts, others, out_at, in_at, size):
    sender, receiver = traces(parts), traces(others)
    assume(size < 100 * min(sender.total, receiver.total))
    try:
        both = seconds_between(sender, out_at, receiver, in_at, size)
    except CostError:
        assume(False)
    slower = max(sender.seconds(size, out_at), receiver.seconds(size, in_at))
    assert both >= slower * (1 - 1e-9) - 1e-6


def test_two_ends_share_the_smaller_rate():
    """1 s at 1 MB/s; 1 s of silence; then 2 MB/s against 1.5 MB/s: 1.75 MB take 1 + 1 + 0.5 s."""
    assert seconds_between(GOOD, 0.0, Trace([10.0], [12.0]), 3.0, 1.75e6) == pytest.approx(2.5)
    assert seconds_between(GOOD, 0.0, Trace([10.0], [12.0]), 3.0, 0.0) == 0.0


def test_two_ends_that_never_meet_are_an_error():
    even, odd = Trace([1.0, 1.0], [8.0, 0.0]), Trace([1.0, 1.0], [0.0, 8.0])
    with pytest.raises(CostError, match="hardly ever open together"):
        seconds_between(even, 0.0, odd, 0.0, 1.0)


def write(tmp_path, text):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return path


def test_a_plain_file_is_one_trace_both_ways(tmp_path):
    (recording,) = read_traces(write(tmp_path, "t_s,mbps\n0,8\n1,16\n4,0.8\n")).values()
    assert recording.up is recording.down
    assert list(itertools.islice(recording.down.walk(0), 3)) == [
        (MBIT * 8, 1.0),
        (MBIT * 16, 3.0),
        (MBIT * 0.8, 3.0),
    ]


def test_t_s_is_the_end_of_an_interval_where_its_length_is_given(tmp_path):
    text = "trace,t_s,dur_ms,bytes,mbps\na,0.5,500,500000,8\na,1.5,1000,2000000,16\nb,2,2000,2000000,8\n"
    recordings = read_traces(write(tmp_path, text))
    assert list(recordings) == ["a", "b"]
    assert recordings["a"].down.duration == 1.5
    assert recordings["a"].down.total == 2_500_000
    assert recordings["b"].up.duration == 2.0


def test_directions_are_kept_apart(tmp_path):
    text = "trace,direction,t_s,mbps\na,down,0,8\na,down,1,8\na,up,0,2\nb,down,0,4\n"
    recordings = read_traces(write(tmp_path, text))
    assert recordings["a"].up.mean_mbps == 2
    assert recordings["a"].down.mean_mbps == 8
    assert recordings["b"].up is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t_s,rate\n0,1\n", "row 1: no column 'mbps'"),
        ("t_s,mbps\n0,1\n1,-2\n", "row 3: mbps is -2"),
        ("t_s,mbps\n0,1\n1,nan\n", "row 3: mbps is nan"),
        ("t_s,mbps\n0,1\n1,x\n", "row 3: mbps is 'x'"),
        ("t_s,mbps\n0,1\n1,1\n1,2\n", "row 4: t_s is 1 after 1"),
        ("t_s,mbps,direction\n0,1,sideways\n", "row 2: direction is 'sideways'"),
        ("t_s,mbps,dur_ms\n1,1,0\n", "row 2: dur_ms is 0"),
        ("trace,t_s,mbps\ndead,0,0\n", "'dead' .both. is a trace that never moves a byte"),
        ("t_s,mbps\n", "no rows"),
    ],
)
def test_a_bad_file_is_an_error_that_names_the_row(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_traces(write(tmp_path, text))


def real(name):
    path = Path(os.environ.get("PACELINE_DATA", "")) / "traces" / name
    if not os.environ.get("PACELINE_DATA") or not path.exists():
        pytest.skip(f"no traces/{name} under PACELINE_DATA")
    return path


@pytest.mark.data
def test_the_ghent_logs_move_the_bytes_they_recorded():
    path = real("ghent_4g_lte.csv")
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    recordings = read_traces(path)
    assert len(recordings) == 40
    for name, recording in recordings.items():
        own = [row for row in rows if row[0] == name]
        last = max(index for index, row in enumerate(own) if float(row[4]) > 0)
        down = recording.down
        assert down.total == pytest.approx(sum(int(row[3]) for row in own), rel=1e-4)
        # All has moved when the last interval that moved something is over, whatever silence follows.
        assert down.seconds(down.total, 0.0) == pytest.approx(sum(int(row[2]) for row in own[: last + 1]) / 1000)


@pytest.mark.data
def test_the_us_logs_have_both_directions_and_the_new_york_ones_only_down():
    us, nyc = read_traces(real("mahimahi_us_cellular.csv")), read_traces(real("nyc_cellular_2019.csv"))
    assert sum(r.up is not None and r.down is not None for r in us.values()) == 6
    assert us["TMobile-LTE-driving"].up is None
    assert len(nyc) == 15
    assert all(r.up is None for r in nyc.values())
    assert nyc["trace-3093662-home3"].down.mean_mbps == pytest.approx(16.05, abs=0.01)
