"""How soon a command says something, and what progress costs: ``python -m benchmarks.first_line [--json FILE]``.

Seconds until the first line of `run` and `compare` on digits and, where PACELINE_DATA has it, on MNIST; seconds of
`--help`; and the time of a run with progress over that of the same run without, interleaved.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

SMALL = ("--set", "rounds=2", "--set", "clients=20", "--set", "partition=iid")


def first_line(*words: str) -> float:
    """Seconds until a command's first line on standard error, which is no terminal."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-m", "paceline", *words], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        ) as process:
            assert process.stderr is not None
            line = process.stderr.readline()
            seconds = time.perf_counter() - begin
            assert line.startswith(b"starting"), line
            process.kill()
            process.stderr.read()
        return seconds


def whole(*words: str) -> float:
    """Seconds of a command."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "paceline", *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def cost_of_progress(rounds: int, repeats: int) -> list[float]:
    """The time of a run with progress over that of the same without, pair by pair, in turns."""
    from paceline.api.progress import LiveProgress
    from paceline.runs.experiment import make_experiment
    from paceline.runs.performing import perform

    experiment = make_experiment(["fedavg"], overrides=[f"rounds={rounds}", "clients=100"])

    def seconds(watched: bool) -> float:
        console = Console(file=io.StringIO(), force_terminal=True, width=160)
        begin = time.perf_counter()
        if watched:
            with LiveProgress(console=console) as progress:
                perform(experiment, progress, watcher=progress)
        else:
            perform(experiment)
        return time.perf_counter() - begin

    seconds(True)
    found = []
    for k in range(repeats):
        pair = {watched: seconds(watched) for watched in ((True, False) if k % 2 else (False, True))}
        found.append(pair[True] / pair[False])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=100, help="of the run that is timed with and without progress")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    datasets = ["digits", *(["mnist"] if (Path(os.environ.get("PACELINE_DATA", "")) / "mnist.npz").exists() else [])]
    found: dict[str, list[float]] = {}
    for _ in range(asked.repeats):
        for name in datasets:
            data = ("--set", f"dataset={name}", *SMALL)
            found.setdefault(f"first line of run, {name}", []).append(first_line("run", "fedavg", *data))
            found.setdefault(f"first line of compare, {name}", []).append(
                first_line("compare", "fedavg", "psfl", *data)
            )
        for words in (("--help",), ("run", "--help"), ("ui", "--help")):
            found.setdefault(f"paceline {' '.join(words)}", []).append(whole(*words))
    for name, times in found.items():
        print(f"{name:<34} median {statistics.median(times):.2f} s, most {max(times):.2f} s")
    found["with progress over without"] = ratios = cost_of_progress(asked.rounds, asked.repeats)
    print(f"a run with progress takes {statistics.median(ratios):.3f} times as long as without ({min(ratios):.3f} to"
          f" {max(ratios):.3f} in {asked.repeats} pairs)")  # fmt: skip
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
