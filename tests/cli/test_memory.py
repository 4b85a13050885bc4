"""A real process keeps to ``--memory``, at half of what it takes by itself, and has the same results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = """
import pathlib, re, sys
from paceline.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("peak", re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])
"""
"""What ``getrusage`` says would be no less than what the process took that started it."""
LARGE = ["partition=iid", "fedavg.participants=100", "local.batch=8", "local.epochs=1", "every=1"]


def peak(out, *words):
    """Carry out a command in a process of its own; returns the most kibibytes that it has taken."""
    found = subprocess.run(
        [sys.executable, "-c", COMMAND, "run", "fedavg", *words, "--quiet", "--no-spans", "--out", str(out)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    return int(found.stdout.splitlines()[-1].removeprefix("peak "))


def results(out):
    """All rows and weights, by folder."""
    names = ("metrics.jsonl", "model.safetensors")
    return {file.relative_to(out): file.read_bytes() for file in Path(out).rglob("*") if file.name in names}


def at_half(tmp_path, *words):
    """Natural footprint, limit and what was taken under it; the results are the same."""
    said = [part for word in (*LARGE, *words) for part in ("--set", word)]
    natural = peak(tmp_path / "natural", *said, "--seeds", "4")
    limit = natural // 2
    taken = peak(tmp_path / "half", *said, "--seeds", "4", "--memory", f"{limit}KiB")
    assert results(tmp_path / "half") == results(tmp_path / "natural")
    assert len(results(tmp_path / "half")) == 8
    kept = json.loads((tmp_path / "half" / "fedavg-seed0" / "settings.json").read_text())
    assert kept["executor"]["memory"] == f"{limit}KiB"
    return natural, limit, taken


@pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is known on Linux alone")
def test_half_of_the_natural_footprint_is_enough(tmp_path):
    natural, limit, taken = at_half(tmp_path, "rounds=1", "model=mlp:6000")
    assert natural > 1_000_000  # else half of it would be Python and torch
    assert taken <= limit


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is known on Linux alone")
@pytest.mark.parametrize(
    "words", [("rounds=12", "model=mlp:6000"), ("rounds=3", "model=mlp:12000", "executor.threads=2")]
)
def test_half_of_a_large_footprint_is_enough(tmp_path, words):
    _, limit, taken = at_half(tmp_path, *words)
    assert taken <= limit


def test_a_limit_that_cannot_be_kept_is_refused(paceline, tmp_path):
    done = paceline("run", "fedavg", "--memory", "200MiB", "--out", tmp_path / "out")
    assert done.status == 1 and "--memory) is 200 MiB, but these runs need" in done.err
    assert not (tmp_path / "out").exists()
