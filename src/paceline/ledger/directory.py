"""A run's directory: settings first, metrics as they come, spans in parts, and a summary that says how it stands."""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from paceline.errors import DataError, SettingError
from paceline.ledger import lock
from paceline.reading import ANY, parse_object, read_text, require_file, shown

LARGEST = 1 << 30
"""Bytes of a file of metrics."""
SETTINGS = "settings.json"
SPANS = "spans"
COMMAND = "command.txt"
PARTITION = "partition.json"
EXPERIMENT = "paceline.json"
"""What a whole comparison is, so that it can be gone on with."""
_WRITTEN = (".json", ".jsonl", ".safetensors", ".html", ".txt", ".part")
"""How names of files end that a run writes."""
_encode = json.JSONEncoder(allow_nan=False).encode
PACKAGES = ("paceline", "torch", "numpy", "pyarrow", "scikit-learn")


def refuse_taken(path: Path) -> None:
    """A directory that holds runs, or lies in one, is never written into; nor is what a link points to."""
    try:
        str(path).encode()  # a name that is no text could be written, and not be read again
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):  # it is made, or cannot be, which making it says
        pass
    except (OSError, ValueError) as problem:  # a name that is too long, has a zero byte, or is no text
        why = getattr(problem, "strerror", problem)
        raise SettingError(f"--out {shown(str(path))} cannot be a directory: {why}; choose another") from None
    if path.is_symlink():
        raise SettingError(f"--out {path} is a symbolic link; name the directory itself, or one that is new")
    if path.exists() and not path.is_dir():
        raise SettingError(f"--out {path} is a file; name a directory that is new")
    if any(any(path.glob(f"{depth}{mark}")) for mark in (EXPERIMENT, SETTINGS) for depth in ("", "*/", "*/*/")):
        raise SettingError(
            f"{path} already holds a run; choose another --out, or move it away. If that was interrupted, go on with"
            f" it: paceline resume {path}"
        )
    # As it is written, and as it is where links lead: either may lie inside of a run.
    if above := next(filter(_holds_run, (*path.absolute().parents, *path.resolve().parents)), None):
        raise SettingError(f"--out {path} lies inside {above}, which holds a run; choose one beside it")
    below = (Path(folder) for folder, *_ in os.walk(path))
    if inside := next((one for one in below if one != path and (_holds_run(one) or lock.is_held(one))), None):
        raise SettingError(f"--out {path} holds {inside}, which is a run; choose one beside it")
    for one in sorted(path.iterdir()) if path.exists() else ():
        if one.is_symlink() and (one.name in (SPANS, "checkpoints") or one.suffix in _WRITTEN):
            raise SettingError(
                f"{one} is a symbolic link, and would be written through; remove it, or choose another --out"
            )


@contextmanager
def new_directory(path: Path) -> Iterator[None]:
    """Have this directory, and those above it; whoever is refused in there leaves none that was not there before."""
    made = [one for one in (path, *path.parents) if not one.exists()]
    make_directory(path)
    try:
        yield
    except SettingError:
        with suppress(OSError):  # somebody has written there, or is quicker
            for one in made:
                one.rmdir()
        raise


def make_directory(path: Path) -> None:
    """Have this directory, and those above it; called before the work, so that a path that cannot be is known."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise SettingError(f"--out {path} cannot be made a directory: {problem.strerror}") from None


def refuse_links(path: Path) -> None:
    """Refuse a run's directory that holds links, which lead elsewhere, or pipes, which would block a reader."""
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            if (found := Path(folder) / name).is_symlink():
                raise SettingError(f"{found} is a symbolic link, which no run writes; remove it, then go on")
            if name in files:
                with suppress(FileNotFoundError):
                    require_file(found, ANY, SettingError)


def _holds_run(path: Path) -> bool:
    """Whether a directory is that of a run, or of a comparison; other programs have a settings.json too."""
    others = ("summary.json", "metrics.jsonl")
    own = (path / SETTINGS).exists() and any((path / other).exists() for other in others)
    return own or (path / EXPERIMENT).exists() or lock.is_held(path)


@dataclass(eq=False)
class RunDirectory:
    """Writes one run; every line is on disk before the next is computed."""

    path: Path
    before: list[str] = field(default_factory=list)
    """Lines of metrics that were there already: they come again, and must be the same."""
    _metrics: TextIO | None = field(default=None, repr=False)
    _lines: int = 0

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, Any]) -> RunDirectory:
        """A new directory with the settings in it; one that holds a run already is refused, never overwritten."""
        if (path / SETTINGS).exists():
            raise SettingError(f"{path} already holds a run; choose another --out, or move it away")
        make_directory(path)
        _describe(path, settings)
        return cls(path)

    @classmethod
    def reopen(cls, path: Path, settings: Mapping[str, Any]) -> RunDirectory:
        """The directory of a run that goes on; half a line at the end of its metrics is cut off, and settings that
        are missing or damaged are written again."""
        if not _object(path / SETTINGS):
            _describe(path, settings)
        file = path / "metrics.jsonl"
        text = read_text(file, most=LARGEST) if file.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            draft = file.with_suffix(".part")
            draft.write_text(whole, encoding="utf-8")
            draft.replace(file)
        return cls(path, whole.splitlines())

    @property
    def spans(self) -> Path:
        """The folder into which the ledger writes spans."""
        return self.path / SPANS

    def metric(self, row: Mapping[str, Any]) -> bool:
        """Append one row of metrics to metrics.jsonl; False if it was there before, which must be the same row."""
        line, number = _line(row), self._lines
        self._lines += 1
        if number < len(self.before):
            if line != self.before[number]:
                raise DataError(
                    f"{self.path / 'metrics.jsonl'}, line {number + 1}, is not what comes out now: something that"
                    f" decides results has changed since.\nthen: {self.before[number]}\nnow:  {line}"
                )
            return False
        if self._metrics is None:
            self._metrics = (self.path / "metrics.jsonl").open("a", encoding="utf-8")
        self._metrics.write(line + "\n")
        self._metrics.flush()
        return True

    def tell(self, summary: Mapping[str, Any]) -> None:
        """How it stands now, in summary.json."""
        write_json(self.path / "summary.json", clean(summary))

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json and close the file of metrics."""
        if self._metrics is None:
            (self.path / "metrics.jsonl").touch()
        else:
            self._metrics.close()
            self._metrics = None
        self.tell({**summary, **self._further(summary)})

    def _further(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        """Sums that are on disk, of a run that was cut off again before it came to where it had been."""
        known = _object(self.path / "summary.json") if self._lines < len(self.before) else {}
        rounds = known.get("rounds")
        if not isinstance(rounds, int) or rounds <= summary.get("rounds", 0):
            return {}
        return {name: value for name, value in known.items() if name not in ("status", "error")}


def _describe(path: Path, settings: Mapping[str, Any]) -> None:
    """What a run is, and what was typed to make it."""
    write_json(path / SETTINGS, clean({**settings, "versions": versions()}))
    if (said := command()) and not (path / COMMAND).exists():
        (path / COMMAND).write_text(said + "\n", encoding="utf-8")


def _object(path: Path) -> dict[str, Any]:
    """What a file of JSON says; nothing if it is missing or damaged."""
    try:
        return parse_object(read_text(path), str(path))
    except (OSError, DataError):
        return {}


def command() -> str:
    """What was typed to make this run; nothing where it was not the command ``paceline``."""
    return shlex.join(["paceline", *sys.argv[1:]]) if Path(sys.argv[0]).name == "paceline" else ""


def write_partition(path: Path, counts: Mapping[str, Any]) -> None:
    """Which client has how many samples of which label, beside the run that was made of it."""
    write_json(path / PARTITION, counts)


def versions() -> dict[str, str]:
    """What ran: the interpreter and the packages that can change a number."""
    return {"python": platform.python_version(), **{package: _version(package) for package in PACKAGES}}


@cache
def _version(package: str) -> str:
    """Which version of a package is installed: it is read from a file, and every run asks."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "not installed"


def _line(row: Mapping[str, Any]) -> str:
    """A row in JSON; hardly any has a number that must be cleaned away, and who has none is written as it is."""
    try:
        return _encode(row)
    except ValueError:
        return json.dumps(clean(row))


def clean(value: Any) -> Any:
    """NaN and infinity have no place in JSON: they become null."""
    if isinstance(value, Mapping):
        return {key: clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all: whoever is cut off here leaves no half of a file."""
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    draft.replace(path)
