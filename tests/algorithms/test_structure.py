"""PSFL's structure problem against the paper's table, brute force and separately computed constants."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.algorithms.explaining import explain
from paceline.algorithms.structure import (
    bound_ratio,
    choose_structure,
    expected_maximum,
    expected_round_seconds,
)
from paceline.errors import SettingError
from paceline.seeds import stream
from tests.effort import calls

RATIO, C = 0.623, 1.84  # PS-T3: the pair that reproduces all of Table I


def structure(participants, *, ratio=RATIO, c=C, **more):
    """The best structure at c = t̄/(√2 κ), the only figure about times that matters (PS-7)."""
    return choose_structure(
        participants=participants, time_mean=1.0, time_std=1 / (math.sqrt(2) * c), ratio=ratio, **more
    )


def objective(W, ratio, time_mean, time_std, participants):
    """PS-7 as the paper writes it."""
    seconds = participants * time_mean / W + np.sqrt(2 * time_std**2 * (participants / W) * np.log(W))
    return W * seconds if math.isinf(ratio) else (ratio * W + 1) * seconds


# -- the bound's constants ------------------------------------------------------------------------------------


@given(st.floats(1e-3, 1e3), st.floats(0, 1e3), st.floats(0.001, 0.199), st.integers(1, 1000))
def test_the_ratio_is_that_of_equation_17(sigma2, heterogeneity, c0, participants):
    """PS-E1: the ratio printed near Eq. 22 is alpha/beta of Eq. 17 (PS-4)."""
    factor = 4 * c0 * (1 + 2 * c0) / (1 - 2 * c0**2)
    alpha = factor * (sigma2 + heterogeneity) / participants + 4 * heterogeneity / participants
    beta = 4 * sigma2 / participants
    assert bound_ratio(sigma2, heterogeneity, c0) == pytest.approx(alpha / beta, rel=1e-12)


def test_the_ratio_without_noise_is_infinite():
    assert bound_ratio(0, 1) == math.inf


def test_the_ratio_of_the_papers_discrete_times():
    assert bound_ratio(1, 0.43) == pytest.approx(0.600, abs=0.006)  # PS-T3: B/σ² ≈ 0.43 at c0 = 0.1


# -- Table I --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("participants", "width", "pair"),
    [
        (10, 4.594, (2, 5)),
        (20, 5.740, (4, 5)),
        (50, 7.645, (7, 7)),
        (100, 9.473, (10, 10)),
        (200, 11.729, (18, 11)),
    ],
)
def test_table_one(participants, width, pair):
    found = structure(participants)
    assert found.width == pytest.approx(width, abs=0.01)
    assert found.length == participants / found.width  # PS-E2: row 200 is a slip of the paper
    assert pair == (found.S, found.W)
    assert found.alternatives[0][:3] == (*pair, 1.0)


def test_the_second_best_of_ten_clients_is_the_papers_experimental_pair():
    assert structure(10).alternatives[1][:2] == (3, 3)


# -- the optimum ----------------------------------------------------------------------------------------------


problems = {
    "ratio": st.floats(1e-4, 1e4) | st.just(math.inf) | st.just(0.0),
    "spread": st.floats(0, 20),
    "participants": st.integers(1, 5000),
}


@given(**problems)
def test_no_width_of_a_dense_grid_is_better(ratio, spread, participants):
    found = choose_structure(participants=participants, time_mean=1.0, time_std=spread, ratio=ratio)
    best = objective(found.width, ratio, 1.0, spread, participants)
    grid = np.geomspace(1, participants, 20_000)
    assert best <= objective(grid, ratio, 1.0, spread, participants).min() * (1 + 1e-9)
    assert 1 <= found.width <= participants


@given(**problems)
def test_no_integer_structure_is_better(ratio, spread, participants):
    """Against every S of PS-E4, with N0 = S·W in alpha and beta."""
    found = choose_structure(participants=participants, time_mean=1.0, time_std=spread, ratio=ratio)
    S = np.arange(1, participants + 1)
    W = participants // S
    costs = objective(W, ratio, 1.0, spread, S * W) / (S * W)
    assert costs[found.S - 1] <= costs.min() * (1 + 1e-9)
    assert participants // found.S == found.W
    for S_, W_, cost, _ in found.alternatives:
        assert participants // S_ == W_
        assert cost == pytest.approx(costs[S_ - 1] / costs.min(), rel=1e-9)


@given(**problems)
def test_fedavg_and_sequential_fl_are_always_among_the_alternatives(ratio, spread, participants):
    found = choose_structure(participants=participants, time_mean=1.0, time_std=spread, ratio=ratio)
    pairs = [one[:2] for one in found.alternatives]
    assert {(1, participants), (participants, 1)} <= set(pairs)
    assert pairs[0] == (found.S, found.W)
    assert len(pairs) == len(set(pairs)) <= 7
    costs = [one.cost for one in found.alternatives]
    assert costs == sorted(costs)


@pytest.mark.parametrize("ratio", [1e6, 1e308, math.inf])
def test_where_width_costs_too_many_rounds_one_sequence_is_best(ratio):
    found = structure(50, ratio=ratio)
    assert (found.width, found.W, found.S) == (1.0, 1, 50)


@pytest.mark.parametrize("ratio", [0.0, RATIO, 1e6, math.inf])
def test_without_spread_all_clients_abreast_are_best(ratio):
    """At an infinite ratio every structure costs the same, and the shorter round decides."""
    found = choose_structure(participants=50, time_mean=2.0, time_std=0.0, ratio=ratio)
    assert (found.width, found.W, found.S) == (50.0, 50, 1)
    assert found.bounds == (2.0, 2.0)


def test_one_participant_has_one_structure():
    found = structure(1)
    assert (found.width, found.length, found.W, found.S) == (1.0, 1.0, 1, 1)
    assert found.alternatives == ((1, 1, 1.0, found.time_mean),)


@pytest.mark.parametrize(("b_over_a", "interior"), [(2.25, False), (2.29, False), (2.32, True), (2.6, True)])
def test_the_interior_minimum_wins_only_from_its_threshold(b_over_a, interior):
    """PS-E3: of h(W) = a√(W ln W) + b/W the stationary point appears long before it beats W = 1, from b/a = 2.306.

    PS-7's g is h with a = ρ and b = c√N0, up to √(ln W / W), which is nothing beside them when both are large.
    """
    ratio, participants = 1e6, 10**6
    found = structure(participants, ratio=ratio, c=b_over_a * ratio / math.sqrt(participants))
    assert (found.width > 1.5) is interior


def test_a_search_that_starts_at_one_sequence_would_stay_there():
    """PS-E3: W = 1 is a local minimum although the global one is far away."""
    near = objective(np.array([1.0, 1.000001]), RATIO, 1.0, 1 / (math.sqrt(2) * C), 100)
    assert near[0] < near[1]
    assert structure(100).width > 9


def test_only_the_ratio_of_mean_and_spread_matters():
    one = choose_structure(participants=100, time_mean=2.5, time_std=1.0, ratio=0.6)
    other = choose_structure(participants=100, time_mean=2500.0, time_std=1000.0, ratio=0.6)
    assert other.width == pytest.approx(one.width, rel=1e-6)
    assert [one[:2] for one in other.alternatives] == [one[:2] for one in one.alternatives]


# -- the time of a round --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "mean"),
    [
        (1, 0.0),
        (2, 1 / math.sqrt(math.pi)),
        (3, 1.5 / math.sqrt(math.pi)),
        (5, 1.1629645),
        (10, 1.5387527),
        (100, 2.5075936),
        (1000, 3.2414358),
    ],
)
def test_the_mean_of_the_largest_normal_draw(count, mean):
    assert expected_maximum(count) == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("count", [10**4, 10**6])
def test_the_mean_of_the_largest_of_very_many_draws(count):
    """Another way to the same integral: m_W = ∫ of 1 - Φ^W over x > 0, less ∫ of Φ^W over x < 0."""
    x = np.linspace(0, 12, 120_001)
    tail = np.array([0.5 * math.erfc(v / math.sqrt(2)) for v in x])
    assert expected_maximum(count) == pytest.approx(np.trapezoid(-np.expm1(count * np.log1p(-tail)), x), abs=1e-6)


def test_the_expected_round_is_the_mean_of_simulated_rounds():
    S, W, mean, std, rounds = 4, 5, 2.5, 1.0, 20_000
    times = stream(3, "structure test").normal(mean, std, (rounds, W, S)).sum(axis=2).max(axis=1)
    # Five standard errors: a false alarm in less than one of a million seeds, and this seed is fixed.
    error = 5 * times.std() / math.sqrt(rounds)
    assert times.mean() == pytest.approx(expected_round_seconds(S, W, mean, std), abs=error)


@given(**problems)
def test_the_expected_round_lies_within_theorem_two(ratio, spread, participants):
    found = choose_structure(participants=participants, time_mean=1.0, time_std=spread, ratio=ratio)
    low, high = found.bounds
    assert low == found.S
    assert high == pytest.approx(found.S + math.sqrt(2 * spread**2 * found.S * math.log(found.W)))
    assert low <= found.expected_round_seconds <= high * (1 + 1e-12)


# -- words and measurements -----------------------------------------------------------------------------------


def test_the_explanation_names_the_ratio_and_both_ends():
    text = explain(structure(20))
    costs = {one[:2]: one.cost for one in structure(20).alternatives}
    assert "alpha/beta = 0.623" in text
    assert "W = 5 and S = 4" in text
    assert f"FedAvg (W = 20, S = 1) takes {costs[1, 20]:.2f} times" in text
    assert f"sequential FL (W = 1, S = 20) takes {costs[20, 1]:.2f} times" in text


def test_the_explanation_says_when_an_end_is_best():
    assert "sequential FL (W = 1, S = 20) is the best" in explain(structure(20, ratio=math.inf))
    assert "FedAvg (W = 20, S = 1) is the best" in explain(structure(20, ratio=0.0))


def test_without_times_the_explanation_says_what_is_assumed():
    assert "if every client took 1 s on average" in explain(structure(20))


# -- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ({"c0": 0.0}, "0 < c0 < 0.2"),
        ({"c0": 0.2}, "0 < c0 < 0.2"),
        ({"c0": math.nan}, "0 < c0 < 0.2"),
        ({"sigma2": -1.0}, "sigma2 is -1"),
        ({"sigma2": math.inf}, "sigma2 is inf"),
        ({"heterogeneity": math.nan}, "heterogeneity is nan"),
        ({"sigma2": 0.0, "heterogeneity": 0.0}, "every structure needs the same rounds"),
    ],
)
def test_constants_that_cannot_be_are_refused(words, wanted):
    with pytest.raises(SettingError, match=wanted):
        bound_ratio(**{"sigma2": 1.0, "heterogeneity": 1.0} | words)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ({"participants": 0}, "participants is 0"),
        ({"population": 9}, "10 participants a round out of a population of 9"),
        ({"time_mean": 0.0}, "time_mean is 0"),
        ({"time_mean": math.inf}, "time_mean is inf"),
        ({"time_std": -1.0}, "time_std is -1"),
        ({"time_std": math.nan}, "time_std is nan"),
        ({"ratio": -0.1}, "ratio is -0.1"),
        ({"ratio": math.nan}, "ratio is nan"),
    ],
)
def test_problems_that_cannot_be_are_refused(words, wanted):
    right = {"participants": 10, "time_mean": 1.0, "time_std": 1.0, "ratio": 1.0, "population": 10}
    choose_structure(**right)
    with pytest.raises(SettingError, match=wanted):
        choose_structure(**right | words)


def test_the_largest_of_no_draws_is_refused():
    with pytest.raises(SettingError, match="count is 0"):
        expected_maximum(0)


# -- speed ----------------------------------------------------------------------------------------------------


def test_a_million_participants_are_not_gone_through_one_by_one():
    assert calls(lambda: structure(10**6, population=10**6)) < 50_000


def test_the_solver_imports_neither_torch_nor_scipy():
    code = "import sys, paceline.algorithms.structure; sys.exit(bool({'torch', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
