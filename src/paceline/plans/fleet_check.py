"""How well a measured fleet predicts: the rounds of its own run, and those of a dry run on it, side by side."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from paceline.errors import DataError
from paceline.reading import parse_object, read_text
from paceline.references import refuse_untrusted
from paceline.runs.dry import follow
from paceline.runs.making import make_run
from paceline.runs.settings import settings_from
from paceline.system import FleetSettings

LARGEST = 1 << 30
"""Bytes of a file of metrics."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """How many seconds a round took in the real run, and how many the simulator predicts."""

    measured: float
    """The median of the run's rounds."""
    predicted: float
    """The median of as many rounds in a simulation of the same settings, on the fleet."""
    rounds: int

    @property
    def ratio(self) -> float:
        """The predicted seconds over the measured ones."""
        return self.predicted / self.measured


def predict(directory: Path, fleet: Path, *, trust: bool = False) -> Prediction:
    """Simulate the run in a directory on the fleet in a file, without learning, and compare."""
    rounds, times = _measured_rounds(directory / "metrics.jsonl")
    predicted = simulated_rounds(directory, fleet, rounds, trust=trust)
    return Prediction(measured=statistics.median(times), predicted=statistics.median(predicted), rounds=rounds)


def simulated_rounds(directory: Path, fleet: Path, rounds: int, *, trust: bool = False) -> list[float]:
    """The seconds of so many rounds of the run in a directory, on the fleet in a file."""
    path = directory / "settings.json"
    kept = parse_object(read_text(path), str(path))
    if not trust:
        refuse_untrusted({**kept, "executor": None}, str(directory))  # of which none is joined
    settings = replace(settings_from(kept), fleet=FleetSettings(file=str(fleet)))
    run = make_run(settings, dry=True)
    ends = follow(run.world, run.settings.algorithm, lambda: run.world.progress >= rounds)
    if not ends:
        raise DataError("no round came to its end in a simulation on this fleet")
    return _differences([0.0, *ends])


def _measured_rounds(path: Path) -> tuple[int, list[float]]:
    """How many rounds there were, and the seconds of each (of several together, their mean)."""
    try:
        lines = read_text(path, most=LARGEST).splitlines()
        rows = [(0, 0.0), *((int(row["round"]), float(row["time"])) for row in map(json.loads, lines))]
    except FileNotFoundError:
        raise DataError(f"there is no {path}, which says when rounds ended") from None
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{path} is no file of metrics, or is cut off") from None
    times = [(end - start) / (last - first) for (first, start), (last, end) in pairwise(rows) if last > first]
    if not times or not statistics.median(times) > 0:
        raise DataError(f"{path} tells of no round that took time")
    return rows[-1][0], times


def _differences(times: Sequence[float]) -> list[float]:
    return [end - start for start, end in pairwise(times)]
