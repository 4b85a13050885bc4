"""``paceline new``: the project passes its own test and runs beside built-in algorithms, by name and installed."""

import json
import os
import shlex
import subprocess
import sys

import pytest


def do(folder, *command, path=""):
    python = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": python}
    command = [sys.executable, "-m", *command]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("new")
    done = do(folder, "paceline", "new", "my-study")
    assert done.returncode == 0, done.stderr
    return folder / "my-study"


def words_in(readme):
    return [shlex.split(line[2:]) for line in readme.read_text().splitlines() if line.startswith("$ ")]


def test_its_own_test_passes(project):
    done = do(project, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def test_its_readme_tells_the_truth(project, tmp_path):
    first, compare, plan, install, announced = words_in(project / "README.md")
    assert first == ["python", "-m", "pytest"] and install[:2] == ["pip", "install"]
    done = do(project, *compare, "--json", "-q", "--out", str(tmp_path / "by-name"))
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [run["algorithm"] for run in runs] == ["my_study.algorithm:MyStudy", "fedbuff"]
    assert all(run["accuracy"] >= 0.9 for run in runs)
    planned = do(project, *plan, "--json")
    assert planned.returncode == 0, planned.stderr
    assert "my_study.algorithm:MyStudy@concurrency=4" in [
        one["name"] for one in json.loads(planned.stdout)["candidates"]
    ]
    pip = ("pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    installed = do(tmp_path, *pip, "--target", str(tmp_path / "site"), str(project))
    assert installed.returncode == 0, installed.stderr
    outside = do(tmp_path, *announced, "--json", "-q", "--out", "installed", path=str(tmp_path / "site"))
    assert outside.returncode == 0, outside.stderr
    again = json.loads(outside.stdout)["runs"]
    assert [run["algorithm"] for run in again] == ["my-study", "fedbuff"]
    assert [run["time"] for run in again] == [run["time"] for run in runs], "the same run under another name"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("taken",), "taken is not empty"),
        (("file",), "file is a file"),
        (("link",), "symbolic link"),
        (("9lives",), "cannot be the name of a project"),
        (("x", "--name", "../x"), "cannot be the name of a project"),
        (("x", "--name", "a--b"), "cannot be the name of a project"),
        (("x", "--name", "My Study"), "cannot be the name of a project"),
        (("x", "--name", "p-fedavg"), "an algorithm of Paceline is called p-fedavg"),
        (("x", "--name", "lambda"), "means something else in Python"),
        (("x", "--name", "json"), "means something else in Python"),
        (("x", "--name", "numpy"), "a package called numpy is installed"),
    ],
)
def test_names_and_places_are_checked(paceline, tmp_path, words, said):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("taken")
    before = sorted(tmp_path.rglob("*"))
    done = paceline("new", *words)
    assert done.status == 1 and said in done.err, done.err
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_directory_and_another_name(paceline, tmp_path):
    (tmp_path / "Work").mkdir()
    done = paceline("new", "Work", "--name", "slow_and-steady")
    assert done.status == 0, done.err
    assert (tmp_path / "Work/slow_and_steady/algorithm.py").read_text().count("class SlowAndSteady(") == 1
    assert (
        'slow-and-steady = "slow_and_steady.algorithm:SlowAndSteady"'
        in (tmp_path / "Work/pyproject.toml").read_text()
    )
    assert "{" not in (tmp_path / "Work" / "README.md").read_text()
