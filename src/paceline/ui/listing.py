"""Which runs lie below a directory, and how each stands. No link is followed, and nothing damaged is fatal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError
from paceline.ledger.directory import EXPERIMENT, SETTINGS
from paceline.ledger.lock import is_held
from paceline.reading import MIB, open_file, parse_object, read_text, shown

FILES = (SETTINGS, "summary.json", "metrics.jsonl")
LARGEST = 16 * MIB
"""Bytes of a run's settings or summary; others are listed as damaged."""
TAIL = 1 << 16
"""Bytes at the end of a file of metrics in which its last line is looked for."""
DEEPEST, MOST_FOLDERS, MOST_RUNS = 8, 20_000, 5_000
FIGURES = ("round", "time", "visits", "bytes", "idle_share", "accuracy", "loss")


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A run directory as it is listed."""

    name: str
    """Its path below the directory that is served, with slashes."""
    path: Path
    status: str
    """running, interrupted, done, failed or damaged."""
    algorithm: str = ""
    seed: int | None = None
    settings: dict[str, str] = field(default_factory=dict)
    """Every setting by its dotted name."""
    figures: dict[str, float | None] = field(default_factory=dict)
    """Of its latest metrics."""
    goal: float | None = None
    """The accuracy that it is to reach."""
    reached: float | None = None
    """The virtual time at which it met its target."""
    problem: str = ""
    """Why it failed, or what is damaged."""
    changed: float = 0.0
    """When anything in it was written last, in seconds since 1970."""

    @property
    def folder(self) -> str:
        """The comparison that it belongs to: the directory that it lies in."""
        return self.name.rpartition("/")[0]


class Listing:
    """All runs below a directory, read again only where their files have changed."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.cut = False
        """Whether there were too many of them."""
        self._known: dict[str, tuple[tuple[object, ...], Listed]] = {}

    def runs(self) -> list[Listed]:
        """Every run, those that were written to last first."""
        found: dict[str, tuple[tuple[object, ...], Listed]] = {}
        self.cut = False
        for path in self._folders():
            if len(found) >= MOST_RUNS:
                self.cut = True
                break
            name = self._name(path)
            found[name] = self._read(name, path)
        self._known = found
        return sorted((run for _, run in found.values()), key=lambda run: (-run.changed, run.name))

    def find(self, name: str) -> Listed | None:
        """The run of this name, if it is listed: no other path can be asked for."""
        return next((run for run in self.runs() if run.name == name), None)

    def _name(self, path: Path) -> str:
        """Its path; what is no text in it becomes a sign for that, and finds nothing."""
        return os.fsencode(path.relative_to(self.root).as_posix()).decode("utf-8", "replace")

    def _folders(self) -> Iterator[Path]:
        """The directories that look like those of runs."""
        waiting, seen = [(self.root, 0)], 0
        while waiting:
            folder, depth = waiting.pop()
            seen += 1
            if seen > MOST_FOLDERS:
                self.cut = True
                return
            names, below = _inside(folder)
            if names & {"summary.json", "metrics.jsonl"} or (names >= {SETTINGS, EXPERIMENT}):
                yield folder
            if depth < DEEPEST:
                waiting += [(path, depth + 1) for path in below]

    def _read(self, name: str, path: Path) -> tuple[tuple[object, ...], Listed]:
        mark = (*(_stamp(path / file) for file in FILES), alive := self._is_written(path))
        known = self._known.get(name)
        if known is not None and known[0] == mark:
            return known
        changed = max((stamp[0] for stamp in mark[:-1] if isinstance(stamp, tuple)), default=0) / 1e9
        try:
            return mark, _listed(name, path, changed, alive=bool(alive))
        except (PacelineError, OSError, ValueError) as problem:
            said = str(problem).replace(f"{self.root}{os.sep}", "")
            return mark, Listed(name=name, path=path, status="damaged", problem=said[:500], changed=changed)

    def _is_written(self, path: Path) -> bool:
        """Whether a process that runs holds this directory, or the comparison that it belongs to."""
        return any(is_held(folder) for folder in (path, path.parent) if folder.is_relative_to(self.root))


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Settings by their dotted names."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value if isinstance(value, str) else json.dumps(value)
    return found


def _inside(folder: Path) -> tuple[set[str], list[Path]]:
    """The names of files in a directory, and the directories in it that are no links and not hidden."""
    names: set[str] = set()
    below: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    below += [] if entry.name.startswith(".") or entry.name == "spans" else [Path(entry.path)]
                else:
                    names.add(entry.name)
    except OSError:
        pass
    return names, sorted(below, reverse=True)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _listed(name: str, path: Path, changed: float, *, alive: bool) -> Listed:
    for file in FILES:
        if (path / file).is_symlink():
            raise ValueError(f"{file} is a link, and links are not followed")
    settings = _object(path / SETTINGS)
    algorithm, seed = settings.get("algorithm"), settings.get("seed")
    if not isinstance(algorithm, str) or not isinstance(seed, int):
        raise ValueError(f"{SETTINGS} must name an algorithm and a seed; got {shown(algorithm)}, {shown(seed)}")
    summary = _object(path / "summary.json") if (path / "summary.json").exists() else {}
    status = str(summary.get("status", "running"))
    if status == "running" and not alive:
        status = "interrupted"
    target = summary.get("target")
    last = _last_row(path / "metrics.jsonl")
    return Listed(
        name=name,
        path=path,
        status=status.partition(":")[0] if status.startswith("failed") else _known_status(status),
        algorithm=algorithm,
        seed=seed,
        settings=flat({key: value for key, value in settings.items() if key != "versions"}),
        figures={key: number(last.get(key)) for key in FIGURES},
        goal=number(target.get("accuracy")) if isinstance(target, dict) else None,
        reached=number(target.get("time")) if isinstance(target, dict) else None,
        problem=str(summary.get("error") or "")[:500],
        changed=changed,
    )


def _known_status(status: str) -> str:
    if status not in ("running", "interrupted", "done"):
        raise ValueError(f"summary.json: the status is {shown(status)}; wanted running, interrupted, done or failed")
    return status


def _object(path: Path) -> dict[str, Any]:
    try:
        return parse_object(read_text(path, most=LARGEST), path.name)
    except FileNotFoundError:
        raise ValueError(f"{path.name} is missing") from None


def _last_row(path: Path) -> dict[str, Any]:
    """The last whole line of a file that may be growing."""
    try:
        with open_file(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read(TAIL).split(b"\n")[:-1]
    except FileNotFoundError:
        return {}
    return parse_object(lines[-1].decode("utf-8", "replace"), path.name) if lines else {}


def number(value: Any) -> float | None:
    """A figure, or None for whatever else a file may hold."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and abs(value) <= 1e100 else None
