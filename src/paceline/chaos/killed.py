"""Runs whose process is killed and resumed: what they leave must be what an undisturbed one leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import pyarrow.dataset as ds

from paceline.chaos.limits import Hang, at_most
from paceline.chaos.scene import words
from paceline.errors import SiteError
from paceline.seeds import stream

SECONDS = 120.0
ENVIRONMENT = {"PACELINE_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""A process that forks must have no threads."""


@dataclass(frozen=True)
class Killed:
    """What became of a run that was killed and resumed."""

    kills: int
    same: bool
    message: str = ""
    hangs: bool = False


class Mortals:
    """``with Mortals() as mortals:`` processes that carry out runs and can be killed."""

    def __enter__(self) -> Mortals:
        self._zygote: subprocess.Popen[str] | None = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def killed(self, name: str, seed: int, more: Sequence[str]) -> Killed:
        """Run it undisturbed, and again with two kills at rows that are drawn; compare."""
        said = [*words(tuple(more)), "flush=4", f"seed={seed}"]
        with TemporaryDirectory(prefix="paceline-chaos-") as folder:
            try:
                with at_most(SECONDS):
                    return self._compared(name, seed, said, Path(folder))
            except Hang as hang:
                self._end()
                return Killed(0, False, str(hang), hangs=True)
            except SiteError as problem:
                return Killed(0, False, str(problem))

    def _compared(self, name: str, seed: int, said: list[str], folder: Path) -> Killed:
        whole, other = folder / "whole", folder / "killed"
        self._ordered(name, said, whole)
        rows = len((whole / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        draws = stream(seed, "chaos", "killed", name).integers(1, max(2, rows // 2), size=2)
        kills = 0
        for again, dies in enumerate([*map(int, draws), 0]):
            kills += self._ordered(name, said, other, again=again > 0, dies=dies) == -signal.SIGKILL
        same = _left(whole) == _left(other)
        return Killed(kills, same, "" if same else "what it left is not what an undisturbed run leaves")

    def _ordered(self, name: str, said: list[str], out: Path, *, again: bool = False, dies: int = 0) -> int:
        """Have an order carried out; how it ended."""
        order = {"name": name, "words": said, "out": str(out), "again": again, "dies": dies}
        status = self._answer(json.dumps(order))
        if status not in (0, -signal.SIGKILL):
            raise SiteError(f"{name} ended in its process: {Path(f'{out}.said').read_text(encoding='utf-8')}")
        return status

    def _answer(self, order: str) -> int:
        """What the zygote says of an order; one that is gone has no answer, and the next order has another zygote."""
        zygote = self._started()
        assert zygote.stdin is not None and zygote.stdout is not None
        answer = ""
        with suppress(BrokenPipeError):
            zygote.stdin.write(order + "\n")
            zygote.stdin.flush()
            answer = zygote.stdout.readline()
        if not answer:
            code = zygote.wait()
            self._end()
            raise SiteError(f"the process that makes others of itself is gone (exit code {code})")
        return int(answer)

    def _started(self) -> subprocess.Popen[str]:
        if self._zygote is None:
            self._zygote = subprocess.Popen(
                [sys.executable, "-m", "paceline.chaos.zygote"],
                env=os.environ | ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        return self._zygote

    def _end(self) -> None:
        """End the zygote and what it has made."""
        zygote, self._zygote = self._zygote, None
        if zygote is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(zygote.pid, signal.SIGKILL)
        zygote.wait()
        for pipe in (zygote.stdin, zygote.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _left(directory: Path) -> tuple[Any, ...]:
    """All that a run leaves, but for real seconds."""
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    del summary["seconds"]
    parts = sorted((directory / "spans").glob("*.parquet"))
    spans = repr(ds.dataset(parts, format="parquet").to_table().to_pydict())  # as text: NaN equals NaN
    weights = (directory / "model.safetensors").read_bytes()
    return summary, (directory / "metrics.jsonl").read_bytes(), weights, spans
