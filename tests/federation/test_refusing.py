"""What a node sends is believed within limits: else it is refused by its name, and the run is as if it had left."""

import json

import numpy as np
import pytest

from paceline.config import apply
from paceline.errors import SettingError
from paceline.federation.config import Limits
from paceline.federation.records import from_records, to_records
from paceline.runs.recorder import describe
from paceline.runs.replay import replay
from paceline.runs.settings import make_settings
from paceline.worlds.local.checks import Checks
from paceline.worlds.local.frames import Frame
from tests.federation.memory import MemoryGrid
from tests.federation.test_worlds import played

HEADER = 16


def with_numbers(change):
    """Change the numbers of the model that a node sends."""

    def changed(blob):
        numbers = np.frombuffer(blob[HEADER:], np.float32).copy()
        return blob[:HEADER] + change(numbers).astype(np.float32).tobytes()

    return changed


BAD = {
    "NaN": (with_numbers(lambda x: np.where(np.arange(len(x)) == 7, np.nan, x)), "1 of 2410 numbers that are NaN"),
    "shape": (with_numbers(lambda x: x[:-3]), "the message has 9644 bytes; wanted 9656"),
    "huge": (lambda blob: blob * 2000, "19,312,128 bytes; at most 1,000,000 are read"),
    "norm": (with_numbers(lambda x: 300 * x), "the bound is 100"),
    "no array": (lambda blob: b"\0" * 4, "4 bytes; wanted a header"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_update_is_refused_by_its_senders_name_and_never_averaged(what, tmp_path):
    change, said = BAD[what]
    grid = MemoryGrid(tmp_path, 3)

    def changed(node, frame, content):
        reply = from_records(content, 1 << 40)
        return to_records(reply.words, [change(blob) for blob in reply.blobs]) if node == 101 else content

    grid.changed = changed
    limits = Limits(bytes=1_000_000, norm=100.0)
    words = ["clients=3", "rounds=3", "model=mlp:32"]
    run = played(grid, "fedavg", words, tmp_path / "run", limits, checks=Checks(limits.norm))
    told = [event.text for event in run.world.chronicle.events]
    assert len(told) == 3 and all("client 1 dropped out (refused)" in text and said in text for text in told)
    assert run.world.chronicle.counts["dropped_refused"] == {1: 3}
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert sum(said in event["text"] for event in summary["notes"]) == 3
    found = replay(tmp_path / "run")  # a simulation in which those visits drop out
    assert found.equal and found.rounds == 3


@pytest.mark.parametrize(
    "answer",
    [{"error": "no memory"}, {"answers": []}, {"answers": [{"id": 1}]}, {"answers": "all"}, {}],
    ids=lambda answer: next(iter(map(str, answer.values())), "nothing"),
)
def test_a_node_that_answers_nonsense_drops_out_alone(answer, tmp_path):
    grid = MemoryGrid(tmp_path, 3)
    grid.changed = lambda node, frame, content: (
        to_records(answer) if node == 101 and frame.words["do"] == "tasks" else content
    )
    run = played(grid, "fedavg", ["clients=3", "rounds=2"], tmp_path / "run", checks=Checks())
    assert run.world.ledger.visits == 4 and run.world.chronicle.counts["dropped_refused"] == {1: 2}
    assert replay(tmp_path / "run").equal


def test_a_node_refuses_what_it_cannot_verify(tmp_path):
    resident = MemoryGrid(tmp_path, 1).nodes[100].resident
    good = {"do": "hello", "format": 1, "run": "a", "settings": {"clients": 1}}
    for change, said in [
        ({"format": 2}, "speaks format 2"),
        ({"run": "../up"}, "names nothing"),
        ({"settings": {"clients": 0}}, "has 0 clients"),
        ({"settings": {"clients": 1, "model": "evil.module:make"}}, "name code"),
        ({"do": "tasks", "asks": []}, "knows nothing of run a"),
        ({"settings": {"clients": 1, "algorithm": "nosuch", "options": {}}}, "nosuch"),
    ]:
        assert said in resident.answer(Frame({**good, **change})).words["error"]


VISIT = {"do": "visit", "client": 0, "act": "train", "start": 0, "nodes": [{"initial": 0}], "extras": {}, "lr": 0.1}
PART = {"codec": None, "known": None, "context": False, "handle": "it"}
TASKS = {
    "an unknown recipe": (
        {**VISIT, "recipe": {"code": "os.remove"}, "key": 1, "result": "it"},
        (),
        "unexpected keyword",
    ),
    "a start it has not": (
        {**VISIT, "nodes": [{"held": "what"}], "recipe": {}, "key": 1, "result": "it"},
        (),
        "what",
    ),
    "a function it does not know": ({**VISIT, "nodes": [{"apply": "os.remove"}], "recipe": {}}, (), "error"),
    "a wrong shape": ({"do": "receive", "client": 0, "parts": [PART], "nodes": []}, (b"PACE" + bytes(92),), "wanted"),
    "a path": ({**VISIT, "recipe": {}, "key": 1, "result": "../../up"}, (), "names no model"),
    "another's rows": ({**VISIT, "client": 1, "recipe": {}, "key": 1, "result": "it"}, (), "KeyError"),
    "an unknown act": ({"do": "exec", "client": 0}, (), "KeyError"),
}


@pytest.mark.parametrize("what", TASKS)
def test_a_node_refuses_tasks_that_it_cannot_verify(what, tmp_path):
    task, blobs, said = TASKS[what]
    resident = MemoryGrid(tmp_path, 1).nodes[100].resident
    settings = describe(make_settings("fedavg", ["clients=1", "partition=iid"]))
    greeting = {"format": 1, "run": "a"}
    assert resident.answer(Frame({**greeting, "do": "hello", "settings": settings})).words["client"] == 0
    asks = [{"id": "1", "words": task, "blobs": len(blobs)}]
    (answer,) = resident.answer(Frame({**greeting, "do": "tasks", "asks": asks}, blobs)).words["answers"]
    assert said in str(answer["words"]) and "error" in answer["words"]
    asks = [{"id": "2", "words": {**VISIT, "recipe": {"steps": 2}, "key": 1, "result": "it"}, "blobs": 0}]
    (answer,) = resident.answer(Frame({**greeting, "do": "tasks", "asks": asks})).words["answers"]
    assert answer["words"]["finite"] is True  # it is none the worse for it


def test_limits_have_bounds():
    with pytest.raises(SettingError, match="seconds is 0"):
        apply(Limits(), {"seconds": 0})
