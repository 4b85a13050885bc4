"""Per-client test sets."""

from __future__ import annotations

import numpy as np

from paceline.data.partition import Natural, Partition, parse_partition
from paceline.data.views import group_test_sets, personal_test_sets
from paceline.seeds import stream

Y_TEST = np.repeat(np.arange(10), 1000)


def test_personal_sets_follow_the_clients_own_proportions():
    y_train = np.array([0] * 93 + [1] * 7 + [2] * 50 + [3] * 50)
    train = Partition(np.arange(200), np.array([0, 100, 200]))
    sets = personal_test_sets(train, y_train, Y_TEST, 10, stream(0, "t"))
    counts = sets.label_counts(Y_TEST, 10)
    # ⌈0.07 · 100⌉ is 7, although floating point says 8.
    assert counts[:, :4].tolist() == [[93, 7, 0, 0], [0, 0, 50, 50]]
    assert counts[:, 4:].sum() == 0


def test_personal_sets_round_up_and_never_repeat_within_a_client():
    labels = stream(0, "l").integers(0, 10, 3000)
    train = parse_partition("dirichlet:0.3").split(labels, 30, stream(0, "p"))
    sets = personal_test_sets(train, labels, Y_TEST, 10, stream(0, "t"), per_class=50)
    share = train.label_counts(labels, 10) / train.sizes[:, None]
    assert (sets.label_counts(Y_TEST, 10) == np.ceil(np.round(share * 50, 9))).all()
    for own in sets:
        assert len(set(own)) == len(own)


def test_personal_sets_overlap_across_clients_by_chance():
    """Two clients of one class draw 100 of 1000 each; P(no overlap) < (1 - 0.1)^100 = 3e-5."""
    train = Partition(np.arange(20), np.array([0, 10, 20]))
    sets = personal_test_sets(train, np.zeros(20, np.int64), Y_TEST, 10, stream(0, "o"))
    assert sets.sizes.tolist() == [100, 100]
    assert 0 < len(set(sets[0]) & set(sets[1])) < 100


def test_personal_sets_are_capped_by_what_exists():
    train = Partition(np.arange(10), np.array([0, 10]))
    sets = personal_test_sets(train, np.zeros(10, np.int64), np.array([0, 1, 0]), 2, stream(0, "c"))
    assert sorted(sets[0]) == [0, 2]


def test_group_sets_are_the_clients_own_writers():
    group_train = np.array([7, 7, 3, 3, 5, 5])
    group_test = np.array([5, 3, 7, 9, 3])
    train = Natural().split(np.zeros(6, np.int64), 2, stream(0, "n"), group_train)
    sets = group_test_sets(train, group_train, group_test)
    for k in range(2):
        own = set(group_train[train[k]])
        assert set(sets[k]) == {i for i, g in enumerate(group_test) if g in own}
    assert sets.sizes.sum() == 4  # writer 9 is nobody's
