"""Results do not depend on how learning was batched: cohort sizes, other runs beside, evaluation, repetition."""

import json

import numpy as np
import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.runs.driver import drive, make_executor
from paceline.runs.experiment import make_experiment
from paceline.runs.making import make_run
from paceline.runs.performing import perform
from paceline.runs.settings import make_settings
from paceline.runs.until import Until

SMALL = [
    *("clients=12", "rounds=4", "local.steps=3", "public=0.1", "psfl.width=3", "psfl.length=3", "fedavg.width=6"),
    *("sfl.length=5", "fedbuff.concurrency=8", "fedbuff.buffer=4", "fedasync.concurrency=7", "fedasync.rounds=15"),
    *("apfl.rounds=15", "da-dpfl.pruning.first=2", "da-dpfl.neighbours.degree=4", "dispfl.neighbours.degree=4"),
    *("feddst.participants=4", "feddst.interval=2", "ditto.participants=4", "dfedavgm.neighbours.degree=4"),
    *("dfedsam.neighbours.degree=4", "beer.degree=4", "p-fedavg.participants=2", "p-fedavg.topology=ring:6"),
    *("hierfavg.participants=2", "hierfavg.servers=4", "feddf.participants=4", "feddf.distillation.steps=2"),
    *("fleet.links=rate:2,8", "fleet.latency=0.01", "fleet.watts=5", "fleet.link_watts=1"),
    *("fleet.server=constant:1.5", "fleet.server_watts=3"),
]
NAMES = list(ALGORITHMS)


def traits(name):
    settings = make_settings(name, SMALL)
    return settings.algorithm.traits(settings.clients)


def run_alone(name, *more, **options):
    run = make_run(make_settings(name, [*SMALL, *more]), **options)
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None
    return run


def timeline(run):
    """Every span, event for event; NaN-free because every power is set."""
    return run.world.ledger.table().to_pylist()


def scores(run, key="loss"):
    return np.array([row[key] for row in run.rows])


@pytest.fixture(scope="module")
def truth():
    """Each algorithm by the reference trainer, alone."""
    return {name: run_alone(name, "executor.name=reference", "executor.dtype=float64") for name in NAMES}


@pytest.mark.parametrize("cohort", [7, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 64))])
@pytest.mark.parametrize("name", NAMES)
def test_cohort_size_changes_nothing(truth, name, cohort):
    run = run_alone(name, f"executor.cohort={cohort}", "executor.dtype=float64")
    assert timeline(run) == timeline(truth[name])
    assert scores(run) == pytest.approx(scores(truth[name]), rel=1e-9)
    assert scores(run, "accuracy").tolist() == scores(truth[name], "accuracy").tolist()


def test_cohort_size_changes_nothing_of_an_automatic_structure():
    """PSFL's warm-up learns numbers that the schedule depends on: structure and timeline must be the same."""
    auto = ["psfl.width=none", "psfl.length=none", "psfl.participants=9", "executor.dtype=float64"]
    want = run_alone("psfl", *auto, "executor.name=reference")
    assert want.world.chronicle.events[1].figures["W"] * want.world.chronicle.events[1].figures["S"] <= 9
    for cohort in (1, 7, 64):
        run = run_alone("psfl", *auto, f"executor.cohort={cohort}")
        assert timeline(run) == timeline(want)
        assert scores(run) == pytest.approx(scores(want), rel=1e-9)
        for have, wanted in zip(run.world.chronicle.events, want.world.chronicle.events, strict=True):
            assert have.text == wanted.text
            numbers = {key: value for key, value in wanted.figures.items() if not isinstance(value, list)}
            assert {key: have.figures[key] for key in numbers} == pytest.approx(numbers, rel=1e-6)  # a flat optimum


def test_an_asynchronous_fleet_trains_in_wide_waves():
    """40 devices, a tenfold spread of speeds: 12 or more visits a wave on average, the result of one at a time."""
    words = ["clients=40", "rounds=150", "every=75", "fleet.times=uniform:0.5,5", "executor.dtype=float64"]
    words += ["fleet.server=constant:0.2", "local.steps=2"]
    wide = make_run(make_settings("apfl", words))
    executor = make_executor(wide.settings.executor)
    drive([wide], executor)
    assert wide.failure is None
    assert executor.statistics.mean_wave >= 12
    alone = make_run(make_settings("apfl", [*words, "executor.name=reference", "flush=1"]))
    drive([alone], make_executor(alone.settings.executor))
    assert timeline_without_energy(wide) == timeline_without_energy(alone)
    assert scores(wide) == pytest.approx(scores(alone), rel=1e-9)


def timeline_without_energy(run):
    """Spans without the undefined energy, which is NaN and equals nothing."""
    return [{k: v for k, v in row.items() if k != "joules"} for row in timeline(run)]


def test_other_runs_beside_change_nothing(truth):
    runs = [
        make_run(make_settings(name, [*SMALL, "executor.dtype=float64", f"seed={seed}"]))
        for seed in (0, 1)
        for name in NAMES
    ]
    executor = make_executor(runs[0].settings.executor)
    drive(runs, executor)
    for run in runs[: len(NAMES)]:
        assert timeline(run) == timeline(truth[run.settings.name])
        assert scores(run) == pytest.approx(scores(truth[run.settings.name]), rel=1e-9)
    alone = run_alone("psfl", "seed=1", "executor.dtype=float64")
    assert timeline(alone) == timeline(runs[len(NAMES) + NAMES.index("psfl")])
    assert executor.statistics.mean_wave > 15  # one after the other, sequential FL's are of one client


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", ["every=3", "flush=5", pytest.param("flush=100000", marks=pytest.mark.slow)])
def test_how_often_values_are_needed_changes_nothing(truth, name, change):
    run = run_alone(name, change, "executor.dtype=float64")
    assert timeline(run) == timeline(truth[name])
    assert run.rows[-1]["loss"] == pytest.approx(truth[name].rows[-1]["loss"], rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_observing_every_round_changes_nothing(truth, name):
    """--until makes the schedule wait for every score; an accuracy that is never reached must leave no trace."""
    run = run_alone(name, "executor.dtype=float64", until=Until(loss=1e-9))
    assert timeline(run) == timeline(truth[name])
    assert scores(run) == pytest.approx(scores(truth[name]), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_dry_run_has_the_same_timeline(truth, name):
    """Bytes, seconds and joules are those of the real run; FLOPs follow nominal data sizes and may differ.

    Where a dry run assumes something, the real run is one in which that is so.
    """
    assumed = traits(name).assumption
    words = [] if assumed is None else [f"{name}.{key}={value}" for key, value in flat(assumed.settings)]
    real = run_alone(name, *words) if words else truth[name]
    run = run_alone(name, dry=True)
    keys = ("site", "kind", "lane", "start", "end", "round", "bytes", "joules", "peer")
    assert [[row[k] for k in keys] for row in timeline(run)] == [[row[k] for k in keys] for row in timeline(real)]


def flat(tree, above=""):
    """Nested settings by their dotted names."""
    for key, value in tree.items():
        yield from flat(value, f"{above}{key}.") if isinstance(value, dict) else [(f"{above}{key}", value)]


def test_the_same_command_twice_writes_the_same_metrics(tmp_path):
    for place in ("first", "second"):
        experiment = make_experiment(["psfl", "fedbuff"], overrides=SMALL, seeds=2, out=tmp_path / place)
        perform(experiment)
    files = sorted((tmp_path / "first").glob("*/metrics.jsonl"))
    assert len(files) == 4
    for file in files:
        twin = tmp_path / "second" / file.relative_to(tmp_path / "first")
        assert file.read_bytes() == twin.read_bytes()
        assert all(np.isfinite(json.loads(line)["loss"]) for line in file.read_text().splitlines())


def test_asynchronous_runs_are_batched_too():
    """40 fully asynchronous devices with a tenfold spread of speeds: waves of ten and more on average."""
    settings = make_settings(
        "fedasync",
        ["clients=40", "fedasync.concurrency=40", "rounds=400", "every=400", "fleet.times=uniform:0.5,5"],
    )
    run = make_run(settings)
    executor = make_executor(settings.executor)
    drive([run], executor)
    assert run.failure is None
    assert executor.statistics.visits >= 400
    assert executor.statistics.mean_wave >= 10
