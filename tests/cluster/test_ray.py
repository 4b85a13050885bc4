"""A real Ray cluster on this machine: rows, weights and spans are those of the trainer in this process."""

import os
import signal
import sys
from types import SimpleNamespace

import pytest

from paceline.errors import SettingError
from paceline.learn.crew import cluster
from paceline.learn.crew.trainer import CrewTrainer
from paceline.runs import driver
from paceline.runs.experiment import make_experiment
from paceline.runs.performing import perform
from tests.contract.test_places import SMALL
from tests.contract.test_resume import kept_files

WORDS = [*SMALL, "psfl.participants=8", "rounds=4", "model=mlp:16", "every=1", "flush=4", "executor.threads=2"]


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    """Ray makes ``~/.ray``, and not every home directory can be written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def crew():
    started = cluster.start_crew(None, 3)
    yield started
    started.close()


def kept(out, *words):
    experiment = make_experiment(["psfl", "fedbuff"], overrides=[*WORDS, *words], out=out, keep_models=True)
    outcome = perform(experiment)
    assert outcome.failures == []
    return [kept_files(run.directory) for run in outcome.runs]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return kept(tmp_path_factory.mktemp("local") / "out")


class Visitors(cluster.RayCrew):
    """Some of a crew, who go on after the run; ``strike`` is called before each answer."""

    def __init__(self, crew, count, strike=lambda: None):
        super().__init__(crew._ray, crew._actors[:count])
        self._strike = strike

    def next(self):
        self._strike()
        return super().next()

    def close(self):
        pass


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_workers(crew, local, tmp_path, monkeypatch, count):
    monkeypatch.setattr(driver, "start_crew", lambda address, workers: Visitors(crew, count))
    assert kept(tmp_path / "out", "executor.name=ray") == local


def test_a_worker_that_is_killed_in_the_middle(crew, local, tmp_path, monkeypatch):
    """What it had is computed elsewhere; it comes back, and takes part again."""
    answers, trainers, visitors, made = [], [], [], CrewTrainer.__init__

    def strike():
        answers.append(None)
        if len(answers) == 3:
            os.kill(visitors[0].pids[0], signal.SIGKILL)

    def note(self, *given):
        made(self, *given)
        trainers.append(self)

    monkeypatch.setattr(CrewTrainer, "__init__", note)

    def come(address, workers):
        visitors.append(Visitors(crew, 2, strike))
        return visitors[0]

    monkeypatch.setattr(driver, "start_crew", come)
    assert kept(tmp_path / "out", "executor.name=ray") == local
    assert trainers[0].again >= 1


def test_a_cluster_that_is_not_there():
    with pytest.raises(SettingError, match=r"'127.0.0.1:1', where no Ray cluster answers"):
        cluster._join(None, "127.0.0.1:1", 1)


class Ended(Exception):
    """Somebody heard SIGTERM."""


@pytest.mark.parametrize("meanwhile", [True, False])
def test_who_is_asked_to_end_before_anything_is_learned_ends_as_without_ray(meanwhile, monkeypatch):
    """Ray hears SIGTERM by itself as soon as it begins, and ends the process with a status of 1 or 15."""

    def heard(number, frame):
        raise Ended

    def init(**_):
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        if meanwhile:
            signal.raise_signal(signal.SIGTERM)

    def begin_and_end():
        cluster._join(SimpleNamespace(init=init), None, 1)
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, heard)
    try:
        with pytest.raises(Ended):
            begin_and_end()
    finally:
        signal.signal(signal.SIGTERM, before)
