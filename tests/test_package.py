"""Wheel and sdist: what is in them, what they say of themselves, and the README's commands from clone and wheel."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import paceline
from tests.documents import follow, listed, programs_with, run

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMMANDS = listed(README)
QUICK = (
    "paceline algorithms",
    "paceline settings psfl --explain",
    "paceline compare fedavg fedbuff --dry-run",
    "paceline plan fleet",
    "paceline new",
)
"""Commands of the README, as they begin, that take a second or two."""
LONG = (
    "paceline run psfl",
    "paceline compare fedavg psfl fedbuff --until",
    "paceline run fedavg --seeds 10",
    "paceline reproduce psfl-fig3",
)
PREPARED = ("paceline resume runs/my-study", "paceline figure runs/my-study", "paceline trace runs/my-study")
"""Need a study that was interrupted, in this order."""
ELSEWHERE = ("paceline ui", "paceline run fedavg --track")
"""A server that only ends when it is stopped (tests/ui starts it), and what needs a tracker (tests/tracking)."""
BUILD = "from setuptools import build_meta as b; print(b.build_sdist('dist'), b.build_wheel('dist'))"

pytestmark = pytest.mark.skipif(not README.exists(), reason="not run from a source tree")


def chosen(*beginnings):
    return [command for command in COMMANDS if command.startswith(beginnings)]


def copy_tree(folder):
    """This tree without what was made in it."""

    def left_out(where, names):
        made = {"runs", "build", "dist", "demo"} if Path(where) == ROOT else {"__pycache__"}
        return {name for name in names if name in made or name.endswith(".egg-info") or name.startswith(".")}

    shutil.copytree(ROOT, folder, ignore=left_out)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """What somebody has who has just cloned the repository: committed files only, where this is a repository."""
    folder = tmp_path_factory.mktemp("clone") / "paceline"
    if (ROOT / ".git").exists():
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(folder)], check=True)
    else:
        copy_tree(folder)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of sdist and wheel, built of this tree as it is."""
    folder = tmp_path_factory.mktemp("built") / "paceline"
    copy_tree(folder)
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Where the wheel alone was installed to."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True, capture_output=True)
    return target


def test_the_wheel_has_all_that_is_needed_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"paceline", f"paceline-{PROJECT['version']}.dist-info"}
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src/paceline").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert source - {*names} == set(), "every file of the package is in the wheel: code, types, templates, assets"
    assert "paceline/py.typed" in names and any(name.endswith("licenses/LICENSE") for name in names)
    assert not any("test" in Path(name).parts for name in names)


def test_what_it_says_of_itself(wheel):
    archive = zipfile.ZipFile(wheel)
    folder = f"paceline-{PROJECT['version']}.dist-info"
    told = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
    assert told["Name"] == "paceline" and told["Version"] == paceline.__version__
    assert told["License-Expression"] == "Apache-2.0" and told["Author"] and told["Summary"] and told["Keywords"]
    assert told["Description-Content-Type"] == "text/markdown" and "# Paceline" in told.get_payload()
    assert told["Requires-Python"] == ">=3.11"
    assert "paceline = paceline.cli.main:main" in archive.read(f"{folder}/entry_points.txt").decode()
    extras = set(told.get_all("Provides-Extra"))
    assert extras == set(PROJECT["optional-dependencies"])
    (everything,) = PROJECT["optional-dependencies"]["all"]
    named = re.search(r"\[(.*)\]", everything).group(1).split(",")
    assert {*named} == extras - {"all", "dev", "docs"}, "`all` is every extra but those for developing"


def test_version_and_citation_agree():
    citation = (ROOT / "CITATION.cff").read_text()
    cited = dict(re.findall(r"^([\w-]+): (.+)$", citation, flags=re.M))
    assert PROJECT["version"] == paceline.__version__ == cited["version"]
    assert (
        cited["license"] == PROJECT["license"] and f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()
    )
    for key in ("cff-version", "message", "title", "authors:", "abstract:", "keywords:"):
        assert key in citation
    assert PROJECT["authors"][0]["name"] in citation


def test_the_sdist_can_be_tested(built):
    (found,) = built.glob("*.tar.gz")
    with tarfile.open(found) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "Makefile"):
        assert name in names
    assert {"tests/test_package.py", "tests/conftest.py", "docs/commands.md", "src/paceline/py.typed"} <= names
    assert not any(name.endswith(".pyc") for name in names)


def test_every_command_of_the_readme_is_accounted_for():
    assert {*COMMANDS} == {*chosen(*QUICK, *LONG, *PREPARED, *ELSEWHERE)}
    assert len(COMMANDS) == len(QUICK) + len(LONG) + len(PREPARED) + len(ELSEWHERE)


def desks(tmp_path, clone, installed):
    """Two places to type in, and what ``paceline`` is there."""
    for way, words, path in (
        ("clone", [sys.executable, "-m", "paceline"], clone / "src"),
        ("wheel", [str(installed / "bin/paceline")], installed),
    ):
        (tmp_path / way).mkdir()
        (tmp_path / way / "fleet.csv").write_text("seconds\n1\n2\n5\n")
        yield tmp_path / way, programs_with(words, tmp_path / f"{way}-bin", path)


def test_the_readmes_quick_commands_from_clone_and_wheel(tmp_path, clone, installed):
    for desk, environment in desks(tmp_path, clone, installed):
        assert run("paceline --version", desk, environment) == f"paceline {PROJECT['version']}\n"
        for command in chosen(*QUICK):
            assert run(command, desk, environment), (desk.name, command)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_readmes_long_commands_and_the_tutorial_from_clone_and_wheel(tmp_path, clone, installed):
    for desk, environment in desks(tmp_path, clone, installed):
        for command in chosen(*LONG):
            assert run(command, desk, environment)
        study = "paceline compare fedavg psfl --until accuracy=0.93 --seeds 8 --checkpoint 1 --out runs/my-study"
        begun = f"timeout -s INT 8 {study}"
        ended = subprocess.run(begun, shell=True, cwd=desk, env=environment, capture_output=True, check=False)
        assert ended.returncode != 0, "it ended before it was interrupted"
        resumed, *drawn = chosen(*PREPARED)
        assert "fedavg" in run(resumed, desk, environment)
        for command in drawn:
            run(command, desk, environment)
        assert (desk / "pareto.pdf").stat().st_size and (desk / "trace.json.gz").stat().st_size
        (desk / "tutorial").mkdir()
        assert follow(ROOT / "docs/tutorial.md", desk / "tutorial", path=environment)


@pytest.mark.slow
def test_the_wheel_in_a_clean_environment(wheel, tmp_path):
    """A new virtual environment, which borrows what Paceline depends on from this one, and nothing else."""
    venv.create(tmp_path / "clean", with_pip=True)
    python = tmp_path / "clean/bin/python"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def do(*words):
        command = [str(python), *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert do("-c", "import paceline").returncode != 0
    done = do("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    assert done.returncode == 0, done.stderr
    (site,) = (tmp_path / "clean/lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    where = do("-c", "import paceline; print(paceline.__file__)").stdout
    assert where.startswith(str(site)), where
    environment = programs_with([str(tmp_path / "clean/bin/paceline")], tmp_path / "bin")
    assert run("paceline --version", tmp_path, environment) == f"paceline {PROJECT['version']}\n"
    assert "fedavg" in run("paceline run fedavg --set clients=5 --set rounds=2 -q --out out", tmp_path, environment)
    assert (tmp_path / "out/report.html").is_file()
    run("paceline new my-study", tmp_path, environment)
