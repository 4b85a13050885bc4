"""``python -m benchmarks.peers``: the same federations with Paceline, a plain loop and other frameworks.

Each peer runs as a process of its own in an environment of its own; within every repetition they take turns. What is
measured is the whole process, from its start to its end. docs/peers.md says what is compared and how.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import PEERS, PLACE, ROOT, NotHereError, Peer, python_of
from benchmarks.peers.measuring import Measured, measure
from benchmarks.peers.page import agreement, page
from benchmarks.peers.workload import FEDERATIONS, Federation, write


def options() -> argparse.Namespace:
    """What the user wants."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--only", default=",".join(PEERS), help="peers, with commas between them")
    parser.add_argument("--workload", default=",".join(FEDERATIONS), help="workloads, with commas between them")
    parser.add_argument("--rounds", type=int, help="rounds of every workload")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which one run is stopped")
    parser.add_argument("--data", type=Path, default=os.environ.get("PACELINE_DATA"), help="where mnist.npz is")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    parser.add_argument(
        "--markdown", type=Path, nargs="+", help="measure nothing; print the tables of these JSON files"
    )
    asked = parser.parse_args()
    for name, known in (("only", PEERS), ("workload", FEDERATIONS)):
        chosen = getattr(asked, name).split(",")
        if unknown := set(chosen) - set(known):
            parser.error(f"--{name}: no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        setattr(asked, name, chosen)
    if asked.repeat < 1 or (asked.rounds is not None and asked.rounds < 1):
        parser.error("--repeat and --rounds want a number of at least 1")
    return asked


def pythons(names: list[str]) -> dict[str, str | NotHereError]:
    """The interpreter of each peer, or why there is none."""
    found: dict[str, str | NotHereError] = {}
    for name in names:
        try:
            found[name] = python_of(PEERS[name])
        except NotHereError as problem:
            print(f"{name:<10} cannot be installed: {problem}", flush=True)
            found[name] = problem
    return found


def run_peer(peer: Peer, python: str, workload: Path, limit: float) -> Measured:
    """One process."""
    source = [str(ROOT / "src")] if not peer.own else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *source])}
    log = workload.with_name(f"{workload.stem}-{peer.name}.log")
    return measure([python, "-m", f"benchmarks.peers.{peer.module}", str(workload)], environment, log, limit)


def contest(
    federation: Federation, found: dict[str, str | NotHereError], asked: argparse.Namespace
) -> dict[str, Any]:
    """All peers on one workload, taking turns; a peer that failed is not tried again."""
    path = PLACE / "work" / f"{federation.name}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, federation, asked.data)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in found}
    for turn in range(asked.repeat):
        for name, python in found.items():
            if any(run["error"] for run in runs[name]):
                continue
            if isinstance(python, NotHereError):
                runs[name].append({"error": str(python)})
                continue
            run = asdict(run_peer(PEERS[name], python, path, asked.limit))
            runs[name].append(run)
            print(f"{federation.name:<13}{turn + 1:>2}  {name:<10}{shown(name, run, runs)}", flush=True)
    return runs


def shown(name: str, run: dict[str, Any], runs: dict[str, list[dict[str, Any]]]) -> str:
    """One run in a line."""
    if run["error"]:
        return f"did not run: {run['error']}"
    plain = next((each for each in runs.get("plain", []) if not each["error"]), None)
    fine, words = agreement(name, run, plain)
    loss, accuracy = run["told"]["losses"][-1], run["told"]["accuracies"][-1]
    told = f"{run['wall']:8.1f} s {run['tree'] or run['largest']:8.0f} MiB  loss {loss:.5f}  accuracy {accuracy:.4f}"
    return f"{told}  {words}{'' if fine is not False else '  DOES NOT AGREE'}"


def main() -> int:
    """Measure, print, write; 1 where a peer ran and learned something else."""
    asked = options()
    if asked.markdown:
        print("\n".join(page(json.loads(file.read_text(encoding="utf-8"))) for file in asked.markdown), end="")
        return 0
    before = os.getloadavg()[0]
    chosen = [FEDERATIONS[name] for name in asked.workload]
    chosen = [replace(each, rounds=asked.rounds) if asked.rounds else each for each in chosen]
    found = pythons(asked.only)
    runs = {each.name: contest(each, found, asked) for each in chosen}
    result = {
        "hardware": hardware(),
        "cores": len(os.sched_getaffinity(0)),
        "load": [before, os.getloadavg()[0]],
        "repeat": asked.repeat,
        "workloads": {each.name: asdict(each) for each in chosen},
        "runs": runs,
    }
    if asked.json:
        asked.json.write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(page(result), end="")
    return int(any(disagrees(each) for each in runs.values()))


def disagrees(runs: dict[str, list[dict[str, Any]]]) -> bool:
    """Whether a peer ran and learned something else than the plain loop."""
    plain = next((run for run in runs.get("plain", []) if not run["error"]), None)
    return any(
        agreement(name, run, plain)[0] is False
        for name, several in runs.items()
        for run in several
        if not run["error"]
    )


def hardware() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    sys.exit(main())
