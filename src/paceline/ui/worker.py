"""The process that makes one plan: reads what is asked, runs it without learning, writes the page, and ends.

Besides the checks of what is asked (``asking.py``), nothing outside the program, the datasets and its own folder is
opened, no process is started and no connection made: whatever a setting says, Python itself refuses.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY, FILE, PROCESSOR = 8 << 30, 512 << 20, 120
"""Bytes of address space, bytes of a file, and seconds of the processor that this process may take."""
REFUSED = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "socket.bind")
EVEN = "partition=iid"
"""How data are split unless something else is said: few devices could not hold two classes each of all there are."""
VISITS = 30_000
"""Client visits after which a plan's run ends."""


def main() -> None:
    """Make the plan that standard input asks for in the present directory."""
    from paceline.errors import PacelineError
    from paceline.ui.asking import ERROR

    limit()
    asked = json.load(sys.stdin)
    try:
        plan(asked)
    except PacelineError as problem:
        Path(ERROR).write_text(str(problem), encoding="utf-8")
    except MemoryError:
        Path(ERROR).write_text("the plan needs more memory than it may have; ask for fewer clients", encoding="utf-8")


def plan(asked: dict[str, Any]) -> None:
    """Run what is asked without learning, and write the page about it."""
    from paceline.data.files import data_root
    from paceline.report.page import write_report
    from paceline.runs.experiment import make_experiment
    from paceline.runs.performing import perform
    from paceline.runs.until import Until
    from paceline.ui.asking import PAGE

    here = Path.cwd()
    settings = [EVEN, *asked["settings"]]
    if asked["fleet"]:
        file = here / f"fleet.{asked['kind']}"
        file.write_text(f"{asked['fleet']}\n", encoding="utf-8")
        settings.append(f"fleet.file={file}")
    sys.addaudithook(guard([here, Path(tempfile.gettempdir()) / "torchinductor", data_root()]))
    experiment = make_experiment(
        list(asked["algorithms"]), overrides=settings, dry=True, out=here / "runs", until=Until(visits=VISITS)
    )
    outcome = perform(experiment)
    if len(outcome.failures) == len(outcome.runs) and (failure := outcome.runs[0].failure) is not None:
        raise failure
    directories = [run.directory for run in outcome.runs if run.directory is not None and run.failure is None]
    names = ", ".join(dict.fromkeys(one.name for one in experiment.settings))
    write_report(directories, here / PAGE, f"Plan: {names} on {experiment.settings[0].clients} devices")


def limit() -> None:
    """No more memory, processor time and disk than a plan may take, where the system can say so."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CPU, PROCESSOR),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def guard(allowed: list[Path]) -> Callable[[str, tuple[Any, ...]], None]:
    """A hook that lets files be opened below these directories and in the program, and nothing else begin."""
    from paceline.errors import SettingError

    program = [Path(path) for path in {sys.prefix, sys.base_prefix, *sys.path} if path and path != os.getcwd()]
    known = [*allowed, *program, *map(Path, ("/proc", "/sys", "/dev/null", "/usr/share"))]
    roots = [os.path.realpath(path) for path in known]

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in REFUSED:
            raise SettingError("a plan starts no process and makes no connection")
        if event != "open" or not isinstance(arguments[0], str | bytes):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if not any(path == root or path.startswith(root + os.sep) for root in roots):
            raise SettingError("a plan reads no files of this machine; paste your fleet into the form instead")

    return refuse


if __name__ == "__main__":
    main()
