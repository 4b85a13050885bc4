"""TensorBoard: event files in each run's directory; its "relative" axis is virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.tracking.base import Book, Page

FOLDER = "tensorboard"
SUMMARY = "summary/"


class TensorBoard:
    """Needs nothing but the files."""

    def __init__(self, out: Path, key: str) -> None:
        import tensorboard  # noqa: F401  # whether it can be imported is known before work starts

    def open(self, page: Page) -> Book:
        """The run's event files."""
        return TensorBoardBook(page)

    def close(self) -> None:
        """Nothing is left to do."""


class TensorBoardBook:
    """A row is one event with all its figures, so that it is written as a whole or not at all."""

    def __init__(self, page: Page) -> None:
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = page.directory / FOLDER
        self.rows, self.ended = _known(folder)
        begun = folder.exists()
        self._last = 0
        self._writer: Any = EventFileWriter(str(folder))
        if not begun:
            self._add(0, 0.0, hparams_pb(page.parameters))
            self._writer.flush()

    def write(self, step: int, time: float, figures: Mapping[str, float]) -> None:
        """One more row."""
        self._last = step
        self._scalars(step, time, figures)
        self.rows += 1

    def end(self, status: str, time: float, figures: Mapping[str, float]) -> None:
        """The summary, as figures of the last step whose names begin with ``summary/``."""
        self._scalars(self._last, time, {SUMMARY + name: value for name, value in figures.items()})
        self.ended = True

    def close(self) -> None:
        """Have all of it on disk."""
        self._writer.close()

    def _scalars(self, step: int, time: float, figures: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._add(step, time, Summary(value=values))
        self._writer.flush()

    def _add(self, step: int, time: float, summary: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(step=step, wall_time=time, summary=summary))


def _known(folder: Path) -> tuple[int, bool]:
    """How many rows there are, and whether the summary is; half an event at the end of a file counts as none."""
    if not folder.exists():
        return 0, False
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    rows, ended = 0, False
    for file in sorted(folder.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(file)).Load():
            tags = {value.tag for value in event.summary.value}
            rows += "time" in tags
            ended |= any(tag.startswith(SUMMARY) for tag in tags)
    return rows, ended
