"""Rare classes dealt out more often: the population that is split, and what is refused."""

import numpy as np
import pytest

from paceline.data import parse_partition
from paceline.errors import PartitionError, SettingError

LABELS = np.repeat([0, 1, 2], [60, 30, 10])


def test_every_sample_is_dealt_out_as_often_as_its_class_says():
    split = parse_partition("iid*1,2,6").split(LABELS, 5, np.random.default_rng(0))
    owned = np.bincount(split.indices, minlength=100)
    assert owned.tolist() == np.array([1, 2, 6])[LABELS].tolist()
    assert [len(split[k]) for k in range(5)] == [36] * 5


def test_factors_of_one_change_nothing():
    texts = ("dirichlet:0.5", "dirichlet:0.5*1,1,1")
    plain, same = (parse_partition(text).split(LABELS, 4, np.random.default_rng(1)) for text in texts)
    assert plain.indices.tolist() == same.indices.tolist()


def test_groups_go_with_their_samples():
    groups = np.arange(100) % 4
    split = parse_partition("natural*3,1,1").split(LABELS, 4, np.random.default_rng(0), groups)
    for k in range(4):
        assert len(set(groups[split[k]].tolist())) == 1


@pytest.mark.parametrize(
    "text", ["iid*", "iid*1,,2", "iid*0,1,2", "iid*1.5,1,1", "iid*-1,1,1", "iid*99999,1,1", "iid*a"]
)
def test_what_is_no_factor_is_refused(text):
    with pytest.raises(SettingError, match="after the \\*"):
        parse_partition(text)


def test_too_few_factors_are_refused():
    with pytest.raises(PartitionError, match="2 factors after the \\* for 3 classes"):
        parse_partition("iid*1,2").split(LABELS, 4, np.random.default_rng(0))
