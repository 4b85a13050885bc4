"""Personal scores are told by nodes, each on its own test rows; personal models stay where they are until the end."""

import json

import pytest

from paceline.errors import SiteError
from paceline.federation.config import Limits
from paceline.federation.records import from_records, to_records
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.graph import Model
from paceline.runs.driver import drive, make_executor
from paceline.runs.local import make_local_run
from paceline.runs.replay import ALONE, replay
from paceline.runs.settings import make_settings
from paceline.worlds.local.checks import Checks
from tests.federation.memory import MemoryGrid
from tests.federation.test_worlds import played, tasks
from tests.worlds.test_replay import SMALL

WORDS = ["clients=3", "rounds=3", "partition=pathological:4"]


def scored(problem, weights):
    """What somebody who has all models and all rows would say."""
    measure = problem.measure([Model(problem.space, value) for value in weights])
    Executor(CohortTrainer("cpu", 1, 1)).run([], [measure])
    return measure.result


def test_nodes_score_their_own_models_and_keep_them(tmp_path):
    grid = MemoryGrid(tmp_path, 3)
    run = played(grid, "ditto", WORDS, tmp_path / "run")
    done = tasks(grid)
    assert done.count(["score"]) == 9
    assert [one for one in done if "bring" in one] == done[-3:] == 3 * [["bring"]]  # to be kept with the run
    expected = scored(run.problem, [run.final[f"client {k}"] for k in range(3)])
    assert run.rows[-1]["accuracy"] == pytest.approx(expected.accuracy, abs=1e-9)
    assert run.rows[-1]["loss"] == pytest.approx(expected.loss, rel=1e-6)
    assert replay(tmp_path / "run").equal


def test_one_model_for_all_is_scored_by_nodes_too(tmp_path):
    grid = MemoryGrid(tmp_path, 3)
    run = played(grid, "fedavg", [*WORDS, "personal=true"], tmp_path / "run")
    assert tasks(grid).count(["score"]) == 9 and not any("bring" in one for one in tasks(grid))
    expected = scored(run.problem, [run.final[f"client {k}"] for k in range(3)])
    assert run.rows[-1]["accuracy"] == pytest.approx(expected.accuracy, abs=1e-9)


@pytest.mark.parametrize(
    "change",
    [{"accuracy": 7.0}, {"loss": float("nan")}, {"samples": "many"}, {"accuracy": None}],
    ids=lambda change: next(iter(change)),
)
def test_a_score_that_is_none_is_left_out_by_its_senders_name(change, tmp_path):
    grid = MemoryGrid(tmp_path, 3)

    def changed(node, frame, content):
        reply = from_records(content, 1 << 40)
        for answer in reply.words.get("answers", ()):
            answer["words"] |= change if node == 101 and "accuracy" in answer["words"] else {}
        return to_records(reply.words, reply.blobs)

    grid.changed = changed
    run = played(grid, "ditto", [*WORDS, "rounds=1"], tmp_path / "run", checks=Checks())
    (told,) = [event.text for event in run.world.chronicle.events]
    assert "client 1" in told and "its score is" in told
    others = [scored_alone(run, client) for client in (0, 2)]
    assert run.rows[-1]["accuracy"] == pytest.approx(sum(others) / 2, abs=1e-9)


def scored_alone(run, client):
    problem = run.problem
    measure = problem.measure([Model(problem.space, run.final[f"client {client}"])] * 3)
    measure.rows = [problem.personal_rows[client]] * 3
    Executor(CohortTrainer("cpu", 1, 1)).run([], [measure])
    return measure.result.accuracy


def test_a_node_that_is_gone_for_good_does_not_end_the_run(tmp_path):
    """What it alone holds is not scored, and is not among the final weights; the summary says so."""
    grid = MemoryGrid(tmp_path, 3)

    def fault(number, frame):
        if number == 101 and len(tasks(grid)) > 8:
            grid.away.add(101)

    grid.fault = fault
    settings = make_settings("ditto", [*SMALL, *WORDS, "rounds=6"])
    limits = Limits(seconds=2.0)
    run = make_local_run(
        settings, workers=1, directory=tmp_path / "run", make_hosts=grid.hosts(limits), grace=0.5, checks=Checks()
    )
    run.world.machines._machines._hands.observer.patience = 0.5
    drive([run], make_executor(ALONE))
    assert run.failure is None, run.failure
    assert len(run.rows) == 6 and set(run.final) == {"client 0", "client 2"}
    notes = json.loads((tmp_path / "run" / "summary.json").read_text())["notes"]
    assert any("not all final weights are kept" in note["text"] for note in notes)
    found = replay(tmp_path / "run")
    assert found.equal and found.weights_lost == 1


def test_when_nobody_says_anything_the_run_ends(tmp_path):
    grid = MemoryGrid(tmp_path, 3)
    grid.changed = lambda node, frame, content: (
        to_records({"error": "no"}) if "score" in str(frame.words.get("asks")) else content
    )
    settings = make_settings("ditto", [*SMALL, *WORDS])
    run = make_local_run(settings, workers=1, make_hosts=grid.hosts(), checks=Checks())
    drive([run], make_executor(ALONE))
    assert isinstance(run.failure, SiteError) and "no client has said" in str(run.failure)
