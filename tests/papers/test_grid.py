"""The frame of trained experiments: which runs a grid asks for, which datasets, and what claims say of them."""

import ast
from pathlib import Path

import numpy as np
import pytest

import paceline.papers
from paceline.errors import SettingError
from paceline.papers import grid as module
from paceline.papers.claims import Claim, ahead, below, between, by_seed, final, table
from paceline.papers.grid import Grid, Scene, Variant, by_variant, choose
from paceline.papers.pfedavg.scenes import scenes as pfedavg_scenes
from paceline.papers.result import Request
from paceline.papers.trials import Finished
from paceline.runs.until import Until
from paceline.statistics import Interval

SCENE = Scene(name="digits", words=("dataset=digits", "clients=4"), rates=(0.1, 1.0), rounds=3, slower={"beer": 0.5})


def finished(trial, accuracy=0.5, status="done"):
    column = np.full(10, accuracy)
    return Finished(
        trial=trial, status=status, reached=None, rounds=None, time=column, accuracy=column, loss=column,
        columns={"accuracy": column}, notes=(),
    )  # fmt: skip


class Made:
    """A laboratory that has everything done already."""

    def carry_out(self, trials):
        self.names = [trial.name for trial in trials]
        return [finished(trial) for trial in trials]


def test_a_scenes_trial_has_its_settings_and_the_later_word_counts():
    trial = SCENE.trial("pat", "fedavg", 2, "every=5", "rounds=7")
    assert trial.name == "digits-pat/fedavg-lr0.1-seed2"
    settings = trial.settings()
    assert (settings.clients, settings.algorithm.rounds, settings.every) == (4, 7, 5)
    assert SCENE.trial("", "beer", 0).name == "digits/beer-lr0.05-seed0"
    assert SCENE.trial("x", "fedavg", 0, rate=1.0).rate == 1.0


def test_a_grid_is_every_method_in_every_variant_with_every_seed():
    laboratory = Made()
    variants = [
        Variant("one", words=("a=1",)),
        Variant("two", "elsewhere", lambda seed: (f"a={seed}",), methods=("fedavg",)),
    ]
    grid = Grid(scenes=[SCENE], methods={"fedavg": (), "beer": ("every=2",)}, variants=variants, seeds=2)
    found = grid.carry_out(laboratory)["digits"]
    assert {name: {m: len(runs) for m, runs in methods.items()} for name, methods in found.items()} == {
        "one": {"fedavg": 2, "beer": 2},
        "two": {"fedavg": 2},
    }
    assert [run.trial.overrides[-1] for run in found["two"]["fedavg"]] == ["a=0", "a=1"]
    assert found["one"]["beer"][0].trial.overrides[-2:] == ("every=2", "a=1")
    assert laboratory.names[-1] == "digits-elsewhere/fedavg-lr0.1-seed1"
    assert [run.trial.seed for run in by_variant({"two": found["two"]})["two"]] == [0, 1]


def test_datasets_do_not_depend_on_what_lies_on_the_machine(monkeypatch):
    known = {"mnist": 1, "cifar10": 2}
    monkeypatch.setattr(module, "is_here", lambda name: name == "mnist")
    with pytest.raises(SettingError, match=r"missing datasets: cifar10; get them \(`paceline data`\)"):
        choose(Request(), known)
    assert choose(Request(data="mnist"), known) == [1]
    assert choose(Request(), known, ["mnist"]) == [1]
    with pytest.raises(SettingError, match="--data is 'mnis'"):
        choose(Request(data="mnis"), known)
    monkeypatch.setattr(module, "is_here", lambda name: True)
    assert choose(Request(), known) == [1, 2]
    assert choose(Request(), known, ["cifar10"]) == [2]


@pytest.mark.parametrize("here", [True, False])
def test_p_fedavg_is_small_on_digits_wherever_it_runs(monkeypatch, here):
    monkeypatch.setattr("paceline.runs.problem.is_here", lambda name: here or name == "digits")
    monkeypatch.setattr(module, "is_here", lambda name: here or name == "digits")
    assert [scene.name for scene in pfedavg_scenes(Request(scale="small"), ("mnist", "cifar10"))] == ["digits"]


def test_runs_that_diverged_have_no_figure():
    runs = [
        finished(SCENE.trial("x", "fedavg", k), 0.5 + k / 10, s) for k, s in enumerate(("done", "failed: Diverged"))
    ]
    assert by_seed(runs, final) == {0: pytest.approx(50.0)}
    assert [row.ours for row in table("here", {"a": {0: 50.0}, "b": {}}, printed={"a": 51.0})] == ["50", "diverged"]


@pytest.mark.parametrize(("printed", "ok"), [(None, True), (3.0, True), (-3.0, False)])
def test_who_is_ahead_in_the_paper_must_be_ahead(printed, ok):
    values = {"a": {0: 5.0, 1: 6.0, 2: 7.0}, "b": {0: 1.0, 1: 2.1, 2: 2.9}}
    row = ahead("a", "b", printed).row("here", values)
    assert (row.name, row.paper, row.ok) == ("here: a - b", "above 0" if printed is None else printed, ok)
    assert Claim("a", "b", "level", name="gap").row("here", values, ", late").name == "here: gap, late"


def test_verdicts_that_an_interval_allows():
    assert [below(Interval(0, *ends), 1.0) for ends in ((0, 0.5), (1.5, 2), (0, 2))] == [True, False, None]
    assert [between(Interval(0, *ends), 1, 2) for ends in ((1.2, 1.8), (2.5, 3), (1.5, 2.5))] == [True, False, None]


def test_a_scene_ends_as_it_says():
    assert Scene(name="", words=(), rates=(0.1,), until=Until(time=5.0)).trial("x", "fedavg", 0).until.time == 5.0


def test_no_paper_imports_from_another():
    root = Path(paceline.papers.__file__).parent
    papers = [folder.name for folder in root.iterdir() if (folder / "__init__.py").exists()]
    assert sorted(papers) == ["dadpfl", "noidle", "pfedavg", "psfl"]
    for file in root.rglob("*.py"):
        if file.parent == root:
            continue
        named = [
            node.module or "" for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)
        ]
        others = [f"paceline.papers.{name}" for name in papers if name != file.parent.name]
        assert not [one for one in named if any(one.startswith(other) for other in others)], file
