"""Times that were seen of clients, and rounds that are simulated with them."""

import math

import numpy as np
import pytest

from paceline.algorithms.convergence import Convergence
from paceline.algorithms.seen_times import SeenTimes
from paceline.algorithms.structure import bound_ratio, choose_structure
from paceline.errors import DataError, SettingError
from paceline.seeds import stream


@pytest.fixture(scope="module")
def five_points():
    """500 clients of the five-point law, 40 visits of each with a jitter of a fifth."""
    rng = stream(5, "seen times test")
    return SeenTimes({k: (0.5, 1, 2, 4, 5)[k % 5] * (1 + 0.2 * rng.standard_normal(40)) for k in range(500)})


@pytest.mark.parametrize(("W", "S", "seconds"), [(20, 1, 6.0), (7, 3, 9.8), (5, 4, 12.0), (4, 5, 13.9), (1, 20, 50)])
def test_simulated_rounds_agree_with_an_independent_simulation(five_points, W, S, seconds):
    """PS-T2's table. A round's standard deviation is below 1.3 s (2 s for W = 1), so four standard errors of 400
    rounds are 0.26 s (0.4 s): a false alarm in less than one of ten thousand seeds, and the seed is fixed."""
    assert five_points.round_seconds(S, W) == pytest.approx(seconds, abs=0.4 if W == 1 else 0.3)


def test_equal_clients_take_what_the_formula_says():
    from paceline.algorithms.structure import expected_round_seconds

    rng = stream(6, "seen times test")
    seen = SeenTimes({k: 3 + 0.5 * rng.standard_normal(200) for k in range(100)})
    assert seen.round_seconds(2, 10) == pytest.approx(expected_round_seconds(2, 10, 3.0, 0.5), abs=0.1)


def test_the_same_question_has_the_same_answer(five_points):
    assert five_points.round_seconds(2, 10) == five_points.round_seconds(2, 10)


def test_with_few_clients_some_are_drawn_twice():
    assert SeenTimes({0: [1.0, 1.0], 1: [3.0, 3.0]}).round_seconds(4, 5) == pytest.approx(8.0)


def test_two_kinds_of_spread(five_points):
    """Eq. 26: 0.04 * 9.25 = 0.37 on average; Assumption 5: the slowest have 1.0, and of 100 the largest seen more."""
    assert five_points.spread("mean") ** 2 == pytest.approx(0.37, rel=0.1)
    assert five_points.spread("max") > 1.0


def test_times_that_have_moved_keep_their_pattern():
    seen = SeenTimes({0: [1.0, 3.0], 1: [5.0, 5.0]}).moved({0: 4.0, 1: 10.0}.__getitem__)
    assert seen.means == pytest.approx([4.0, 10.0])
    assert seen.variances == pytest.approx([8.0, 0.0])


def test_a_file_gives_means_and_spread_within_devices(tmp_path):
    file = tmp_path / "times.csv"
    file.write_text("device,seconds\na,1\na,3\nb,10\nb,10\nb,13\nc,6\n")
    seen = SeenTimes.read(file)
    assert seen.mean == pytest.approx((2 + 11 + 6) / 3)
    assert seen.spread() == pytest.approx(math.sqrt((2 + 3) / 2))  # sample variances of a and b; c has none to give
    assert seen.spread("max") == pytest.approx(math.sqrt(3))
    assert len(seen) == 3


def test_a_file_needs_a_device_with_two_rows(tmp_path):
    file = tmp_path / "times.csv"
    file.write_text("device,seconds\na,1\nb,3\n")
    with pytest.raises(DataError, match="two rows of the same device"):
        SeenTimes.read(file)


def test_simulated_rounds_may_choose_another_structure(five_points):
    """The bound takes all clients for equally fast on average, so it thinks too well of wide structures."""
    known = {"participants": 20, "time_mean": five_points.mean, "time_std": five_points.spread(), "ratio": 0.46}
    by_bound = choose_structure(**known, times=five_points)
    by_rounds = choose_structure(**known, times=five_points, rounds_by="simulation")
    costs = {(one.S, one.W): (0.46 * one.W + 1) / (one.S * one.W) * one.seconds for one in by_rounds.alternatives}
    assert min(costs, key=costs.__getitem__) == (by_rounds.S, by_rounds.W)
    assert by_rounds.alternatives[1].cost == pytest.approx(sorted(costs.values())[1] / min(costs.values()))
    assert (by_bound.width, by_bound.length) == (by_rounds.width, by_rounds.length)
    with pytest.raises(SettingError, match="no times were seen"):
        choose_structure(**known, rounds_by="simulation")


# -- Theorem 1 and Corollary 1 (PS-6) ---------------------------------------------------------------------------


def test_the_constant_and_the_step_by_hand():
    bound = Convergence(smoothness=4.0)
    assert bound.b == pytest.approx((0.016 - 0.28 - 2.4 + 6) / (3 * 0.98))
    assert bound.largest_rate(5) == pytest.approx(0.005)


def test_the_spread_is_that_of_equation_17():
    """(α·W + β)/β = ρ·W + 1."""
    spread = Convergence(smoothness=1.0).spread(2.0, 3.0, 4, 5)
    assert spread / (4 * 2.0 / 20) == pytest.approx(bound_ratio(2.0, 3.0) * 5 + 1)


def test_no_allowed_rate_is_better_than_corollary_one():
    bound, S, spread, distance, rounds = Convergence(smoothness=2.0), 3, 0.7, 5.0, 400
    rates = np.linspace(1e-5, bound.largest_rate(S), 2000)
    gaps = (distance / (rates * S * rounds) + rates * S * spread) / bound.b
    assert bound.gap(rounds, distance, spread, S) == pytest.approx(gaps.min(), rel=1e-3)
    assert bound.gap(rounds, distance, spread, S) <= gaps.min() + 1e-12


def test_the_gap_falls_with_the_root_of_the_rounds():
    bound = Convergence(smoothness=0.01)
    assert bound.gap(10_000, 1.0, 2.0, 2) / bound.gap(1_000_000, 1.0, 2.0, 2) == pytest.approx(10.0)
