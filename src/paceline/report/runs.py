"""Run directories as values, and which of them are seeds of one and the same thing."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError
from paceline.reading import MIB, parse_object, read_file, read_text, require_file, shown

Column = NDArray[np.float64]

LARGEST, MOST = 1024 * MIB, 1e100
"""Bytes of a file, and the greatest figure: squares and sums of such figures are numbers too."""
COSTS = ("round", "time", "visits", "bytes", "joules", "flops", "idle_share")
METRICS = (*COSTS, "accuracy", "loss", "sparsity", "score")
# What may differ between two runs that are still seeds of the same comparison.
_PRIVATE = {"seed", "out", "directory", "versions", "started", "command", "host"}


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that the algorithm decided, or that failed, as the run's summary tells it."""

    time: float
    text: str
    kind: str = "decision"
    """A decision, a failure, or the end of the run before its last round."""
    name: str = ""
    """What failed, in a few words; empty where nothing did."""
    sites: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run, that of one algorithm with one seed, as its directory tells it."""

    path: Path
    algorithm: str
    seed: int
    settings: dict[str, str]
    """Every setting by its dotted name."""
    metrics: dict[str, Column]
    """Columns of equal length; what was not measured is NaN."""
    summary: dict[str, Any]
    missing: tuple[str, ...] = ()
    """What a run that has ended well would have, and this one has not."""

    @property
    def spans(self) -> Path | None:
        """The folder of spans (of older runs a file), if this run kept any."""
        folder, file = self.path / "spans", self.path / "spans.parquet"
        if any(folder.glob("*.parquet")):
            return folder
        return file if file.exists() else None

    @property
    def command(self) -> str:
        """The command that made this run, or nothing if it was not recorded or cannot be read."""
        try:
            return read_text(self.path / "command.txt", most=MIB).strip()
        except (FileNotFoundError, DataError):
            return ""

    @property
    def versions(self) -> dict[str, str]:
        """What it was made with, by the name of the package."""
        return {k.removeprefix("versions."): v for k, v in self.settings.items() if k.startswith("versions.")}

    @property
    def notes(self) -> list[Note]:
        """What the algorithm decided, in the order of time."""
        kept = self.summary.get("notes")
        rows = [row for row in kept if isinstance(row, dict)] if isinstance(kept, list) else []
        return [_note(row) for row in rows]

    @property
    def distributions(self) -> dict[str, dict[int, int]]:
        """How often each whole number came up, by name (``staleness``); names that counted nothing are left out."""
        kept = self.summary.get("distributions")
        if kept is None:
            return {}
        try:
            found = {
                name: {_value(value): _count(count) for value, count in counts.items() if count}
                for name, counts in kept.items()
            }
        except (AttributeError, TypeError, ValueError):
            raise DataError(
                f"{self.path / 'summary.json'}: every distribution must map whole numbers to counts, such as"
                f' {{"staleness": {{"0": 12}}}}; got {kept!r:.200}'
            ) from None
        return {name: counts for name, counts in found.items() if counts}

    def figure(self, *keys: str) -> float | None:
        """A number of the summary, such as ``figure("target", "time")``; None where there is none."""
        value: Any = self.summary
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return float(value) if _is_figure(value) else None

    @property
    def dry(self) -> bool:
        """Whether it made rounds and scored none of them: only its schedule was computed."""
        scores = (self.metrics.get(name) for name in ("accuracy", "loss"))
        rounds = len(self.metrics.get("round", ()))
        return rounds > 0 and all(column is None or np.isnan(column).all() for column in scores)

    @property
    def aimed(self) -> bool:
        """Whether it was to end at an accuracy or a loss."""
        return any(self.figure("target", key) is not None for key in ("accuracy", "loss"))


@dataclass(frozen=True, kw_only=True)
class Group:
    """The seeds of one algorithm with one choice of settings."""

    label: str
    runs: tuple[Run, ...]


def _note(row: dict[str, Any]) -> Note:
    sites, time = row.get("sites"), row.get("time")
    return Note(
        time=float(time) if _is_figure(time) else math.nan,
        text=str(row.get("text", "")),
        kind=str(row.get("kind", "decision")),
        name=str(row.get("name", "")),
        sites=tuple(site for site in sites if _is_whole(site)) if isinstance(sites, list) else (),
    )


def load_run(path: Path) -> Run:
    """The run kept in this directory; a file that is missing or damaged is named."""
    if not path.is_dir():
        raise DataError(f"{path} is not a run directory; give the directory that `paceline run` wrote")
    missing: list[str] = []
    settings = _read_settings(path, missing)
    algorithm, seed = settings.get("algorithm"), settings.get("seed")
    if not isinstance(algorithm, str) or not _is_whole(seed):
        raise DataError(
            f"{path / 'settings.json'} must name an algorithm and a whole seed; got {shown(algorithm)}, {shown(seed)}"
        )
    summary = _read_summary(path / "summary.json", missing)
    metrics = _read_metrics(path / "metrics.jsonl", missing, ended=summary.get("status") == "done")
    return Run(
        path=path,
        algorithm=algorithm,
        seed=seed,
        settings=_flat(settings),
        metrics=metrics,
        summary=summary or {"status": "running"},
        missing=tuple(missing),
    )


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Runs that differ in nothing but the seed, together; named by algorithm and by what sets them apart."""
    together: dict[tuple[tuple[str, str], ...], list[Run]] = {}
    for run in runs:
        together.setdefault(tuple(sorted(_public(run).items())), []).append(run)
    for members in together.values():
        _refuse_twins(members)
    firsts = [members[0] for members in together.values()]
    return [
        Group(label=_label(members[0], firsts), runs=tuple(sorted(members, key=lambda run: run.seed)))
        for members in together.values()
    ]


def common_settings(runs: Sequence[Run]) -> dict[str, str]:
    """The settings on which all runs agree."""
    first, *rest = (_public(run) for run in runs)
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in rest)}


def own_settings(group: Group, common: dict[str, str]) -> dict[str, str]:
    """The settings of a group that are not common to all."""
    return {key: value for key, value in _public(group.runs[0]).items() if key not in common}


def _public(run: Run) -> dict[str, str]:
    return {key: value for key, value in run.settings.items() if key.partition(".")[0] not in _PRIVATE}


def _label(run: Run, firsts: Sequence[Run]) -> str:
    rivals = [_public(other) for other in firsts if other.algorithm == run.algorithm and other is not run]
    mine = _public(run)
    different = {key: value for key, value in mine.items() if any(other.get(key) != value for other in rivals)}
    apart = [f"{key.removeprefix('options.')}={value}" for key, value in different.items()]
    return f"{run.algorithm} ({', '.join(apart)})" if apart else run.algorithm


def _refuse_twins(runs: Sequence[Run]) -> None:
    seen: dict[int, Run] = {}
    for run in runs:
        twin = seen.setdefault(run.seed, run)
        if twin is not run:
            # Counted as two seeds they would make the interval too narrow.
            raise DataError(f"{twin.path} and {run.path} hold the same settings and seed; leave one out")


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value if isinstance(value, str) else json.dumps(value)
    return flat


def _read_text(path: Path) -> str:
    try:
        return read_text(path, most=LARGEST)
    except FileNotFoundError:
        raise DataError(f"{path} is missing; the run has not finished, or this is no run directory") from None


def _read_object(path: Path) -> dict[str, Any]:
    return parse_object(_read_text(path), str(path))


def _read_settings(path: Path, missing: list[str]) -> dict[str, Any]:
    """The settings of a run; where their file is missing or damaged, as that of the whole command has them."""
    file = path / "settings.json"
    if file.exists():
        require_file(file, LARGEST)
    try:
        return _read_object(file)
    except DataError:
        for folder in (path, path.parent):
            with suppress(OSError, DataError, KeyError, ValueError, TypeError):
                kept = parse_object(read_text(folder / "paceline.json", most=LARGEST), "paceline.json")
                found = kept["settings"][kept["folders"].index(str(path.relative_to(folder)))]
                if isinstance(found, dict):
                    missing.append("the file of its settings (paceline.json has them)")
                    return found
        raise


def _read_summary(path: Path, missing: list[str]) -> dict[str, Any]:
    """How it stands with a run; of one that was lost with its machine there may be none, or half of one."""
    if not path.exists():
        missing.append("its summary")
        return {}
    require_file(path, LARGEST)
    try:
        return _read_object(path)
    except DataError:
        missing.append("its summary, of which there is only something damaged,")
        return {}


def _read_metrics(path: Path, missing: list[str], *, ended: bool) -> dict[str, Column]:
    text = read_file(path, LARGEST).decode("utf-8", "replace") if path.exists() else ""
    if not path.exists():
        missing.append("its metrics")
    whole = text[: text.rfind("\n") + 1]
    if whole != text and not (ended and _is_whole_line(text[len(whole) :])):  # cut off in the middle
        missing.append("the rest of its last line of metrics")
        text = whole
    rows: list[dict[str, float]] = []
    damaged: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            rows += [_row(line)] if line.strip() else []
        except (DataError, ValueError):
            damaged.append(number)
    if damaged:
        missing.append(_lines(damaged))
    return {key: np.array([row[key] for row in rows], float) for key in METRICS}


def _row(line: str) -> dict[str, float]:
    """The figures of a line; ``ValueError`` or ``DataError`` for one that is damaged."""
    words = parse_object(line, "a line")
    found = {key: _float(words.get(key)) for key in METRICS}
    if math.isnan(found["time"]):
        raise ValueError("every line needs a 'time'")
    return found


def _lines(damaged: Sequence[int]) -> str:
    named = ", ".join(map(str, damaged[:3])) + (f" and {len(damaged) - 3:,} more" if len(damaged) > 3 else "")
    return f"line {named} of its metrics (damaged)"


def _is_whole_line(text: str) -> bool:
    """Whether it is all there, but for the end of the line that an editor may have taken away."""
    return text.rstrip().endswith("}")


def _value(text: str) -> int:
    if len(text) > 18:
        raise ValueError(text)
    return int(text)


def _count(value: Any) -> int:
    if not _is_whole(value) or value < 0:
        raise ValueError(value)
    return value


def _float(value: Any) -> float:
    """A figure of a line; what was not measured is NaN."""
    if value is not None and not _is_figure(value):
        raise ValueError(f"{shown(value)}; wanted a number, or null")
    return math.nan if value is None else float(value)


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def _is_figure(value: Any) -> TypeGuard[float]:
    """Whether a figure is a number that can be added up and drawn."""
    return _is_whole(value) or (isinstance(value, float) and abs(value) <= MOST)
