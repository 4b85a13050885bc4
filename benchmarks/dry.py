"""Dry runs at scale: seconds and memory of the schedule alone.

``python -m benchmarks.dry``: FedBuff over 100,000 devices and 1,000,000 visits, and with all devices at work; APFL
and DisPFL, whose visits do more; a complete graph of 100 servers whose transfers are all connected; FedAvg with 100
clients a round over growing fleets, whose cost per round must not grow. Every case runs in a process of its own, so
that its peak memory is its own; spans go to Parquet as in any run. What is imported on the way is imported before.

``--beside PATH`` runs every case also with the sources of another checkout, in turns, and prints ratios: medians of
``--times N`` of the seconds of the processor, since others may be using the machine. ``--only WORD ...`` chooses
cases by their titles.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
FEDBUFF = ["clients=100000", "fedbuff.concurrency=10000", "fedbuff.buffer=1000", "rounds=1000"]
CROWDED = ["clients=200", "fedbuff.concurrency=200", "fedbuff.buffer=20", "rounds=500"]
SERVERS = ["clients=400", "p-fedavg.topology=complete:100", "dataset=mnist", "model=mlp"]
CASES = {
    "FedBuff, 100,000 devices, 1,000,000 visits": ("fedbuff", FEDBUFF),
    "FedBuff, 200 devices, all at work": ("fedbuff", CROWDED),
    "APFL, 1,000 devices, 20,000 aggregations": ("apfl", ["clients=1000", "rounds=20000"]),
    "DisPFL, 100 devices, 10 neighbours, 100 rounds": ("dispfl", ["clients=100", "rounds=100"]),
    "P-FedAvg, 100 servers, equal links, 2 rounds": ("p-fedavg", [*SERVERS, "fleet.backbone=exodus", "rounds=2"]),
    "P-FedAvg, 100 unequal servers, 1 round": (
        "p-fedavg",
        [*SERVERS, "fleet.backbone=node:lognormal,100,0.3", "rounds=1"],
    ),
    **{
        f"FedAvg, {n:,} devices, 100 a round, 1,000 rounds": (
            "fedavg",
            [f"clients={n}", "fedavg.width=100", "rounds=1000"],
        )
        for n in (1_000, 10_000, 100_000, 1_000_000)
    },
}
Row = dict[str, float]


def one(name: str, overrides: list[str]) -> Row:
    """Run a case here and measure it."""
    _run(name, ["clients=20", "rounds=1"] if name != "p-fedavg" else ["rounds=1"])
    begin, busy = time.perf_counter(), time.process_time()
    visits, rounds = _run(name, overrides)
    return {
        "visits": visits,
        "rounds": rounds,
        "seconds": time.perf_counter() - begin,
        "cpu": time.process_time() - busy,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def _run(name: str, overrides: list[str]) -> tuple[int, int]:
    from paceline.runs.experiment import make_experiment
    from paceline.runs.performing import perform

    with tempfile.TemporaryDirectory() as folder:
        run = perform(make_experiment([name], overrides=overrides, dry=True, out=Path(folder) / "run")).runs[0]
    assert run.failure is None, run.failure
    return run.world.ledger.visits, run.world.progress


def measure(checkout: Path, name: str, overrides: list[str]) -> Row:
    """Run a case in a process of its own, with the sources of a checkout."""
    done = subprocess.run(
        [sys.executable, __file__, "--case", name, *overrides],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
    )
    found: Row = json.loads(done.stdout)
    return found


def middle(rows: list[Row]) -> Row:
    """The median of every figure."""
    return {key: median(row[key] for row in rows) for key in rows[0]}


def main() -> None:
    """Print a table and JSON."""
    if sys.argv[1:2] == ["--case"]:
        print(json.dumps(one(sys.argv[2], sys.argv[3:])))
        return
    words = argparse.ArgumentParser(description="Seconds and memory of dry runs.")
    words.add_argument("--beside", type=Path, help="another checkout, whose sources run the same cases in turns")
    words.add_argument("--times", type=int, default=1, help="how often each case runs; figures are medians")
    words.add_argument("--only", nargs="+", default=[""], help="cases whose title has one of these in it")
    asked = words.parse_args()
    head = f"{'case':<50}{'seconds':>9}{'cpu':>8}{'µs/visit':>10}{'ms/round':>10}{'GiB':>7}"
    print(head + (f"{'cpu there':>11}{'ratio':>7}" if asked.beside else ""))
    rows = []
    for title, case in CASES.items():
        if any(word.lower() in title.lower() for word in asked.only):
            rows.append({"case": title, **compare(title, *case, asked)})
    print(json.dumps(rows))


def compare(title: str, name: str, overrides: list[str], asked: argparse.Namespace) -> Row:
    """Measure one case, here and there in turns, and print its line."""
    here, there = [], []
    for _ in range(asked.times):
        if asked.beside:
            there.append(measure(asked.beside, name, overrides))
        here.append(measure(ROOT, name, overrides))
    row = middle(here)
    visit, round_ = 1e6 * row["cpu"] / row["visits"], 1e3 * row["cpu"] / row["rounds"]
    line = f"{title:<50}{row['seconds']:>9.1f}{row['cpu']:>8.1f}{visit:>10.1f}{round_:>10.2f}{row['gib']:>7.2f}"
    if there:
        row |= {f"{key} there": value for key, value in middle(there).items()}
        row["ratio"] = median(b["cpu"] / a["cpu"] for a, b in zip(here, there, strict=True))
        line += f"{row['cpu there']:>11.1f}{row['ratio']:>7.2f}"
    print(line, flush=True)
    return row


if __name__ == "__main__":
    main()
