"""One seam for all trackers: told of every row and of the end of every run, it keeps their books complete."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from paceline.errors import SettingError, nearest
from paceline.ledger.directory import write_json
from paceline.reading import MIB, parse_object, read_text
from paceline.report.runs import load_run
from paceline.runs.performing import OnRow, Outcome
from paceline.runs.recorder import Row
from paceline.runs.run import Run
from paceline.tracking.base import Book, Page, Tracker, figures

MEMORY = "tracking.json"
"""In a command's directory: which trackers follow it and what its runs are called there, for whoever goes on."""


class Kind(NamedTuple):
    """A tracker that there is."""

    package: str
    """What must be installed, and what the extra is called that installs it."""
    module: str
    make: str


TRACKERS = {
    "tensorboard": Kind("tensorboard", "paceline.tracking.tensorboard_book", "TensorBoard"),
    "mlflow": Kind("mlflow", "paceline.tracking.mlflow_book", "MLflow"),
    "wandb": Kind("wandb", "paceline.tracking.wandb_book", "Wandb"),
}


def check_trackers(names: str | Sequence[str]) -> list[str]:
    """These trackers, each once; one that nobody knows is refused, and one that is not installed."""
    listed = [names] if isinstance(names, str) else names
    asked = list(dict.fromkeys(listed))
    for name in asked:
        if name not in TRACKERS:
            raise SettingError(f"--track {name}: there is no such tracker; {nearest(name, TRACKERS)}")
        package = TRACKERS[name].package
        if find_spec(package) is None:
            raise SettingError(
                f"--track {name} needs a package that is not installed; install the extra `{package}`;"
                " see docs/install.md"
            )
    return asked


def followed(
    names: str | Sequence[str], out: Path | None, on_row: OnRow, doing: Callable[[OnRow], Outcome]
) -> Outcome:
    """Do it while these trackers follow, and those that followed before it was interrupted."""
    asked = check_trackers(names)
    if asked and out is None:
        raise SettingError(f"track={', '.join(asked)} wants a directory to write to; say out=...")
    wanted = check_trackers([*asked, *(_remembered(out).get("trackers", []) if out is not None else [])])
    if not wanted or out is None:
        return doing(on_row)
    with closing(Following(wanted, out)) as following:

        def tell(run: Run, row: Row) -> None:
            following.begin(run)
            on_row(run, row)
            following.follow(run)

        outcome = doing(tell)
        for run in outcome.runs:
            following.end(run)
    return outcome


class Following:
    """The books of all runs in all trackers; they are opened when there is something to write."""

    def __init__(self, names: Sequence[str], out: Path) -> None:
        self._names, self._out = names, out
        self._trackers: list[Tracker] = []
        self._books: dict[Path, list[Book]] = {}
        self._key = ""

    def begin(self, run: Run) -> None:
        """Open the books of a run, and write down who follows: also if it is cut off before a row is in them."""
        self._of(run)

    def follow(self, run: Run) -> None:
        """Write the rows that a book has not, whoever wrote the others."""
        for book in self._of(run):
            for row in run.rows[book.rows :]:
                book.write(int(row["round"]), float(row["time"]), figures(row))

    def end(self, run: Run) -> None:
        """Write what is left of a run's rows, and its summary."""
        self.follow(run)
        summary = run.summary()
        shown = {name: value for name, value in summary.items() if name not in ("distributions", "notes", "until")}
        for book in self._of(run):
            if not book.ended:
                book.end(str(summary["status"]), float(summary["time"]), figures(shown))

    def close(self) -> None:
        """Have everything on disk, also when the runs were interrupted."""
        for book in (book for books in self._books.values() for book in books):
            book.close()
        for tracker in self._trackers:
            tracker.close()

    def _of(self, run: Run) -> list[Book]:
        directory = run.directory
        if directory is None:
            return []
        if not self._trackers:
            self._key = self._remember()
            self._trackers = [_make(name, self._out, self._key) for name in self._names]
        if directory not in self._books:
            name = "" if directory == self._out else f"-{directory.name}"
            page = Page(
                name=run.label,
                directory=directory,
                key="".join(letter if letter.isalnum() else "-" for letter in self._key + name),
                parameters=load_run(directory).settings,
            )
            self._books[directory] = [tracker.open(page) for tracker in self._trackers]
        return self._books[directory]

    def _remember(self) -> str:
        """The name of this command's runs, as it was or a new one."""
        key = _remembered(self._out).get("key") or f"{self._out.resolve().name}-{uuid.uuid4().hex[:8]}"
        write_json(self._out / MEMORY, {"trackers": list(self._names), "key": key})
        return str(key)


def _make(name: str, out: Path, key: str) -> Tracker:
    kind = TRACKERS[name]
    tracker: Tracker = getattr(import_module(kind.module), kind.make)(out, key)
    return tracker


def _remembered(out: Path) -> dict[str, Any]:
    """What was written down when the command began; nothing if no tracker followed it."""
    path = out / MEMORY
    if not path.exists():
        return {}
    found = parse_object(read_text(path, most=MIB), str(path))
    trackers, key = found.get("trackers"), found.get("key")
    if not isinstance(trackers, list) or not all(name in TRACKERS for name in trackers) or not isinstance(key, str):
        raise SettingError(
            f"{path} does not say which trackers follow these runs; wanted {json.dumps(list(TRACKERS))} and a key"
        )
    return found
