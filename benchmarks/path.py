"""Where the time of a whole run goes, and how far each part is from its floor: ``python -m benchmarks.path``.

A FedAvg federation (100 clients, 10 a round, one epoch of 600 samples in batches of 20, scored on 10,000 samples
after every round) runs in one thread under Python's profiler, which counts the time of the functions of each part.
Floors are the least that the processor needs: floating-point operations at the rate of a large matrix product
measured here, bytes at the rate of a large copy measured here.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import paceline
from paceline.runs.problem import make_space

PARTS = {
    "training": (("cohort/scripted.py", "run"),),
    "evaluation": (("cohort/scoring.py", "score_jobs"),),
    "drawing batches": (("learn/draws.py", "draw_batches"), ("cohort/cutting.py", "rows_of")),
    "copying weights": (("cohort/trainer.py", "_state"), ("programs/program.py", "unpack")),
    "aggregation": (("learn/executor.py", "_calculate"),),
    "writing": (("runs/recorder.py", "write"), ("runs/recorder.py", "finish"), ("ledger/spans.py", "_flush")),
}
"""Functions whose time, with all that they call, is a part; none calls another. The rest is schedule and Python."""
CLIENTS, WIDTH, SAMPLES, TEST = 100, 10, 600, 10_000
NETWORKS = {"mlp:200": (1, 28, 28), "lenet": (1, 28, 28)}


def made_up(shape: tuple[int, ...]) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Random samples and labels."""
    rng = np.random.default_rng(0)
    counts = (CLIENTS * SAMPLES, TEST)
    made = [(rng.standard_normal((n, *shape), np.float32), rng.integers(0, 10, n)) for n in counts]
    return made[0], made[1]


def federate(model: str, rounds: int, data: object) -> None:
    """One run in one thread."""
    paceline.run(
        "fedavg",
        data=data,
        model=model,
        clients=CLIENTS,
        partition="iid",
        rounds=rounds,
        settings={"fedavg.participants": WIDTH, "local.batch": 20, "local.epochs": 1, "executor.threads": 1},
    )


def profiled(model: str, rounds: int) -> tuple[dict[str, float], float]:
    """Seconds of every part, and of all."""
    data = made_up(NETWORKS[model])
    federate(model, 4, data)  # imports, and scripts of what comes up often
    profile = cProfile.Profile()
    begin = time.perf_counter()
    profile.runcall(federate, model, rounds, data)
    whole = time.perf_counter() - begin
    found: dict[str, float] = defaultdict(float)
    for (file, _, name), (_, _, _, spent, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        for part, functions in PARTS.items():
            if any(file.endswith(end) and name == function for end, function in functions):
                found[part] += spent
    found["schedule, and all else"] = whole - sum(found.values())
    return dict(sorted(found.items(), key=lambda item: -item[1])), whole


def rate(work: Callable[[], object], units: float) -> float:
    """The best of many."""
    best = min(_timed(work) for _ in range(30))
    return units / best


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Print a table for each network."""
    words = argparse.ArgumentParser(description="Where the time of a whole run goes.")
    words.add_argument("--rounds", type=int, default=20)
    words.add_argument("--json", type=Path)
    asked = words.parse_args()
    torch.set_num_threads(1)
    square, long = torch.randn(768, 768), torch.randn(1 << 24)
    flops = rate(lambda: square @ square, 2 * 768**3)
    copied = rate(long.clone, 2 * 4 * len(long))
    print(f"one thread: {flops / 1e9:.0f} GFLOP/s in a product of 768, {copied / 1e9:.1f} GB/s in a copy")
    kept: dict[str, object] = {"flops": flops, "bytes": copied}
    for model, shape in NETWORKS.items():
        space = make_space(model, shape, 10, "float32")
        visits = WIDTH * asked.rounds
        floors = {
            "training": visits * SAMPLES * 3 * space.flops / flops,
            "evaluation": asked.rounds * TEST * space.flops / flops,
            "copying weights": visits * 2 * 2 * 4 * space.size / copied,
            "aggregation": visits * 2 * 4 * space.size / copied,
        }
        found, whole = profiled(model, asked.rounds)
        print(f"{model}, {asked.rounds} rounds: {whole:.1f} s")
        for name, spent in found.items():
            floor = f"{floors[name]:>10.2f}" if name in floors else " " * 10
            print(f"  {name:<24}{spent:>8.2f} s{100 * spent / whole:>6.1f} %   floor{floor}")
        kept[model] = {"whole": whole, "parts": found, "floors": floors}
    if asked.json:
        asked.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
