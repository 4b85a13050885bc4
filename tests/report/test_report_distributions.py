"""Distributions: pooled, in words and as bars."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from paceline.errors import DataError
from paceline.report.distributions import MOST_BARS, bar_chart, describe, frame_of, pooled, section
from paceline.report.page import write_report
from paceline.report.runs import group_runs, load_run


@pytest.fixture
def counted(write_run):
    """A function that writes a run whose summary holds these distributions."""

    def write(algorithm, seed, distributions, **settings):
        path = write_run(algorithm, seed, spans=False, **settings)
        summary = json.loads((path / "summary.json").read_text()) | {"distributions": distributions}
        (path / "summary.json").write_text(json.dumps(summary))
        return path

    return write


def bars(svg):
    return [node for node in ET.fromstring(svg).iter("rect") if node.get("class", "").startswith("bar ")]


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({0: 12, 1: 30, 7: 1}, "a: mean 0.86, median 1, maximum 7 (43 values)"),
        ({0: 1, 1: 1}, "a: mean 0.5, median 0.5, maximum 1 (2 values)"),
        ({0: 2, 10: 2}, "a: mean 5, median 5, maximum 10 (4 values)"),
        ({-3: 1}, "a: mean -3, median -3, maximum -3 (1 value)"),
        ({1: 1_000_000}, "a: mean 1, median 1, maximum 1 (1,000,000 values)"),
    ],
)
def test_mean_median_and_maximum_in_words(counts, text):
    assert describe(counts, "a") == text


def test_seeds_are_pooled(counted):
    paths = [counted("apfl", seed, {"staleness": {"0": 1, str(seed): 2}}) for seed in (0, 5)]
    (group,) = group_runs([load_run(path) for path in paths])
    assert pooled(group) == {"staleness": {0: 3, 5: 2}}


def test_bars_are_as_tall_as_their_shares():
    counts = {0: 10, 1: 30, 3: 60}
    drawn = bars(bar_chart(counts, frame_of([counts]), "staleness", 2))
    heights = [float(bar.get("height")) for bar in drawn]
    assert heights == pytest.approx([heights[2] / 6, heights[2] / 2, heights[2]], abs=0.02)
    places = [float(bar.get("x")) for bar in drawn]
    assert places[2] - places[1] == pytest.approx(2 * (places[1] - places[0]), abs=0.03)
    assert [bar.find("title").text for bar in drawn][1] == "staleness 1: 30.0 % (30 of 100)"
    assert {bar.get("class") for bar in drawn} == {"bar c2"}


@pytest.mark.parametrize("high", [39, 40, 399, 12_345])
def test_many_values_share_bars_and_none_is_lost(high):
    counts = dict.fromkeys(range(high + 1), 1)
    frame = frame_of([counts])
    drawn = bars(bar_chart(counts, frame, "staleness"))
    assert len(drawn) == frame.bars <= MOST_BARS
    said = [re.search(r"\(([\d,]+) of", bar.find("title").text).group(1) for bar in drawn]
    assert sum(int(text.replace(",", "")) for text in said) == high + 1
    assert (frame.width == 1) == (high == 39)


@pytest.mark.parametrize("counts", [{0: 1}, {1: 5}, {-4: 1, 2: 1}, {10**6: 3}])
def test_odd_ones_are_drawn_inside_the_paper(counts):
    chart = bar_chart(counts, frame_of([counts]), "x")
    assert "nan" not in chart
    for bar in bars(chart):
        assert 46 <= float(bar.get("x")) <= float(bar.get("x")) + float(bar.get("width")) <= 412
        assert 8 <= float(bar.get("y")) < 134


def test_charts_of_one_name_share_their_axes(counted):
    paths = [
        counted("spfl", 0, {"staleness": {"1": 100}}),
        counted("apfl", 0, {"staleness": {"0": 50, "9": 50}}),
        counted("fedavg", 0, {}),
    ]
    text = section(group_runs([load_run(path) for path in paths]))
    first, second = (bars(chart) for chart in re.findall(r"<svg.*?</svg>", text))
    # Half of the values are half as tall as all of them, and the value 1 stands between 0 and 9.
    assert float(second[0].get("height")) == pytest.approx(float(first[0].get("height")) / 2, abs=0.01)
    assert float(second[0].get("x")) < float(first[0].get("x")) < float(second[1].get("x"))
    assert "fedavg" not in text
    assert text.count("<h2>") == 1


def test_the_page_shows_every_name_and_escapes_it(counted, tmp_path):
    path = counted("apfl", 0, {"staleness": {"2": 3}, "<b>hops": {"1": 1}, "none": {}, "zero": {"4": 0}})
    text = write_report([path], tmp_path / "report.html").read_text()
    assert "Distribution of staleness" in text
    assert "apfl: mean 2, median 2, maximum 2 (3 values)" in text
    assert "Distribution of &lt;b&gt;hops" in text
    assert text.count('class="chart bars"') == 2


def test_nothing_is_shown_where_there_is_none(write_run, counted, tmp_path):
    for path in (write_run("fedavg", 0), counted("fedbuff", 0, {}), counted("fedbuff", 1, None)):
        text = write_report([path], tmp_path / "report.html").read_text()
        assert "Distribution of" not in text
        assert 'class="chart bars"' not in text


@pytest.mark.parametrize(
    "kept", [[1], {"staleness": 3}, {"staleness": {"a": 1}}, {"staleness": {"1": -2}}, {"s": {"1": 0.5}}]
)
def test_a_damaged_distribution_is_named(counted, tmp_path, kept):
    with pytest.raises(DataError, match=r"summary\.json: every distribution must map"):
        write_report([counted("apfl", 0, kept)], tmp_path / "report.html")
