"""Weights & Biases in its offline mode: a folder for each run, for `wandb sync` if and when somebody wants that."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from paceline.tracking.base import Book, Page

PATIENCE = 30.0
"""Seconds for which the package's process may still write when it was told to end."""


class Wandb:
    """The folder of one command's runs."""

    def __init__(self, out: Path, key: str) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # nothing is told to anybody
        import wandb

        self._wandb: Any = wandb
        self._out, self._group = out, key

    def open(self, page: Page) -> Book:
        """A new folder, with the rows that older ones of the same run have not."""
        return WandbBook(self._wandb, self._out, self._group, page)

    def close(self) -> None:
        """Nothing is left to do; the package ends its own process with this one."""


class WandbBook:
    """One of W&B's runs; its steps are rows, its axis is virtual time."""

    def __init__(self, wandb: Any, out: Path, group: str, page: Page) -> None:
        self._written = partial(_known, out, page.key)
        self.rows, self.ended = self._written()
        self._run: Any = None
        self._make = partial(_begin, wandb, out, group, page)

    def write(self, step: int, time: float, figures: Mapping[str, float]) -> None:
        """One more row."""
        self._begun().log(dict(figures), step=self.rows)
        self.rows += 1

    def end(self, status: str, time: float, figures: Mapping[str, float]) -> None:
        """The summary."""
        self._begun().summary.update({"status": status, **figures})
        self.ended = True

    def close(self) -> None:
        """Have all of it on disk: the package's own process may write on for a moment after it was told to end."""
        if self._run is None:
            return
        self._run.finish(exit_code=0 if self.ended else 1)
        latest = time.monotonic() + PATIENCE
        while self._written() != (self.rows, self.ended) and time.monotonic() < latest:
            time.sleep(0.02)

    def _begun(self) -> Any:
        """The run, begun when there is something to write: a folder without rows would only be in the way."""
        if self._run is None:
            self._run = self._make()
        return self._run


def _begin(wandb: Any, out: Path, group: str, page: Page) -> Any:
    """A run in W&B's offline mode."""
    # Offline, and nothing of this machine: no git remote, no code, no hardware, no console.
    settings = wandb.Settings(
        mode="offline",
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        save_code=False,
        disable_job_creation=True,
        symlink=False,  # a directory with links in it is not resumed
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
    )
    run = wandb.init(
        dir=str(out),
        project="paceline",
        group=group,
        id=page.key,
        name=page.name,
        config=page.parameters,
        reinit="create_new",
        settings=settings,
    )
    run.define_metric("*", step_metric="time")
    for found in Path(run.dir).parent.rglob("*"):
        if found.is_symlink():  # to a log elsewhere
            found.unlink()
    return run


def _known(out: Path, key: str) -> tuple[int, bool]:
    """How many rows the folders of this run hold, and whether its end; half a record at the end counts as none."""
    rows, ended = 0, False
    for file in sorted(out.glob(f"wandb/offline-run-*/run-{key}.wandb")):
        for record in records(file):
            kind = record.WhichOneof("record_type")
            rows += kind == "history"
            ended |= kind == "exit" and record.exit.exit_code == 0
    return rows, ended


def records(file: Path) -> list[Any]:
    """What W&B has written into a file, as far as it is whole."""
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    store: Any = DataStore()
    found: list[Any] = []
    try:
        store.open_for_scan(str(file))
        while (data := store.scan_data()) is not None:
            found.append(Record.FromString(data))
    except (AssertionError, ValueError, OSError):  # cut off in the middle of a record
        pass
    finally:
        store.close()
    return found
