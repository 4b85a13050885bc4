"""What was learned at every stop of a drive, line by line: a schedule is replayed from it without learning again.

A *stop* is a moment at which all runs of a drive wait for something learned. A line of the file says where the drive
stood there (``made`` models, the virtual times of its runs), what was learned, and what learning did besides: values
that it counted, and runs that it ended.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from paceline import errors
from paceline.errors import DataError, PacelineError
from paceline.learn.job import Score
from paceline.learn.promises import Measure, Promise
from paceline.reading import read_file
from paceline.runs.plainly import from_plain, to_plain
from paceline.runs.run import Run

FILE = "learned.jsonl"
LARGEST = 1 << 40
"""Bytes of it: as many as there are; what matters is that it is a file, and no pipe."""
Counts = dict[str, dict[int, int]]
_DAMAGES = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)
"""What comes of a line that is no stop."""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """What one stop of the runs for learning has given."""

    made: int
    times: list[float]
    results: list[Any]
    counts: list[Counts]
    """For each run that was active, how often values were counted while it learned."""
    failures: list[tuple[str, str] | None]
    """For each run that was active, the kind of error and its message, if it ended."""

    def line(self) -> str:
        """As it is written; ``Unkeepable`` if some result cannot be."""
        return json.dumps(
            {
                "made": self.made,
                "times": self.times,
                "results": [to_plain(result) for result in self.results],
                "counts": [{name: list(one.items()) for name, one in counts.items()} for counts in self.counts],
                "failures": self.failures,
            }
        )

    @classmethod
    def read(cls, line: str) -> Stop:
        """Read a stop from its line in the file."""
        try:
            words = json.loads(line)
            return cls(
                made=int(words["made"]),
                times=[float(time) for time in words["times"]],
                results=[from_plain(result) for result in words["results"]],
                counts=[
                    {name: {int(value): int(times) for value, times in one} for name, one in counts.items()}
                    for counts in words["counts"]
                ],
                failures=[None if one is None else (str(one[0]), str(one[1])) for one in words["failures"]],
            )
        except _DAMAGES as problem:
            raise DataError(f"what was learned at a stop cannot be read ({problem}): {line[:80]!r}") from None

    def place(self) -> tuple[int, list[float]]:
        """Where the runs stood at this stop: how much was made, and their times."""
        return self.made, self.times


class LearnedFile:
    """The file of stops, with a digest of all that it holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = 0
        self._digest = hashlib.sha256()
        self._file: BinaryIO | None = None

    @property
    def sha256(self) -> str:
        """The digest of all lines so far."""
        return self._digest.hexdigest()

    def add(self, stop: Stop) -> None:
        """Append one stop to the file, as a line."""
        data = (stop.line() + "\n").encode()
        if self._file is None:
            self.path.parent.mkdir(exist_ok=True)
            self._file = self.path.open("ab")
            self._file.truncate(self.bytes)
        self._file.write(data)
        self._file.flush()
        self._digest.update(data)
        self.bytes += len(data)

    def to_disk(self) -> None:
        """Have the system write it to the disk now."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; no line can be added any more."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def reopen(self, size: int, sha256: str) -> list[Stop]:
        """The stops of the first so many bytes, which must be what they were; the rest is cut off."""
        data = self._content()[: max(size, 0)]
        self._digest = hashlib.sha256(data)
        if self.sha256 != sha256:
            raise DataError(f"{self.path} is damaged: it is not what it was when the checkpoint was written")
        os.truncate(self.path, size)
        self.bytes = size
        return _stops(data)

    def reopen_all(self) -> list[Stop]:
        """All stops that were written to their ends; what follows is cut off when the next is added, for whoever
        reads this may yet be refused."""
        data = self._content() if self.path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        self._digest = hashlib.sha256(whole)
        self.bytes = len(whole)
        return _stops(whole)

    def _content(self) -> bytes:
        try:
            return read_file(self.path, LARGEST)
        except FileNotFoundError:
            raise DataError(f"{self.path} is not there") from None


def _stops(data: bytes) -> list[Stop]:
    """One a line, as they were written: in ASCII."""
    return [Stop.read(line.decode("ascii", "replace")) for line in data.splitlines()]


def place_of(runs: Sequence[Run], made: int) -> tuple[int, list[float]]:
    """Where a drive stands: how many models there have been, and the time in every run that is active."""
    return made, [run.world.now() for run in runs]


def counted(runs: Sequence[Run]) -> list[Counts]:
    """What has been counted so far in every run."""
    return [{name: dict(one) for name, one in run.world.chronicle.counts.items()} for run in runs]


def make_stop(
    runs: Sequence[Run],
    made: int,
    promises: Sequence[Promise[Any]],
    before: Sequence[Counts],
    failed: Mapping[object, PacelineError],
) -> Stop:
    """What a stop has given, now that all is learned."""
    now = counted(runs)
    problems = [failed.get(run.learner) for run in runs]
    return Stop(
        made=made,
        times=[run.world.now() for run in runs],
        results=[promise.result for promise in promises],
        counts=[_difference(one, other) for one, other in zip(now, before, strict=True)],
        failures=[None if one is None else (type(one).__name__, str(one)) for one in problems],
    )


def require_fit(runs: Sequence[Run], promises: Sequence[Promise[Any]], stop: Stop) -> None:
    """Refuse a stop that gives something else than is wanted there: somebody else has written it."""
    scores = [result for promise, result in zip(promises, stop.results, strict=True) if isinstance(promise, Measure)]
    if not all(result is None or isinstance(result, Score) for result in scores):
        raise DataError("what was learned at a stop is no score, where one is wanted; it is damaged")
    if not len(stop.counts) == len(stop.failures) == len(runs):
        raise DataError(f"what was learned at a stop is not that of {len(runs)} runs; it is damaged")


def repeat_effects(runs: Sequence[Run], stop: Stop) -> dict[object, PacelineError]:
    """Count again what learning counted then; returns the runs that it ended."""
    for run, counts in zip(runs, stop.counts, strict=True):
        for name, values in counts.items():
            for value, times in values.items():
                run.world.chronicle.count(name, value, times)
    return {
        run.learner: _error(*failure) for run, failure in zip(runs, stop.failures, strict=True) if failure is not None
    }


def _error(kind: str, message: str) -> PacelineError:
    known = getattr(errors, kind, PacelineError)
    return known(message) if isinstance(known, type) and issubclass(known, PacelineError) else PacelineError(message)


def _difference(now: Counts, before: Counts) -> Counts:
    """What was counted since, name by name, in the order in which values came up first."""
    more = {name: Counter(one) - Counter(before.get(name, {})) for name, one in now.items()}
    return {name: dict(one) for name, one in more.items() if one}
