"""Progress: phases at once, lines at a sensible rate, a forecast that is honest, and results that do not change."""

import io
import math
import os
import re
import subprocess
import sys
import warnings
from itertools import pairwise
from types import SimpleNamespace

import pytest
from rich.console import Console

import paceline
from paceline.api import watched
from paceline.api.forecast import FEWEST, Forecast, forecast, rounds_of_target, seconds_a_round
from paceline.api.progress import LOG_FIRST, LOG_MOST, SILENCE, LiveProgress
from paceline.api.watched import clock_text
from paceline.ledger.events import Chronicle, Event
from paceline.runs.until import Until


class Clock:
    """A clock that stands still until it is told."""

    now = 0.0

    def __call__(self):
        return self.now


class Executor:
    """Something that has learned so many visits."""

    def __init__(self):
        self.visits = 0
        self.statistics = SimpleNamespace(mean_wave=0.0)


def a_run(label="fedavg seed 0", until=None, rounds=100):
    ledger = SimpleNamespace(visits=0)
    world = SimpleNamespace(chronicle=Chronicle(), ledger=ledger, progress=0, now=lambda: 0.0)
    return SimpleNamespace(
        label=label, world=world, done=False, until=until or Until(), recorder=SimpleNamespace(reached=None),
        traits=SimpleNamespace(rounds=rounds),
    )  # fmt: skip


def row(k, accuracy=None):
    more = {} if accuracy is None else {"accuracy": accuracy, "loss": 1 - accuracy}
    return {"round": k, "time": 10.0 * k, "visits": 20 * k, "idle_share": 0.5, **more}


@pytest.fixture
def shown():
    """A log file that a progress writes, with a clock that the test turns; its lines are ``shown.lines()``."""
    clock, file = Clock(), io.StringIO()
    console = Console(file=file, width=300, highlight=False)
    progress = LiveProgress(console=console, clock=clock)
    return SimpleNamespace(progress=progress, clock=clock, lines=lambda: file.getvalue().splitlines())


def test_a_log_has_every_phase_at_once(shown):
    with shown.progress as progress:
        progress.phase("starting", "fedavg")
        assert shown.lines() == ["starting   fedavg"]
        progress.phase("loading", "mnist for fedavg")
        assert shown.lines()[-1] == "loading    mnist for fedavg"


def test_a_long_silence_is_broken_less_and_less_often(shown):
    shown.progress.phase("loading", "mnist")
    told = []
    for second in range(1, 61):
        shown.clock.now = float(second)
        before = len(shown.lines())
        shown.progress.tick()
        told += [second] * (len(shown.lines()) - before)
    assert told[0] == SILENCE
    gaps = [b - a for a, b in pairwise(told)]
    assert gaps == sorted(gaps) and gaps[-1] > gaps[0]
    assert shown.lines()[1] == "loading    0:05  mnist"


def test_lines_of_a_run_come_at_a_gap_that_grows_to_a_limit(shown):
    run = a_run()
    told = []
    for k in range(1, 4001):  # ten rows a second
        shown.clock.now = k / 10
        before = len(shown.lines())
        shown.progress(run, row(k))
        told += [shown.clock.now] * (len(shown.lines()) - before)
    gaps = [b - a for a, b in pairwise(told)]
    assert told[0] == 0.1 and gaps[0] == pytest.approx(LOG_FIRST, abs=0.11)
    assert gaps[-1] == pytest.approx(LOG_MOST, abs=0.11)
    assert len(told) < 30


def test_speed_is_that_of_what_is_learned_and_of_a_wave_that_is_under_way(shown):
    run, executor = a_run(), Executor()
    shown.progress.phase("learning", "fedavg")
    shown.progress.watch([run], executor)
    shown.clock.now, executor.visits = 10.0, 50
    executor.statistics.mean_wave = 25.0
    shown.progress.tick()
    assert shown.lines()[-1].endswith("50 visits learned  5 visits/s  mean wave 25.0")
    assert "schedule at round 0, t = 0.0 s, 0 visits" in shown.lines()[-1]
    shown.clock.now, executor.visits = 20.0, 39_250
    shown.progress.tick()
    assert "  1,962 visits/s" in shown.lines()[-1]


def test_without_learning_the_schedules_visits_are_counted(shown):
    runs = [a_run("a"), a_run("b")]
    shown.progress.phase("planning")
    shown.progress.watch(runs, None)
    for one in runs:
        one.world.ledger.visits = 100
    runs[0].done = True
    shown.clock.now = 10.0
    shown.progress.tick()
    assert shown.lines()[-1] == "planning   0:10  1 of 2 runs ended  200 visits  20 visits/s"


def test_a_target_that_is_met_is_told_with_its_time(shown):
    run = a_run(until=Until(accuracy=0.5))
    shown.progress(run, row(1, 0.4))
    run.recorder.reached = row(2, 0.6)
    shown.clock.now = 100.0
    shown.progress(run, row(2, 0.6))
    assert "reached accuracy 0.5 at t=20.0 s" in shown.lines()[-1]


def test_a_terminal_shows_the_whole_and_every_run_and_no_more_than_fits():
    console = Console(file=io.StringIO(), width=200, height=10, force_terminal=True, highlight=False)
    progress = LiveProgress(console=console, clock=Clock())
    progress.phase("learning", "many")
    progress.watch([a_run(f"fedavg seed {k}") for k in range(20)], Executor())
    with console.capture() as taken:
        console.print(progress._screen())
    lines = re.sub(r"\x1b\[[\d;]*m", "", taken.get()).splitlines()
    assert lines[0].startswith("learning   0:00  0 of 20 runs ended")
    assert lines[1].startswith("fedavg seed 0") and lines[-1] == "and 14 more"
    assert len(lines) <= 10


@pytest.mark.parametrize("terminal", [False, True])
def test_what_is_decided_after_the_last_metrics_is_told_once(terminal):
    file, run = io.StringIO(), a_run()
    run.world.chronicle.tell(1.0, Event(text="the first"))
    with LiveProgress(console=Console(file=file, width=200, force_terminal=terminal)) as progress:
        progress(run, row(1))
        run.world.chronicle.tell(2.0, Event(text="the last"))
    assert file.getvalue().count("the first") == file.getvalue().count("the last") == 1


def test_quiet_starts_nothing_and_says_nothing(capsys):
    with LiveProgress(quiet=True) as progress:
        progress.phase("starting", "x")
        assert progress._ticker is None and not progress._live.is_started
    assert capsys.readouterr() == ("", "")


def test_in_a_notebook_no_other_thread_prints():
    console = Console(file=io.StringIO(), force_jupyter=True)
    with LiveProgress(console=console) as progress:
        assert progress._ticker is None


def power_law(count, factor=0.9, power=0.5):
    return [row(k, 1 - factor * k**-power) for k in range(1, count + 1)]


def exponential(count, factor=0.9, rate=0.02):
    return [row(k, 1 - factor * math.exp(-rate * k)) for k in range(1, count + 1)]


@pytest.mark.parametrize(
    ("curve", "true", "error"),
    [(power_law, 400, 0.9 * 400**-0.5), (exponential, 90, 0.9 * math.exp(-0.02 * 90))],
)
def test_powers_and_exponentials_are_within_what_is_forecast(curve, true, error):
    early, late = rounds_of_target(curve(40), Until(accuracy=1 - error))
    assert 40 < early < true < late
    arrivals = [(float(k), k) for k in range(41)]
    known = forecast(curve(40), arrivals, Until(accuracy=1 - error), 10_000)
    assert known.target == pytest.approx((10 * early, 10 * late))
    assert known.seconds == pytest.approx((early - 40, late - 40))
    assert known.most == pytest.approx(9960)


def test_a_run_ends_with_its_rounds_also_where_its_curve_would_go_on():
    target = Until(accuracy=1 - 0.9 * 400**-0.5)
    arrivals = [(float(k), k) for k in range(41)]
    early, _ = rounds_of_target(power_law(40), target)
    assert forecast(power_law(40), arrivals, target, 300).seconds == pytest.approx((early - 40, 260))
    known = forecast(power_law(40), arrivals, target, 60)
    assert known.target is None and known.seconds is None and known.most == pytest.approx(20)


def test_watching_takes_as_little_after_many_rows_and_many_looks(monkeypatch):
    asked = []
    monkeypatch.setattr(watched, "forecast", lambda rows, *_: (asked.append(len(rows)), Forecast())[1])
    one = watched.Watched(a_run(rounds=10**6))
    for k in range(1, 10_001):  # a hundred rows a second
        one.add(row(k), k / 100)
        one.line()
    assert one.row["round"] == 10_000
    assert len(asked) == pytest.approx(100 / watched.AFRESH, abs=2)
    assert max(asked) <= watched.MOST_ROWS


def test_a_target_is_told_as_a_range(shown):
    run = a_run(until=Until(accuracy=0.7), rounds=1000)
    for k, one in enumerate(power_law(8)):
        shown.clock.now = 100.0 * k
        shown.progress(run, one)
    # It is a round away: from 1 / 1.5 to 2 rounds, of 10 virtual and 100 real seconds each.
    assert shown.lines()[-1].endswith("accuracy 0.7 expected at t=87 to 100 s  ETA 1:06 to 3:20")


@pytest.mark.parametrize(
    "accuracies",
    [
        [0.5] * 40,  # learns nothing
        [0.9 - 0.01 * k for k in range(40)],  # forgets
        [0.1 + 0.02 * min(k, 20) for k in range(40)],  # has stopped learning
        [0.1] * 30 + [0.1 + 0.02 * k for k in range(10)],  # has only begun
        [1 - 0.9 / (k + 1) for k in range(FEWEST - 1)],  # too few
    ],
)
def test_what_the_curve_does_not_say_is_unknown(accuracies):
    rows = [row(k + 1, accuracy) for k, accuracy in enumerate(accuracies)]
    assert rounds_of_target(rows, Until(accuracy=0.97)) is None
    known = forecast(rows, [(0.0, 0), (1.0, len(rows))], Until(accuracy=0.97), 1000)
    assert known.seconds is None and known.target is None and known.most is not None


def test_without_a_target_rounds_time_or_visits_bound_the_end():
    arrivals = [(float(k), k) for k in range(11)]
    rows = [row(k) for k in range(1, 11)]
    assert forecast(rows, arrivals, Until(), 50).seconds == pytest.approx((40, 40))
    assert forecast(rows, arrivals, Until(time=200), 50).seconds == pytest.approx((10, 10))
    assert forecast(rows, arrivals, Until(visits=300), 50).seconds == pytest.approx((5, 5))


def test_the_pace_is_that_of_late():
    slow = [(10.0 * k, k) for k in range(20)]
    fast = [(slow[-1][0] + 0.5 * k, 19 + k) for k in range(1, 200)]
    assert seconds_a_round([*slow, *fast]) == pytest.approx(0.5)
    assert seconds_a_round([(0.0, 0), (100.0, 1), (300.0, 2)]) == 200, "also where a round takes minutes"
    assert seconds_a_round([]) is None and seconds_a_round([(1.0, 5)]) is None
    assert seconds_a_round([(1.0, 5), (1.0, 9)]) is None, "all came at once"


def test_clock_texts():
    assert [clock_text(s) for s in (0, 59.9, 60, 3600)] == ["0:00", "0:59", "1:00", "1:00:00"]


def test_results_are_the_same_whether_anybody_watches(tmp_path):
    words = {"clients": 5, "rounds": 3, "partition": "iid"}
    silent = paceline.run("fedavg", **words, out=tmp_path / "silent")
    watched = paceline.run("fedavg", **words, out=tmp_path / "watched", progress=True)
    assert silent.rows("fedavg") == watched.rows("fedavg")


def test_the_first_line_is_there_before_anything_slow_is_imported(tmp_path):
    """What was imported when each line was written; how many seconds that takes is for benchmarks to say."""
    code = """
import sys
from paceline.api import progress

said = progress.LiveProgress._print
def print_with_imports(self, line):
    said(self, f"{'torch' in sys.modules} {'numpy' in sys.modules} {line}")
progress.LiveProgress._print = print_with_imports
from paceline.cli.main import main
main(sys.argv[1:])
"""
    words = ["compare", "fedavg", "fedbuff", "--set", "clients=5", "--set", "rounds=2", "--set", "partition=iid"]
    environment = os.environ | {"COLUMNS": "300", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--out", "x"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line.split(maxsplit=3) for line in done.stderr.splitlines() if line.startswith(("True", "False"))]
    known = ("starting", "loading", "preparing", "learning")
    phases = dict.fromkeys(line[2] for line in lines if line[2] in known)  # each again after a silence
    assert tuple(phases) == known
    assert lines[0][:3] == ["False", "False", "starting"]
    assert "fedavg, fedbuff" in lines[0][3]
    order = [line[2] for line in lines]
    assert order.index("learning") < order.index("fedavg") < len(order)


def test_errors_of_settings_come_after_the_first_line_and_end_the_progress(tmp_path, capsys, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from paceline.cli.main import main
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["run", "fedavg", "--set", "nosuch=1"])
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("starting") and said[1].startswith("error: unknown setting")


VARIANTS = ["fedbuff@buffer=2", "fedbuff@buffer=4"]


def test_variants_of_one_algorithm_are_told_apart(capfd):
    rows = {name: [] for name in VARIANTS}
    paceline.compare(
        VARIANTS,
        clients=6,
        rounds=3,
        dry=True,
        progress=True,
        callbacks=[lambda name, seed, row: rows[name].append(row["visits"])],
    )
    assert rows["fedbuff@buffer=4"][-1] > rows["fedbuff@buffer=2"][-1] >= 6
    lines = capfd.readouterr().err.splitlines()
    for name in VARIANTS:
        said = [line for line in lines if line.startswith(f"{name} seed 0 ")]
        assert f" {rows[name][-1]} visits" in said[-1], "its own figures and no others"


def test_variants_are_told_apart_after_an_interruption(tmp_path):
    told, small = [], {"clients": 6, "partition": "iid", "rounds": 2}

    def stop(name, seed, row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        paceline.compare(VARIANTS, **small, out=tmp_path / "out", callbacks=[stop])
    paceline.resume(tmp_path / "out", callbacks=[lambda name, seed, row: told.append((name, row["round"]))])
    assert {name for name, _ in told} == set(VARIANTS) and len(set(told)) == len(told)


def test_runs_of_an_older_directory_are_shown_each_by_itself(shown):
    one, other = a_run(), a_run()  # whose variants nobody wrote down
    with shown.progress as progress:
        progress.watch([one, other], None)
        progress(one, row(1))
        progress(other, row(2))
        assert len(progress.runs) == 2
    assert [line.split()[4] for line in shown.lines()] == ["1", "2"]
