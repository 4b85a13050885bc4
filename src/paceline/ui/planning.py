"""Dry runs in a process of their own, with limits on time and size, so that the server stays responsive."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import tempfile
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import SettingError
from paceline.reading import read_text
from paceline.ui.asking import Asked

SECONDS = 60.0
"""Real time that a plan may take."""
LARGEST = 32 << 20
"""Bytes of a plan's page."""
AT_ONCE, WAITING = 1, 4
"""Plans that are made at a time, and that may wait for it."""
KEPT = 8
"""Pages of plans that can be looked at again."""
COMMON = ("--dry-run", "--quiet", "--until", "visits=30000", "--set", "partition=iid", "--out", "plan")
"""Fixed options of every plan. Data are split evenly: few devices could not hold two classes each."""
PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "PACELINE_DATA", "TMPDIR", "SYSTEMROOT", "VIRTUAL_ENV")
"""What the process is told of the environment."""


@dataclass(frozen=True)
class Plan:
    """A page that answers what was asked."""

    token: str
    page: str


class Planner:
    """Makes plans one after the other and keeps the last few."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._places = asyncio.Semaphore(AT_ONCE)
        self._asked = 0
        self._kept: OrderedDict[str, Plan] = OrderedDict()

    async def plan(self, asked: Asked) -> Plan:
        """The answer to what was asked; ``SettingError`` says why there is none."""
        if self._asked >= AT_ONCE + WAITING:
            raise SettingError("too many plans are being made; wait for one to end and ask again")
        self._asked += 1
        try:
            async with self._places:
                page = await self._made(asked)
        finally:
            self._asked -= 1
        plan = Plan(secrets.token_urlsafe(12), page)
        self._kept[plan.token] = plan
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return plan

    def find(self, token: str) -> Plan | None:
        """A plan that was made a little while ago."""
        return self._kept.get(token)

    async def _made(self, asked: Asked) -> str:
        with tempfile.TemporaryDirectory(prefix="paceline-plan-") as folder:
            said = await self._run(asked, Path(folder))
            try:
                return read_text(Path(folder) / "plan" / "report.html", SettingError, most=LARGEST)
            except FileNotFoundError:
                problem = said.rpartition("error: ")[2].strip()[:4000]
                raise SettingError(
                    problem or "the plan's process ended without an answer; ask for fewer clients"
                ) from None

    async def _run(self, asked: Asked, folder: Path) -> str:
        settings = [word for setting in asked.settings for word in ("--set", setting)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "paceline", "compare", *asked.algorithms, *COMMON, *settings),
            cwd=folder,
            env=_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _, said = await asyncio.wait_for(process.communicate(), self._seconds)
            return said.decode("utf-8", "replace")
        except TimeoutError:
            raise SettingError(
                f"the plan took more than {self._seconds:g} s and was stopped; ask for fewer clients, rounds or"
                " algorithms, or use `paceline compare --dry-run`, which has no such limit"
            ) from None
        finally:
            _kill(process)
            await process.wait()


def _environment() -> dict[str, str]:
    """Paths to modules as they are seen from here: the process works in a folder of its own."""
    passed = {name: os.environ[name] for name in PASSED if name in os.environ}
    paths = [str(Path(path).absolute()) for path in passed.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**passed, "PYTHONPATH": os.pathsep.join(paths), "PACELINE_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _kill(process: asyncio.subprocess.Process) -> None:
    """End the process and whatever it has started."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
