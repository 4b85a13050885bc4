"""What PSFL's theorems say about its sampling, as far as it is true (PS-5, PS-E5, PS-E6).

All draws are seeded, so a test passes always or never. The false-alarm rates are for the choice of the seed: a
chi-square test fails by chance with probability ALARM, a bound on a mean with the probability of a normal variable
beyond SIGMAS standard errors (1e-9 on one side, 2e-9 on two). There are 34 of the former and 37 of the latter, so one
seed in 29,000 would raise an alarm although nothing is wrong. Two more assertions are controls: a
wrong hypothesis that a test must reject, to show that it sees what it is for.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from paceline.algorithms.samplers import SAMPLERS, TimePartition, Weighted
from paceline.algorithms.time_order import TimeOrder
from paceline.seeds import stream
from paceline.system.laws import Discrete, Gaussian

ALARM = 1e-6
SIGMAS = 6.0
JITTER = 0.2
"""t_n^(r) ~ N(t_n, (0.2 t_n)²), the paper's."""


class LightWorld:
    """As much of a world as a sampler asks for."""

    def __init__(self, clients, seed=1):
        self.clients = range(clients)
        self.seed = seed
        self.presence = self

    def stream(self, *path):
        return stream(self.seed, *path)

    def online(self, client):
        return True


def timed(seconds):
    times = TimeOrder(len(seconds), 5)
    times.observe_all(np.asarray(seconds, float))
    return times


def law_times(law, clients):
    """Mean times of a fleet; of the five-point law as many clients with each, so that the fleet's mean is 2.5."""
    if isinstance(law, Discrete):
        return np.resize(law.values, clients)
    return np.array([law.draw(9, client) for client in range(clients)])


def draws(sampler, times, rounds, width, length):
    """[rounds, width, length] clients."""
    world = LightWorld(len(times))
    return np.array([sampler.draw(world, times, r, width, length) for r in range(rounds)])


def group_of(times, length):
    """Each client's group and the groups' sizes, from ranks (PS-13)."""
    edges = [group * len(times) // length for group in range(length + 1)]
    groups = np.empty(len(times), int)
    for group, (low, high) in enumerate(itertools.pairwise(edges)):
        groups[[times.at(rank) for rank in range(low, high)]] = group
    return groups, np.diff(edges)


def p_value(counts, probabilities):
    probabilities = np.asarray(probabilities)
    return stats.chisquare(counts, probabilities * np.sum(counts) / probabilities.sum()).pvalue


# -- Theorem 3: who stands where (PS-E6) ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clients", "length", "width", "rounds"), [(500, 4, 2, 8000), (500, 3, 2, 8000), (7, 3, 2, 4000)]
)
def test_slot_probability_is_one_over_s_times_the_group(clients, length, width, rounds):
    """Every place (w, m) of every round: rounds are independent, so a place's counts are multinomial."""
    times = timed(stream(1, "means").exponential(2.5, clients))
    groups, sizes = group_of(times, length)
    exact = 1.0 / (length * sizes[groups])
    assert exact.sum() == pytest.approx(1.0)
    chosen = draws(TimePartition(), times, rounds, width, length)
    for w, m in itertools.product(range(width), range(length)):
        assert p_value(np.bincount(chosen[:, w, m], minlength=clients), exact) > ALARM
    # A round takes exactly W of each group, so the groups' shares are no matter of chance.
    riders = np.bincount(groups[chosen.ravel()], minlength=length)
    assert (riders == rounds * width).all()
    shares = riders / sizes / chosen.size * clients  # P(a place holds client n), in units of 1/N
    if clients % length == 0:
        assert shares == pytest.approx(np.ones(length), abs=1e-12)
    if (clients, length) == (500, 3):
        assert sorted(shares) == pytest.approx([0.998, 0.998, 1.004], abs=5e-4)
    if clients == 7:  # groups of 2, 2 and 3: far enough from 1/N that the same test must see it
        assert p_value(np.bincount(chosen[:, 0, 0], minlength=clients), np.ones(clients)) < ALARM


def test_slot_probability_when_most_times_are_unknown():
    """The theorem asks nothing of the estimates: only the groups are made from them."""
    times = TimeOrder(11, 5)
    for client, seconds in {3: 1.0, 4: 9.0, 8: 2.0}.items():
        times.observe(client, seconds)
    groups, sizes = group_of(times, 4)
    chosen = draws(TimePartition(), times, 4000, 2, 4)
    for m in range(4):
        assert p_value(np.bincount(chosen[:, 1, m], minlength=11), 1.0 / (4 * sizes[groups])) > ALARM


def test_sequences_are_stratified_in_random_order():
    times = timed(np.arange(6) + 1.0)
    groups, _ = group_of(times, 3)
    chosen = draws(TimePartition(), times, 4000, 2, 3)
    assert (np.sort(groups[chosen], axis=2) == np.arange(3)).all()
    # All 6 orders of the groups are equally probable, in the second sequence given the first as well: 36 cells.
    code = (groups[chosen] * [9, 3, 1]).sum(axis=2)
    kinds = [9 * a + 3 * b + c for a, b, c in itertools.permutations(range(3))]
    order = np.searchsorted(kinds, code)
    assert p_value(np.bincount(order[:, 0] * 6 + order[:, 1], minlength=36), np.ones(36)) > ALARM


def test_members_of_a_sequence_are_drawn_independently():
    """Groups of 3 and 3: the 9 pairs, and then the 4 that are left for the second sequence (36 cells)."""
    times = timed(np.arange(6) + 1.0)
    chosen = np.sort(draws(TimePartition(), times, 4000, 2, 2), axis=2)
    counts = {}
    for (a, b), (c, d) in chosen.tolist():
        counts[a, b, c, d] = counts.get((a, b, c, d), 0) + 1
    assert len(counts) == 36
    assert p_value(list(counts.values()), np.ones(36)) > ALARM


def test_uniform_sampling_is_uniform_in_every_place():
    chosen = draws(SAMPLERS["uniform"], TimeOrder(40, 5), 4000, 2, 2)
    for w, m in itertools.product(range(2), range(2)):
        assert p_value(np.bincount(chosen[:, w, m], minlength=40), np.ones(40)) > ALARM


# -- Theorem 2: how long a round takes (PS-5, PS-E5) --------------------------------------------------------------


def round_times(sampler, means, rounds, width, length):
    """max over w of the sum of the sequence's times with jitter (PS-3)."""
    chosen = draws(sampler, timed(means), rounds, width, length)
    factors = 1 + JITTER * stream(2, "jitter").standard_normal(chosen.shape)
    return (means[chosen] * np.maximum(factors, 0.05)).sum(axis=2).max(axis=1)


def error(sample):
    return SIGMAS * sample.std() / math.sqrt(len(sample))


def upper_bound(mean, kappa_squared, width, length):
    return length * mean + math.sqrt(2 * kappa_squared * length * math.log(width))


@pytest.mark.parametrize(("clients", "length"), [(500, 4), (500, 3), (50, 7)])
def test_expected_time_of_a_sequence(clients, length):
    """The sum of the groups' means, which is S t̄ if S divides N and off by rounding otherwise."""
    means = stream(3, "means").exponential(2.5, clients)
    groups, _ = group_of(timed(means), length)
    exact = sum(means[groups == group].mean() for group in range(length))
    spread = sum(means[groups == group].var() for group in range(length))
    if clients % length == 0:
        assert exact == pytest.approx(length * means.mean(), rel=1e-12)
    assert exact == pytest.approx(length * means.mean(), rel=length / clients)
    rounds = 3000
    sums = means[draws(TimePartition(), timed(means), rounds, 2, length)].sum(axis=2)
    for w in range(2):
        assert sums[:, w].mean() == pytest.approx(exact, abs=SIGMAS * math.sqrt(spread / rounds))


@pytest.mark.parametrize("name", ["uniform", "partition"])
@pytest.mark.parametrize("law", [Discrete(), Gaussian()], ids=["discrete", "gaussian"])
@pytest.mark.parametrize(("width", "length"), [(1, 4), (5, 4), (7, 3)])
def test_lower_bound_of_the_round_time(name, law, width, length):
    """S t̄, of N = 480, which 3 and 4 divide; with one sequence it is the very mean, tested on both sides."""
    means = law_times(law, 480)
    taken = round_times(SAMPLERS[name], means, 1500, width, length)
    assert taken.mean() >= length * means.mean() - error(taken)
    if width == 1:
        assert taken.mean() <= length * means.mean() + error(taken)


@pytest.mark.parametrize(("width", "length"), [(1, 4), (2, 4), (5, 4), (20, 2)])
@pytest.mark.parametrize("name", ["uniform", "partition"])
def test_upper_bound_with_identical_clients(name, width, length):
    """Where no client is slower than another the bound holds, for any sampling (PS-E5)."""
    means = np.full(100, 2.5)
    taken = round_times(SAMPLERS[name], means, 1500, width, length)
    bound = upper_bound(2.5, (JITTER * 2.5) ** 2, width, length)
    assert taken.mean() <= bound + error(taken)


def test_upper_bound_is_violated_by_uniform_sampling_of_unequal_clients():
    """PS-E5: about 14.4 s against 12.2 (κ² of Eq. 26, 0.37) and against 13.6 (κ = 1); partition sampling keeps it."""
    means = law_times(Discrete(), 500)
    assert means.mean() == pytest.approx(2.5)
    kappa_squared = float(np.mean((JITTER * means) ** 2))
    bound = upper_bound(2.5, kappa_squared, 5, 4)
    assert bound == pytest.approx(12.2, abs=0.05)
    uniform = round_times(SAMPLERS["uniform"], means, 4000, 5, 4)
    assert uniform.mean() - error(uniform) > upper_bound(2.5, 1.0, 5, 4) > bound
    partition = round_times(SAMPLERS["partition"], means, 3000, 5, 4)
    assert partition.mean() < bound + error(partition)
    weighted = round_times(SAMPLERS["weighted"], means, 3000, 5, 4)
    for taken, expected in ((uniform, 14.4), (weighted, 11.4), (partition, 12.0)):
        assert taken.mean() == pytest.approx(expected, abs=0.05 + error(taken))  # given to one decimal


def test_upper_bound_holds_where_groups_are_homogeneous():
    """The five-point law cut into five groups: every sequence has one client of each kind (PS-E5)."""
    means = law_times(Discrete(), 500)
    taken = round_times(TimePartition(), means, 2000, 4, 5)
    assert taken.mean() <= upper_bound(2.5, float(np.mean((JITTER * means) ** 2)), 4, 5) + error(taken)
    assert np.ptp(means[draws(TimePartition(), timed(means), 20, 4, 5)].sum(axis=2)) == 0


# -- weighted sampling ----------------------------------------------------------------------------------------------


def test_weighted_draws_go_with_the_root_of_the_speed():
    """One client of 60, of whom 20 are unknown and weigh as the mean; times over a factor of 400, five classes."""
    known = np.geomspace(0.1, 40.0, 40)
    times = TimeOrder(60, 5)
    times.observe_all([*known, *[np.nan] * 20])
    seconds = np.array([*known, *[known.mean()] * 20])
    chosen = draws(Weighted(), times, 12000, 1, 1).ravel()
    counts = np.bincount(chosen, minlength=60)
    assert p_value(counts, seconds**-0.5) > ALARM
    # The mean log time is the sharpest statistic for the exponent: a standard error of it is 0.006 of exponent.
    p, logs = seconds**-0.5 / np.sum(seconds**-0.5), np.log(seconds)
    deviation = math.sqrt(p @ logs**2 - (p @ logs) ** 2)
    assert logs[chosen].mean() == pytest.approx(p @ logs, abs=SIGMAS * deviation / math.sqrt(len(chosen)))
    # Control: 0.4 for 0.5 gives chi-square a noncentrality of about 320 at 59 degrees, so a p-value near 1e-48; a
    # chance shift of 3 standard errors towards 0.4 still leaves it near 1e-31.
    assert p_value(counts, seconds**-0.4) < ALARM


@pytest.mark.parametrize("clients", [9, 5])
def test_weighted_draws_are_successive(clients):
    """Ordered pairs: P(i, j) = p_i p_j / (1 - p_i); two of nine by rejection, two of five by a race of clocks."""
    seconds = np.geomspace(0.2, 20.0, clients)
    p = seconds**-0.5 / np.sum(seconds**-0.5)
    pairs = draws(Weighted(), timed(seconds), 12000, 1, 2)[:, 0]
    counts = np.zeros((clients, clients))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    exact = np.outer(p / (1 - p), p)
    apart = ~np.eye(clients, dtype=bool)
    assert exact[apart].sum() == pytest.approx(1.0)
    assert counts[~apart].sum() == 0
    assert p_value(counts[apart], exact[apart]) > ALARM


def test_weighted_draws_are_uniform_while_nobody_is_known():
    chosen = draws(Weighted(), TimeOrder(30, 5), 4000, 1, 1)
    assert p_value(np.bincount(chosen.ravel(), minlength=30), np.ones(30)) > ALARM
