"""Looks: the same everywhere, and told apart by a colour-blind reader and on grey paper."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.report.looks import LABEL_LENGTH, METHODS, PLACES, look, looks
from paceline.report.runs import Group, Run

FAR = 15.0
"""The least difference by CIE76, the Euclidean distance in CIELAB."""
# Machado, Oliveira and Fernandes (2009), deuteranomaly of severity 1.0, on linear RGB.
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(colour):
    """Linear RGB of ``#rrggbb`` in sRGB."""
    value = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB with the white of sRGB."""
    ratio = XYZ @ np.clip(rgb, 0, 1) / (XYZ @ np.ones(3))
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def as_deuteranope(colour):
    return lab(DEUTERANOPIA @ linear(colour))


def in_grey(colour):
    return lab(np.full(3, XYZ[1] @ linear(colour)))


def contrast(colour, paper):
    one, other = sorted(XYZ[1] @ linear(c) for c in (colour, paper))
    return (other + 0.05) / (one + 0.05)


def test_the_formulas_on_known_colours():
    assert lab(linear("#ffffff")) == pytest.approx([100, 0, 0], abs=0.01)
    assert lab(linear("#ff0000")) == pytest.approx([53.24, 80.09, 67.20], abs=0.02)
    assert in_grey("#777777") == pytest.approx(lab(linear("#777777")), abs=0.01)
    assert as_deuteranope("#808080") == pytest.approx(lab(linear("#808080")), abs=0.1)
    red, green = "#d62728", "#7f7f00"
    assert np.linalg.norm(as_deuteranope(red) - as_deuteranope(green)) < FAR
    assert np.linalg.norm(lab(linear(red)) - lab(linear(green))) > 40
    assert contrast("#ffffff", "#000000") == pytest.approx(21)


def assert_told_apart(one, other):
    if one.dash != other.dash and one.label != other.label:
        return
    for shade in ("colour", "dark"):
        for seen in (as_deuteranope, in_grey):
            apart = np.linalg.norm(seen(getattr(one, shade)) - seen(getattr(other, shade)))
            assert apart >= FAR, (one, other, shade, seen.__name__, apart)


def test_any_two_methods_are_told_apart_by_a_deuteranope_and_in_grey():
    for one, other in itertools.combinations(map(look, ALGORITHMS), 2):
        assert one.label != other.label
        assert_told_apart(one, other)


def test_every_method_of_the_registry_has_a_place_of_its_own():
    assert set(METHODS) == set(ALGORITHMS)
    assert len(set(METHODS)) == len(METHODS) < PLACES


@pytest.mark.parametrize(("shade", "paper"), [("colour", "#ffffff"), ("dark", "#14181e")])
def test_lines_stand_out_from_the_paper(shade, paper):
    assert min(contrast(getattr(look(name), shade), paper) for name in ALGORITHMS) >= 3


def group(algorithm, label=None):
    run = Run(path=Path(), algorithm=algorithm, seed=0, settings={}, metrics={}, summary={})
    return Group(label=label or algorithm, runs=(run,))


def test_a_method_looks_the_same_whatever_it_is_compared_with():
    alone, others = looks([group("psfl")]), looks([group("sfl"), group("mine:Own"), group("psfl"), group("apfl")])
    assert alone[0] == others[2] == look("psfl")
    assert others[1] == looks([group("mine:Own")])[0] == look("mine:Own")


def test_variants_and_own_methods_never_take_the_look_of_another():
    groups = [group("psfl", f"psfl (width={k})") for k in range(PLACES - 3)] + [group("own:A"), group("fedavg")]
    found = looks(groups)
    assert len({(one.colour, one.dash) for one in found}) == len(groups)
    assert found[-1] == look("fedavg")
    assert looks(groups[::-1]) == found[::-1], "whatever their order"
    for one, other in itertools.combinations(found, 2):
        assert_told_apart(one, other)


def test_more_groups_than_looks_are_drawn_all_the_same():
    groups = [group("psfl", f"psfl (width={k})") for k in range(2 * PLACES)]
    assert len(looks(groups)) == 2 * PLACES


def test_long_labels_are_cut_and_stay_different():
    long = "psfl (fleet.availability=markov:10,20, width="
    found = [one.label for one in looks([group("psfl", f"{long}{k})") for k in range(3)])]
    assert len(set(found)) == 3
    assert all(len(label) <= LABEL_LENGTH + 2 for label in found)
