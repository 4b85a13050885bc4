"""How well a fleet that was measured in one run on real processes predicts the next one.

``python -m benchmarks.calibration``: four devices with unequal amounts of data, so of unequal speed, and 10 rounds of
FedAvg. Each run is predicted from the one before it. Runs follow each other at once, but a machine that is busy with
something else in one of them and not in the next spoils that pair.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

from paceline.plans.fleet import measure
from paceline.plans.fleet_check import predict, simulated_rounds
from paceline.plans.fleet_file import as_toml

WORDS = ("clients=4", "partition=powerlaw:1.5", "local.epochs=30", "model=mlp:256")


def perform(directory: Path, algorithm: str, rounds: int, workers: int) -> Path:
    command = [sys.executable, "-m", "paceline", "run", algorithm, "--world", "local", "--quiet"]
    command += ["--workers", str(workers), "--out", str(directory)]
    for setting in (*WORDS, f"rounds={rounds}"):
        command += ["--set", setting]
    subprocess.run(command, check=True, capture_output=True)
    return directory


def median_round(directory: Path) -> float:
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    times = [0.0, *(row["time"] for row in rows)]
    return median(end - start for start, end in pairwise(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", default="fedavg")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        runs = [
            perform(Path(folder) / str(number), chosen.algorithm, chosen.rounds, chosen.workers)
            for number in range(chosen.runs)
        ]
        for before, after in pairwise(runs):
            fleet = before / "fleet.toml"
            fleet.write_text(as_toml(measure(before), before.name))
            told, came = median(simulated_rounds(before, fleet, chosen.rounds)), median_round(after)
            itself = predict(before, fleet).ratio
            print(
                f"median round {came:.3f} s, predicted from the run before {told:.3f} s (x{told / came:.3f});"
                f" that run itself x{itself:.3f}"
            )


if __name__ == "__main__":
    main()
