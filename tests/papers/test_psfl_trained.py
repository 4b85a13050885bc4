"""The trained reproductions, shrunk: what they compute, that they go on where they stopped, what they refuse."""

import json
from dataclasses import replace

import numpy as np
import pytest

from paceline.errors import SettingError
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.papers.psfl import scenes as psfl_scenes
from paceline.papers.psfl import structures as psfl_structures
from paceline.papers.psfl import trained as psfl_trained
from paceline.papers.psfl.tables import _agrees, _winner_row, case_rows
from paceline.papers.result import Request
from paceline.papers.trials import Finished, Laboratory, Trial
from paceline.runs.until import Until
from paceline.statistics import Interval, mean_interval, ratio_interval

FEW = ("clients=10", "fedavg.width=3", "rounds=2")


@pytest.fixture
def shrunk(monkeypatch):
    monkeypatch.setattr(psfl_scenes, "STEPS", (5,))
    monkeypatch.setattr(psfl_scenes, "DIGIT_RATES", (0.1, 0.316))
    monkeypatch.setitem(psfl_scenes.TARGETS, "digits", 0.7)
    monkeypatch.setitem(psfl_scenes.HORIZONS, "digits", (400.0,))


def test_figure_3_shrunk(shrunk, tmp_path):
    request = Request(scale="small", seeds=2, out=tmp_path, quiet=True)
    found = psfl_trained.fig3(request)
    names = [row.name for row in found.rows]
    assert sum("time of psfl / fedavg" in name for name in names) == 3  # two rates, and the best
    ratio = next(row for row in found.rows if "best rate: time of psfl / sfl" in row.name)
    assert ratio.paper == 0.67
    assert 0.05 < float(ratio.ours.split()[0]) < 2
    summaries = sorted(tmp_path.glob("trials/*/*/summary.json"))
    assert len(summaries) == 12  # three methods, two rates, two seeds
    written = {path: path.stat().st_mtime_ns for path in summaries}

    again = psfl_trained.fig3(request)  # nothing is run twice
    assert again.rows == found.rows
    assert {path: path.stat().st_mtime_ns for path in summaries} == written

    summaries[0].unlink()  # one was cut off: it alone is run again, with the same result
    assert psfl_trained.fig3(request).rows == found.rows
    changed = [path for path in summaries if path.stat().st_mtime_ns != written[path]]
    assert changed == summaries[:1]


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
    assert _agrees(Interval(*interval)) is ok


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


def test_rows_of_made_up_trials():
    found = [finished("psfl", 0.1, s, 50.0 + s) for s in range(3)]
    found += [finished("fedavg", 0.1, s, 100.0 + 2.4 * s) for s in range(3)]
    found += [finished("sfl", 0.1, 0, None), finished("sfl", 1.0, 0, None, "failed: Diverged")]
    found += [finished("psfl", 1.0, 0, 10.0), *(finished("psfl", 1.0, s, None) for s in (1, 2))]
    tried = {(method, rate): [] for method in ("fedavg", "sfl", "psfl") for rate in (0.1, 1.0)}
    for run in found:
        tried[run.trial.method, run.trial.rate].append(run)
    rows = {row.name: row for row in case_rows("case", tried, 500.0)}
    half = rows["case, all at rate 0.1: time of psfl / fedavg"]
    assert half.ours == "0.498 (0.493 to 0.503)"
    assert half.ok
    assert rows["case, all at rate 0.1: time of psfl / sfl"].ours == "only psfl arrived (not sfl)"
    assert rows["case, rate 1: sfl"].ours == "diverged"
    assert rows["case, rate 0.1: sfl"].ours == "not within 500 s"
    assert rows["case, rate 1: psfl"].note == "1 of 3 seeds arrived"
    # A rate at which two of three seeds were lost is not the best, however fast the third was.
    assert rows["case, each at its best rate: time of psfl / fedavg"].ours == half.ours


@pytest.mark.parametrize(
    ("psfl", "fedavg", "ours", "ok"),
    [((60, 61, 62), (50, 51, 53), "yes", True), ((50, 51, 53), (60, 61, 62), "no", False),
     ((50, 60, 70), (55, 58, 68), "undecided", None), ((60,), (50,), "one seed cannot tell", None)],
)  # fmt: skip
def test_who_is_ahead_is_said_only_where_seeds_can_tell(psfl, fedavg, ours, ok):
    levels = {"psfl": dict(enumerate(psfl)), "fedavg": dict(enumerate(fedavg)), "sfl": dict.fromkeys(range(3), 1.0)}
    row = _winner_row("x", levels)
    assert (row.ours, row.ok) == (ours, ok)


def test_intervals():
    assert mean_interval([1.0, 2.0, 3.0])[:3] == pytest.approx((2.0, 2 - 2.4841377, 2 + 2.4841377), rel=1e-6)
    ratio = ratio_interval([2.0, 8.0], [1.0, 2.0])
    assert ratio.value == pytest.approx(np.sqrt(2 * 4))
    assert ratio.low < ratio.value < ratio.high
    assert np.isnan(mean_interval([5.0]).low)
    assert mean_interval([0.98, 0.99, 1.0], within=(0, 1)).high == 1.0
    tied = mean_interval([5.0] * 3)
    assert str(tied) == "5 (in all 3 seeds)" and not tied.tells and mean_interval([5.0] * 6).tells


def test_structures_compared(monkeypatch, tmp_path):
    small = psfl_scenes.structured(Request(scale="small"))
    quick = replace(small, until=replace(small.until, accuracy=0.6), rates=(0.316,))
    monkeypatch.setattr(psfl_structures, "structured", lambda request: quick)
    results = psfl_structures.compare_structures(Request(scale="small", seeds=2, quiet=True), 9, (1, 3, 9))
    assert [(one.S, one.W) for one in results] == [(1, 9), (3, 3), (9, 1)]
    assert all(one.arrived.tried == 2 for one in results)
    rows = psfl_structures.structure_rows(results, (3, 3)) + psfl_structures.round_rows(results)
    assert rows[-1].name == "FedAvg rounds / SFL rounds"
    assert json.dumps([row.ours for row in rows])
