"""Every algorithm refuses numbers that its fields do not allow, before any work starts."""

from dataclasses import fields, replace

import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import SettingError
from paceline.runs.settings import make_settings

BOUNDED = [
    (name, each.name, each.metadata["bounds"])
    for name, known in ALGORITHMS.items()
    for each in fields(known.make())
    if "bounds" in each.metadata
]


def beyond(bounds):
    """Numbers just outside."""
    if bounds.least is not None:
        yield bounds.least - 1
    if bounds.above is not None:
        yield bounds.above
    if bounds.most is not None:
        yield bounds.most + 1
    if bounds.below is not None:
        yield bounds.below


@pytest.mark.parametrize("name", ALGORITHMS)
def test_rounds_are_bounded_everywhere(name):
    assert (name, "rounds") in [(algorithm, field) for algorithm, field, _ in BOUNDED]


@pytest.mark.parametrize(("name", "field", "bounds"), BOUNDED)
def test_numbers_beyond_their_bounds_are_refused_by_name(name, field, bounds):
    algorithm = make_settings(name, ["clients=12"]).algorithm
    for value in beyond(bounds):
        with pytest.raises(SettingError) as refused:
            replace(algorithm, **{field: value}).check(12)
        assert str(refused.value) == f"{field} is {value}; it must be {bounds.words}"
