"""Distributions: pooled, in words and as bars."""

import json

import pytest

from paceline.report.distributions import MOST_BARS, charts, describe, frame_of, pooled, shares
from paceline.report.looks import look
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


def test_bars_are_shares_of_all_values():
    counts = {0: 10, 1: 30, 3: 60}
    frame = frame_of([counts])
    assert frame.names() == ["0", "1", "2", "3"]
    assert shares(counts, frame) == [0.1, 0.3, 0.0, 0.6]


@pytest.mark.parametrize("high", [39, 40, 399, 12_345])
def test_many_values_share_bars_and_none_is_lost(high):
    counts = dict.fromkeys(range(high + 1), 1)
    frame = frame_of([counts])
    assert len(frame.names()) == frame.bars <= MOST_BARS
    assert sum(shares(counts, frame)) == pytest.approx(1.0)
    assert (frame.width == 1) == (high == 39)


@pytest.mark.parametrize("counts", [{0: 1}, {1: 5}, {-4: 1, 2: 1}, {10**6: 3}])
def test_odd_ones_have_a_bar(counts):
    frame = frame_of([counts])
    assert frame.bars >= 2
    assert sum(shares(counts, frame)) == pytest.approx(1.0)


def test_methods_of_one_name_share_one_chart(counted):
    paths = [
        counted("spfl", 0, {"staleness": {"1": 100}}),
        counted("apfl", 0, {"staleness": {"0": 50, "9": 50}}),
        counted("fedavg", 0, {}),
    ]
    (chart,) = charts(group_runs([load_run(path) for path in paths]))
    assert chart["places"] == [str(k) for k in range(10)]
    first, second = chart["beside"]
    assert (first["name"], first["values"][1]) == ("spfl", 1.0)
    assert (second["values"][0], second["values"][9]) == (0.5, 0.5)
    assert first["look"] == look("spfl").__dict__
    assert "apfl: mean 4.5, median 4.5, maximum 9 (100 values)" in chart["text"]


def test_the_page_tells_every_name_and_escapes_it(counted, tmp_path):
    path = counted("apfl", 0, {"staleness": {"2": 3}, "<b>hops": {"1": 1}, "none": {}, "zero": {"4": 0}})
    text = write_report([path], tmp_path / "report.html").read_text()
    assert "Distribution of staleness" in text
    assert "apfl: mean 2, median 2, maximum 2 (3 values)" in text
    assert "Distribution of &lt;b&gt;hops" in text
    assert text.count("data-bars=") == 2


def test_nothing_is_shown_where_there_is_none(write_run, counted, tmp_path):
    for path in (write_run("fedavg", 0), counted("fedbuff", 0, {}), counted("fedbuff", 1, None)):
        text = write_report([path], tmp_path / "report.html").read_text()
        assert "Distribution of" not in text
        assert "data-bars=" not in text


@pytest.mark.parametrize(
    "kept", [[1], {"staleness": 3}, {"staleness": {"a": 1}}, {"staleness": {"1": -2}}, {"s": {"1": 0.5}}]
)
def test_a_damaged_distribution_is_named(counted, tmp_path, kept):
    text = write_report([counted("apfl", 0, kept)], tmp_path / "report.html").read_text()
    assert "Not shown: " in text and "summary.json: every distribution must map" in text
