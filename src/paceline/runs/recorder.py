"""What a run leaves behind: rows of metrics, the target, a directory, a summary."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paceline.config import to_tree
from paceline.learn.job import Score
from paceline.learn.promises import Promise
from paceline.ledger import Ledger
from paceline.ledger.directory import RunDirectory
from paceline.ledger.events import Chronicle
from paceline.ledger.spans import count_rows
from paceline.runs.settings import Settings
from paceline.runs.until import Until

Row = dict[str, Any]


class Recorder:
    """Collects the rows of one run and writes its files."""

    def __init__(
        self,
        settings: Settings,
        until: Until,
        ledger: Ledger,
        chronicle: Chronicle,
        directory: Path | None,
        on_row: Callable[[Row], None],
    ) -> None:
        self.rows: list[Row] = []
        self.reached: Row | None = None
        """The metrics at which the target was first met."""
        self.personal = False
        """Whether scores are means over clients, each on its own test samples."""
        self._settings = settings
        self._until = until
        self._ledger = ledger
        self._chronicle = chronicle
        self._directory = directory
        self._on_row = on_row
        self._writer: RunDirectory | None = None
        self._waiting: list[tuple[Row, Mapping[str, Promise[Score]]]] = []
        self._scores: list[Score] = []
        """The latest, as many as the target is judged by."""
        self._begun = time.perf_counter()
        self.seconds = 0.0
        """Real time that the run has taken in processes before this one."""

    def start(self, *, keep_spans: bool, state: Mapping[str, Any], again: bool = False) -> None:
        """Make the directory, or open it ``again``; all was checked before, so a slip leaves nothing behind."""
        self._begun = time.perf_counter()
        if self._directory is None:
            return
        there = again and self._directory.exists()
        if there:
            self._writer = RunDirectory.reopen(self._directory, self.described)
        else:
            self._writer = RunDirectory.create(self._directory, self.described)
        if keep_spans:
            self._ledger.path = self._writer.spans
            self._ledger.written = count_rows(self._writer.spans) if there else 0
        if not (self._directory / "summary.json").exists():
            self._writer.tell(self.summary(state))

    def save(self, state: Mapping[str, Any]) -> None:
        """Have all that is known by now on disk."""
        self._ledger.save()
        if self._writer is not None:
            self._writer.tell(self.summary(state))

    @property
    def described(self) -> dict[str, Any]:
        """All settings of the run as plain values."""
        return describe(self._settings)

    def costs(self, round: int, now: float) -> Row:
        """What the run has cost so far."""
        ledger = self._ledger
        engaged = ledger.busy_seconds + ledger.wait_seconds
        return {
            "round": round,
            "time": now,
            "visits": ledger.visits,
            "bytes": ledger.bytes,
            "idle_share": ledger.wait_seconds / engaged if engaged else 0.0,
            "flops": ledger.flops,
            **({} if math.isnan(ledger.joules) else {"joules": ledger.joules}),
        }

    def promise(self, row: Row, measures: Mapping[str, Promise[Score]]) -> None:
        """A row that is complete when these are known; rows are written in order."""
        self._waiting.append((row, measures))

    def last(self) -> tuple[int, float]:
        """Round and time of the last row, written or promised; (-1, -1) if there is none."""
        rows = [row for row, _ in self._waiting[-1:]] or self.rows[-1:]
        return (int(rows[0]["round"]), float(rows[0]["time"])) if rows else (-1, -1.0)

    def write_ready(self, *, failed: bool) -> None:
        """Write the rows whose scores are known."""
        while self._waiting and all(measure.result is not None for measure in self._waiting[0][1].values()):
            row, measures = self._waiting.pop(0)
            scores = {name: measure.result for name, measure in measures.items() if measure.result is not None}
            score = scores[""]
            if failed and score.loss != score.loss:
                continue  # scores of a diverged model are no result
            for name, one in scores.items():
                row |= {f"accuracy{name}": one.accuracy, f"loss{name}": one.loss}
            self.write(row)
            self._scores = [*self._scores, score][-self._until.over :]
            if self.reached is None and self._until.met_by(self._scores):
                self.reached = self.rows[-1]

    def write(self, row: Row) -> None:
        """Take a complete row of metrics: it is kept, written and told."""
        self.rows.append(row)
        if self._writer is None or self._writer.metric(row):
            self._on_row(row)

    def finish(self, state: Mapping[str, Any]) -> None:
        """Complete the files; what was promised and not learned is let go, for it holds models."""
        self._ledger.close()
        if self._writer is not None:
            self._writer.finish(self.summary(state))
        self._waiting.clear()

    def summary(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The run in one object: its ``state`` and what was recorded of it."""
        totals = self._ledger.totals()
        last = self.rows[-1] if self.rows else {}
        return {
            "algorithm": self._settings.name,
            "variant": self._settings.variant,
            "seed": self._settings.seed,
            **state,
            "visits": totals.visits,
            "bytes": totals.bytes,
            "busiest_bytes": totals.busiest_bytes,
            "busiest_site": totals.busiest_site,
            "flops": totals.flops,
            "joules": totals.joules,
            "idle_share": totals.idle_share,
            "idle_causes": [list(pair) for pair in self._ledger.blame()],
            "distributions": {
                name: {str(value): count for value, count in sorted(counts.items())}
                for name, counts in self._chronicle.counts.items()
            },
            "notes": [told.plain() for told in self._chronicle.events],
            "accuracy": last.get("accuracy"),
            "loss": last.get("loss"),
            "personal": self.personal,
            "sparsity": last.get("sparsity"),
            "target": self._target(),
            "until": asdict(self._until),
            "seconds": self.seconds + time.perf_counter() - self._begun,
        }

    def _target(self) -> dict[str, Any] | None:
        if not self._until.learned:
            return None
        asked = {"accuracy": self._until.accuracy, "loss": self._until.loss}
        figures = {key: (self.reached or {}).get(key) for key in ("time", "bytes", "visits", "idle_share")}
        if self.reached is not None and "joules" in self.reached:  # where watts are known
            figures["joules"] = self.reached["joules"]
        return {
            **{k: v for k, v in asked.items() if v is not None},
            **figures,
            "rounds": (self.reached or {}).get("round"),
        }


def describe(settings: Settings) -> dict[str, Any]:
    """All settings as plain values, the algorithm's own under ``options``."""
    tree = to_tree(settings)
    name, options = tree.pop("name"), tree.pop("algorithm")
    del tree["variant"]  # its words are among the options and settings
    return {"algorithm": name, "options": {k: _plain(v) for k, v in options.items()}, **tree}


def _plain(value: Any) -> Any:
    simple = isinstance(value, str | int | float | bool | dict | type(None))
    return value if simple else type(value).__name__
