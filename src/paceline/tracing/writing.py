"""Writes a run's spans as a trace, batch by batch: however many there are, few of them are in memory."""

from __future__ import annotations

import gzip
import io
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from paceline.errors import DataError, SettingError
from paceline.report.runs import Run, load_run
from paceline.report.spans import COLUMNS, NO_SITE, scan
from paceline.tracing.causes import Recent, Slice
from paceline.tracing.events import (
    counter_event,
    flow_events,
    named,
    nanoseconds,
    note_event,
    opening,
    span_event,
)
from paceline.tracing.tracks import TRACKS, Tracks

ENDINGS = (".json", ".json.gz")
LONGEST = 9e9
"""Virtual seconds that fit a viewer's clock, which counts nanoseconds in 64 bits."""


@dataclass(frozen=True, kw_only=True)
class Traced:
    """What a trace holds."""

    path: Path
    spans: int
    waits: int
    """How many of the spans are waits for somebody."""
    flows: int
    """Waits with an arrow from their cause; for others nothing that the cause did at that time was booked."""


def write_trace(directory: Path, out: Path) -> Traced:
    """Write the run in this directory as a trace to ``out``, and say what is in it."""
    if not out.name.endswith(ENDINGS):
        raise SettingError(f"--out {out}: a trace is written as JSON; wanted a name that ends in .json.gz or .json")
    run = load_run(directory)
    if run.spans is None:
        raise DataError(f"{run.path} keeps no spans, so there is nothing to trace; run it again without --no-spans")
    lowest, highest = _range(run.spans)
    with _opened(out) as file:
        return _Writer(run, file, Tracks(lowest, highest), several=lowest < -1).write(run.spans, out)


def _range(spans: Path) -> tuple[int, int]:
    """The lowest and the highest number of a site."""
    found = [pc.min_max(batch["site"]).as_py() for batch in scan(spans, ["site"])]
    if not found:
        raise DataError(f"{spans} holds no span: the run ended before anything happened")
    return min(one["min"] for one in found), max(one["max"] for one in found)


@contextmanager
def _opened(out: Path) -> Iterator[TextIO]:
    """A file that gets its name when it is complete."""
    draft = out.with_name(out.name + ".part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as raw:
            # No time of writing inside: the same run gives the same file.
            packed: Any = gzip.GzipFile("", "wb", 5, raw, 0.0) if out.suffix == ".gz" else raw
            with io.TextIOWrapper(packed, encoding="utf-8", write_through=False) as file:
                yield file
        draft.replace(out)
    except OSError as problem:
        raise SettingError(f"--out {out} cannot be written: {problem.strerror}") from None
    finally:
        with suppress(OSError):
            draft.unlink()


class _Writer:
    """Writes the events of one run."""

    def __init__(self, run: Run, file: TextIO, tracks: Tracks, *, several: bool) -> None:
        self._run, self._file, self._tracks, self._several = run, file, tracks, several
        self._recent = Recent()
        self._pending: list[Slice] = []
        """Waits whose cause may still come: all that happens at an instant is booked before the next."""
        self._latest = -1
        self._named: set[int] = set()
        self._spans = self._waits = self._flows = 0

    def write(self, spans: Path, out: Path) -> Traced:
        about = {"algorithm": self._run.algorithm, "seed": self._run.seed, "clock": "virtual time"}
        self._file.write(opening(about))
        self._file.write(",\n".join(self._about_run()))
        for batch in scan(spans, COLUMNS):
            for line in self._lines(batch):
                self._file.write(",\n" + line)
        for line in self._resolve():
            self._file.write(",\n" + line)
        self._file.write("\n]}\n")
        return Traced(path=out, spans=self._spans, waits=self._waits, flows=self._flows)

    def _about_run(self) -> list[str]:
        """What belongs to no site: the figures over time, and what was decided."""
        pid, metrics = self._tracks.run_pid, self._run.metrics
        lines = named("process", pid, pid, f"{self._run.algorithm}, seed {self._run.seed}", 0)
        for name in ("accuracy", "loss"):
            pairs = zip(metrics["time"].tolist(), metrics[name].tolist(), strict=True)
            lines += [counter_event(pid, _time(t), name, value) for t, value in pairs if math.isfinite(value)]
        timed = [note for note in self._run.notes if math.isfinite(note.time)]
        return lines + [note_event(pid, _time(note.time), note.text, note.kind) for note in timed]

    def _lines(self, batch: Any) -> Iterator[str]:
        kinds = batch["kind"].cast(pa.string())
        columns = [(kinds if name == "kind" else batch[name]).to_pylist() for name in COLUMNS]
        for site, kind, _, start, end, round, size, flops, joules, peer in zip(*columns, strict=True):
            begin, finish = _time(start), max(_time(start), _time(end))
            if finish > self._latest:
                self._latest = finish
                yield from self._resolve()
            pid = self._tracks.pid(site)
            tid, new = self._tracks.place(site, TRACKS.get(kind, "compute"), begin, finish)
            if site not in self._named:
                self._named.add(site)
                yield from named("process", pid, tid, *self._tracks.process(site))
            if new is not None:
                yield from named("thread", pid, new.tid, new.name, new.rank)
            one = Slice(site, kind, peer, begin, finish, tid)
            yield span_event(
                pid, one, round, {"bytes": size, "flops": flops, "joules": joules}, several=self._several
            )
            self._count(one)

    def _count(self, one: Slice) -> None:
        self._spans += 1
        self._recent.add(one)
        if one.kind == "wait" and one.end > one.start:
            self._waits += 1
            if one.peer != NO_SITE:
                self._pending.append(one)

    def _resolve(self) -> Iterable[str]:
        """Arrows to all waits that were booked until now."""
        waits, self._pending = self._pending, []
        for wait in waits:
            cause = self._recent.cause(wait)
            if cause is not None:
                self._flows += 1
                pids = self._tracks.pid(cause.site), self._tracks.pid(wait.site)
                yield from flow_events(self._flows, cause, pids[0], wait, pids[1])


def _time(seconds: float) -> int:
    if not 0 <= seconds <= LONGEST:
        raise DataError(f"a time of {seconds:g} virtual seconds fits no trace; wanted 0 to {LONGEST:g}")
    return nanoseconds(seconds)
