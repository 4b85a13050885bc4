"""Dry runs in a process of their own, with limits on time, memory and size, so that the server stays responsive."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
import tempfile
from collections import OrderedDict
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from paceline.errors import SettingError
from paceline.ui.asking import ERROR, PAGE, Asked

SECONDS = 60.0
"""Real time that a plan may take."""
LARGEST = 32 << 20
"""Bytes of a plan's page."""
AT_ONCE, WAITING = 1, 4
"""Plans that are made at a time, and that may wait for it."""
KEPT = 8
"""Pages of plans that can be looked at again."""
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
            await self._run(asked, Path(folder))
            page, error = Path(folder) / PAGE, Path(folder) / ERROR
            if error.exists():
                raise SettingError(error.read_text(encoding="utf-8", errors="replace")[:4000])
            if not page.exists():
                raise SettingError(
                    "the plan's process ended without an answer, perhaps for lack of memory; ask for fewer clients"
                )
            if page.stat().st_size > LARGEST:
                raise SettingError(
                    f"the plan's page has more than {LARGEST:,} bytes; ask for fewer clients or rounds"
                )
            return page.read_text(encoding="utf-8")

    async def _run(self, asked: Asked, folder: Path) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "paceline.ui.worker",
            cwd=folder,
            env=_environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            await asyncio.wait_for(process.communicate(json.dumps(asdict(asked)).encode()), self._seconds)
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
