"""Dry runs at scale: seconds and memory of the schedule alone.

``python -m benchmarks.dry``: FedBuff over 100,000 devices and 1,000,000 visits; FedAvg with 100 clients a round over
growing fleets, whose cost per round must not grow. Every case runs in a process of its own, so that its peak memory
is its own; spans go to Parquet as in any run.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FEDBUFF = ["clients=100000", "fedbuff.concurrency=10000", "fedbuff.buffer=1000", "rounds=1000"]
CASES = {
    "FedBuff, 100,000 devices, 1,000,000 visits": ("fedbuff", FEDBUFF),
    **{
        f"FedAvg, {n:,} devices, 100 a round, 1,000 rounds": (
            "fedavg",
            [f"clients={n}", "fedavg.width=100", "rounds=1000"],
        )
        for n in (1_000, 10_000, 100_000, 1_000_000)
    },
}


def one(name: str, overrides: list[str]) -> dict[str, float]:
    """Run a case here and measure it."""
    from paceline.runs.experiment import make_experiment
    from paceline.runs.performing import perform

    with tempfile.TemporaryDirectory() as folder:
        experiment = make_experiment([name], overrides=overrides, dry=True, out=Path(folder) / "run")
        begin = time.perf_counter()
        outcome = perform(experiment)
        seconds = time.perf_counter() - begin
    run = outcome.runs[0]
    assert run.failure is None, run.failure
    return {
        "visits": run.world.ledger.visits,
        "rounds": run.world.progress,
        "seconds": seconds,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    """Print a table and JSON."""
    if len(sys.argv) > 1:
        print(json.dumps(one(sys.argv[1], sys.argv[2:])))
        return
    rows = []
    print(f"{'case':<50}{'seconds':>9}{'µs/visit':>10}{'ms/round':>10}{'GiB':>7}")
    for title, (name, overrides) in CASES.items():
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.dry", name, *overrides], check=True, capture_output=True, text=True
        )
        row = json.loads(done.stdout)
        rows.append({"case": title, **row})
        visit, round_ = 1e6 * row["seconds"] / row["visits"], 1e3 * row["seconds"] / row["rounds"]
        print(f"{title:<50}{row['seconds']:>9.1f}{visit:>10.1f}{round_:>10.2f}{row['gib']:>7.2f}", flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
