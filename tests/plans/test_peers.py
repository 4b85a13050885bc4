"""DA-DPFL's order of reuse: against a plain loop, against closed forms, and at its ends."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SettingError
from paceline.plans import peers as module
from paceline.plans.neighbours import Peers
from paceline.plans.peers import (
    NO_NEIGHBOUR,
    draw_neighbours,
    draw_order,
    longest_wait,
    mean_awaited,
    parallel_share,
    prior_chances,
    schedule,
    simulate,
    work_factor,
)
from paceline.statistics import standard_error


def starts(*args, **more):
    return schedule(*args, **more).starts


def generator(seed=0):
    return np.random.default_rng(seed)


def plain_loop(neighbours, order, times, cap, rule):
    """DA-2 to DA-4 for one round, client by client: starts, and whom each has waited for."""
    begin, finish, waited = {}, {}, {}
    for k in sorted(range(len(order)), key=lambda client: order[client]):
        prior = [j for j in neighbours[k] if j != NO_NEIGHBOUR and order[j] < order[k]]
        rank = {"fastest": lambda j: (finish[j], order[j]), "lowest": lambda j: order[j]}[rule]
        waited[k] = set(sorted(prior, key=rank)[:cap])
        begin[k] = max((finish[j] for j in waited[k]), default=0.0)
        finish[k] = begin[k] + times[k]
    return [begin[k] for k in range(len(order))], waited


# -- one schedule ---------------------------------------------------------------------------------------------------


@given(
    clients=st.integers(2, 12),
    share=st.floats(0, 1),
    cap=st.none() | st.integers(0, 12),
    rule=st.sampled_from(["fastest", "lowest"]),
    same=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_all_draws_together_are_each_alone_in_a_plain_loop(clients, share, cap, rule, same, seed):
    rng = generator(seed)
    M = 1 + round(share * (clients - 2))
    near, order = draw_neighbours("random", clients, M, 3, rng), draw_order(clients, 3, rng)
    times = np.ones((3, clients)) if same else rng.uniform(0.1, 3, (3, clients))
    found = schedule(near, order, times, cap, rule)
    for d in range(3):
        begin, waited = plain_loop(near[d].tolist(), order[d].tolist(), times[d], cap, rule)
        assert found.starts[d].tolist() == begin
        assert [set(near[d, k][found.awaited[d, k]].tolist()) for k in range(clients)] == [
            *map(waited.get, range(clients))
        ]
    assert np.array_equal(found.finishes, found.starts + times)


FIGURE1 = np.array([[1, 2], [2, 3], [1, 3], [4, 5], [0, 5], [0, 4]])
"""K = 6, M = 2 as in the paper's Figure 1, from 0: node 3 has 2 before it, 5 has 1, 6 has 1 and 5."""


@pytest.mark.parametrize(
    ("cap", "expected"),
    [(0, [0, 0, 0, 0, 0, 0]), (1, [0, 0, 1, 0, 1, 1]), (2, [0, 0, 1, 0, 1, 2]), (None, [0, 0, 1, 0, 1, 2])],
)
def test_the_papers_example(cap, expected):
    """With N = 1 node 6 waits for 1, which is faster than 5; with N = 2 for both."""
    assert starts(FIGURE1, np.arange(6), cap=cap).tolist() == expected


def test_the_fastest_need_not_have_the_lowest_index():
    near, order, times = np.array([[1, 2], [0, 2], [0, 1]]), np.array([0, 1, 2]), np.array([5.0, 1.0, 1.0])
    independent = np.array([[1, 2], [2, 2], [0, 1]])  # client 1 has nobody before it
    assert starts(independent, order, times, 1, "fastest").tolist() == [0, 0, 1]
    assert starts(independent, order, times, 1, "lowest").tolist() == [0, 0, 5]
    assert starts(near, order, times, 1).tolist() == [0, 5, 5]


def test_of_two_that_finish_together_the_lower_index_is_awaited():
    near = np.array([[2, 2], [2, 2], [1, 0]])
    order = np.array([0, 1, 2])
    assert schedule(near, order, 1.0, 1).awaited[2].tolist() == [False, True]


def test_no_cap_and_all_neighbours_is_one_after_the_other():
    """N = M = K-1 (DA-3)."""
    rng = generator(1)
    order, times = draw_order(30, 5, rng), rng.uniform(1, 2, (5, 30))
    found = schedule(draw_neighbours("complete", 30, 29, 5, rng), order, times)
    sorted_starts = np.sort(found.starts, axis=1)
    in_turn = np.take_along_axis(times, np.argsort(order, axis=1), axis=1).cumsum(axis=1)
    assert np.allclose(sorted_starts[:, 1:], in_turn[:, :-1])
    assert np.allclose(found.finishes.max(axis=1), times.sum(axis=1))


@pytest.mark.parametrize("rule", ["fastest", "lowest"])
def test_a_cap_of_0_is_all_in_parallel_and_one_of_m_is_none(rule):
    rng = generator(2)
    near, order = draw_neighbours("random", 40, 7, 20, rng), draw_order(40, 20, rng)
    assert not starts(near, order, cap=0, rule=rule).any()
    assert np.array_equal(starts(near, order, cap=7, rule=rule), starts(near, order, rule=rule))
    assert np.array_equal(starts(near, order, cap=99, rule=rule), starts(near, order, rule=rule))


def test_waiting_for_more_never_lets_anybody_start_earlier():
    rng = generator(3)
    near, order = draw_neighbours("random", 40, 9, 50, rng), draw_order(40, 50, rng)
    times = rng.uniform(0.5, 2, (50, 40))
    by_cap = np.stack([starts(near, order, times, cap) for cap in range(10)])
    assert (np.diff(by_cap, axis=0) >= 0).all() and (np.diff(by_cap, axis=0) > 0).any()


def test_clients_may_have_fewer_neighbours():
    near = np.array([[1, NO_NEIGHBOUR], [NO_NEIGHBOUR, NO_NEIGHBOUR], [0, 1]])
    found = schedule(near, np.array([1, 0, 2]))
    assert found.starts.tolist() == [1, 0, 2]
    assert found.awaited.tolist() == [[True, False], [False, False], [True, True]]


def test_any_leading_shape():
    rng = generator(4)
    near, order = draw_neighbours("random", 10, 3, 6, rng), draw_order(10, 6, rng)
    together = schedule(near.reshape(2, 3, 10, 3), order.reshape(2, 3, 10))
    assert together.starts.shape == (2, 3, 10) and together.awaited.shape == (2, 3, 10, 3)
    assert np.array_equal(together.starts.reshape(6, 10), schedule(near, order).starts)
    assert np.array_equal(starts(near[0], order[0]), schedule(near, order).starts[0])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"rule": "slowest"}, "the rule is 'slowest'; known: fastest, lowest|did you mean"),
        ({"cap": -1}, "the wait cap is -1; give 0"),
    ],
)
def test_impossible_schedules(words, complaint):
    with pytest.raises(SettingError, match=complaint):
        schedule(FIGURE1, np.arange(6), **words)
    with pytest.raises(SettingError, match=r"neighbours have the shape \(6, 2\) and indices \(5,\)"):
        schedule(FIGURE1, np.arange(5))


# -- draws ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("clients", "M"), [(2, 1), (12, 1), (12, 3), (12, 8), (12, 11)])
def test_neighbours_are_others_and_none_twice(clients, M):
    near = draw_neighbours("random", clients, M, 200, generator(5))
    assert near.shape == (200, clients, M)
    assert near.min() >= 0 and near.max() < clients
    assert (near != np.arange(clients)[:, None]).all()
    assert all(len(set(row)) == M for row in near.reshape(-1, M).tolist())


@pytest.mark.parametrize("M", [3, 8])
def test_every_set_of_neighbours_is_equally_likely(M):
    """Pairs of neighbours of client 4, over 20,000 draws: each of 55 within 5 standard errors of M(M-1)/(11·10).

    That is a false alarm once in 32,000 for all of them; 8 of 11 others takes the way over those left out.
    """
    draws = 20_000
    near = draw_neighbours("random", 12, M, draws, generator(6))[:, 4]
    among = np.zeros((draws, 12), bool)
    np.put_along_axis(among, near, True, axis=1)
    others = [k for k in range(12) if k != 4]
    together = (among[:, others].T.astype(float) @ among[:, others]) / draws
    chance = M * (M - 1) / (11 * 10)
    error = math.sqrt(chance * (1 - chance) / draws)
    assert np.abs(together[np.triu_indices(11, 1)] - chance).max() < 5 * error


def test_rings_and_complete_graphs():
    ring, complete = (draw_neighbours(word, 5, M, 2, generator()) for word, M in (("ring", 2), ("complete", 4)))
    assert {*ring[1, 0].tolist()} == {1, 4} and {*ring[0, 3].tolist()} == {2, 4}
    assert all({*complete[1, k].tolist()} == {*range(5)} - {k} for k in range(5))


def test_indices_are_a_permutation():
    order = draw_order(20, 50, generator(7))
    assert (np.sort(order, axis=1) == np.arange(20)).all()
    assert len({tuple(row) for row in order.tolist()}) == 50


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"clients": 5, "neighbours": 5}, "5 neighbours of 5 clients; give at least 1 and at most 4"),
        ({"clients": 5, "neighbours": 0}, "0 neighbours of 5 clients"),
        ({"clients": 1}, "1 clients cannot be random: give 2 or more"),
        ({"clients": 2, "topology": "ring"}, "2 clients cannot be ring: give 3 or more"),
        ({"topology": "ring", "neighbours": 3}, "a ring of 100 has 2; leave them out"),
        ({"topology": "rang"}, "did you mean 'ring'"),
        ({"time": 0}, "the time is 0"),
        ({"time": math.nan}, "the time is nan"),
        ({"spread": 0.7}, "the spread is 0.7; give a share of the time, from 0 to 0.5"),
        ({"fetch": -1}, "fetching takes -1 s"),
    ],
)
def test_impossible_peers(words, complaint):
    with pytest.raises(SettingError, match=complaint):
        Peers(**words)
    with pytest.raises(SettingError, match="draws is 0"):
        simulate(Peers(), [None], draws=0)


# -- many rounds ----------------------------------------------------------------------------------------------------


def test_results_are_a_function_of_the_seed_and_caps_share_their_draws():
    one, capped = simulate(Peers(clients=30), [None, 2], draws=50, seed=3)
    (again,) = simulate(Peers(clients=30), [None], draws=50, seed=3)
    (other,) = simulate(Peers(clients=30), [None], draws=50, seed=4)
    assert np.array_equal(one.max_wait, again.max_wait) and not np.array_equal(one.max_wait, other.max_wait)
    assert np.array_equal(one.share, capped.share)
    assert (capped.max_wait <= one.max_wait).all()


def test_large_numbers_of_draws_are_cut_into_chunks(monkeypatch):
    monkeypatch.setattr(module, "_ELEMENTS", 1000)
    peers = Peers(clients=20, neighbours=5)
    assert list(module._chunks(peers, 25)) == [10, 10, 5]
    (found,) = simulate(peers, [None], draws=25)
    assert found.share.shape == (25,) and len({*found.mean_wait.tolist()}) > 10


def test_seconds_and_transfers_stretch_a_round():
    """All times alike: everything is in proportion to a visit."""
    (unit,) = simulate(Peers(clients=20), [3], draws=20)
    (long,) = simulate(Peers(clients=20, time=2, fetch=0.5), [3], draws=20)
    assert np.allclose(long.max_wait, 2.5 * unit.max_wait)
    assert np.allclose(long.seconds, 2.5 * (unit.max_wait + 1))


def test_times_have_the_spread_asked_for():
    """Longest of 50 parallel visits: 1 + 0.2·2.249, over 2,000 rounds within 5 standard errors (1 in 1.7 million)."""
    (found,) = simulate(Peers(clients=50, spread=0.2), [0], draws=2000)
    assert found.seconds.mean() == pytest.approx(1 + 0.2 * 2.24907, abs=5 * standard_error(found.seconds))
    assert not found.max_wait.any()


# -- closed forms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "M"), [(6, 2), (100, 10), (30, 29)])
def test_proposition_1(K, M):
    for k in (1, 2, K // 2, K):
        chances = prior_chances(K, M, k)
        assert sum(chances) == pytest.approx(1)
        assert sum(m * p for m, p in enumerate(chances)) == pytest.approx((k - 1) * M / (K - 1))
    assert prior_chances(K, M, 1)[0] == 1 and prior_chances(K, M, K)[M] == 1
    empty = sum(prior_chances(K, M, k)[0] for k in range(1, K + 1)) / K
    assert empty == pytest.approx(parallel_share(M)) == pytest.approx(1 / (M + 1))


def test_prior_sets_have_proposition_1s_sizes():
    """Index 8 of 20 with 6 neighbours, 20,000 draws: each of 7 chances within 5 standard errors, 1 in 250,000."""
    draws = 20_000
    rng = generator(8)
    near, order = draw_neighbours("random", 20, 6, draws, rng), draw_order(20, draws, rng)
    sizes = schedule(near, order).awaited.sum(axis=2)[order == 7]
    found = np.bincount(sizes, minlength=7) / draws
    for m, chance in enumerate(prior_chances(20, 6, 8)):
        assert abs(found[m] - chance) <= 5 * math.sqrt(chance * (1 - chance) / draws)


@pytest.mark.parametrize(
    "peers",
    [
        Peers(neighbours=2),
        Peers(neighbours=10),
        Peers(clients=40, topology="ring", spread=0.3),
        Peers(clients=25, neighbours=18),
    ],
)
def test_shares_and_awaited_models_have_their_closed_forms(peers):
    """2,000 rounds, 6 comparisons each within 5 standard errors: a false alarm once in 290,000."""
    caps = [None, 1, 2]
    for cap, found in zip(caps, simulate(peers, caps, draws=2000, seed=1), strict=True):
        assert found.share.mean() == pytest.approx(
            parallel_share(peers.degree, cap), abs=5 * standard_error(found.share)
        )
        mean = mean_awaited(peers.degree, cap)
        assert found.awaited.mean() == pytest.approx(mean, abs=5 * standard_error(found.awaited) + 1e-12)


def test_work_factor():
    assert work_factor(2) == pytest.approx(4 / 3)
    for M in (1, 5, 10, 99):
        assert work_factor(M) == pytest.approx((3 * M + 2) / (2 * M + 2))
        assert work_factor(M, 0) == 1 < work_factor(M, 1) <= work_factor(M)
    assert parallel_share(10, 0) == 1 and mean_awaited(10, 0) == 0


@pytest.mark.parametrize("cap", [0, 1, 4, 19, None])
def test_the_longest_wait_among_all(cap):
    (found,) = simulate(Peers(clients=20, topology="complete"), [cap], draws=5)
    assert set(found.max_wait.tolist()) == {longest_wait(20, 19, cap)}
    assert longest_wait(20, 10, 0) == 0 and longest_wait(20, 10, 3) is None


@pytest.mark.parametrize("rule", ["fastest", "lowest"])
@pytest.mark.parametrize("cap", [1, 2, 5])
def test_mean_longest_waits_agree_with_a_plain_loop(rule, cap):
    """K = 100, M = 10: other draws, other code. Five standard errors of the difference: 1 in 290,000 for all six."""
    rng = generator(cap)
    near, order = draw_neighbours("random", 100, 10, 300, rng), draw_order(100, 300, rng)
    slow = np.array(
        [max(plain_loop(n, o, [1.0] * 100, cap, rule)[0]) for n, o in zip(near.tolist(), order.tolist(), strict=True)]
    )
    (fast,) = simulate(Peers(), [cap], rule=rule, draws=1500, seed=5)
    error = math.hypot(standard_error(slow), standard_error(fast.max_wait))
    assert fast.max_wait.mean() == pytest.approx(slow.mean(), abs=5 * error)
