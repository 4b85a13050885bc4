"""The quadratic fleet: what it claims in closed form against what its samples do."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.data.quadratic import Quadratic, quadratic
from paceline.errors import SettingError
from paceline.seeds import stream


@pytest.fixture(params=[(True, 1.0), (True, 10.0), (False, 10.0)])
def fleet(request):
    alike, condition = request.param
    return quadratic(
        stream(3, "fleet"),
        clients=6,
        dimension=4,
        heterogeneity=2.5,
        sigma2=0.7,
        condition=condition,
        alike=alike,
    )


def test_the_gradient_vanishes_at_the_optimum_and_nowhere_near(fleet):
    best = fleet.optimum()
    assert np.allclose(fleet.mean_gradient(best), 0, atol=1e-12)
    step = stream(0, "step").standard_normal(4) * 1e-3
    assert fleet.value(best + step) > fleet.value(best)


def test_heterogeneity_and_curvature_are_as_ordered(fleet):
    assert fleet.heterogeneity(fleet.optimum()) == pytest.approx(2.5)
    assert fleet.smoothness == pytest.approx(1.0)
    assert fleet.convexity in (pytest.approx(1.0), pytest.approx(0.1))


def test_heterogeneity_is_the_same_everywhere_when_curvatures_are():
    fleet = quadratic(stream(0, "f"), clients=5, dimension=3, heterogeneity=1.5, condition=4)
    assert fleet.heterogeneity(np.array([10.0, -3.0, 5.0])) == pytest.approx(1.5)


def _one_sample_gradients(features, targets, x):
    return features * (features @ x - targets)[:, None]


def test_least_squares_on_the_samples_is_the_quadratic(fleet):
    x = stream(1, "x").standard_normal(4)
    for n in range(len(fleet)):
        slopes = _one_sample_gradients(*fleet.samples(n), x)
        assert np.allclose(slopes.mean(axis=0), fleet.gradient(n, x), atol=1e-12)
        spread = ((slopes - slopes.mean(axis=0)) ** 2).sum(axis=1).mean()
        assert spread == pytest.approx(fleet.noise(n, x))
        at_home = _one_sample_gradients(*fleet.samples(n), fleet.centre[n])
        assert (at_home**2).sum(axis=1).mean() == pytest.approx(0.7)


def test_the_loss_differs_from_the_value_by_a_constant(fleet):
    def loss(n, x):
        features, targets = fleet.samples(n)
        return 0.5 * ((features @ x - targets) ** 2).mean()

    def value(n, x):
        gap = x - fleet.centre[n]
        return 0.5 * gap @ fleet.curvature[n] @ gap

    first, second = stream(1, "x").standard_normal((2, 4))
    assert loss(2, first) - loss(2, second) == pytest.approx(value(2, first) - value(2, second))


def test_vector_samples_have_the_same_noise_at_every_point():
    fleet = quadratic(stream(0, "v"), clients=3, dimension=5, heterogeneity=1.0, sigma2=2.0)
    for x in (fleet.optimum(), np.full(5, 30.0)):
        features, targets = fleet.vector_samples(1)
        slopes = features * (features * x - targets)
        assert np.allclose(slopes.mean(axis=0), fleet.gradient(1, x), atol=1e-12)
        assert ((slopes - slopes.mean(axis=0)) ** 2).sum(axis=1).mean() == pytest.approx(2.0)


def test_gradient_descent_converges_at_the_rate_of_theory():
    """With η = 1/L the slowest direction shrinks by exactly 1 - μ/L each step."""
    fleet = quadratic(stream(0, "gd"), clients=4, dimension=3, heterogeneity=1.0, condition=5)
    bends, basis = np.linalg.eigh(fleet.curvature[0])
    x = fleet.optimum() + basis[:, 0]
    for _ in range(10):
        x = x - fleet.mean_gradient(x)
    assert np.linalg.norm(x - fleet.optimum()) == pytest.approx((1 - bends[0]) ** 10)


def test_refusals():
    with pytest.raises(SettingError, match="cannot differ from itself"):
        quadratic(stream(0, "q"), clients=1, dimension=2)
    with pytest.raises(SettingError, match="condition"):
        quadratic(stream(0, "q"), clients=2, dimension=2, condition=0.5)
    bent = Quadratic(curvature=np.diag([1.0, 2.0])[None], centre=np.zeros((1, 2)))
    with pytest.raises(SettingError, match="needs A = s²I"):
        bent.vector_samples(0)


def test_no_heterogeneity_puts_all_centres_on_one_point():
    fleet = quadratic(stream(0, "same"), clients=3, dimension=2, heterogeneity=0)
    assert np.allclose(fleet.centre, fleet.optimum())
