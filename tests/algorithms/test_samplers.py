"""Time estimates, their order, and the three samplers; what is random about them is in tests/statistical."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.algorithms import time_order
from paceline.algorithms.samplers import SAMPLERS, TimePartition, UniformSampler, Weighted, sampler_named
from paceline.algorithms.time_order import SortedKeys, TimeOrder
from paceline.errors import SettingError
from paceline.seeds import mix, stream

KEY = 11


class LightWorld:
    """As much of a world as a sampler asks for."""

    def __init__(self, clients, seed=1, offline=()):
        self.clients = range(clients)
        self.seed = seed
        self.offline = frozenset(offline)
        self.asked = 0

    def stream(self, *path):
        return stream(self.seed, *path)

    @property
    def presence(self):
        return self

    def online(self, client):
        self.asked += 1
        return client not in self.offline


def timed(seconds, key=KEY):
    times = TimeOrder(len(seconds), key)
    times.observe_all(np.asarray(seconds, float))
    return times


def order_of(times):
    return [times.at(rank) for rank in range(len(times))]


def sorted_in_full(times, known):
    """The order that PS-12 asks for, by sorting everybody."""

    def key(client):
        estimate = times.estimate(client)
        side = 1 if client not in known else 2 * (estimate >= times.mean)
        return side, estimate if client in known else 0.0, mix(KEY, client)

    return sorted(range(len(times)), key=key)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(time_order, "BLOCK", 4)


# -- estimates ------------------------------------------------------------------------------------------------


def test_an_estimate_is_the_mean_of_what_was_observed():
    times = TimeOrder(5, KEY)
    for seconds in (1.0, 2.0, 6.0):
        times.observe(3, seconds)
    times.observe(0, 1.0)
    assert times.estimate(3) == pytest.approx(3.0)
    assert times.estimate(0) == times.fastest == 1.0
    assert (times.mean, times.known, len(times)) == (pytest.approx(2.0), 2, 5)
    assert times.estimate(1) == times.mean
    assert times.slowest == pytest.approx(3.0)
    assert times.estimates() == pytest.approx([1.0, 2.0, 2.0, 3.0, 2.0])


def test_nobody_known():
    times = TimeOrder(4, KEY)
    assert times.known == 0
    assert all(map(math.isnan, (times.mean, times.fastest, times.slowest, times.estimate(2), *times.estimates())))
    assert order_of(times) == sorted(range(4), key=lambda client: mix(KEY, client))
    assert times.below(1.0) == 0
    assert TimeOrder(2, KEY).below(1.0) == 0


def test_nothing_is_allocated_before_it_is_needed():
    """With a billion clients even a byte for each would show."""
    times = TimeOrder(10**9, KEY)
    sequences = UniformSampler().draw(LightWorld(10**9), times, 0, 5, 4)
    assert len(sequences) == 5
    assert vars(times).keys() == {"_clients", "_key", "_mean", "_ready", "_first_stranger"}


@given(
    clients=st.integers(1, 30),
    seen=st.lists(st.tuples(st.integers(0, 29), st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.7])), max_size=120),
    warm=st.booleans(),
)
def test_the_incremental_order_is_that_of_a_full_sort(clients, seen, warm):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_order, "BLOCK", 4)
        times = TimeOrder(clients, KEY)
        known = {}
        if warm:
            first = [1.0 + (k % 3) for k in range(clients)]
            times.observe_all(first)
            known = {client: [seconds] for client, seconds in enumerate(first)}
        for client, seconds in seen:
            client %= clients
            times.observe(client, seconds)
            known.setdefault(client, []).append(seconds)
            times.at(0)  # a rank asked for in between must not leave anything stale behind
        assert order_of(times) == sorted_in_full(times, known)
    assert times.known == len(known)
    for client, taken in known.items():
        assert times.estimate(client) == pytest.approx(np.mean(taken))
    if known:
        assert times.mean == pytest.approx(np.mean([np.mean(taken) for taken in known.values()]))
        for edge in (0.0, 0.5, times.mean, 1.7, 3.7, 9.0):
            assert times.below(edge) == sum(times.estimate(client) < edge for client in range(clients))


def test_a_long_run_with_blocks_that_split_and_vanish():
    rng = stream(3, "long run")
    times = TimeOrder(6000, KEY)
    for client, seconds in zip(rng.integers(6000, size=20000), rng.exponential(2.5, size=20000), strict=True):
        times.observe(int(client), float(seconds))
    known = {client for client in range(6000) if times.estimates()[client] != times.mean}
    assert times.known == len(known) > 5000
    assert order_of(times) == sorted_in_full(times, known)


def test_keys_come_and_go(small_blocks):
    keys = SortedKeys(np.arange(0.0, 20.0, 2.0))
    for odd in (9.0, 1.0, 19.0, 5.0, 3.0, 7.0, -1.0):
        keys.add(odd)
    for even in (0.0, 2.0, 4.0, 6.0, -1.0, 1.0):
        keys.remove(even)
    assert [keys[rank] for rank in range(len(keys))] == [3, 5, 7, 8, 9, 10, 12, 14, 16, 18, 19]
    assert [keys.below(edge) for edge in (-5.0, 3.0, 3.5, 9.0, 99.0)] == [0, 0, 1, 4, 11]
    while len(keys):
        keys.remove(keys[0])
    keys.add(4.0)
    assert keys[0] == 4.0


def test_unknown_clients_stand_in_the_middle():
    times = TimeOrder(9, KEY)
    for client, seconds in {2: 1.0, 5: 9.0, 7: 2.0, 8: 8.0}.items():
        times.observe(client, seconds)
    order = order_of(times)
    assert order[:2] == [2, 7]
    assert order[-2:] == [8, 5]
    assert order[2:7] == sorted({0, 1, 3, 4, 6}, key=lambda client: mix(KEY, client))


def test_equal_times_are_ordered_by_hash_and_not_by_number():
    """The mean of equal times is that time to the last bit, so rounding never cuts the clients in two."""
    one, two = timed([0.1] * 400), TimeOrder(400, KEY)
    for client in range(400):
        two.observe(client, 0.1)
        two.observe(client, 0.1)
    assert order_of(one) == order_of(two) == sorted(range(400), key=lambda client: mix(KEY, client))
    assert one.mean == two.mean == 0.1
    assert abs(np.corrcoef(order_of(one), range(400))[0, 1]) < 0.2
    assert order_of(one) != order_of(timed([0.1] * 400, key=12))


def test_a_warm_up_counts_as_so_many_observations():
    bulk, single = TimeOrder(3, KEY), TimeOrder(3, KEY)
    bulk.observe(1, 4.0)
    bulk.observe_all([[1.0, 2.0, np.nan], [3.0, 6.0, np.nan]])
    for client, seconds in [(1, 4.0), (0, 1.0), (1, 2.0), (0, 3.0), (1, 6.0)]:
        single.observe(client, seconds)
    assert bulk.estimates() == pytest.approx(single.estimates())
    assert bulk.known == single.known == 2
    assert order_of(bulk) == order_of(single)
    bulk.observe(0, 5.0)
    assert bulk.estimate(0) == pytest.approx(3.0)
    nobody = TimeOrder(3, KEY)
    nobody.observe_all([np.nan] * 3)
    assert nobody.known == 0


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_impossible_times_are_refused(seconds):
    times = TimeOrder(3, KEY)
    with pytest.raises(SettingError, match="client 1 took"):
        times.observe(1, seconds)
    assert times.known == 0
    if not math.isnan(seconds):
        with pytest.raises(SettingError, match="negative or infinite"):
            times.observe_all([1.0, 2.0, seconds])


def test_impossible_shapes_clients_and_ranks_are_refused():
    times = TimeOrder(3, KEY)
    with pytest.raises(SettingError, match="each of 3 clients"):
        times.observe_all([1.0, 2.0])
    with pytest.raises(SettingError, match="1 or more"):
        TimeOrder(0, KEY)
    for wrong in (-1, 3):
        with pytest.raises(IndexError):
            times.observe(wrong, 1.0)
        with pytest.raises(IndexError):
            times.at(wrong)


# -- samplers -------------------------------------------------------------------------------------------------


@st.composite
def structures(draw):
    width, length = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    return draw(st.integers(width * length, width * length + 60)), width, length


@given(
    structure=structures(),
    name=st.sampled_from(sorted(SAMPLERS)),
    known=st.floats(0, 1),
    offline=st.floats(0, 1),
    seed=st.integers(0, 9),
)
def test_no_client_rides_twice_in_a_round(structure, name, known, offline, seed):
    clients, width, length = structure
    rng = stream(seed, "test")
    world = LightWorld(clients, seed, np.flatnonzero(rng.random(clients) < offline).tolist())
    times = TimeOrder(clients, KEY)
    times.observe_all(np.where(rng.random(clients) < known, rng.exponential(2.5, clients), np.nan))
    for r in range(3):
        sequences = SAMPLERS[name].draw(world, times, r, width, length)
        assert [len(sequence) for sequence in sequences] == [length] * width
        riders = [client for sequence in sequences for client in sequence]
        assert len(set(riders)) == width * length
        assert set(riders) <= set(world.clients)
        assert all(type(client) is int for client in riders)
        for client in riders:
            times.observe(client, float(rng.exponential(2.5)))


@pytest.mark.parametrize(("clients", "length"), [(12, 4), (13, 4), (500, 3), (11, 5), (7, 7)])
def test_every_sequence_has_one_client_of_each_group(clients, length):
    """Clients 0..N-1 have times 1..N, so that a client's number is its rank; the widest structure that fits."""
    times, world = timed(np.arange(clients) + 1.0), LightWorld(clients)
    edges = [group * clients // length for group in range(1, length)]
    assert {clients // length, -(-clients // length)} >= set(np.diff([0, *edges, clients]).tolist())
    for r in range(20):
        for sequence in TimePartition().draw(world, times, r, clients // length, length):
            assert sorted(np.searchsorted(edges, sequence, "right")) == list(range(length))


def test_group_sizes_are_floor_or_ceiling():
    """Exactly, from many rounds of one sequence: clients 0..N-1 have times 1..N."""
    times, world = timed(np.arange(11) + 1.0), LightWorld(11)
    members = [set() for _ in range(4)]
    for r in range(300):
        for group, client in zip(members, sorted(TimePartition().draw(world, times, r, 1, 4)[0]), strict=True):
            group.add(client)
    assert sorted(map(len, members)) == [2, 3, 3, 3]
    assert sorted(client for group in members for client in group) == list(range(11))


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_too_wide_a_structure_is_refused_with_a_way_out(name):
    """PS-14 needs W <= floor(N/S)."""
    world, times = LightWorld(19), TimeOrder(19, KEY)
    with pytest.raises(SettingError, match=r"5\*4 = 20 clients but there are 19"):
        SAMPLERS[name].draw(world, times, 0, 5, 4)
    assert len(SAMPLERS[name].draw(world, times, 0, 4, 4)) == 4
    assert len(SAMPLERS[name].draw(world, times, 0, 5, 3)) == 5


def test_uniform_draws_are_those_of_old():
    """Recorded before there were other samplers: runs of old must be repeatable."""
    sequences = UniformSampler().draw(LightWorld(1000, seed=7), TimeOrder(1000, KEY), 3, 2, 4)
    assert sequences == [[291, 653, 734, 897], [372, 824, 202, 283]]
    chosen = stream(7, "cohort", 3).choice(1000, 8, replace=False)
    assert [client for sequence in sequences for client in sequence] == chosen.tolist()


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_draws_are_the_seeds_and_the_rounds(name):
    times = timed(stream(1, "times").exponential(2.5, 300))
    draw = SAMPLERS[name].draw
    first = draw(LightWorld(300, 1), times, 0, 5, 4)
    assert first == draw(LightWorld(300, 1), times, 0, 5, 4)
    assert first != draw(LightWorld(300, 1), times, 1, 5, 4)
    assert first != draw(LightWorld(300, 2), times, 0, 5, 4)


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("known", [False, True])
def test_clients_that_are_online_are_preferred(name, known):
    times = timed(np.arange(200) + 1.0) if known else TimeOrder(200, KEY)
    world = LightWorld(200, offline=range(0, 200, 2))
    for r in range(50):
        riders = {client for sequence in SAMPLERS[name].draw(world, times, r, 3, 4) for client in sequence}
        assert len(riders) == 12
        assert not riders & world.offline


def test_replacements_come_from_the_same_group():
    times, world = timed(np.arange(40) + 1.0), LightWorld(40, offline=range(0, 40, 2))
    for r in range(50):
        for sequence in TimePartition().draw(world, times, r, 3, 4):
            assert sorted(client // 10 for client in sequence) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("clients", [30, 100])
def test_if_hardly_anyone_is_online_the_others_are_waited_for(name, clients):
    times, online = timed(np.arange(clients) + 1.0), {0, clients - 1}
    world = LightWorld(clients, offline=set(range(clients)) - online)
    riders = {client for sequence in SAMPLERS[name].draw(world, times, 0, 4, 3) for client in sequence}
    assert len(riders) == 12
    assert riders >= online


def test_weighted_draws_do_not_depend_on_the_unit_of_time():
    seconds, world = [1.0 + k**2 for k in range(40)], LightWorld(40)
    first, *others = (
        Weighted().draw(world, timed([unit * one for one in seconds]), 0, 2, 4) for unit in (1.0, 2.0**-30, 2.0**30)
    )
    assert others == [first, first]


def test_weighted_with_all_clients_and_with_times_of_zero():
    times, world = timed([0.0] * 5 + [1e-12, 1.0, 1e6]), LightWorld(8)
    assert sorted(Weighted().draw(world, times, 0, 1, 8)[0]) == list(range(8))
    equal = Weighted().draw(world, timed([0.0] * 8), 0, 2, 4)
    assert equal == UniformSampler().draw(world, times, 0, 2, 4)  # and no division by 0
    many, crowd = timed([0.0] * 2 + [1e6] * 98), LightWorld(100)
    for r in range(20):  # proposals are nearly all of two clients: the rest must still be found
        riders = [client for sequence in Weighted().draw(crowd, many, r, 4, 5) for client in sequence]
        assert len(set(riders)) == 20
        assert {0, 1} <= set(riders)


@pytest.mark.parametrize("name", ["partition", "weighted"])
def test_a_draw_looks_at_few_clients(name):
    clients = 200_000
    times, world = timed(stream(1, "times").exponential(2.5, clients)), LightWorld(clients)
    looks = 0
    at = times.at

    def counted(rank):
        nonlocal looks
        looks += 1
        return at(rank)

    times.at = counted
    times.estimates = None
    SAMPLERS[name].draw(world, times, 0, 10, 10)
    assert looks <= 1000
    assert world.asked <= 1000


def test_samplers_by_name():
    assert sampler_named("partition") == TimePartition()
    assert {name: sampler.learns_times for name, sampler in SAMPLERS.items()} == {
        "partition": True,
        "uniform": False,
        "weighted": True,
    }
    with pytest.raises(SettingError, match="did you mean 'partition'"):
        sampler_named("partitions")
