"""A run that fails says where and when, and keeps what it had."""

import gc
import json
import weakref
from dataclasses import dataclass, field, replace

import pytest

from paceline.algorithms.base import Progress, Traits
from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import SettingError
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.graph import Model
from paceline.learn.recipe import LocalSGD
from paceline.runs.driver import drive, make_executor
from paceline.runs.experiment import make_experiment
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings


@dataclass(frozen=True)
class Buggy:
    """Round by round; in the second one, whoever has trained at client 3 fails."""

    how: str
    local: LocalSGD = field(default_factory=LocalSGD)

    def check(self, clients):
        pass

    def traits(self, clients):
        return Traits(rounds=3, local=self.local, absence="skip")

    async def run(self, world):
        model = world.initial_model()
        for r in range(3):
            if self.how == "spawned" and r == 1:
                world.spawn(self.visit(world, model, 3, r))
            await world.gather(self.visit(world, model, k, r) for k in range(3 if self.how == "spawned" else 5))
            yield Progress(model)

    async def visit(self, world, model, client, r):
        await world.train(client, model, self.local)
        if r == 1 and client == 3:
            raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("how", ["gathered", "spawned"])
def test_a_bug_comes_home_with_site_and_virtual_time(how, tmp_path):
    settings = replace(
        make_settings("fedavg", ["clients=10", "fleet.times=constant:2", "fleet.jitter=0"]), algorithm=Buggy(how)
    )
    run = make_run(settings, directory=tmp_path / "run")
    drive([run], make_executor(settings.executor))
    assert str(run.failure) == "failed at t=4 s, in a branch last at client 3: ZeroDivisionError: a bug"
    assert isinstance(run.failure.__cause__, ZeroDivisionError)
    assert (tmp_path / "run" / "summary.json").exists()
    # Spawned, it fails at the instant at which the second round ends.
    assert [row["round"] for row in run.rows] == ([1] if how == "gathered" else [1, 2])


def test_a_measured_server_is_written_down_as_a_rate(tmp_path):
    """So that the run can be repeated exactly, whatever the machine does then."""
    words = ["clients=6", "fedavg.width=6", "rounds=2", "public=0.1", "fedavg.aggregation.rule=screen"]
    run = make_run(make_settings("fedavg", [*words, "fleet.server=measured"]), directory=tmp_path / "a")
    drive([run], make_executor(run.settings.executor))
    kept = json.loads((tmp_path / "a" / "settings.json").read_text())["fleet"]["server"]
    assert kept.startswith("flops:")
    assert 1e6 < float(kept.removeprefix("flops:")) < 1e15
    again = make_run(make_settings("fedavg", [*words, f"fleet.server={kept}"]))
    drive([again], make_executor(again.settings.executor))
    assert again.world.now() == run.world.now()
    works = [row for row in run.world.ledger.table().to_pylist() if row["kind"] == "work"]
    assert all(row["end"] > row["start"] for row in works)


@pytest.mark.parametrize(
    "name", [name for name in ALGORITHMS if not make_settings(name).algorithm.traits(100).outlives_servers]
)
def test_an_algorithm_with_one_server_ends_when_it_fails(name):
    words = [
        "clients=12",
        "fedavg.width=4",
        "fedbuff.concurrency=4",
        "fedbuff.buffer=2",
        "psfl.width=3",
        "public=0.1",
        "fleet.failures=server:1@7.5",
    ]
    run = make_run(make_settings(name, words), dry=True)
    drive([run], make_executor(run.settings.executor))
    assert str(run.failure) == f"server 1 failed at t=7.5 s, and {name} cannot go on without it"
    assert run.world.now() == 7.5


@pytest.mark.parametrize(
    ("names", "failures", "said"),
    [
        (["p-fedavg"], "server:12@2", "server 12, which no algorithm here has: p-fedavg has 9 servers"),
        (["p-fedavg"], "link:1-5@2", "the link 1-5, which no algorithm here has: p-fedavg has 1-2, 1-3"),
        (["hierfavg"], "link:1-2@2", "the link 1-2, which no algorithm here has: hierfavg has 1-10"),
        (["dpsgd"], "server:1@2", "dpsgd has no server"),
        (["fedavg", "spfl"], "server:2@2", "fedavg has 1 server, spfl has 1 server"),
    ],
)
def test_failures_of_what_is_not_there_are_refused(names, failures, said):
    with pytest.raises(SettingError, match=said):
        make_experiment(names, overrides=[f"fleet.failures={failures}"])


def test_one_of_several_compared_may_have_what_fails():
    make_experiment(["fedavg", "p-fedavg"], overrides=["fleet.failures=server:5@60+link:1-2@5"])
    make_experiment(["p-fedavg"], overrides=["p-fedavg.topology=random:9,0.5", "fleet.failures=link:1-9@5"])


# -- what is held -----------------------------------------------------------------------------------------------


@pytest.fixture
def alive(monkeypatch):
    """All models that have a value and are still there."""
    everywhere = weakref.WeakSet()
    make = Model.__init__

    def made(self, *parts, **more):
        make(self, *parts, **more)
        everywhere.add(self)

    monkeypatch.setattr(Model, "__init__", made)
    return lambda: [model for model in everywhere if model.value is not None]


def test_models_live_no_longer_than_somebody_needs_them(alive, monkeypatch):
    """Eight rounds are computed in one go, and each has the server's model only to start from."""
    counts = []
    train = CohortTrainer.train
    monkeypatch.setattr(
        CohortTrainer, "train", lambda self, jobs: (counts.append(len(alive())), train(self, jobs))[1]
    )
    run = make_run(make_settings("fedavg", ["clients=6", "fedavg.width=6", "rounds=8", "every=100"]))
    run.learner._flush_limit = 1000
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None
    assert len(counts) == 8
    assert max(counts) == 2  # the initial one, and the last average


@pytest.mark.parametrize("name", ["fedavg", "da-dpfl"])
def test_a_run_that_diverged_lets_go_of_its_models(alive, name):
    few = ["clients=6", "rounds=4", "fedavg.width=3", "da-dpfl.neighbours.degree=3", "local.lr=1e30"]
    run = make_run(make_settings(name, few))
    drive([run], make_executor(run.settings.executor))
    assert "diverged" in str(run.failure)
    gc.collect()
    assert len(alive()) <= 1  # the initial one is the problem's
