"""Failures from words."""

import math

import numpy as np
import pytest

from paceline.errors import SettingError
from paceline.system.failures import Failures, parse_failures
from paceline.worlds.faults import parse_faults


def test_given_times():
    found = parse_failures("server:4@120+link:2-1@60+server:4@90", seed=0)
    assert found.server(-4) == 90 and found.server(-1) == math.inf
    assert found.link(-1, -2) == found.link(-2, -1) == 60 and found.link(-1, -3) == math.inf
    assert not found.none


def test_a_number_keeps_its_own_plus():
    found = parse_failures("servers:1e+3+server:4@1e+2", seed=0)
    assert (found.mean_server, found.server(-4)) == (1000, 100)
    assert parse_faults("lost:0.1+delayed:0.2,1e+2", 0).parts[1].seconds == 100


def test_nothing_fails_unless_asked():
    assert parse_failures("none", seed=0) == Failures() and Failures().none


def test_devices_do_not_fail():
    found = parse_failures("servers:1+links:1", seed=0)
    assert found.server(3) == math.inf and found.link(3, -1) == math.inf


def test_drawn_times_are_exponential_and_fixed():
    """Mean of 20,000 draws within 5 standard errors: a false alarm in 2 million; another seed draws others."""
    found, other = parse_failures("servers:100+links:10", seed=1), parse_failures("servers:100", seed=2)
    times = np.array([found.server(-k) for k in range(1, 20_001)])
    assert abs(times.mean() - 100) < 5 * 100 / math.sqrt(len(times))
    assert abs((times > 100).mean() - math.exp(-1)) < 5 * 0.5 / math.sqrt(len(times))
    assert found.server(-3) == found.server(-3) != other.server(-3)
    links = np.array([found.link(-1, -k) for k in range(2, 20_002)])
    assert abs(links.mean() - 10) < 5 * 10 / math.sqrt(len(links))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("server:0@5", "NUMBER is '0', which is not a whole number of at least 1"),
        ("server:4", "server:4@120"),
        ("link:1-1@5", "two different ends"),
        ("link:1@5", "link:1-2@60"),
        ("server:1@soon", "SECONDS is 'soon', which is not a finite number"),
        ("server:1@-3", "SECONDS is '-3', which is not a finite number of at least 0"),
        ("servers:0", "MEAN is '0', which is not a finite number above 0"),
        ("sevrer:1@5", "did you mean 'server'"),
        ("", "server"),
    ],
)
def test_what_cannot_be_is_said(words, said):
    with pytest.raises(SettingError, match=said):
        parse_failures(words, seed=0)
