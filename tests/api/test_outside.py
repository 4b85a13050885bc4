"""A package outside Paceline, with an algorithm, data, a network and a fleet of its own: by name and installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import paceline

OUTSIDE = Path(__file__).parents[1] / "outside"
BY_NAME = {
    "algorithm": "fastpack.fast:Twist",
    "dataset": "fastpack.data:load",
    "model": "fastpack.nets:make",
    "fleet": "fastpack/phones.csv",
}
ANNOUNCED = {"algorithm": "twist", "dataset": "blobs", "model": "fastpack.nets:make", "fleet": "phones"}


def started(folder, words, path=""):
    """Python in a folder, with another one on its path."""
    places = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))
    command, environment = [sys.executable, *words], {**os.environ, "PYTHONPATH": places}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def paceline_command(folder, *words, path=""):
    return started(folder, ["-m", "paceline", *words], path)


def words_for(things):
    return [
        *("--set", f"dataset={things['dataset']}", "--set", f"model={things['model']}"),
        *("--set", f"fleet.file={things['fleet']}", "--set", "partition=iid", "--set", "rounds=4", "-q"),
    ]


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(OUTSIDE / "fastpack", tmp_path / "fastpack")
    return tmp_path


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Where the package was installed to, entry points and all."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    shutil.copytree(OUTSIDE, source / "outside")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(source / "outside")], check=True, capture_output=True)
    return target


@pytest.mark.parametrize("way", ["by name", "announced"])
def test_it_runs_from_the_command_line_alone_and_compared(way, folder, request):
    things, path = (BY_NAME, "") if way == "by name" else (ANNOUNCED, str(request.getfixturevalue("installed")))
    if path:
        shutil.rmtree(folder / "fastpack")
    both = [things["algorithm"], "fedbuff"]
    found = paceline_command(folder, "compare", *both, *words_for(things), "--out", "out", "--json", path=path)
    assert found.returncode == 0, found.stderr
    runs = json.loads(found.stdout)["runs"]
    assert [run["algorithm"] for run in runs] == both
    assert all(run["visits"] and run["accuracy"] > 0.3 for run in runs)
    alone = paceline_command(folder, "run", both[0], *words_for(things), "--out", "alone", path=path)
    assert alone.returncode == 0, alone.stderr
    assert both[0] in alone.stdout


def test_a_run_that_names_code_is_asked_about(folder):
    out = ["--out", "first"]
    assert paceline_command(folder, "run", BY_NAME["algorithm"], *words_for(BY_NAME), *out).returncode == 0
    again = ["run", BY_NAME["algorithm"], "--config", "first", "-q", "--out"]
    refused = paceline_command(folder, *again, "second")
    assert refused.returncode == 1
    assert "fastpack.nets:make" in refused.stderr and "--trust" in refused.stderr
    assert not (folder / "second").exists()
    assert paceline_command(folder, *again, "third", "--trust").returncode == 0


PROGRAM = """
import json, sys, paceline
things = json.loads(sys.argv[1])
names = {"data": things["dataset"], "model": things["model"], "fleet": things["fleet"]}
common = {**names, "partition": "iid", "rounds": 4}
alone = paceline.run(things["algorithm"], **common)
both = paceline.compare([things["algorithm"], "fedbuff"], **common)
print(json.dumps([[run.algorithm, run.summary["visits"], run.summary["accuracy"]] for run in alone.runs + both.runs]))
"""


@pytest.mark.parametrize("way", ["by name", "announced"])
def test_it_runs_from_python_by_its_names_alone_and_compared(way, folder, request):
    things, path = (BY_NAME, "") if way == "by name" else (ANNOUNCED, str(request.getfixturevalue("installed")))
    if path:
        shutil.rmtree(folder / "fastpack")
    found = started(folder, ["-c", PROGRAM, json.dumps(things)], path)
    assert found.returncode == 0, found.stderr
    alone, *both = json.loads(found.stdout)
    assert [name for name, *_ in both] == [things["algorithm"], "fedbuff"]
    assert alone == both[0], "a run is the same alone and beside another"
    assert all(visits and accuracy > 0.3 for _, visits, accuracy in both)


def test_it_runs_from_python(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    from fastpack.data import load
    from fastpack.fast import Twist
    from fastpack.nets import make

    rows = []
    result = paceline.compare(
        [Twist(rounds=6), "fedbuff@buffer=2", Twist],
        data=load(),
        model=make,
        fleet="fastpack/phones.csv",
        seeds=2,
        partition="iid",
        settings={"fedbuff.rounds": 3},
        callbacks=[lambda name, seed, row: rows.append((name, seed, row["round"]))],
    )
    assert len(result.runs) == 6
    assert {run.settings["clients"] for run in result.runs} == {"6"}, "as many as the file lists"
    assert len([one for one in rows if one[0] == "fedbuff@buffer=2"]) == 6
    weights = result.model("fedbuff@buffer=2", seed=1)
    assert {name: tuple(value.shape) for name, value in weights.items()}["0.weight"] == (16, 6)
    module = make((6,), 3)
    module.load_state_dict(weights)
    x, y = load()[1]
    import torch

    scored = (module(torch.tensor(x, dtype=torch.float32)).argmax(1).numpy() == y).mean()
    assert scored == pytest.approx(result.rows("fedbuff", seed=1)[-1]["accuracy"])
    for name in (f"{Twist.__module__}:Twist", "fedbuff"):
        assert result.rows(name)
