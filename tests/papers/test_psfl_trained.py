"""The trained reproductions, shrunk: what they compute, that they go on where they stopped, what they refuse."""

import json
from dataclasses import replace

import numpy as np
import pytest

from paceline.errors import SettingError
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.papers import tuning
from paceline.papers.crossings import OVER
from paceline.papers.grid import Scene
from paceline.papers.psfl import scenes as psfl_scenes
from paceline.papers.psfl import structures as psfl_structures
from paceline.papers.psfl import trained as psfl_trained
from paceline.papers.psfl.levels import behind
from paceline.papers.psfl.tables import at_time_rows, over_last_rows, winner_row
from paceline.papers.psfl.targets import Racer, agrees, race, race_rows
from paceline.papers.result import Request
from paceline.papers.trials import Finished, Laboratory, Trial
from paceline.papers.tuning import Tuned
from paceline.runs.until import Until
from paceline.statistics import Interval, mean_interval, ratio_interval

FEW = ("clients=10", "fedavg.width=3", "rounds=2")


@pytest.fixture
def shrunk(monkeypatch):
    monkeypatch.setitem(psfl_scenes.TARGETS, "digits", (0.3, 0.4))
    monkeypatch.setitem(psfl_scenes.HORIZONS, "digits", (1000.0,))
    monkeypatch.setattr(tuning, "REACH", 1)
    monkeypatch.setattr(tuning, "WIDEST", 3)


def test_figure_3_shrunk(shrunk, tmp_path):
    request = Request(scale="small", seeds=1, out=tmp_path, quiet=True)
    found = psfl_trained.fig3(request)
    rows = {row.name: row for row in found.rows}
    for target in ("30 %", "40 %"):  # Figure 5 has several
        for way in ("smoothed", "first"):
            assert all(f"digits-1-step, {target}, {way}: {method}" in rows for method in ("fedavg", "sfl", "psfl"))
            assert f"digits-1-step, {target}, {way}, each at its tuned rate: time of psfl / sfl" in rows
    apart = [float(rows[f"digits-1-step: {method}, between scores"].ours.split()[0]) for method in ("fedavg", "sfl")]
    assert max(apart) < 1.35 * min(apart)
    tuned = [row for name, row in rows.items() if name.endswith(", tuned rate")]
    assert len(tuned) == 3 and all("chosen with seeds 100, 101" in row.note for row in tuned)
    summaries = sorted(tmp_path.glob("trials/*/*/summary.json"))
    assert {path.parent.name.rpartition("seed")[2] for path in summaries} == {"0", "100", "101"}
    written = {path: path.stat().st_mtime_ns for path in summaries}

    summaries[0].unlink()  # one was cut off: it alone is run again, with the same result
    assert psfl_trained.fig3(request).rows == found.rows
    changed = [path for path in summaries if path.stat().st_mtime_ns != written[path]]
    assert changed == summaries[:1]


def test_figure_8_shrunk(shrunk, monkeypatch, tmp_path):
    few = ("dataset=digits", "clients=20", "fleet.times=discrete", "local.batch=20", "algorithm.participants=4")
    monkeypatch.setattr(
        psfl_trained, "panels", lambda *_: [Scene(name="a", words=few, rates=(), until=Until(time=50))]
    )
    found = psfl_trained.fig8(Request(scale="small", seeds=1, out=tmp_path, quiet=True))
    rows = {row.name: row for row in found.rows}
    for method in ("fedavg", "sfl", "psfl"):
        note = rows[f"a: accuracy of {method} at 50 s"].note
        assert "of 3 quarter decades" in note and "chosen with seeds 100, 101" in note
        assert f"a: accuracy of {method} from 45 to 50 s" in rows
    assert rows["a: psfl most accurate at equal time"].ours == "one seed cannot tell"
    seeds = [path.parent.name.rpartition("seed")[2] for path in tmp_path.glob("trials/*/*/summary.json")]
    assert {seed: seeds.count(seed) for seed in seeds} == {"100": 9, "101": 9, "0": 3}


def test_results_of_other_settings_are_refused(tmp_path):
    trial = Trial(case="a", method="fedavg", rate=0.1, seed=0, overrides=FEW, until=Until())
    laboratory = Laboratory(Request(out=tmp_path, quiet=True))
    laboratory.carry_out([trial])
    with pytest.raises(SettingError, match="holds a run with other settings"):
        laboratory.carry_out([replace(trial, overrides=("clients=10", "fedavg.width=4", "rounds=2"))])


def quick_trial(**changes):
    few = ("clients=10", "fedavg.width=3", "rounds=40")
    trial = Trial(case="a", method="fedavg", rate=0.1, seed=0, overrides=few, until=Until(accuracy=0.99, time=60.0))
    return replace(trial, **changes)


def test_a_run_that_went_further_answers_a_shorter_question_and_not_a_longer_one(tmp_path):
    laboratory = Laboratory(Request(out=tmp_path, quiet=True))
    (far,) = laboratory.carry_out([quick_trial()])
    assert far.reached is None
    (near,) = laboratory.carry_out([quick_trial(until=Until(accuracy=0.99, time=30.0))])
    assert near.time.tolist() == far.time.tolist()
    assert len(laboratory.calls()) == 1
    (further,) = laboratory.carry_out([quick_trial(until=Until(accuracy=0.99, time=90.0))])
    assert further.time[-1] >= 90.0
    assert [call.runs for call in laboratory.calls()] == [1, 1]
    with pytest.raises(SettingError, match="other settings"):
        laboratory.carry_out([quick_trial(until=Until(accuracy=0.5, time=90.0))])


def test_a_run_that_has_made_all_visits_it_may_make_is_not_repeated(tmp_path):
    laboratory = Laboratory(Request(out=tmp_path, quiet=True))
    for _ in range(2):
        (one,) = laboratory.carry_out([quick_trial(until=Until(accuracy=0.99, time=1e6, visits=30))])
    assert one.reached is None and len(laboratory.calls()) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: s.update(status="failed: OutOfMemoryError", time=5.0),
        lambda s: s.update(status="interrupted", time=5.0),
        lambda s: s.pop("until"),
    ],
)
def test_what_is_no_result_is_run_again(tmp_path, damage):
    laboratory = Laboratory(Request(out=tmp_path, quiet=True))
    (first,) = laboratory.carry_out([quick_trial()])
    path = tmp_path / "trials" / first.trial.name / "summary.json"
    summary = json.loads(path.read_text())
    damage(summary)
    path.write_text(json.dumps(summary))
    (second,) = laboratory.carry_out([quick_trial()])
    assert len(laboratory.calls()) == 2
    assert second.accuracy.tolist() == first.accuracy.tolist()


def test_runs_whose_clients_fill_the_device_go_one_at_a_time(tmp_path, monkeypatch):
    """Here those of more than 12 samples a batch; it changes no result."""
    laboratory = Laboratory(Request(out=tmp_path, quiet=True))
    small, large, other = (
        Trial(case=case, method="fedavg", rate=0.1, seed=0, overrides=(*FEW, f"local.batch={batch}"), until=Until())
        for case, batch in (("a", 10), ("b", 20), ("c", 30))
    )
    monkeypatch.setattr(CohortTrainer, "fills", lambda self, space, batch: batch > 12)
    apart = laboratory.carry_out([large, small, other, replace(small, case="d")])
    assert [call.runs for call in laboratory.calls()] == [2, 1, 1]
    assert sum(call.visits for call in laboratory.calls()) == 4 * 2 * 3
    monkeypatch.undo()
    with Laboratory(Request(quiet=True)) as another:
        together = another.carry_out([large, small, other, replace(small, case="d")])
    assert [one.accuracy.tolist() for one in apart] == [one.accuracy.tolist() for one in together]


def test_a_summary_cut_in_two_is_run_again(tmp_path):
    laboratory = Laboratory(Request(out=tmp_path, quiet=True))
    (first,) = laboratory.carry_out([quick_trial()])
    path = tmp_path / "trials" / first.trial.name / "summary.json"
    path.write_text(path.read_text()[:50])
    laboratory.carry_out([quick_trial()])
    assert len(laboratory.calls()) == 2


def test_a_curve_has_no_value_outside_of_it():
    one = finished("psfl", 0.1, 0, None)
    assert one.at(50.0, one.accuracy) == 0.5
    assert np.isnan(one.at(101.0, one.accuracy))


@pytest.mark.parametrize(
    ("interval", "ok"),
    [((0.6, 0.5, 0.7), True), ((0.5, 0.4, 0.6), True), ((0.8, 0.7, 0.9), False), ((1.0, 0.4, 2.8), None),
     ((1.4, 1.2, 1.6), False), ((0.6, float("nan"), float("nan")), None)],
)  # fmt: skip
def test_a_wide_interval_agrees_with_nothing(interval, ok):
    assert agrees(Interval(*interval)) is ok


@pytest.mark.parametrize("data", psfl_scenes.DATA)
def test_every_trial_of_the_papers_scale_has_settings_that_are_possible(data, monkeypatch):
    asked = []

    class Noted:
        def carry_out(self, trials):
            asked.extend(trials)
            return [risen(trial.method, trial.seed, 1.0) for trial in trials]

    monkeypatch.setattr("paceline.papers.grid.is_here", lambda name: True)
    here = psfl_scenes.scenes(Request(scale="paper", data=data))
    assert [scene.name for scene in here] == [f"{data}-5-steps", f"{data}-20-steps"]
    race(Noted(), here, 1, small=False)
    for trial in {(one.case, one.method): one for one in asked}.values():
        settings = trial.settings()
        settings.algorithm.check(settings.clients)
        assert settings.clients == 500 and settings.partition == "exdir:2,10"
        assert trial.until.over > OVER  # long enough for five scores that lie 50 s apart
    assert len({trial.name for trial in asked}) >= 2 * 3 * (5 * 2 + 1)


@pytest.mark.parametrize("figure", [psfl_trained.fig8, psfl_trained.fig9])
def test_figures_8_and_9_look_for_rates_beyond_the_end_that_is_best(figure, monkeypatch):
    """Here the best rate is 0.01 for everybody: the grids of FedAvg and PSFL have to grow downwards to it."""
    asked = []

    def carry_out(self, trials):
        asked.extend(trials)
        return [risen(one.method, one.seed, 1 - abs(np.log10(one.rate) + 2) / 5, 8000.0) for one in trials]

    monkeypatch.setattr(Laboratory, "carry_out", carry_out)
    monkeypatch.setattr("paceline.papers.grid.is_here", lambda name: True)
    found = figure(Request(scale="paper", seeds=2, data="cifar10", quiet=True))
    assert not any("end of the grid" in row.note for row in found.rows)
    reported = {(one.case, one.method, one.rate) for one in asked if one.seed < 100}
    assert {rate for _, _, rate in reported} == {0.01} and len(reported) == 9
    for trial in asked[:1] + asked[-1:]:
        settings = trial.settings()
        settings.algorithm.check(settings.clients)
        assert trial.until == Until(time=6000.0)


def test_who_stopped_early_is_worse_than_who_learned_nothing():
    whole, short = risen("sfl", 0, 0.0), risen("sfl", 1, 1.0)
    assert behind([whole], 100.0) < behind([short], 200.0)
    assert behind([risen("sfl", 0, 0.8)], 100.0) == (0, pytest.approx(-0.8 * 0.95))


def test_a_dataset_that_the_figure_does_not_have_is_refused():
    with pytest.raises(SettingError, match="--data is 'mnist'"):
        psfl_trained.fig3(Request(scale="paper", data="mnist"))


def finished(method, rate, seed, reached, status="done"):
    trial = Trial(case="case", method=method, rate=rate, seed=seed, overrides=(), until=Until(accuracy=0.9))
    times = np.array([0.0, 100.0])
    return Finished(
        trial=trial, status=status, reached=reached, rounds=None, time=times, accuracy=times / 100,
        loss=1 - times / 100, columns={}, notes=(),
    )  # fmt: skip


def racer(method, tops, best=-4):
    """A method whose seeds rise evenly to so much in 100 s, at the best rate and twice as slowly at another."""
    runs = tuple(risen(method, seed, top) for seed, top in enumerate(tops))
    slow = tuple(risen(method, seed, top / 2) for seed, top in enumerate(tops))
    return Racer(method, Tuned(best, {best - 1: slow, best: runs, best + 1: slow}), {best: runs, best + 1: slow})


def risen(method, seed, top, until=100.0):
    times = until * np.arange(1.0, 101) / 100
    trial = Trial(case="case", method=method, rate=0.1, seed=seed, overrides=(), until=Until(accuracy=0.9))
    return Finished(
        trial=trial, status="done", reached=None, rounds=None, time=times, accuracy=top * times / until,
        loss=1 - times, columns={"round": times}, notes=(),
    )  # fmt: skip


def test_rows_of_made_up_races():
    scene = Scene(name="cifar10-5-steps", words=(), rates=(), targets=(0.4, 0.6))
    racers = [racer("fedavg", (0.70, 0.71, 0.72)), racer("sfl", (0.5,) * 3, -7), racer("psfl", (1.0, 1.01, 1.03))]
    rows = {row.name: row for row in race_rows(scene, racers)}
    said = rows["cifar10-5-steps, 60 %, smoothed, each at its tuned rate: time of psfl / fedavg"]
    assert (said.paper, said.ok) == (0.67, False)  # less time for certain, but not a third less
    assert said.ours.startswith("0.70")
    other = rows["cifar10-5-steps, 40 %, first, each at its tuned rate: time of psfl / fedavg"]
    assert (other.paper, other.ok) == ("below 1", True)  # of 40 % the paper prints nothing
    never = rows["cifar10-5-steps, 60 %, first, each at its tuned rate: time of psfl / sfl"]
    assert never.ours == "only psfl arrived (not sfl)"
    assert rows["cifar10-5-steps: fedavg, between scores"].ours == "1 (in all 3 seeds)"
    assert "cifar10-5-steps, 60 %, smoothed, both at rate 0.1: time of psfl / fedavg" in rows
    assert not any("both at" in name and name[-3:] == "sfl" for name in rows)  # no rate in common
    edge = replace(racers[0], tuned=Tuned(-5, racers[0].tuned.tried))
    assert edge.tuned.told.endswith("the best rate is an end of the grid")


def test_rows_at_equal_time():
    racers = [racer("fedavg", (0.70, 0.71, 0.72)), racer("sfl", (0.5,) * 3, -7), racer("psfl", (0.9, 0.91, 0.93))]
    at = {row.name: row for row in at_time_rows("x", racers, 50.0)}
    assert at["x: accuracy of fedavg at 50 s"].ours.startswith("0.355 (")
    assert at["x: psfl most accurate at equal time"].ok is True
    over = {row.name: row for row in over_last_rows("x", racers, 100.0)}
    assert over["x: accuracy of fedavg from 90 to 100 s"].ours.startswith("0.674 (")  # 0.95 of 0.71
    assert over["x: psfl most accurate from 90 to 100 s"].ok is True


@pytest.mark.parametrize(
    ("psfl", "fedavg", "ours", "ok"),
    [((60, 61, 62), (50, 51, 53), "yes", True), ((50, 51, 53), (60, 61, 62), "no", False),
     ((50, 60, 70), (55, 58, 68), "undecided", None), ((60,), (50,), "one seed cannot tell", None)],
)  # fmt: skip
def test_who_is_ahead_is_said_only_where_seeds_can_tell(psfl, fedavg, ours, ok):
    levels = {"psfl": dict(enumerate(psfl)), "fedavg": dict(enumerate(fedavg)), "sfl": dict.fromkeys(range(3), 1.0)}
    row = winner_row("x", levels)
    assert (row.ours, row.ok) == (ours, ok)


def test_intervals():
    assert mean_interval([1.0, 2.0, 3.0])[:3] == pytest.approx((2.0, 2 - 2.4841377, 2 + 2.4841377), rel=1e-6)
    ratio = ratio_interval([2.0, 8.0], [1.0, 2.0])
    assert ratio.value == pytest.approx(np.sqrt(2 * 4))
    assert ratio.low < ratio.value < ratio.high
    assert np.isnan(mean_interval([5.0]).low)
    assert mean_interval([0.98, 0.99, 1.0], within=(0, 1)).high == 1.0
    assert str(Interval(-2.22e-17, -0.00976, 0.00976)) == "0 (-0.00976 to 0.00976)"
    tied = mean_interval([5.0] * 3)
    assert str(tied) == "5 (in all 3 seeds)" and not tied.tells and mean_interval([5.0] * 6).tells


def test_structures_compared(monkeypatch):
    here = psfl_structures.arena(Request(scale="small"), 9, (1, 3, 9))
    easy = replace(here.scene, until=replace(here.scene.until, accuracy=0.5, time=600.0))
    monkeypatch.setattr(psfl_structures, "arena", lambda *_: replace(here, scene=easy))
    monkeypatch.setattr(tuning, "REACH", 1)
    monkeypatch.setattr(tuning, "WIDEST", 3)
    found, target = psfl_structures.compare_structures(Request(scale="small", seeds=2, quiet=True), 9, (1, 3, 9))
    assert [(one.S, one.W) for one in found] == [(1, 9), (3, 3), (9, 1)]
    assert target == 0.5
    assert all(len(one.runs) == 2 and [*one.reported] == [one.best] for one in found)
    rows = psfl_structures.structure_rows(found, target, (3, 3)) + psfl_structures.round_rows(found, target)
    assert sum("trained optimum S" in row.name for row in rows) == 2
    assert rows[-1].name == "FedAvg rounds / SFL rounds, first"
    assert json.dumps([row.ours for row in rows])
