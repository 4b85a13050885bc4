"""Numbers and marks as text, and tables."""

import math

import numpy as np
import pytest
from scipy import stats

from paceline.report.spans import NO_SITE, Waiting
from paceline.report.text import number, percent, seconds, site, size, spread, tag, words
from paceline.report.timelines import causes
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
        (spread(1.534, 0.2, seconds), "1.53 ± 0.20 s"),
        (spread(88.21, 15.3, seconds), "88 ± 15 s"),
        (spread(1.534e9, 0.204e9, size), "1.53 ± 0.20 GB"),
        (spread(3.0712e6, 571_234.0, size), "3.07 ± 0.57 MB"),
        (spread(1234.5, 1500.0, number), "1,234 ± 1,500"),
        (spread(0.5774, 0.028, percent), "57.7 ± 2.8 %"),
        (tag("a", "<b>", class_="x&y", stroke_width=1.5), '<a class="x&amp;y" stroke-width="1.5"><b></a>'),
        (words("a", "<b>"), "<a>&lt;b&gt;</a>"),
    ],
)
def test_numbers_and_marks(text, expected):
    assert text == expected


def test_the_interval_is_students():
    values = np.array([1.0, 2.0, 4.0])
    low, high = stats.t.interval(0.95, 2, loc=values.mean(), scale=stats.sem(values))
    assert values.mean() - half_width(values) == pytest.approx(low)
    assert values.mean() + half_width(values) == pytest.approx(high)


def test_causes_are_shares_of_all_waiting():
    text = causes(Waiting(total=10.0, causes=((3, 7.5), (NO_SITE, 2.5))))
    assert "client 3" in text
    assert "75.0 %" in text
    assert "no cause recorded" in text
