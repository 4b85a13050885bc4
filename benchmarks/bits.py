"""Where results depend on company: how many clients share a cohort, in which order, which runs are beside, how often
values are needed, how many threads there are.

``python -m benchmarks.bits [--json] [--only NAME]`` takes a few minutes on two cores. Every figure is the largest
difference of two numbers that should be the same; 0 means the same bits. ``docs/bits.md`` is written from the JSON:

    python -m benchmarks.bits --json > docs/results/bits.json
    python -m benchmarks.bits_page > docs/bits.md
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from benchmarks.bits_cases import CASES, make_space, waves
from paceline.algorithms.registry import ALGORITHMS
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.job import EvalJob, Probed, Score, Trained, TrainJob
from paceline.learn.programs.reading import compile_program
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.run import Run
from paceline.runs.settings import make_settings

COHORTS, FLUSHES, ALL = (1, 2, 3, 7), (1, 4, 64), 1_000_000
TINY = (
    *("clients=12", "rounds=3", "local.steps=3", "public=0.1", "psfl.width=3", "psfl.length=3", "fedavg.width=6"),
    *("sfl.length=5", "fedbuff.concurrency=8", "fedbuff.buffer=4", "fedasync.concurrency=7", "fedasync.rounds=12"),
    *("apfl.rounds=12", "da-dpfl.pruning.first=2", "da-dpfl.neighbours.degree=4", "dispfl.neighbours.degree=4"),
    *("feddst.participants=4", "feddst.interval=2", "ditto.participants=4", "dfedavgm.neighbours.degree=4"),
    *("dfedsam.neighbours.degree=4", "beer.degree=4", "p-fedavg.participants=2", "p-fedavg.topology=ring:6"),
    *("hierfavg.participants=2", "hierfavg.servers=4", "feddf.participants=4", "feddf.distillation.steps=2"),
    *("fleet.times=uniform:0.5,5", "fleet.links=rate:2,8", "fleet.server=constant:1.5", "partition=dirichlet:0.5"),
)
MODEL = "mlp:33"
"""Of no width that is a multiple of anything: nothing is the same by luck."""
Result = Trained | Probed | Score


# -- networks -----------------------------------------------------------------------------------------------------


def numbers(result: Result) -> Tensor:
    """All that a trainer found, as numbers."""
    if isinstance(result, Score):
        return torch.tensor([result.accuracy, result.loss], dtype=torch.float64)
    figure = result.loss if isinstance(result, Trained) else result.variance
    return torch.cat([result.value.double(), figure.double().reshape(1)])


def apart(found: Iterable[Result], wanted: Iterable[Result]) -> float:
    """The largest difference; infinity where one of them is no number."""
    pairs = zip(found, wanted, strict=True)
    most = max(float((numbers(a) - numbers(b)).abs().max()) for a, b in pairs)
    return math.inf if math.isnan(most) else most


def trainer(cohort: int | None = None, threads: int = 1) -> CohortTrainer:
    """On the CPU."""
    return CohortTrainer("cpu", cohort, threads)


def by_cohort(jobs: list[TrainJob]) -> float:
    """Cohorts of 1 against 2, 3, 7 and all."""
    one, *others = [trainer(cohort).train(jobs) for cohort in (*COHORTS, ALL)]
    return max(apart(other, one) for other in others)


def by_order(jobs: list[TrainJob]) -> float:
    """The whole wave against the wave backwards."""
    return apart(reversed(trainer(ALL).train(jobs[::-1])), trainer(ALL).train(jobs))


def by_company(jobs: list[TrainJob]) -> float:
    """The whole wave against every third of the clients by themselves."""
    found = {k: one for first in range(3) for k, one in _some(jobs, first)}
    return apart([found[k] for k in range(len(jobs))], trainer(ALL).train(jobs))


def _some(jobs: list[TrainJob], first: int) -> Iterable[tuple[int, Trained]]:
    return zip(range(first, len(jobs), 3), trainer(ALL).train(jobs[first::3]), strict=True)


def by_threads(jobs: list[TrainJob]) -> float:
    """Cohorts as they are chosen on one core against those on two."""
    return apart(trainer(threads=2).train(jobs), trainer().train(jobs))


def by_probes(jobs: list[TrainJob]) -> float:
    """Full gradients of each client by itself against those of the whole wave."""
    alone = [trainer().probe([job])[0] for job in jobs]
    return max(apart(trainer(cohort).probe(jobs), alone) for cohort in (3, ALL))


def by_scores(jobs: list[TrainJob]) -> float:
    """Scores of each model by itself against those of all, on common samples and on the clients' own."""
    shards = jobs[0].shards
    own = [torch.from_numpy(shards.rows(job.client)) for job in jobs]
    most = 0.0
    for rows in ([None] * len(jobs), own):
        asked = [EvalJob(job.space, job.start, shards.x, shards.y, r) for job, r in zip(jobs, rows, strict=True)]
        most = max(most, apart(trainer().evaluate(asked), [trainer().evaluate([one])[0] for one in asked]))
    return most


NETWORK_CHECKS = {"cohort": by_cohort, "order": by_order, "company": by_company, "threads": by_threads}
ONCE_CHECKS = {"probes": by_probes, "scores": by_scores}
"""Without a recipe."""


def network(name: str) -> dict[str, object]:
    """One row: all checks in single and in double precision, over all recipes."""
    row: dict[str, object] = {"name": name}
    for dtype in (torch.float32, torch.float64):
        space = make_space(name, dtype)
        program = compile_program(space)
        row["program"] = "vmap" if "Vmap" in type(program).__name__ else "layers"
        # Convolutions take longest, and few clients show what many do.
        jobs = list(waves(name, space, 11 if program.batches_convolutions else 5))
        found = {check: max(compare(wave) for wave in jobs) for check, compare in NETWORK_CHECKS.items()}
        row[str(dtype).removeprefix("torch.")] = found | {check: f(jobs[0]) for check, f in ONCE_CHECKS.items()}
    return row


# -- algorithms ---------------------------------------------------------------------------------------------------


def runs_of(names: Sequence[str], words: Sequence[str], seeds: int = 1) -> list[Run]:
    """Tiny runs of some algorithms, and of some seeds of each, that meet in one executor."""
    settings = [
        make_settings(name, [*TINY, f"model={MODEL}", f"seed={seed}", *words])
        for seed in range(seeds)
        for name in names
    ]
    runs = [make_run(one) for one in settings]
    for run in runs:
        run.keeps_model = True
    drive(runs, make_executor(runs[0].settings.executor))
    for run in runs:
        if run.failure is not None:
            raise run.failure
    return runs


def run_apart(found: Run, wanted: Run) -> float:
    """The largest difference of final weights and of scores."""
    most = [float((value - wanted.final[name]).abs().max()) for name, value in found.final.items()]
    most += [abs(a["loss"] - b["loss"]) for a, b in zip(found.rows, wanted.rows, strict=True)]
    assert found.final
    assert found.final.keys() == wanted.final.keys()
    return max(most)


def algorithm(name: str) -> dict[str, object]:
    """One row: the same tiny run, computed in other ways."""
    ways: dict[str, list[list[str]]] = {
        "cohort": [[f"executor.cohort={c}"] for c in (*COHORTS, ALL)],
        "flush": [[f"flush={f}"] for f in FLUSHES],
        "threads": [["executor.threads=2"]],
    }
    one = ["executor.threads=1"]
    (wanted,) = runs_of([name], one)
    row: dict[str, object] = {"name": name}
    for way, words in ways.items():
        row[way] = max(run_apart(runs_of([name], [*one, *some])[0], wanted) for some in words)
    row["beside"] = run_apart(runs_of([name], one, seeds=3)[0], wanted)
    return row


# -- all of it ----------------------------------------------------------------------------------------------------


def measure(only: str | None = None) -> dict[str, object]:
    """All rows, with where they were measured."""
    begin = time.perf_counter()
    rows: dict[str, list[dict[str, object]]] = {"networks": [], "algorithms": []}
    for kind, names, make in (("networks", CASES, network), ("algorithms", ALGORITHMS, algorithm)):
        for name in names:
            if only is None or only == name:
                rows[kind].append(make(name))
                print(json.dumps(rows[kind][-1]), file=sys.stderr, flush=True)
    where = {"torch": torch.__version__, "vectors": torch.backends.cpu.get_cpu_capability()}
    return {**where, "model": MODEL, "seconds": round(time.perf_counter() - begin), **rows}


def main() -> None:
    """Measure, and print a line a row, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", help="one network or algorithm")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # that a network goes through vmap is what some cases are for
    found = measure(options.only)
    if options.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
