"""Bounds of numbers: what holds, what is refused, and what the refusal says."""

import math
from dataclasses import dataclass, field

import pytest

from paceline.bounds import Bounds, bounded, check_bounds
from paceline.config import apply
from paceline.errors import SettingError


@pytest.mark.parametrize(
    ("bounds", "words", "within", "outside"),
    [
        (Bounds(least=1), "1 or more", [1, 2, 10**18], [0, -1, 10**19, math.inf, math.nan]),
        (Bounds(least=0, below=1), "0 or more, and below 1", [0, 0.999], [1, -0.1, math.nan]),
        (Bounds(least=0, below=math.inf), "0 or more", [0, 5], [math.inf, -1, math.nan]),
        (Bounds(above=0), "a number greater than 0", [1e-9, 1e100], [0, -1, 1e-320, 1e300, math.inf, math.nan]),
        (Bounds(above=0, most=1), "above 0 and at most 1", [0.5, 1], [0, 1.1, math.nan]),
        (Bounds(above=0, below=0.2), "above 0 and below 0.2", [0.1], [0, 0.2, math.nan]),
        (Bounds(least=2, most=16, none="for whole models"), "2 to 16, or none for whole models", [2, 16], [1, 17]),
        (Bounds(below=1), "below 1", [-5, 0], [1, -math.inf, math.nan]),
        (Bounds(least=1, most=10_000_000), "1 to 10,000,000", [1, 10_000_000], [0, 10_000_001]),
        (Bounds(above=0, most=math.inf), "a number greater than 0", [1e-9, math.inf], [0, math.nan, 1e300]),
        (Bounds(), "", [0, -1e100, 5], [math.inf, math.nan, 1 << 63, 1e101]),
    ],
)
def test_bounds_hold_and_say_what_is_wanted(bounds, words, within, outside):
    assert bounds.words == words
    assert all(map(bounds.hold, within)) and not any(map(bounds.hold, outside))


@dataclass(frozen=True, kw_only=True)
class Group:
    share: float = bounded(0.5, above=0, most=1)


@dataclass(frozen=True, kw_only=True)
class Limited:
    rounds: int = bounded(100, least=1)
    bits: int | None = bounded(None, least=2)
    name: str = "any"
    group: Group = field(default_factory=Group)


def test_bounds_are_declared_on_the_field():
    check_bounds(Limited())
    check_bounds(Limited(rounds=1, bits=2, group=Group(share=1.0)))
    for settings, said in [
        (Limited(rounds=0), "rounds is 0; it must be 1 or more"),
        (Limited(bits=1), "bits is 1; it must be 2 or more"),
        (Limited(group=Group(share=0.0)), "group.share is 0.0; it must be above 0 and at most 1"),
    ]:
        with pytest.raises(SettingError) as refused:
            check_bounds(settings)
        assert str(refused.value) == said
    with pytest.raises(SettingError, match=r"^mine\.rounds is -1; "):
        check_bounds(Limited(rounds=-1), "mine.")


@dataclass(frozen=True, kw_only=True)
class Plain:
    """Fields that declare nothing."""

    factor: float = 1.0
    count: int = 1
    deadline: float = math.inf


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"factor": math.nan}, "factor is nan; it must be a finite number"),
        ({"factor": -math.inf}, "factor is -inf; it must be a finite number"),
        ({"factor": 10**400}, "factor is inf; it must be a finite number"),
        ({"factor": 1e300}, "factor is 1e+300; it must be 1e-100 to 1e+100 in size"),
        ({"count": 1 << 63}, "count is 9223372036854775808; it must be a whole number of at most 18 digits"),
        (
            {"count": 16**5000},
            "count is a whole number too long to show; it must be a whole number of at most 18 digits",
        ),
    ],
)
def test_any_number_must_be_one_to_compute_with(tree, said):
    with pytest.raises(SettingError) as refused:
        apply(Plain(), tree)
    assert str(refused.value) == said


def test_a_number_that_is_infinite_unless_given_may_be_given_so():
    assert apply(Plain(deadline=3.0), {"deadline": math.inf}).deadline == math.inf
    check_bounds(Plain())


def test_infinity_is_named_as_such_where_there_is_a_bound():
    with pytest.raises(SettingError, match="rounds is inf; it must be a finite number"):
        check_bounds(Limited(rounds=math.inf))
