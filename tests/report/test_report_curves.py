"""Curves: means over the seeds that are running, ends and touching points as in the tables."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from paceline.errors import DataError
from paceline.report.curves import AXES, curve, target_level
from paceline.report.runs import METRICS, Group, Run, group_runs, load_run
from paceline.statistics import half_width


def run_of(seed, x, y, **summary):
    """A run that measured y at these times and nothing else."""
    nothing = np.full(len(x), math.nan)
    metrics = dict.fromkeys(METRICS, nothing) | {"time": np.array(x, float), "accuracy": np.array(y, float)}
    return Run(path=Path(), algorithm="a", seed=seed, settings={}, metrics=metrics, summary=summary)


def group_of(*runs):
    return Group(label="a", runs=runs)


def test_the_mean_goes_on_with_the_seeds_still_running_and_says_how_many():
    one = run_of(0, [0, 10], [0.0, 1.0])
    two = run_of(1, [0, 6, 8], [0.4, math.nan, 1.2])
    three = run_of(2, [0, 20], [0.2, 0.2])
    found = curve(group_of(one, two, three))
    assert (found.x[0], found.x[-1]) == (0.0, 20.0)
    assert sorted(set(found.seeds.tolist())) == [1, 2, 3]
    assert found.seeds[found.x < 8].min() == 3
    # At t=4: 0.4; 0.8, for the second skips its NaN; and 0.2.
    assert np.interp(4.0, found.x, found.y) == pytest.approx((0.4 + 0.8 + 0.2) / 3, abs=1e-4)
    # At t=9 the second has ended.
    here = np.argmin(abs(found.x - 9.0))
    assert (found.seeds[here], found.y[here]) == (2, pytest.approx((found.x[here] / 10 + 0.2) / 2))
    assert (found.y[-1], found.low[-1], found.high[-1]) == (0.2, 0.2, 0.2)
    assert found.most == 3


def test_the_band_is_students_and_stays_between_0_and_1():
    runs = [run_of(seed, [0, 1], [0.5, value]) for seed, value in enumerate((0.7, 0.8, 0.99))]
    found = curve(group_of(*runs))
    half = half_width(np.array([0.7, 0.8, 0.99]))
    assert found.low[-1] == pytest.approx(0.83 - half)
    assert found.high[-1] == 1.0 < 0.83 + half


def test_at_an_end_both_sides_are_kept():
    found = curve(group_of(run_of(0, [0, 4], [0.0, 0.8]), run_of(1, [0, 8], [0.0, 0.0])))
    at = np.flatnonzero(found.x == 4.0)
    assert found.seeds[at].tolist() == [2, 1]
    assert found.y[at].tolist() == [0.4, 0.0]


def test_one_seed_is_drawn_as_measured_and_none_as_nothing():
    found = curve(group_of(run_of(0, [3, 1], [0.3, 0.1])))
    assert found.x.tolist() == [1.0, 3.0]
    assert found.low.tolist() == found.y.tolist() == found.high.tolist()
    empty = curve(group_of(run_of(0, [1.0], [math.nan])))
    assert (len(empty.x), empty.ends, empty.touch, empty.most) == (0, (), None, 0)
    apart = curve(group_of(run_of(0, [0, 1], [0, 1]), run_of(1, [5, 6], [0, 1])))
    assert not np.any((apart.x > 1) & (apart.x < 5))
    same = curve(group_of(run_of(0, [2], [0.2]), run_of(1, [2], [0.4])))
    assert (same.x.tolist(), same.y.tolist(), same.seeds.tolist()) == ([2.0], [pytest.approx(0.3)], [2])


def test_an_unknown_axis_names_the_nearest():
    with pytest.raises(DataError, match="did you mean 'time'"):
        curve(group_of(run_of(0, [0], [0])), axis="tim")


@pytest.mark.parametrize("axis", ["time", "round", "bytes"])
def test_ends_and_touching_points_are_the_figures_of_the_summaries(write_run, axis):
    paths = [write_run("psfl", seed, rounds=60) for seed in range(4)]
    for path in paths:  # a run stops where it meets its target
        summary = json.loads((path / "summary.json").read_text())
        lines = (path / "metrics.jsonl").read_text().splitlines()
        kept = [line for line in lines if json.loads(line)["round"] <= summary["target"]["rounds"]]
        (path / "metrics.jsonl").write_text("\n".join(kept) + "\n")
    (group,) = group_runs([load_run(path) for path in paths])
    found = curve(group, axis)
    figures = [run.figure("target", AXES[axis].target) for run in group.runs]
    assert [end.x for end in found.ends] == figures
    assert all(end.met for end in found.ends)
    assert found.x[-1] == max(figures)
    assert found.y[-1] == next(end.y for end in found.ends if end.x == max(figures))
    assert found.touch.x == pytest.approx(np.mean(figures))
    assert found.touch.half == pytest.approx(float(half_width(np.array(figures))))
    assert (found.touch.level, found.touch.arrived, found.touch.seeds) == (0.8, 4, 4)


def test_where_not_all_arrive_the_mean_of_those_that_did_has_no_interval(write_run):
    groups = group_runs([load_run(write_run("psfl", 0, rounds=60)), load_run(write_run("psfl", 1, rounds=2))])
    touch = curve(groups[0]).touch
    assert (touch.arrived, touch.seeds, touch.half) == (1, 2, None)
    assert curve(Group(label="b", runs=groups[0].runs[1:])).touch is None
    assert target_level(groups) == 0.8
    assert target_level(groups, "loss") is None
