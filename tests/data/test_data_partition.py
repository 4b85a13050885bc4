"""Partitions: each index exactly once, the promised skew, and refusals that say what to change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import calls

from paceline.data.holders import leave_none_out
from paceline.data.partition import (
    Dirichlet,
    Dominant,
    ExDir,
    Iid,
    Natural,
    Partition,
    Pathological,
    PowerLaw,
    parse_partition,
)
from paceline.errors import PartitionError, SettingError
from paceline.seeds import stream

CIFAR_LABELS = np.repeat(np.arange(10), 5000)
DIGIT_LABELS = np.repeat(np.arange(10), 144)

labelled = st.builds(
    lambda counts, seed: stream(seed, "labels").permutation(np.repeat(np.arange(len(counts)), counts)),
    st.lists(st.integers(20, 80), min_size=2, max_size=8),
    st.integers(0, 10**6),
)
covering = st.sampled_from(
    [
        "iid",
        "dirichlet:0.5",
        "dirichlet:5",
        "dirichlet:0.1,equal",
        "exdir:2,10",
        "pathological:2",
        "pathological:1",
        "dominant:0.3",
        "dominant:1",
        "powerlaw:1.5",
        "powerlaw:0.8",
        "powerlaw:1.5,2",
    ]
)


@given(labels=labelled, text=covering, clients=st.integers(8, 16), seed=st.integers(0, 10**6))
def test_every_index_is_owned_exactly_once_and_nobody_is_empty(labels, text, clients, seed):
    part = parse_partition(text).split(labels, clients, stream(seed, "split"))
    assert len(part) == clients
    assert sorted(part.indices) == list(range(len(labels)))
    assert part.covers(len(labels))
    assert part.sizes.sum() == len(labels)
    assert part.sizes.min() >= 1
    assert part.label_counts(labels, 8).sum() == len(labels)


@given(labels=labelled, clients=st.integers(1, 12), groups=st.integers(12, 20), seed=st.integers(0, 10**6))
def test_natural_never_cuts_a_group(labels, clients, groups, seed):
    group = np.arange(len(labels)) % groups
    merged = Natural().split(labels, clients, stream(seed, "split"), group)
    assert merged.covers(len(labels))
    owned = [set(group[merged[k]]) for k in range(clients)]
    assert sum(map(len, owned)) == groups
    chosen = Natural(choose=True).split(labels, clients, stream(seed, "split"), group)
    for k in range(clients):
        assert len(set(group[chosen[k]])) == 1
        assert len(chosen[k]) == (group == group[chosen[k][0]]).sum()


@pytest.mark.parametrize("text", ["iid", "dirichlet:0.3", "exdir:2,10", "pathological:2", "powerlaw:1.5,2"])
def test_the_same_address_gives_the_same_partition_and_another_seed_another(text):
    labels = np.arange(1000) % 10
    first, again, other = (parse_partition(text).split(labels, 20, stream(s, "p")) for s in (1, 1, 2))
    assert (first.indices == again.indices).all()
    assert (first.offsets == again.offsets).all()
    assert (first.indices != other.indices).any()


def test_splitting_leaves_the_labels_alone():
    labels = np.arange(500) % 10
    for text in ("dirichlet:0.3", "exdir:2,10", "pathological:2", "dominant:0.3", "dirichlet:0.3,equal"):
        parse_partition(text).split(labels, 10, stream(0, text))
    assert (labels == np.arange(500) % 10).all()


def test_iid_sizes_differ_by_at_most_one():
    part = Iid().split(np.zeros(103, np.int64), 10, stream(0, "iid"))
    assert sorted(part.sizes) == [10] * 7 + [11] * 3


def test_exdir_holds_exactly_c_classes_and_every_class_has_the_holders_it_must():
    for classes in (1, 2, 5):
        part = ExDir(classes, 10.0).split(CIFAR_LABELS, 500, stream(0, "exdir", classes))
        counts = part.label_counts(CIFAR_LABELS, 10)
        assert (counts > 0).sum(axis=1).max() <= classes
        assert (counts > 0).sum(axis=0).min() >= classes * 500 // 10 // 5 * 0.9  # a holder may get nothing
        assert part.sizes.min() >= 10


def test_exdir_sizes_spread_like_the_published_cifar10_maps():
    """The authors' stored maps have size deviations 31.8 for ExDir(1,10) and 23.5 for ExDir(2,10).

    With C=1 a client's size is 5000/h · Dir(10) over about 50 holders: deviation √(1000 + var of 5000/h), and
    5000/h has deviation near 100 · √(0.9·50)/50 = 13.4, together 34. Over ten seeds the mean has a standard
    error near 0.6, so 34 ± 2.4 is four of them; the map's 31.8 must lie within the range of single draws.
    False-alarm rate below 1e-3.
    """
    spread = {
        c: [ExDir(c, 10.0).split(CIFAR_LABELS, 500, stream(s, "exdir", c)).sizes.std() for s in range(10)]
        for c in (1, 2)
    }
    assert abs(np.mean(spread[1]) - 34) < 2.4
    assert min(spread[1]) - 2 < 31.8 < max(spread[1]) + 2
    assert min(spread[2]) - 2 < 23.5 < max(spread[2]) + 2


def test_exdir_last_holder_takes_the_remainder_when_all_holders_are_full():
    """Two clients hold all three classes; both may be full before the last one, which must still be dealt."""
    labels = np.repeat([0, 1, 2], [50, 50, 2])
    part = ExDir(3, 1000.0, minimum=1).split(labels, 2, stream(0, "full"))
    assert part.covers(102)


def test_smaller_alpha_skews_more():
    distance = [
        Dirichlet(alpha).split(CIFAR_LABELS, 50, stream(0, "alpha")).skew(CIFAR_LABELS, 10).distance
        for alpha in (100.0, 1.0, 0.1)
    ]
    assert distance[0] < 0.1 < distance[1] < 0.6 < distance[2]


@pytest.mark.parametrize("text", ["dirichlet:0.3,equal", "pathological:2,equal", "pathological:2"])
def test_equal_variants_have_equal_sizes(text):
    part = parse_partition(text).split(CIFAR_LABELS, 100, stream(0, text))
    assert set(part.sizes) == {500}
    assert part.covers(50_000) == (text != "pathological:2,equal")


def test_equal_pathological_reuses_a_class_only_when_it_is_exhausted():
    labels = np.repeat([0, 1], [10, 90])
    part = Pathological(1, equal=True).split(labels, 10, stream(0, "reuse"))
    counts = np.bincount(part.indices, minlength=100)
    for c in (0, 1):
        own = counts[labels == c]
        assert own.max() - own.min() <= 1  # cyclic: nobody a second time before everybody once


@pytest.mark.parametrize("clients", [5, 12, 20])
def test_equal_pathological_leaves_no_class_without_a_client(clients):
    """By chance alone some class has no holder in 11 % of the splits among 20 clients, in nearly all among 5."""
    for seed in range(40):
        part = Pathological(2, equal=True).split(DIGIT_LABELS, clients, stream(seed, "none left out"))
        held = part.label_counts(DIGIT_LABELS, 10) > 0
        assert held.any(axis=0).all()
        assert set(held.sum(axis=1)) == {2}
        assert set(part.sizes) == {1440 // clients}


def test_equal_pathological_draws_nothing_more_where_every_class_has_a_client():
    """So that splits which were whole before classes could be given away have stayed what they were."""
    holders = np.eye(10, dtype=bool)
    rng, same = stream(0, "whole"), stream(0, "whole")
    assert (leave_none_out(holders, rng) == holders).all()
    assert rng.bit_generator.state == same.bit_generator.state


def test_pathological_gives_each_client_exactly_n_classes_in_many_combinations():
    part = Pathological(2).split(CIFAR_LABELS, 100, stream(0, "shards"))
    held = part.label_counts(CIFAR_LABELS, 10) > 0
    assert set(held.sum(axis=1)) == {2}
    assert set(held.sum(axis=0)) == {20}
    # 45 pairs are possible; 100 random hands miss a given pair with probability e^-2.2.
    assert len({tuple(row) for row in held}) > 25


@pytest.mark.parametrize("per_client", [9, 10])
def test_pathological_works_when_nearly_all_classes_go_to_everyone(per_client):
    part = Pathological(per_client).split(CIFAR_LABELS, 7, stream(0, "tight", per_client))
    assert set((part.label_counts(CIFAR_LABELS, 10) > 0).sum(axis=1)) == {per_client}


def test_dominant_takes_its_share_from_class_i_mod_classes():
    part = Dominant(0.3).split(CIFAR_LABELS, 20, stream(0, "dominant"))
    counts = part.label_counts(CIFAR_LABELS, 10)
    own = counts[np.arange(20), np.arange(20) % 10]
    assert (own == 750).all()  # 0.3 · 2500, and 2 · 750 of 5000 never runs out
    rest = counts[counts != 750]
    # 1750 draws over 9 classes, 194.4 each: binomial deviation 13.1, so ±90 is beyond six of them.
    assert abs(rest - 1750 / 9).max() < 90


def test_dominant_shares_a_class_that_runs_out():
    labels = np.repeat([0, 1], [10, 90])
    part = Dominant(1.0).split(labels, 4, stream(0, "short"))
    counts = part.label_counts(labels, 2)
    assert part.covers(100)
    assert counts[[0, 2], 0].sum() == 10
    assert counts[[1, 3], 0].sum() == 0


def test_power_law_sizes_have_the_exponent():
    """Hill's estimate of the exponent from the 500 largest of 5000 clients has deviation 1.5/√500 = 0.067.

    Rounding to whole samples adds little at mean size 200. Four deviations: false-alarm rate below 1e-4.
    """
    part = PowerLaw(1.5).split(np.zeros(1_000_000, np.int64), 5000, stream(0, "hill"))
    top = np.sort(part.sizes)[-501:]
    hill = 1 / np.log(top[1:] / top[0]).mean()
    assert abs(hill - 1.5) < 0.27


def test_power_law_with_classes_keeps_both_promises():
    part = PowerLaw(1.5, 2).split(CIFAR_LABELS, 500, stream(0, "fedprox"))
    skew = part.skew(CIFAR_LABELS, 10)
    assert skew.classes == 2
    assert skew.size_variation > 0.7


def test_skew_of_two_clients_by_hand():
    """Clients {0,0,0,1} and {1,1}: laws (3/4, 1/4) and (0, 1) against (1/2, 1/2)."""
    part = Partition(np.array([0, 1, 2, 3, 4, 5]), np.array([0, 4, 6]))
    skew = part.skew(np.array([0, 0, 0, 1, 1, 1]), 2)
    assert skew.distance == pytest.approx((0.25 + 0.5) / 2)
    assert skew.classes == 1.5
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert skew.effective_classes == pytest.approx((np.exp(entropy) + 1) / 2)
    assert (skew.smallest, skew.mean_size, skew.largest) == (2, 3, 4)
    assert skew.size_variation == pytest.approx(1 / 3)
    assert "label distance 0.38" in str(skew)


def test_partition_reads_like_a_list():
    part = Partition(np.array([5, 6, 7]), np.array([0, 1, 3]))
    assert [list(own) for own in part] == [[5], [6, 7]]
    assert list(part[-1]) == [6, 7]
    with pytest.raises(IndexError):
        part[2]
    with pytest.raises(PartitionError, match="offsets end at 2"):
        Partition(np.array([5, 6, 7]), np.array([0, 2]))


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("iid", Iid()),
        ("dirichlet:0.2", Dirichlet(0.2)),
        ("dirichlet:0.3,equal", Dirichlet(0.3, equal=True)),
        ("dirichlet:0.3,minimum=5", Dirichlet(0.3, minimum=5)),
        ("exdir:2,10", ExDir(2, 10.0)),
        ("pathological:2", Pathological(2)),
        ("pathological:2, equal", Pathological(2, equal=True)),
        ("dominant:0.3", Dominant(0.3)),
        ("natural", Natural()),
        ("natural:choose", Natural(choose=True)),
        ("powerlaw:1.5", PowerLaw(1.5)),
        ("powerlaw:1.5,2", PowerLaw(1.5, 2)),
    ],
)
def test_parse(text, scheme):
    assert parse_partition(text) == scheme


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dirichle:0.2", "did you mean 'dirichlet'"),
        ("dirichlet", "wanted dirichlet:ALPHA"),
        ("exdir:2", "wanted exdir:CLASSES,ALPHA.*, as in exdir:2,10"),
        ("exdir:2.5,10", "CLASSES is '2.5', which is not a whole number"),
        ("iid:3", "takes nothing after it"),
        ("dirichlet:x", "ALPHA is 'x', which is not a number"),
        ("dirichlet:-1", "alpha is -1"),
        ("dirichlet:nan", "alpha is nan"),
        ("dominant:1.2", "wanted 0 to 1"),
        ("pathological:0", "wanted a whole number of at least 1"),
        ("dirichlet:1,minimum=-2", "minimum is -2"),
        ("natural:merge", r"wanted natural\[:choose\]"),
    ],
)
def test_parse_refuses(text, says):
    with pytest.raises(SettingError, match=says):
        parse_partition(text)


@pytest.mark.parametrize(
    ("scheme", "clients", "says"),
    [
        (Iid(), 101, "101 clients but only 100 samples"),
        (Iid(), 0, "0 clients"),
        (ExDir(1, 10.0), 5, "5 clients with 1 classes each cannot hold all 10 classes"),
        (ExDir(11, 10.0), 5, "11 classes per client, but the labels have only 10"),
        (ExDir(2, 10.0, minimum=30), 10, "needs 300, but there are 100"),
        (
            Dirichlet(0.001, minimum=4),
            20,
            "left the smallest client with 0 samples at best, wanted 4; raise alpha",
        ),
        (Pathological(2), 90, "need 180 class shares, but the 100 samples allow only 100"),
        (Pathological(11, equal=True), 20, "11 classes per client"),
        (Natural(), 5, "has no groups"),
    ],
)
def test_impossible_splits_say_why(scheme, clients, says):
    with pytest.raises(PartitionError, match=says):
        scheme.split(np.arange(100) % 10, clients, stream(0, "impossible"))


def test_natural_needs_a_group_per_client():
    with pytest.raises(PartitionError, match="10 clients but only 4 groups"):
        Natural().split(np.zeros(40, np.int64), 10, stream(0, "n"), np.arange(40) % 4)


def test_samples_are_not_gone_through_one_by_one():
    labels = np.arange(1_000_000) % 10
    assert calls(lambda: Iid().split(labels, 100_000, stream(0, "big"))) < len(labels) / 10
    many = np.repeat(CIFAR_LABELS, 10)
    for scheme in (Dirichlet(0.3), ExDir(2, 10.0), Pathological(2)):
        assert calls(lambda scheme=scheme: scheme.split(many, 500, stream(0, "big"))) < len(many) / 5
