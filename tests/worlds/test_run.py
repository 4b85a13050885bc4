"""A run that fails says where and when, and keeps what it had."""

import json
from dataclasses import dataclass, field, replace

import pytest

from paceline.algorithms.base import Progress
from paceline.errors import SettingError
from paceline.learn.recipe import LocalSGD
from paceline.worlds.driver import drive, make_executor
from paceline.worlds.experiment import plan
from paceline.worlds.run import Run
from paceline.worlds.settings import make_settings


@dataclass(frozen=True)
class Buggy:
    """Round by round; in the second one, whoever has trained at client 3 fails."""

    how: str
    local: LocalSGD = field(default_factory=LocalSGD)

    def check(self, clients):
        pass

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
    run = Run(settings, directory=tmp_path / "run")
    drive([run], make_executor(settings.executor))
    assert str(run.failure) == "failed at t=4 s, in a branch last at client 3: ZeroDivisionError: a bug"
    assert isinstance(run.failure.__cause__, ZeroDivisionError)
    assert (tmp_path / "run" / "summary.json").exists()
    # Spawned, it fails at the instant at which the second round ends.
    assert [row["round"] for row in run.rows] == ([1] if how == "gathered" else [1, 2])


def test_a_measured_server_is_written_down_as_a_rate(tmp_path):
    """So that the run can be repeated exactly, whatever the machine does then."""
    words = ["clients=6", "fedavg.width=6", "rounds=2", "public=0.1", "fedavg.aggregation.rule=screen"]
    run = Run(make_settings("fedavg", [*words, "fleet.server=measured"]), directory=tmp_path / "a")
    drive([run], make_executor(run.settings.executor))
    kept = json.loads((tmp_path / "a" / "settings.json").read_text())["fleet"]["server"]
    assert kept.startswith("flops:")
    assert 1e6 < float(kept.removeprefix("flops:")) < 1e15
    again = Run(make_settings("fedavg", [*words, f"fleet.server={kept}"]))
    drive([again], make_executor(again.settings.executor))
    assert again.world.now() == run.world.now()
    works = [row for row in run.world.ledger.table().to_pylist() if row["kind"] == "work"]
    assert all(row["end"] > row["start"] for row in works)


@pytest.mark.parametrize("name", ["fedavg", "spfl", "apfl", "fedbuff"])
def test_an_algorithm_with_one_server_ends_when_it_fails(name):
    words = [
        "clients=12",
        "fedavg.width=4",
        "fedbuff.concurrency=4",
        "fedbuff.buffer=2",
        "fleet.failures=server:1@7.5",
    ]
    run = Run(make_settings(name, words), dry=True)
    drive([run], make_executor(run.settings.executor))
    assert str(run.failure) == f"server 1 failed at t=7.5 s, and {name} cannot go on without it"
    assert run.world.now() == 7.5


@pytest.mark.parametrize(
    ("names", "failures", "said"),
    [
        (["p-fedavg"], "server:12@2", "server 12, but of servers p-fedavg has 9"),
        (["p-fedavg"], "link:1-5@2", "the link 1-5, but of links between servers p-fedavg has 1-2, 1-3"),
        (["hierfavg"], "link:1-2@2", "between servers hierfavg has 1-10"),
        (["dpsgd"], "server:1@2", "dpsgd has none"),
        (["fedavg", "spfl"], "server:2@2", "fedavg has 1, spfl has 1"),
    ],
)
def test_failures_of_what_is_not_there_are_refused(names, failures, said):
    with pytest.raises(SettingError, match=said):
        plan(names, overrides=[f"fleet.failures={failures}"])


def test_one_of_several_compared_may_have_what_fails():
    plan(["fedavg", "p-fedavg"], overrides=["fleet.failures=server:5@60+link:1-2@5"])
    plan(["p-fedavg"], overrides=["p-fedavg.topology=random:9,0.5", "fleet.failures=link:1-9@5"])
