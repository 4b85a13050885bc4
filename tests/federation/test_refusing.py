"""What a node sends is believed within limits: else it is refused by its name, and the run is as if it had left."""

import json

import numpy as np
import pytest

from paceline.config import apply
from paceline.errors import SettingError, WireError
from paceline.federation.config import Limits
from paceline.federation.courier import Letter
from paceline.federation.following import Follower
from paceline.federation.members import Members
from paceline.federation.processes import Child
from paceline.federation.records import from_records, to_records
from paceline.federation.terms import terms_of
from paceline.runs.driver import drive, make_executor
from paceline.runs.local import make_local_run
from paceline.runs.recorder import describe
from paceline.runs.replay import ALONE, replay
from paceline.runs.settings import make_settings
from paceline.worlds.local.checks import Checks, figure_of
from paceline.worlds.local.frames import Frame
from paceline.worlds.local.scoring import _score_of
from tests.federation.memory import MemoryGrid, MemoryNode
from tests.federation.test_members import nodes_of
from tests.federation.test_worlds import played
from tests.worlds.test_replay import SMALL

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
    "huge": (lambda blob: blob * 2000, "bytes; at most 1,000,000 are read"),
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
    good = {"do": "hello", "format": 2, "run": "a", "terms": {"clients": 1}}
    for change, said in [
        ({"format": 1}, "speaks format 1"),
        ({"run": "../up"}, "names nothing"),
        ({"terms": {"clients": 0}}, "clients is 0"),
        ({"terms": []}, "names []; wanted"),
        ({"terms": {"clients": 1, "model": "evil.module:make"}}, "name code"),
        ({"do": "tasks", "asks": []}, "knows nothing of run a"),
        ({"terms": {"clients": 1, "dataset": "nosuch"}}, "nosuch"),
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
    terms = terms_of(describe(make_settings("fedavg", ["clients=1", "partition=iid"])))
    greeting = {"format": 2, "run": "a"}
    assert resident.answer(Frame({**greeting, "do": "hello", "terms": terms})).words["client"] == 0
    asks = [{"id": "1", "words": task, "blobs": len(blobs)}]
    (answer,) = resident.answer(Frame({**greeting, "do": "tasks", "asks": asks}, blobs)).words["answers"]
    assert said in str(answer["words"]) and "error" in answer["words"]
    asks = [{"id": "2", "words": {**VISIT, "recipe": {"steps": 2}, "key": 1, "result": "it"}, "blobs": 0}]
    (answer,) = resident.answer(Frame({**greeting, "do": "tasks", "asks": asks})).words["answers"]
    assert answer["words"]["finite"] is True  # it is none the worse for it


def test_limits_have_bounds():
    with pytest.raises(SettingError, match="seconds is 0"):
        apply(Limits(), {"seconds": 0})


FORGED = "all is well\x1b[2J\x1b]0;title\x07\n2026-11-19 [run] done\r\x9b1m\u202e" + "x" * 3_000_000
TOLD = "all is well 2026-11-19 [run] done"


def fits(text, most=600):
    return len(text) < most and all(letter.isprintable() for letter in text)


def test_what_nodes_tell_is_one_short_line_wherever_it_is_shown_or_kept(tmp_path, caplog):
    grid = MemoryGrid(tmp_path, 4)
    grid.nodes[201] = MemoryNode(3, tmp_path / "other")
    grid.live(201)

    def changed(node, frame, content):
        reply, hello = from_records(content, 1 << 40), frame.words["do"] == "hello"
        if node == 201:
            return to_records({**reply.words, "client": FORGED} if hello else reply.words)
        if node == 100 and not hello:
            return to_records({"error": FORGED, "times": {"began": FORGED, FORGED: 3}})
        if node == 101 and not hello:
            answers = [{**one, "words": {"error": {"is": FORGED}}, "blobs": 0} for one in reply.words["answers"]]
            return to_records({"answers": answers, "times": [FORGED]})
        if node == 102 and not hello:  # what this process alone may say of a node
            answers = [{**one, "words": {"lost": FORGED}, "blobs": 0} for one in reply.words["answers"]]
            return to_records({"answers": answers})
        return content

    grid.changed, trips = changed, []
    words = ["clients=4", "rounds=2", "model=mlp:32"]
    settings = make_settings("fedavg", [*SMALL, *words])
    run = make_local_run(
        settings, workers=1, directory=tmp_path / "run", make_hosts=grid.hosts(on_trip=trips.append), checks=Checks()
    )
    drive([run], make_executor(ALONE))
    assert run.failure is None
    notes = [event.text for event in run.world.chronicle.events]
    assert len(notes) == 6 and sum(TOLD in note for note in notes) == 2 and all(fits(note) for note in notes)
    assert all(fits(json.dumps(trip, ensure_ascii=False), 2000) for trip in trips)
    assert {"arrived", "began", "ended", "left"} >= {name for trip in trips for name in trip["times"]}
    assert all(fits(record.getMessage()) for record in caplog.records)
    assert all(map(fits, (tmp_path / "run" / "summary.json").read_text().splitlines()))


@pytest.mark.parametrize(
    "words", [{"client": True}, {"client": 10**400}, {"client": -1}, {"error": FORGED}, {"client": [FORGED]}]
)
def test_whoever_does_not_say_who_it_is_is_told_of_in_one_line(words, tmp_path, caplog):
    nodes = nodes_of(Members(tmp_path / "clients.json", signed=True), tmp_path)
    nodes._look({7: b"key"})
    nodes._greeted(Letter(7, {}, (), 1.0, lambda letter, reply: None), Frame(words))
    (record,) = caplog.records
    assert not nodes._node and fits(record.getMessage()) and "node 7" in record.getMessage()


@pytest.mark.parametrize("number", [10**400, float("nan"), float("inf"), True, "1", None, [1], -(10**400)])
def test_what_is_no_number_is_refused_by_name(number):
    with pytest.raises(WireError, match="training gave"):
        figure_of({"figure": number, "finite": True})
    good = {"accuracy": 0.5, "loss": 1.0, "samples": 3}
    for name in good:
        with pytest.raises(WireError, match="its score is"):
            _score_of(Frame({**good, name: number}))


def test_a_whole_message_is_bounded():
    with pytest.raises(WireError, match="at most 1,000 are read"):
        from_records(to_records({"error": "x" * 1000}), 1000)
    with pytest.raises(WireError, match="at most 1,000 are read"):
        from_records(to_records({}, [b""] * 8), 1000)
    with pytest.raises(WireError, match="of at most 16,777,216 letters"):
        from_records(to_records({"error": "x" * (1 << 24)}), 1 << 40)
    deep = json.loads("[" * 40 + "]" * 40)
    with pytest.raises(WireError, match="nested more than 32 deep"):
        from_records(to_records({"error": deep}), 1 << 40)


def test_what_a_program_left_in_its_log_is_told_in_clean_lines(tmp_path):
    log, said = tmp_path / "a.log", []
    log.write_bytes(b"")
    follower = Follower(log, said.append)
    log.write_bytes(b"error: \x1b[31mred\x1b[0m \x07bell " + b"x" * 5000 + b"\n")
    follower.look()
    child = Child("it", ["true"], log, {})
    for line in (*said, child._complaint(), child.last_words()):
        assert line.startswith("error: red  bell xx") and fits(line, 2100)
