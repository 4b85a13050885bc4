"""Laws against their closed forms, and the words that name them."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from paceline.errors import SettingError
from paceline.seeds import address
from paceline.system import (
    Constant,
    Discrete,
    Exponential,
    Gaussian,
    LogNormal,
    Uniform,
    parse_law,
)

DRAWS = 20_000
LAWS = [Uniform(), Exponential(), Gaussian(), Gaussian(1.0, 1.0, 0.5), Discrete(), LogNormal(5.0, 0.4)]


def draws(law, seed=11):
    key = address(seed, "test")
    return np.array([law.draw(key, device) for device in range(DRAWS)])


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_mean_and_variance_of_draws_match_the_closed_forms(law):
    """Each of the twelve checks allows 5 standard errors, so the false-alarm rate is below 12 * 6e-7 < 1e-5.

    The standard error of the variance uses the fourth moment of the draws themselves.
    """
    sample = draws(law)
    centred = sample - law.mean
    mean_error = math.sqrt(law.variance / DRAWS)
    variance_error = (centred**2).std() / math.sqrt(DRAWS)
    assert abs(centred.mean()) < 5 * mean_error
    assert abs((centred**2).mean() - law.variance) < 5 * variance_error


@pytest.mark.parametrize(
    ("law", "mean", "variance"),
    [
        (Uniform(), 2.5, 16 / 12),
        (Exponential(), 2.5, 6.25),
        (Discrete(), 2.5, (4 + 2.25 + 0.25 + 2.25 + 6.25) / 5),
        (Constant(3.0), 3.0, 0.0),
        (LogNormal(2.0, 1.0), 2 * math.exp(0.5), 4 * math.e * (math.e - 1)),
    ],
)
def test_closed_forms_are_the_ones_of_the_paper(law, mean, variance):
    assert law.mean == pytest.approx(mean)
    assert law.variance == pytest.approx(variance)


@pytest.mark.parametrize("law", [Gaussian(), Gaussian(1.0, 1.0, 0.5)], ids=repr)
def test_moments_of_the_clipped_gaussian_match_a_numerical_integral(law):
    levels = (np.arange(200_000) + 0.5) / 200_000
    normal = NormalDist(law.centre, law.sigma)
    values = np.maximum(law.floor, [normal.inv_cdf(u) for u in levels])
    assert law.mean == pytest.approx(values.mean(), rel=1e-4)
    assert law.variance == pytest.approx(values.var(), rel=1e-3)


def test_the_discrete_law_takes_each_value_equally_often():
    """Chi-square with 4 degrees of freedom exceeds 33.4 with probability 1e-6: the false-alarm rate."""
    values, counts = np.unique(draws(Discrete()), return_counts=True)
    assert tuple(values) == (0.5, 1.0, 2.0, 4.0, 5.0)
    expected = DRAWS / 5
    assert ((counts - expected) ** 2 / expected).sum() < 33.4


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_every_draw_is_positive(law):
    assert draws(law).min() > 0


def test_the_gaussian_is_clipped_at_its_floor():
    """A share Φ(-2.45) = 0.71 % of devices lies on the floor; 5 standard errors, false-alarm rate 6e-7."""
    share = (draws(Gaussian()) == 0.05).mean()
    expected = NormalDist().cdf(-2.45)
    assert abs(share - expected) < 5 * math.sqrt(expected / DRAWS)


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("discrete", Discrete()),
        ("discrete:1,3", Discrete((1.0, 3.0))),
        ("uniform", Uniform(0.5, 4.5)),
        ("uniform:1,2", Uniform(1, 2)),
        ("exponential:4", Exponential(4)),
        ("gaussian", Gaussian(2.5, 1.0, 0.05)),
        ("gaussian:50,3", Gaussian(50, 3, 1.0)),
        ("gaussian:50,3,7", Gaussian(50, 3, 7)),
        ("lognormal,5e9,0.5", LogNormal(5e9, 0.5)),
        ("2.5", Constant(2.5)),
    ],
)
def test_words_name_laws(text, law):
    assert parse_law(text) == law


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unifrom", "did you mean 'uniform'"),
        ("uniform:1", r"wanted uniform\[:LOW,HIGH\]"),
        ("uniform:5,1", "0 <= low < high"),
        ("uniform:1,2,3", "wanted uniform"),
        ("lognormal:5", "wanted lognormal:MEDIAN,SIGMA"),
        ("constant:-1", "wanted a finite number above 0"),
        ("constant:nan", "wanted a finite number above 0"),
        ("exponential:fast", "wanted exponential"),
        ("discrete:1,0", "wanted a finite number above 0"),
        ("gaussian:2,1,0", "wanted a finite number above 0"),
    ],
)
def test_a_law_that_cannot_be_is_named(text, message):
    with pytest.raises(SettingError, match=message):
        parse_law(text)
