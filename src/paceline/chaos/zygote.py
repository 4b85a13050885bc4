"""A process that has imported everything and makes others of itself: runs start at once, and can be killed.

Each line on its input is an order; it carries it out in a child, and answers with how that ended. A child that is to
die kills itself, without warning and in the middle of things, at the row of metrics that it was told.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import paceline.algorithms.pfedavg  # noqa: F401  # what graphs need, so that no child has to import it
from paceline.runs.experiment import make_experiment
from paceline.runs.keeper import Keeping
from paceline.runs.performing import perform, read_resumption, resume
from paceline.runs.problem import tensors_once
from paceline.runs.recorder import Row
from paceline.runs.run import Run


def carry_out(order: dict[str, Any]) -> None:
    """Run or resume what the order says; it may end here."""
    rows = 0

    def on_row(run: Run, row: Row) -> None:
        nonlocal rows
        rows += 1
        if rows == order["dies"]:
            os.kill(os.getpid(), signal.SIGKILL)

    out = Path(order["out"])
    if order["again"]:
        resume(read_resumption(out, trust=True), on_row)
        return
    keeping = Keeping(every=0.0)
    perform(
        make_experiment([order["name"]], overrides=order["words"], out=out, keeping=keeping, keep_models=True), on_row
    )


def child(order: dict[str, Any]) -> None:
    """Carry out an order, and leave what went wrong beside its directory."""
    status = 0
    try:
        carry_out(order)
    except BaseException as problem:
        Path(order["out"] + ".said").write_text(f"{type(problem).__name__}: {problem}", encoding="utf-8")
        status = 1
    os._exit(status)


def main() -> None:
    """Carry out orders until there are no more."""
    tensors_once("digits")  # once for all children
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            child(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
