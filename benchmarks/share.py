"""One part of a reproduction's trials, so that several processes can share a GPU.

``python -m benchmarks.share pfedavg-fig4 --data cifar10 --only 'seed0$' --out pfedavg-fig4``: the same trials in the
same directories, where ``paceline reproduce`` then finds them done. Only trials whose names match are carried out;
those of an earlier stage that do not (a search for rates, say) are waited for. ``python -m benchmarks.share --list
FILE --slots 6 --deadline 540`` does many such parts, a line of the file each, in that order, so many at a time.
"""

from __future__ import annotations

import argparse
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from paceline.papers.registry import reproduce
from paceline.papers.trials import Finished, Laboratory, Trial, _complete

EVERY = 2.0
"""Seconds between two looks at what others have done."""


class PartDone(Exception):
    """What was asked of this process is there."""


def share(pattern: str, patience: float) -> None:
    """Let laboratories carry out what matches, and wait for the rest if nothing of a stage does."""
    whole, wanted, state = Laboratory.carry_out, re.compile(pattern), {"begun": False}

    def carry_out(self: Laboratory, trials: Sequence[Trial]) -> list[Finished]:
        mine = [trial for trial in trials if wanted.search(trial.name)]
        if mine:
            state["begun"] = True
            whole(self, mine)
        elif state["begun"]:
            raise PartDone
        end = time.monotonic() + (0 if mine else patience)
        while not all(_complete(self.root / trial.name, trial) for trial in trials):
            if time.monotonic() >= end:
                raise PartDone
            time.sleep(EVERY)
        return whole(self, trials)

    Laboratory.carry_out = carry_out  # type: ignore[method-assign]


def work(arguments: argparse.Namespace) -> None:
    """One part, in this process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    share(arguments.only, arguments.patience)
    try:
        reproduce(arguments.id, scale=arguments.scale, seeds=arguments.seeds, out=arguments.out, data=arguments.data)
    except PartDone:
        print(f"{arguments.id} {arguments.only}: done", flush=True)


def queue(file: Path, slots: int, deadline: float) -> None:
    """Parts in order, some at a time; the file may grow meanwhile, and ``end`` in it says that it will not.

    Whatever runs at the deadline is interrupted, and keeps the trials that are complete.
    """
    begin, begun = time.monotonic(), set[str]()
    running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
    while time.monotonic() - begin < deadline:
        for line, (one, since) in [*running.items()]:
            if one.poll() is not None:
                _say(begin, since, one.poll(), line)
                del running[line]
        waiting = [line for line in file.read_text(encoding="utf-8").splitlines() if line and line not in begun]
        if not running and waiting[:1] == ["end"]:
            return
        for line in waiting[: max(0, slots - len(running))]:
            if line == "end":
                break
            words = [sys.executable, "-m", "benchmarks.share", *shlex.split(line)]
            running[line] = subprocess.Popen(words), time.monotonic()
            begun.add(line)
        time.sleep(0.3)
    for one, _ in running.values():
        one.send_signal(signal.SIGINT)
    for line, (one, since) in running.items():
        try:
            one.wait(timeout=15)
        except subprocess.TimeoutExpired:
            one.kill()
        _say(begin, since, one.poll(), line)


def _say(begin: float, since: float, status: int | None, line: str) -> None:
    now = time.monotonic()
    print(f"== {now - begin:.0f} s: status {status} after {now - since:.0f} s: {line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("id", nargs="?")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="a regular expression of trials' names: CASE/METHOD-lrRATE-seedN")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--patience", type=float, default=600.0, help="seconds to wait for earlier stages")
    parser.add_argument("--list", type=Path, help="a file with one part a line, instead of ID")
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--deadline", type=float, default=3600.0, help="seconds")
    arguments = parser.parse_args()
    if arguments.list is None:
        work(arguments)
    else:
        queue(arguments.list, arguments.slots, arguments.deadline)


if __name__ == "__main__":
    main()
