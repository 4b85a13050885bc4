"""``paceline reproduce psfl-structures --scale paper`` in several processes that share one GPU.

``python -m benchmarks.contest OUT --steps 2 5 --deadline 540``: the same trials in the same directories, where the
reproduction then finds them done. Long sequences have many small steps one after the other, wide structures few large
ones; apart, neither waits for the other. At the deadline whatever is complete is kept.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path

from paceline.papers.psfl.contestants import USUAL, arena, choose, compete, tune_structures
from paceline.papers.result import Request
from paceline.papers.trials import Laboratory

GROUPS = ((1,), (2,), (3,), (4,), (5,), (10,), (20,))
"""Lengths of one process: about as much work for each."""


def work(out: Path, lengths: list[int], scale: str, steps: list[int]) -> None:
    """Tune, then the seeds to report in steps, so that a deadline costs little."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    request = Request(scale=scale, out=out)
    laboratory, here = Laboratory(request), arena(request)
    tuned = tune_structures(laboratory, here, lengths)
    print(*(f"S={one.S}: tuned to quarter {one.best} of {one.tuned.grid}" for one in tuned), sep="\n", flush=True)
    for seeds in steps:
        found = compete(laboratory, here, lengths, seeds)
        if USUAL in lengths:
            choose(laboratory, here, found, seeds)


def share(arguments: argparse.Namespace) -> int:
    """One process a group; interrupted at the deadline, each keeps what it has."""
    words = [sys.executable, "-m", "benchmarks.contest", str(arguments.out), "--scale", arguments.scale]
    words += ["--steps", *map(str, arguments.steps), "--lengths"]
    running = {
        group: subprocess.Popen([*words, *map(str, group)])
        for group in GROUPS
        if set(group) & set(arena(Request(scale=arguments.scale)).middles)
    }
    begin = time.monotonic()
    while any(one.poll() is None for one in running.values()) and time.monotonic() - begin < arguments.deadline:
        time.sleep(1)
    for one in running.values():
        if one.poll() is None:
            one.send_signal(signal.SIGINT)
    for group, one in running.items():
        try:
            one.wait(timeout=25)
        except subprocess.TimeoutExpired:
            one.kill()
        print(f"lengths {group}: status {one.poll()} after {time.monotonic() - begin:.0f} s", flush=True)
    return max(abs(one.poll() or 0) for one in running.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scale", choices=("small", "paper"), default="paper")
    parser.add_argument("--steps", type=int, nargs="*", default=[2, 5], help="seeds to have, one after the other")
    parser.add_argument("--lengths", type=int, nargs="+", help="these alone, in this process")
    parser.add_argument("--deadline", type=float, default=3600.0, help="seconds")
    arguments = parser.parse_args()
    if arguments.lengths is None:
        sys.exit(share(arguments))
    lengths = [S for S in arguments.lengths if S in arena(Request(scale=arguments.scale)).middles]
    work(arguments.out, lengths, arguments.scale, arguments.steps)


if __name__ == "__main__":
    main()
