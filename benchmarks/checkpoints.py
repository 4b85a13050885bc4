"""What it costs that a run can be gone on with: ``python -m benchmarks.checkpoints [--seconds 2000]``.

The demo's comparison (four algorithms, five seeds) runs to a virtual time about ten times as late as its own end,
with checkpoints at the default interval; their share of its time, and that of writing down what was learned, is
printed. Then a process that does the same keeps one of its last stops and ends there without warning,
and the run is resumed: the time until values are given back is compared with dry runs of the same schedules.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline.runs.experiment import make_experiment
from paceline.runs.keeper import Keeper
from paceline.runs.performing import perform
from paceline.runs.until import Until

NAMES = ("fedavg", "sfl", "psfl", "fedbuff")


def demo(seconds: float, out: Path | None = None, *, dry: bool = False) -> Any:
    """The demo, to this virtual time."""
    return perform(make_experiment(NAMES, seeds=5, until=Until(time=seconds), out=out, dry=dry))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    found = work()
    return time.perf_counter() - begin, found


def noted() -> list[float]:
    """Have every stop's writing measured."""
    spent: list[float] = []
    before = Keeper._compute

    def compute(self: Keeper, runs: Any) -> Any:
        add = self._learned.add

        def measured(stop: Any) -> None:
            spent.append(timed(lambda: add(stop))[0])

        self._learned.add = measured  # type: ignore[method-assign]
        try:
            return before(self, runs)
        finally:
            self._learned.add = add  # type: ignore[method-assign]

    Keeper._compute = compute  # type: ignore[method-assign]
    return spent


def cut_off(seconds: float, out: Path, last: int) -> None:
    """Run, keep this stop, and end there without warning."""
    stopped = Keeper.stopped

    def ended(self: Keeper) -> None:
        stopped(self)
        if self._stop == last:
            self.save()
            os._exit(9)

    Keeper.stopped = ended  # type: ignore[method-assign]
    demo(seconds, out)


def resumed(out: Path) -> float:
    """Seconds until a run that was cut off has its values back."""
    import paceline

    class Back(BaseException):
        pass

    def back(self: Keeper, checkpoint: Any) -> None:
        give(self, checkpoint)
        raise Back

    give, Keeper._give_back = Keeper._give_back, back  # type: ignore[method-assign]
    begin = time.perf_counter()
    try:
        paceline.resume(out)
    except Back:
        return time.perf_counter() - begin
    raise AssertionError("nothing was replayed")


def main() -> None:
    """Print three figures."""
    words = argparse.ArgumentParser(description="What checkpoints and resuming cost.")
    words.add_argument("--seconds", type=float, default=2000.0, help="virtual seconds")
    words.add_argument("--cut-off", nargs=2)
    asked = words.parse_args()
    if asked.cut_off:
        cut_off(asked.seconds, Path(asked.cut_off[0]), int(asked.cut_off[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        gone_on(asked.seconds, Path(folder), kept_run(asked.seconds, Path(folder)))


def kept_run(seconds: float, folder: Path) -> int:
    """What keeping costs; how many stops there were."""
    written = noted()
    whole, outcome = timed(lambda: demo(seconds, folder / "whole"))
    kept = outcome.kept
    share, stops = 100 * kept.seconds / whole, 100 * sum(written) / whole
    print(f"{whole:.0f} s, {kept.checkpoints} checkpoints of at most {kept.largest / 1e6:.1f} MB")
    print(f"{share:.2f} % of the time for them, {stops:.2f} % for the {len(written)} stops", flush=True)
    return len(written)


def gone_on(seconds: float, folder: Path, stops: int) -> None:
    """What going on costs, with a run that has so many stops."""
    last = max(1, stops * 9 // 10)
    command = [sys.executable, "-m", "benchmarks.checkpoints", "--seconds", str(seconds), "--cut-off"]
    subprocess.run([*command, str(folder / "cut"), str(last)], check=False)
    dry, _ = timed(lambda: demo(seconds, folder / "dry", dry=True))
    again = resumed(folder / "cut")
    print(f"resumed at stop {last} of {stops} in {again:.1f} s; dry runs of all of it take {dry:.1f} s")


if __name__ == "__main__":
    main()
