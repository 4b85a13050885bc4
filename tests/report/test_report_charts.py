"""Charts and tables as text: what is drawn where."""

import math
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from report_samples import span
from scipy import stats

from paceline.report.charts import Series, line_chart, mean_series
from paceline.report.gantt import describe, gantt, sample
from paceline.report.spans import COLUMNS, NO_SITE, Waiting, Window
from paceline.report.tables import causes
from paceline.report.text import number, percent, seconds, site, size, spread, tag, ticks, words
from paceline.statistics import half_width


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (number(1234567.0), "1,234,567"),
        (number(0.00012345), "0.0001234"),
        (number(100.0), "100"),
        (number(0.0), "0"),
        (number(None), "–"),
        (number(math.nan), "–"),
        (seconds(2.5), "2.5 s"),
        (percent(0.8425), "84.2 %"),
        (size(999), "999 B"),
        (size(1_234_000), "1.23 MB"),
        (size(999_700), "1 MB"),
        (size(5e18), "5,000 PB"),
        (site(0), "client 0"),
        (site(-1), "server"),
        (site(-3), "server 3"),
        (spread("1.5 s", "0.2 s"), "1.5 ± 0.2 s"),
        (spread("1.5 GB", "200 MB"), "1.5 GB ± 200 MB"),
        (spread("12", "3"), "12 ± 3"),
        (tag("a", "<b>", class_="x&y", stroke_width=1.5), '<a class="x&amp;y" stroke-width="1.5"><b></a>'),
        (words("a", "<b>"), "<a>&lt;b&gt;</a>"),
    ],
)
def test_numbers_and_marks(text, expected):
    assert text == expected


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 17), (0.123, 0.126), (0, 3e9), (99.5, 100.5)])
def test_ticks_are_round_inside_and_of_a_fair_number(low, high):
    found = ticks(low, high)
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in found)
    assert 3 <= len(found) <= 7
    assert np.allclose(np.diff(found), found[1] - found[0])


def test_the_interval_is_students():
    values = np.array([1.0, 2.0, 4.0])
    low, high = stats.t.interval(0.95, 2, loc=values.mean(), scale=stats.sem(values))
    assert values.mean() - half_width(values) == pytest.approx(low)
    assert values.mean() + half_width(values) == pytest.approx(high)


def test_the_mean_covers_only_the_time_all_seeds_cover():
    one = (np.array([0.0, 10.0]), np.array([0.0, 1.0]))
    two = (np.array([2.0, 6.0, 8.0]), np.array([0.4, math.nan, 1.6]))
    series = mean_series("a", [one, two])
    assert (series.x[0], series.x[-1]) == (2.0, 8.0)
    # At t=5 the first is 0.5; the second skips its NaN and is halfway between 0.4 and 1.6.
    assert np.interp(5.0, series.x, series.y) == pytest.approx((0.5 + 1.0) / 2)
    assert np.all(series.low < series.y)


def test_one_seed_is_drawn_as_measured_and_none_as_nothing():
    series = mean_series("a", [(np.array([3.0, 1.0]), np.array([0.3, 0.1]))])
    assert series.x.tolist() == [1.0, 3.0]
    assert series.low is None
    assert len(mean_series("a", [(np.array([1.0]), np.array([math.nan]))]).x) == 0
    apart = [(np.array([0.0, 1.0]), np.array([0.0, 1.0])), (np.array([5.0, 6.0]), np.array([0.0, 1.0]))]
    assert len(mean_series("a", apart).x) == 0
    assert "Nothing was measured" in line_chart([], x_label="x", y_label="y")


def test_a_chart_has_a_line_and_a_band_for_each_series_and_escapes_names():
    x = np.arange(3.0)
    band = Series(name="<one>", x=x, y=x / 2, low=x / 2 - 0.1, high=x / 2 + 0.1)
    plain = Series(name="two", x=x, y=1 - x / 2)
    chart = line_chart([band, plain], x_label="x & y", y_label="accuracy", target=0.9)
    root = ET.fromstring(chart)
    classes = [node.get("class") for node in root.iter()]
    assert classes.count("band c0") == 1
    assert classes.count("band c1") == 0
    assert classes.count("line c0") == classes.count("line c1") == 1
    assert classes.count("target") == 1
    assert any("<one>: 50.0 % at 1" in (node.text or "") for node in root.iter("title"))


@pytest.mark.parametrize("y", [[0.5], [0.5, 0.5], [0.0, 0.0]])
def test_flat_and_single_points_can_be_drawn(y):
    chart = line_chart([Series(name="a", x=np.arange(float(len(y))), y=np.array(y))], x_label="x", y_label="y")
    assert "nan" not in chart
    ET.fromstring(chart)


def bars(svg, kind):
    return [node for node in ET.fromstring(svg).iter("rect") if node.get("class") == f"bar {kind}"]


def test_bars_are_as_long_as_their_spans():
    found = bars(gantt(sample()), "train")
    widths = sorted(float(bar.get("width")) for bar in found)
    # The sample trains for 3, 5 and 10 seconds, twice.
    assert np.allclose(np.array(widths) / widths[0] * 3, [3, 3, 5, 5, 10, 10], rtol=1e-3)
    assert len({bar.get("y") for bar in found}) == 3


def test_a_site_that_does_several_things_at_once_has_lanes():
    rows = {bar.get("y") for bar in bars(gantt(sample()), "receive")}
    assert len(rows) == 3


def test_a_wait_says_for_whom_and_undefined_costs_are_left_out():
    costs = {"bytes": 0.0, "flops": 0.0, "joules": math.nan}
    span = {"kind": "wait", "site": 1, "start": 2.0, "end": 5.0, "round": 4, "peer": 7, **costs}
    assert describe(span) == "client 1: wait for client 7\n3 s (2 to 5), round 4"
    assert "no cause recorded" in describe(span | {"peer": NO_SITE})
    sent = describe(span | {"kind": "send", "peer": -1, "bytes": 4e6, "joules": 2.0})
    assert sent.startswith("client 1: send to server\n")
    assert sent.endswith("4 MB, 2 J")


def test_bars_are_cut_at_the_window():
    window = sample()
    cut = type(window)(begin=2.0, end=4.0, columns=window.columns, sites=window.sites, active=4)
    right = max(float(bar.get("x")) + float(bar.get("width")) for bar in bars(gantt(cut), "train")[:3])
    assert right <= 1120


def window_of(rows, sites, end):
    columns = {name: np.array(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    return Window(begin=0.0, end=end, columns=columns, sites=sites, active=len(sites))


def texts(svg):
    return [node.text for node in ET.fromstring(svg).iter("text")]


def test_the_work_of_a_server_has_a_row_without_its_transfers():
    rows = [span(-1, "work", 0.0, 5.0), *(span(-1, "receive", 0.0, 1.0, lane=lane) for lane in range(4))]
    rows.append(span(0, "train", 0.0, 5.0))
    svg = gantt(window_of(rows, (-1, 0), 5.0))
    assert texts(svg)[-4:-1] == ["server", "transfers", "client 0"]
    (work,), (train,) = bars(svg, "work"), bars(svg, "train")
    assert work.get("height") == train.get("height")
    bottom = float(work.get("y")) + float(work.get("height"))
    assert all(bottom < float(bar.get("y")) < float(train.get("y")) for bar in bars(svg, "receive"))
    assert "transfers" not in texts(gantt(window_of(rows[1:], (-1, 0), 5.0)))


def test_rows_end_where_the_run_ends():
    window = window_of([span(0, "train", 0.0, 5.0)], (0, 1), 20.0)
    svg = gantt(window, 10.0)
    lanes = [node for node in ET.fromstring(svg).iter("rect") if node.get("class") == "lane"]
    whole = [node for node in ET.fromstring(gantt(window)).iter("rect") if node.get("class") == "lane"]
    assert len(lanes) == len(whole) == 2  # also the site that did nothing
    for cut, full in zip(lanes, whole, strict=True):
        assert float(cut.get("width")) == pytest.approx(float(full.get("width")) / 2)
    assert "the run ends" in texts(svg)
    assert "the run ends" not in texts(gantt(window, 20.0)) + texts(gantt(window))


def test_the_sample_is_a_file_of_its_own(tmp_path):
    """As a user would ask for it, in a process of its own and without a warning."""
    out = tmp_path / "sample.svg"
    command = [sys.executable, "-W", "error", "-m", "paceline.report.gantt", str(out)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == str(out)
    root = ET.parse(out).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall("{http://www.w3.org/2000/svg}style")) == 1


def test_causes_are_shares_of_all_waiting():
    text = causes(Waiting(total=10.0, causes=((3, 7.5), (NO_SITE, 2.5))))
    assert "client 3" in text
    assert "75.0 %" in text
    assert "no cause recorded" in text
