"""What a run is made of: an algorithm, a world, a learner, a recorder; and what one run's failure does to others."""

import ast
import inspect
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import paceline
from paceline.algorithms.base import Progress, Traits
from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import Deserted, Fruitless, SettingError, SiteError
from paceline.learn.recipe import LocalSGD
from paceline.runs import run as running
from paceline.runs.driver import drive, make_executor
from paceline.runs.experiment import make_experiment
from paceline.runs.making import make_run
from paceline.runs.run import RunningWorld
from paceline.runs.settings import make_settings
from paceline.runs.until import Until
from paceline.system import FleetSettings

SOURCE = Path(paceline.__file__).parent
SMALL = ["clients=8", "partition=iid", "model=logistic", "rounds=4"]


def driven(name, *words, dry=True, until=None):
    run = make_run(make_settings(name, [*SMALL, *words]), dry=dry, until=until)
    drive([run], make_executor(run.settings.executor))
    return run


# -- parts ----------------------------------------------------------------------------------------------------


def test_a_run_knows_no_member_of_a_concrete_world():
    """It asks its world for nothing but what ``RunningWorld`` says, and imports no implementation."""
    asked = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(running)))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "world"
    }
    offered = {name for kind in RunningWorld.__mro__ for name in vars(kind)} | {
        name for kind in RunningWorld.__mro__ for name in getattr(kind, "__annotations__", {})
    }
    assert asked and asked <= offered
    imported = {
        node.module for node in ast.walk(ast.parse(inspect.getsource(running))) if isinstance(node, ast.ImportFrom)
    }
    assert not imported & {f"paceline.worlds.{name}" for name in ("simulation", "stage", "places", "machines")}


def test_no_flag_is_read_by_name():
    """Of what an algorithm must say before it runs, everything is in its ``Traits``."""
    flags = set(Traits.__dataclass_fields__) | {"parties", "needs_public"}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
                words = [a.value for a in node.args if isinstance(a, ast.Constant)]
                assert not flags & set(words), f"{file.name} line {node.lineno}"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_states_its_traits(name):
    settings = make_settings(name, ["clients=40"])
    traits = settings.algorithm.traits(40)
    assert traits.rounds == settings.algorithm.rounds and traits.local == settings.algorithm.local
    assert traits.absence in ("skip", "wait")


def test_nothing_reads_notes_by_their_words():
    for file in (SOURCE / "report").glob("*.py"):
        assert "import re\n" not in file.read_text(), file.name


# -- time ----------------------------------------------------------------------------------------------------


def test_until_time_is_a_timer():
    """A round of constant 5 s visits is not waited for; what ends at that very instant counts."""
    words = ["fleet.times=constant:5", "fleet.jitter=0", "rounds=100"]
    run = driven("fedavg", *words, until=Until(time=12.0))
    assert [row["time"] for row in run.rows] == [5.0, 10.0, 12.0] and run.world.now() == 12.0
    assert [row["round"] for row in run.rows] == [1, 2, 2]  # the last row says how it stood when the time was over
    run = driven("fedavg", *words, until=Until(time=15.0))
    assert [row["time"] for row in run.rows] == [5.0, 10.0, 15.0]


def test_until_time_ends_what_would_never_end():
    run = driven("fedbuff", "fleet.availability=dropout:0.98", until=Until(time=20.0), dry=True)
    assert run.failure is None or isinstance(run.failure, Fruitless)
    assert run.world.now() <= 20.0


def test_a_run_in_which_nobody_finishes_says_so():
    for name in ("fedavg", "fedbuff", "apfl", "spfl", "dispfl"):
        run = driven(name, "fleet.availability=dropout:1")
        assert isinstance(run.failure, Fruitless), name
        assert "no visit" in str(run.failure)


def test_a_fleet_that_leaves_ends_a_run_with_what_it_has_learned():
    run = driven("fedavg", "fleet.availability=dropout:0.3,forever", "rounds=200")
    assert run.failure is None and "every client has left for good" in run.ended
    assert 0 < run.world.progress < 200
    assert run.summary()["notes"][-1]["kind"] == "end"


def test_a_fleet_that_leaves_at_once_ends_it_with_an_error():
    for name in ("da-dpfl", "p-fedavg", "hierfavg"):
        words = ["da-dpfl.pruning.target=0", "p-fedavg.topology=ring:3", "p-fedavg.participants=2"]
        run = driven(name, *words, "hierfavg.servers=2", "fleet.availability=dropout:1,forever", "rounds=50")
        assert isinstance(run.failure, Deserted) and run.world.progress < 50, name


@dataclass(frozen=True)
class Phantom:
    """Rounds without anybody."""

    rounds: int = 50
    local: LocalSGD = field(default_factory=LocalSGD)

    def check(self, clients):
        pass

    def traits(self, clients):
        return Traits(rounds=self.rounds, local=self.local, absence="skip")

    async def run(self, world):
        await world.train(0, world.initial_model(), self.local)
        for _ in range(self.rounds):
            yield Progress(world.initial_model())


def test_rounds_that_pass_at_once_without_anybody_are_no_rounds():
    run = make_run(replace(make_settings("fedavg", SMALL), algorithm=Phantom()), dry=True)
    drive([run], make_executor(run.settings.executor))
    assert "nobody takes part any more" in run.ended and run.world.progress < 6


# -- one fails ----------------------------------------------------------------------------------------------------


def test_an_exception_in_one_run_s_learning_ends_that_run_alone():
    words = ["fedavg.server.lr=1e99"]  # more than a float holds: torch refuses it
    runs = [make_run(make_settings(name, [*SMALL, *words])) for name in ("fedavg", "mifa")]
    drive(runs, make_executor(runs[0].settings.executor))
    bad, good = runs
    assert isinstance(bad.failure, SiteError) and "learning failed" in str(bad.failure)
    assert good.failure is None and len(good.rows) == 4
    alone = driven("mifa", *words, dry=False)
    assert [row["accuracy"] for row in alone.rows] == [row["accuracy"] for row in good.rows]


def test_a_batch_beyond_all_data_is_refused_by_name():
    with pytest.raises(SettingError, match=r"local\.batch of fedavg is 1000000"):
        make_run(make_settings("fedavg", [*SMALL, "local.batch=1000000"]))


# -- one line ----------------------------------------------------------------------------------------------------


def test_a_timeline_in_one_line():
    timeline = paceline.dry("fedbuff", clients=50)
    assert len(timeline.times) == 200 and timeline.times == sorted(timeline.times)
    assert timeline.seconds == timeline.times[-1] and timeline.totals.visits >= 2000
    assert timeline.spans().num_rows > 2000
    slow = paceline.dry("fedavg", FleetSettings(times="constant:2", jitter=0.0), clients=30)
    assert slow.times[:3] == [2.0, 4.0, 6.0]
    assumed = paceline.dry("psfl", rounds=3)
    assert "W=5 sequences of S=4 clients" in assumed.assumed and assumed.totals.visits == 60


# -- absence ----------------------------------------------------------------------------------------------------


def test_one_setting_puts_all_methods_under_the_same_rule():
    """Under one rule equal visits on equal devices end at equal times, whatever the method is by itself."""
    words = ["clients=20", "rounds=20", "fleet.availability=duty:10,0.5", "fleet.times=constant:1", "fleet.jitter=0"]
    words += ["dispfl.neighbours.degree=4", "dfedavgm.neighbours.degree=4", "beer.degree=4"]
    words += ["dispfl.regrow=0"]  # no gradient after the visit
    for rule in ("skip", "wait"):
        runs = [driven(name, *words, f"absence={rule}") for name in ("dispfl", "dfedavgm", "beer")]
        times = [run.world.now() for run in runs]
        assert max(times) <= 1.3 * min(times), (rule, times)
        assert {run.summary()["absence"] for run in runs} == {rule}


def test_a_rule_may_be_for_one_algorithm_alone():
    made = make_experiment(["fedavg", "spfl"], overrides=["fedavg.absence=wait"]).settings
    assert [one.absence for one in made] == ["wait", "own"]
    assert make_run(made[1], dry=True).settings.absence == "wait"  # its own
    with pytest.raises(SettingError, match="absence is 'sometimes'"):
        make_run(make_settings("fedavg", ["absence=sometimes"]), dry=True)


def test_a_deadline_waits_so_long_and_no_longer():
    """Visits of 1 s; a device that vanishes is away for 10: waited for, left out at once, or left out after 3 s."""
    words = ["fleet.times=constant:1", "fleet.jitter=0", "fleet.availability=stragglers:0.5,10", "rounds=1"]
    words += ["fedavg.width=8"]
    times = {rule: driven("fedavg", *words, f"absence={rule}").world.now() for rule in ("skip", "wait", "deadline:3")}
    assert times == {"skip": 1.0, "wait": 11.0, "deadline:3": 3.0}
