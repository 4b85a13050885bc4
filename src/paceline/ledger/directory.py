"""A run's directory: settings first, metrics as they come, spans in chunks, the summary last."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from paceline.errors import SettingError

PACKAGES = ("paceline", "torch", "numpy", "pyarrow", "scikit-learn")


def refuse_taken(path: Path) -> None:
    """A directory that holds a run is never written over, nor is the page beside it."""
    if (path / "settings.json").exists():
        raise SettingError(f"{path} already holds a run; choose another --out, or move it away")


@dataclass(eq=False)
class RunDirectory:
    """Writes one run; every line is on disk before the next is computed."""

    path: Path
    _metrics: TextIO | None = field(default=None, repr=False)

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, Any]) -> RunDirectory:
        """A new directory with the settings in it; one that holds a run already is refused, never overwritten."""
        refuse_taken(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise SettingError(f"--out {path} cannot be made a directory: {problem.strerror}") from None
        _write(path / "settings.json", clean({**settings, "versions": versions()}))
        return cls(path)

    @property
    def spans(self) -> Path:
        """The file into which the ledger writes spans."""
        return self.path / "spans.parquet"

    def metric(self, row: Mapping[str, Any]) -> None:
        """Append one row of metrics to metrics.jsonl."""
        if self._metrics is None:
            self._metrics = (self.path / "metrics.jsonl").open("w", encoding="utf-8")
        self._metrics.write(json.dumps(clean(row)) + "\n")
        self._metrics.flush()

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json and close the file of metrics."""
        if self._metrics is None:
            (self.path / "metrics.jsonl").touch()
        else:
            self._metrics.close()
            self._metrics = None
        _write(self.path / "summary.json", clean(summary))


def versions() -> dict[str, str]:
    """What ran: the interpreter and the packages that can change a number."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # run from a source tree that is not installed
            found[package] = "not installed"
    return found


def clean(value: Any) -> Any:
    """NaN and infinity have no place in JSON: they become null."""
    if isinstance(value, Mapping):
        return {key: clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _write(path: Path, value: Any) -> None:
    """Whole or not at all: whoever is cut off here leaves no half of a file."""
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    draft.replace(path)
