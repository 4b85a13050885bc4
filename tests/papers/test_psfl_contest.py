"""The contest of structures, shrunk; crossings by hand; the bounds' two factors."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.algorithms.structure import bounded, choose_structure
from paceline.learn.job import Score
from paceline.papers import tuning
from paceline.papers.crossings import Crossing, first_crossing, smooth_crossing
from paceline.papers.grid import Scene
from paceline.papers.psfl import contest as psfl_contest
from paceline.papers.psfl.contest import _judged, contest
from paceline.papers.psfl.contestants import ROUND_SECONDS, Arena, arena, round_seconds, tune_structures
from paceline.papers.result import Request
from paceline.papers.trials import Finished, Trial
from paceline.papers.tuning import rate, slowness
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.runs.until import Until


def curve(accuracy):
    rounds = 2.0 * np.arange(1, len(accuracy) + 1)
    trial = Trial(case="a", method="psfl", rate=0.1, seed=0, overrides=(), until=Until())
    return Finished(
        trial=trial, status="done", reached=None, rounds=None, time=5 * rounds, accuracy=np.array(accuracy),
        loss=1 - np.array(accuracy), columns={"round": rounds}, notes=(),
    )  # fmt: skip


def test_one_lucky_evaluation_is_a_first_crossing_and_no_smoothed_one():
    one = curve([0.3, 0.65, 0.35, 0.5, 0.65, 0.8])
    assert first_crossing(one, 0.6) == Crossing(20.0, 4.0)
    # Means of three: 0.433, 0.5, 0.5, 0.65 at 20, 30, 40, 50 s; two thirds of the way from 0.5 to 0.65.
    assert smooth_crossing(one, 0.6, over=3) == pytest.approx((40 + 20 / 3, 8 + 4 / 3))
    assert smooth_crossing(one, 0.7, over=3) is None
    assert smooth_crossing(curve([0.9, 0.9]), 0.6, over=3) is None
    assert smooth_crossing(curve([0.9, 0.9, 0.9]), 0.6, over=3) == (20.0, 4.0)


def test_a_target_over_several_scores():
    scores = [Score(accuracy, 0.0, 10) for accuracy in (0.9, 0.2, 0.7, 0.5)]
    assert not Until(accuracy=0.6, over=2).met_by(scores[:1])  # one of two
    assert not Until(accuracy=0.6, over=2).met_by(scores[:2])
    assert Until(accuracy=0.6, over=2).met_by(scores)
    assert Until(accuracy=0.6).met_by(scores[:3])
    assert not Until(accuracy=0.6).met_by(scores)


def test_the_two_factors_of_the_bound_make_its_cost():
    best = choose_structure(participants=20, time_mean=2.5, time_std=0.5, ratio=0.46)
    least = bounded(best, best.S).time
    for S, _, cost, _ in best.alternatives:
        assert bounded(best, S).time / least == pytest.approx(cost)
    assert bounded(best, 20).seconds == pytest.approx(20 * 2.5)
    # Rounds grow as (ratio W + 1) / (S W).
    assert bounded(best, 1).rounds / bounded(best, 20).rounds == pytest.approx((0.46 * 20 + 1) / (0.46 + 1))


def test_quarter_decades():
    assert [rate(q) for q in (-8, -7, -6, -5, -4)] == [0.01, 0.0178, 0.0316, 0.0562, 0.1]


@pytest.mark.parametrize("S", [1, 3, 10])
def test_rounds_take_as_long_as_evaluations_count_on(S):
    """Within 8 %: fleets of 500 differ in their mean by 3 %, and 200 rounds by as much."""
    words = ["clients=500", "fleet.times=discrete", f"psfl.length={S}", f"psfl.width={20 // S}"]
    run = make_run(make_settings("psfl", [*words, f"rounds={600 // S}", "every=1000"]), dry=True, keep_spans=False)
    while not run.done:
        run.advance()
        run.settle(None)
    assert run.world.now() / run.world.round == pytest.approx(ROUND_SECONDS[S], rel=0.08)


@pytest.mark.parametrize(
    ("scale", "participants", "lengths"),
    [("paper", 20, ()), ("small", 20, ()), ("small", 9, (1, 3, 9)), ("paper", 100, (1, 2, 5, 10, 25))],
)
def test_all_structures_are_scored_at_about_the_same_virtual_times(scale, participants, lengths):
    here, apart = arena(Request(scale=scale), participants, lengths), []
    for S in here.middles:
        words = dict(word.split("=", 1) for word in here.trial(S, -4, 0).overrides)
        apart.append(int(words["every"]) * round_seconds(S, participants // S))
    assert max(apart) <= 1.5 * min(apart), apart
    assert max(apart) <= 1.35 * here.interval


def test_kept_trials_of_psfl_structures_are_the_same_ones():
    """What docs/results keeps was scored so often; other settings would be refused, and trained again."""
    here = arena(Request(scale="paper"))
    every = [dict(word.split("=", 1) for word in here.trial(S, -4, 0).overrides)["every"] for S in here.middles]
    assert every == ["8", "7", "5", "4", "3", "2", "1"]
    assert here.trial(4, -5, 3).name == "length-4/psfl-lr0.0562-seed3"


def test_where_nobody_arrives_the_rate_that_learns_more_is_better():
    slow, slower = (curve(np.linspace(0.1, top, 20)) for top in (0.5, 0.3))
    assert slowness([slow], 0.9) < slowness([slower], 0.9)
    assert slowness([curve(np.linspace(0.1, 1.0, 20)), slower], 0.9) < slowness([slow, slow], 0.9)


@pytest.fixture
def quick(monkeypatch):
    small = psfl_contest.arena(Request(scale="small"))
    scene = replace(small.scene, until=replace(small.scene.until, accuracy=0.6, time=600.0))
    shrunk = replace(small, scene=scene, middles={1: -2, 2: -2})
    monkeypatch.setattr(psfl_contest, "arena", lambda request: shrunk)
    monkeypatch.setattr(tuning, "REACH", 1)


@pytest.mark.slow
def test_shrunk(quick, tmp_path):
    request = Request(scale="small", seeds=2, quiet=True, out=tmp_path)
    found = contest(request)
    rows = {row.name: row for row in found.rows}
    assert sum("(tuned): time to target, smoothed" in name for name in rows) == 2
    assert sum("time to target, first" in name for name in rows) == 6  # two structures, three rates
    assert rows["chosen by the warm-up, (W, S)"].ours.count("(") == 2
    ratio = rows["S=2, W=10 / S=1, W=20: time by the bound"].ours
    assert 0.3 < ratio < 3
    assert "the automatic choice is the fastest" in rows
    assert found.figure() is not None
    seeds = {path.parent.name.rpartition("seed")[2] for path in tmp_path.glob("trials/*/*/summary.json")}
    assert seeds == {"0", "1", "100", "101"}
    assert contest(request).rows == found.rows  # nothing is run twice


def test_a_grid_grows_until_the_best_rate_is_inside(monkeypatch):
    best = -2  # the fastest rate of a made-up laboratory, two quarters above the first grid's end

    class Made:
        def carry_out(self, trials):
            self.asked = [trial.rate for trial in trials]
            return [self.run(trial) for trial in trials]

        def run(self, trial):
            far = abs(round(4 * np.log10(trial.rate)) - best)
            made = curve(np.minimum(1.0, np.arange(40) / (10 + 4 * far)))
            return replace(made, trial=trial)

    scene = Scene(name="", words=(), rates=(), until=Until(accuracy=0.6, time=1e4))
    here = Arena(scene=scene, interval=50.0, middles={2: -6})
    laboratory = Made()
    (one,) = tune_structures(laboratory, here, [2])
    assert (one.best, one.tuned.inside, one.tuned.grid) == (best, True, (*range(-8, 0),))
    assert rate(-1) in laboratory.asked


@pytest.mark.parametrize(
    ("best", "alike", "choices", "seeds", "ok"),
    [(2, [2], {2}, 5, True), (3, [2, 3], {2}, 5, None), (4, [3, 4], {2}, 5, False), (2, [2], {2}, 1, None)],
)
def test_judgement(best, alike, choices, seeds, ok):
    assert _judged(best, alike, choices, seeds).ok is ok
