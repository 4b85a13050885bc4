"""How time and memory grow: ``python -m benchmarks.growth [--json FILE] [--picture FILE] [--only WORD]``.

Five questions, each a curve: visits in a wave, devices of a fleet, parameters of a network, parameter servers, and
threads that train. Every point runs in a process of its own, so that its peak memory is its own, and after a smaller
one in the same process, so that nothing is imported or compiled within the time that counts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Curve:
    """A question, the points at which it is asked, and how a point is measured."""

    along: str
    unit: str
    points: tuple[int, ...]
    work: Callable[[int], float]
    """Does it, and says how many units were done."""


def wave(model: str, shape: tuple[int, ...]) -> Callable[[int], float]:
    """Visits of so many clients at once, as in ``make bench``."""

    def work(clients: int) -> float:
        from benchmarks.visits import Case, make_jobs
        from paceline.learn.cohort.trainer import CohortTrainer
        from paceline.learn.recipe import LocalSGD

        case = Case(model, model, shape, 60, LocalSGD(lr=0.05, batch=20, epochs=1))
        trainer, jobs = CohortTrainer(), make_jobs(case, clients)
        for _ in range(4):  # forms that come up often are scripted
            trainer.train(jobs)
        return _repeated(lambda: trainer.train(jobs), clients)

    return work


def parameters(size: int) -> float:
    """Ten visits of an MLP with about so many parameters."""
    return wave(f"mlp:{max(1, size // (784 + 11))}", (1, 28, 28))(10)


def threads(count: int) -> float:
    """Forty visits of the MLP, in so many threads."""
    os.environ["PACELINE_THREADS"] = str(count)
    return wave("mlp:200", (1, 28, 28))(40)


def dry(name: str, smallest: int, *words: str) -> Callable[[int], float]:
    """Rounds of a dry run; ``{n}`` is the point, tried first with the smallest."""

    def work(n: int) -> float:
        from paceline.runs.experiment import make_experiment
        from paceline.runs.performing import perform

        for size in (smallest, n):  # the first time imports what it needs
            settings = [word.format(n=size, clients=max(4 * size, 100)) for word in words]
            begin = time.perf_counter()
            run = perform(make_experiment([name], overrides=settings, dry=True)).runs[0]
            assert run.failure is None, run.failure
        return run.world.progress / (time.perf_counter() - begin)

    return work


def _repeated(work: Callable[[], object], units: int, least: float = 2.0) -> float:
    done, begin = 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < least:
        work()
        done += units
    return done / spent


CURVES = {
    "visits of the MLP in a wave": Curve(
        "clients", "visits/s", (1, 3, 10, 30, 100, 300), wave("mlp:200", (1, 28, 28))
    ),
    "visits of LeNet in a wave": Curve("clients", "visits/s", (1, 3, 10, 30, 100), wave("lenet", (3, 32, 32))),
    "devices of a fleet (dry FedAvg, 100 a round)": Curve(
        "devices",
        "rounds/s",
        (100, 1_000, 10_000, 100_000, 1_000_000),
        dry("fedavg", 100, "clients={n}", "fedavg.width=100", "rounds=200"),
    ),
    "parameters of an MLP (ten clients)": Curve(
        "parameters", "visits/s", (10_000, 100_000, 1_000_000, 10_000_000), parameters
    ),
    "servers on a ring (dry P-FedAvg)": Curve(
        "servers",
        "rounds/s",
        (4, 16, 64, 256),
        dry("p-fedavg", 4, "clients={clients}", "p-fedavg.topology=ring:{n}", "rounds=40"),
    ),
    "servers on a complete graph (dry P-FedAvg)": Curve(
        "servers",
        "rounds/s",
        (4, 16, 64),
        dry("p-fedavg", 4, "clients={clients}", "p-fedavg.topology=complete:{n}", "rounds=40"),
    ),
    "threads (forty visits of the MLP)": Curve("threads", "visits/s", (1, 2), threads),
}


def measure(title: str, point: int) -> dict[str, float]:
    """One point in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth", "--point", title, str(point)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def here(title: str, point: int) -> dict[str, float]:
    """One point in this process."""
    rate = CURVES[title].work(point)
    return {"rate": rate, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10}


def slope(points: tuple[int, ...], values: list[float]) -> float:
    """The exponent between the last two points: 1 is proportional."""
    return math.log(values[-1] / values[-2]) / math.log(points[-1] / points[-2])


def short(number: int) -> str:
    """A number as an axis has room for: 300, 10k, 1M."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if number >= 10 * unit or number == unit:
            return f"{number / unit:g}{name}"
    return str(number)


def draw(found: dict[str, list[dict[str, float]]], path: Path) -> None:
    """Rate and memory of every curve, on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator

    plain = FuncFormatter(lambda value, _: f"{value:,.0f}")
    figure, grid = plt.subplots(len(found), 2, figsize=(8, 2.2 * len(found)), squeeze=False, layout="constrained")
    for (rate, memory), (title, rows) in zip(grid, found.items(), strict=True):
        curve = CURVES[title]
        shown: tuple[tuple[Any, str, str], ...] = ((rate, "rate", curve.unit), (memory, "mib", "peak MiB"))
        for axis, key, unit in shown:
            axis.loglog(curve.points, [row[key] for row in rows], marker="o", color="#2166ac", linewidth=1.5)
            axis.set_xlabel(curve.along)
            axis.set_ylabel(unit)
            axis.grid(visible=True, which="major", color="#dddddd")
            axis.set_ylim(bottom=min(row[key] for row in rows) / 2, top=max(row[key] for row in rows) * 2)
            axis.set_xticks(curve.points, [*map(short, curve.points)])
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if key == "mib" else (1, 3)))
            axis.yaxis.set_major_formatter(plain)
            axis.minorticks_off()
        rate.set_title(title, loc="left", fontsize=10)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print a table, and keep JSON and a picture where asked."""
    if sys.argv[1:2] == ["--point"]:
        print(json.dumps(here(sys.argv[2], int(sys.argv[3]))))
        return
    words = argparse.ArgumentParser(description="How time and memory grow.")
    words.add_argument("--json", type=Path)
    words.add_argument("--picture", type=Path)
    words.add_argument("--only", default="", help="curves whose title has this in it")
    asked = words.parse_args()
    found = {}
    for title, curve in CURVES.items():
        if asked.only.lower() not in title.lower():
            continue
        found[title] = [measure(title, point) for point in curve.points]
        print(title)
        for point, row in zip(curve.points, found[title], strict=True):
            print(f"  {point:>10,} {curve.along:<12}{row['rate']:>12,.1f} {curve.unit:<10}{row['mib']:>8,.0f} MiB")
        print(f"  exponents at the end: rate {slope(curve.points, [row['rate'] for row in found[title]]):+.2f},"
              f" memory {slope(curve.points, [row['mib'] for row in found[title]]):+.2f}", flush=True)  # fmt: skip
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    if asked.picture:
        draw(found, asked.picture)


if __name__ == "__main__":
    main()
