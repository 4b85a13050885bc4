"""What is pinned is what pyproject.toml asks for, whatever has been published since."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import requires
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins():
    """Of the lock, those for this machine: name and version."""
    lines = [Requirement(line) for line in re.findall(r"^([\w.-]+==[^\\\n]+)", LOCK, re.MULTILINE)]
    here = [line for line in lines if line.marker is None or line.marker.evaluate()]
    return {plain(line.name): next(iter(line.specifier)).version for line in here}


def follow(texts):
    """Return all that requirements ask for, with all that their packages and extras ask for."""
    found, left = {}, list(texts)
    while left:
        need = Requirement(left.pop())
        if str(need) not in found:
            found[str(need)] = need
            asked = [Requirement(text) for text in requires(need.name) or []]
            extras = [{"extra": extra} for extra in need.extras or {""}]
            left += [str(one) for one in asked if not one.marker or any(map(one.marker.evaluate, extras))]
    return found.values()


def test_the_lock_is_what_pyproject_asks_for_and_nothing_else():
    """Torch brings CUDA packages or none, so it is not in the lock; what all of its builds bring is."""
    asked = [*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values())]
    needs = follow(text for text in asked if not text.startswith("paceline["))
    ours = [need for need in needs if not re.match(r"(torch$|nvidia-|cuda-|triton$)", need.name)]
    assert {plain(need.name) for need in ours} == set(pins())
    assert [str(need) for need in ours if not need.specifier.contains(pins()[plain(need.name)])] == []


def test_every_pin_has_digests_and_no_address():
    entries = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "://" not in LOCK


pytestmark = pytest.mark.timeout(1200)  # environments are made, which takes minutes on a busy machine

# -- a set-up in a world where everything has a newer release -------------------------------------------------------

NEEDS = {"app": ["base[extra]", "more"], "base": ['more; extra == "extra"'], "more": [], "torch": ["more"], "uv": []}
"""Packages of a small index: app asks for an extra, as flwr does with sqlalchemy[asyncio]."""
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
BACKEND = f"""
import zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(folder + "/paceline-0.1-py3-none-any.whl", "w") as file:
        file.writestr("paceline-0.1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: paceline\\nVersion: 0.1\\n")
        file.writestr("paceline-0.1.dist-info/WHEEL", {WHEEL!r})
        file.writestr("paceline-0.1.dist-info/RECORD", "")
    return "paceline-0.1-py3-none-any.whl"
"""


def publish(index, name, version, uv):
    """Put a wheel into the index, and return the digest of it."""
    folder, info = index / name, f"{name}-{version}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Provides-Extra: extra"]
    lines += [f"Requires-Dist: {need}" for need in NEEDS[name]]
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        file.writestr(f"{info}/WHEEL", WHEEL)
        if name == "uv":
            script = zipfile.ZipInfo(f"uv-{version}.data/scripts/uv")
            script.external_attr = 0o100755 << 16
            file.writestr(script, f"#!/bin/sh\n{uv}\n")
        file.writestr(f"{info}/RECORD", "")
    (folder / "index.html").write_text("".join(f'<a href="{w.name}">{w.name}</a>\n' for w in folder.glob("*.whl")))
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.fixture
def clone(tmp_path, request):
    """A tiny project with our Makefile and tools, its lock, and an index with newer releases of every pin."""
    digests = {name: publish(tmp_path / "index", name, "2.13.0", request.param) for name in NEEDS}
    for name in NEEDS:
        publish(tmp_path / "index", name, "2.14.0", "exit 1")
    clone = tmp_path / "clone"
    (clone / "tools").mkdir(parents=True)
    for name in ("Makefile", "tools/uv.py"):
        (clone / name).write_text((ROOT / name).read_text())
    backend = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (clone / "pyproject.toml").write_text(backend + '[project]\nname = "paceline"\nversion = "0.1"\n')
    (clone / "backend.py").write_text(BACKEND)
    pins = [f"{name}==2.13.0 \\\n    --hash=sha256:{digest}\n" for name, digest in digests.items() if name != "torch"]
    (clone / "requirements.lock").write_text("".join(pins))
    return clone


def set_up(clone, tmp_path):
    """Run `make setup` where no uv is on the path."""
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if not os.path.exists(f"{folder}/uv")]
    environment = {
        "PATH": os.pathsep.join(path),
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": (tmp_path / "index").as_uri(),
    }
    words = ["make", "setup", f"PYTHON={sys.base_prefix}/bin/python3"]
    return subprocess.run(words, cwd=clone, env=environment, capture_output=True, text=True, check=False)


WORKS, FAILS = f'echo "$1 $2" > used && exec {Path(sys.executable).parent}/uv "$@"', 'echo "$1 $2" > used; exit 1'


@pytest.mark.parametrize("clone", [WORKS, FAILS], ids=["uv", "pip"], indirect=True)
def test_a_set_up_installs_the_lock_whatever_is_newer(clone, tmp_path):
    """By the lock's uv, and by pip where uv cannot do it; pip 23.2 once took the newest base for base[extra]."""
    done = set_up(clone, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (clone / "used").read_text() == "pip install\n"
    there = {folder.name for folder in clone.glob(".venv/lib/*/site-packages/*-2.1*.dist-info")}
    assert there == {f"{name}-2.13.0.dist-info" for name in NEEDS}


@pytest.mark.parametrize("clone", [WORKS], ids=["uv"], indirect=True)
def test_a_set_up_that_does_not_fit_together_fails(clone, tmp_path):
    lock = clone / "requirements.lock"
    lock.write_text(re.sub(r"base==.*\n.*\n", "", lock.read_text()))
    done = set_up(clone, tmp_path)
    assert done.returncode and "requires base, which is not installed" in done.stdout
    assert not (clone / ".venv/.ready").exists()
