"""What is listed, how it stands, and what is asked of it."""

import json
import os

import pytest

from paceline.ui import listing
from paceline.ui.filtering import chosen, ordered
from paceline.ui.listing import Listing


def by_name(root):
    return {run.name: run for run in Listing(root).runs()}


def test_runs_are_found_at_any_depth_with_their_figures(root, write_run):
    write_run("alone", target={"accuracy": 0.5, "time": 40.0})
    write_run("many/fedavg-seed0")
    write_run("deep/down/many/psfl-seed1", algorithm="psfl", seed=1)
    found = by_name(root)
    assert sorted(found) == ["alone", "deep/down/many/psfl-seed1", "many/fedavg-seed0"]
    assert found["alone"].figures["round"] == 10 and found["alone"].reached == 40.0
    assert found["deep/down/many/psfl-seed1"].folder == "deep/down/many"
    assert (found["deep/down/many/psfl-seed1"].algorithm, found["deep/down/many/psfl-seed1"].seed) == ("psfl", 1)
    assert found["alone"].settings["options.local.lr"] == "0.1"


def test_the_directory_itself_may_be_a_run(write_run):
    assert list(by_name(write_run("one"))) == ["."]


def test_a_run_runs_while_its_writer_does_and_was_interrupted_otherwise(root, write_run, hold):
    write_run("killed", status="running")
    hold(write_run("alive", status="running"))
    write_run("both/seed0", status="running")
    hold(root / "both")
    write_run("failed", status="failed: Diverged")
    assert {name: run.status for name, run in by_name(root).items()} == {
        "killed": "interrupted",
        "alive": "running",
        "both/seed0": "running",
        "failed": "failed",
    }


def test_links_are_not_followed(root, write_run, tmp_path):
    outside = tmp_path / "outside"
    write_run("one").rename(outside)
    (root / "link").symlink_to(outside)
    (root / "files").mkdir()
    for name in ("settings.json", "metrics.jsonl", "summary.json"):
        (root / "files" / name).symlink_to(outside / name)
    (root / "loop").symlink_to(root)
    found = by_name(root)
    assert list(found) == ["files"]
    assert found["files"].status == "damaged" and "link" in found["files"].problem


DAMAGES = {
    "no settings": ("settings.json", None),
    "no JSON": ("settings.json", "{"),
    "a list": ("settings.json", "[]"),
    "no algorithm": ("settings.json", '{"seed": 0}'),
    "a seed of words": ("settings.json", '{"algorithm": "fedavg", "seed": "x"}'),
    "deep": ("settings.json", '{"a":' * 5000 + "1" + "}" * 5000),
    "half a character": ("settings.json", '{"algorithm": "\\ud800", "seed": 0}'),
    "digits": ("summary.json", '{"status": "done", "rounds": ' + "9" * 5000 + "}"),
    "an unknown status": ("summary.json", '{"status": "<b>"}'),
    "a line that is none": ("metrics.jsonl", "[]\n"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_listed_as_such_and_others_beside_it(root, write_run, damage):
    write_run("good")
    file, text = DAMAGES[damage]
    path = write_run("bad") / file
    path.unlink() if text is None else path.write_text(text)
    found = by_name(root)
    assert found["good"].status == "done"
    assert found["bad"].status == "damaged" and found["bad"].problem
    assert str(root) not in found["bad"].problem


def test_a_pipe_in_place_of_a_file_holds_nobody_up(root, write_run):
    path = write_run("pipe")
    (path / "settings.json").unlink()
    os.mkfifo(path / "settings.json")
    assert by_name(root)["pipe"].status == "damaged"


def test_figures_that_are_none_are_left_out(root, write_run):
    path = write_run("odd")
    (path / "metrics.jsonl").write_text(
        json.dumps({"round": "x", "time": True, "accuracy": 1e300, "loss": 0.5}) + "\n"
    )
    assert by_name(root)["odd"].figures | {"loss": 0} == dict.fromkeys(listing.FIGURES) | {"loss": 0}


def test_too_many_directories_are_cut_off_and_said(root, write_run, monkeypatch):
    for k in range(5):
        write_run(f"run{k}")
    monkeypatch.setattr(listing, "MOST_RUNS", 3)
    found = Listing(root)
    assert len(found.runs()) == 3 and found.cut
    monkeypatch.setattr(listing, "MOST_FOLDERS", 2)
    assert len(found.runs()) < 3 and found.cut


def test_only_what_has_changed_is_read_again(root, write_run, monkeypatch):
    path = write_run("one")
    found = Listing(root)
    assert found.runs()[0].figures["round"] == 10
    calls = []
    read = listing._listed
    monkeypatch.setattr(listing, "_listed", lambda *a, **k: calls.append(a) or read(*a, **k))
    assert found.runs()[0].figures["round"] == 10 and not calls
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"round": 11}\n')
    assert found.runs()[0].figures["round"] == 11 and len(calls) == 1


ASKED = {
    "": {"a", "b", "c"},
    "fedavg": {"a", "b"},
    "FEDAVG digits": {"a", "b"},
    "clients=100": {"a", "b"},
    "clients=100.0": {"a", "b"},
    "clients!=100": {"c"},
    "clients>100": {"c"},
    "lr<=0.1 clients<500": {"a", "b"},
    "options.local.lr=0.1": {"a", "b", "c"},
    "status=interrupted": {"b"},
    "accuracy>0.4": {"a", "c"},
    "seed=7": {"c"},
    "nosuch=1": set(),
    "clients=<script>": set(),
    '"no such words"': set(),
}


@pytest.mark.parametrize("asked", ASKED)
def test_filters_by_words_and_by_settings(root, write_run, asked):
    write_run("a")
    write_run("b", status="running", count=2)
    write_run("c", algorithm="psfl", seed=7, clients=500)
    assert {run.name for run in chosen(Listing(root).runs(), asked)} == ASKED[asked]


def test_orders(root, write_run):
    write_run("a", count=3)
    write_run("b", count=9, target={"time": 5.0})
    write_run("c", count=5, target={"time": 2.0})
    runs = Listing(root).runs()
    assert [run.name for run in ordered(runs, "accuracy")] == ["b", "c", "a"]
    assert [run.name for run in ordered(runs, "target")] == ["c", "b", "a"]
    assert [run.name for run in ordered(runs, "name")] == ["a", "b", "c"]
