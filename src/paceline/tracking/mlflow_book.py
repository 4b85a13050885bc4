"""MLflow: one SQLite file for all runs of a command; its time axis is virtual time."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from paceline.tracking.base import Book, Page

FILE = "mlflow.db"
KEY = "paceline.run"
"""The tag by which a run that goes on is found."""
BATCH = 100
"""Parameters that MLflow takes at once."""
LONGEST = 6000
"""Letters of a parameter's value."""
SUMMARY = "summary/"


class MLflow:
    """The file of one command's runs."""

    def __init__(self, out: Path, key: str) -> None:
        # Nothing is told to anybody; this is read when the package is imported.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        path = (out / FILE).resolve()
        self._client: Any = MlflowClient(tracking_uri=f"sqlite:///{quote(str(path))}")
        known = self._client.get_experiment_by_name(key)
        artifacts = path.with_name("mlflow-artifacts").as_uri()
        self._experiment: str = (
            known.experiment_id if known else self._client.create_experiment(key, artifact_location=artifacts)
        )

    def open(self, page: Page) -> Book:
        """The run of this key, found or made."""
        found = self._client.search_runs([self._experiment], filter_string=f"tags.`{KEY}` = '{page.key}'")
        return MLflowBook(self._client, self._experiment, page, found[0] if found else None)

    def close(self) -> None:
        """Nothing is left to do: every batch is a transaction."""


class MLflowBook:
    """One of MLflow's runs."""

    def __init__(self, client: Any, experiment: str, page: Page, known: Any) -> None:
        from mlflow.entities import Param

        self._client = client
        run = known or client.create_run(experiment, start_time=0, run_name=page.name, tags={KEY: page.key})
        self._run: str = run.info.run_id
        self.rows = len(client.get_metric_history(self._run, "time")) if known else 0
        self.ended = any(name.startswith(SUMMARY) for name in run.data.metrics)
        if not self.ended:
            client.update_run(self._run, status="RUNNING")
        parameters = [Param(name, value[:LONGEST]) for name, value in page.parameters.items()]
        for first in range(0, len(parameters), BATCH):  # the same ones again are no change
            client.log_batch(self._run, params=parameters[first : first + BATCH])

    def write(self, step: int, time: float, figures: Mapping[str, float]) -> None:
        """One more row, as one transaction."""
        self._log(step, time, figures)
        self.rows += 1

    def end(self, status: str, time: float, figures: Mapping[str, float]) -> None:
        """The summary, and that the run is over."""
        self._log(0, time, {SUMMARY + name: value for name, value in figures.items()})
        self._client.set_tag(self._run, "paceline.status", status)
        word = "FINISHED" if status == "done" else "FAILED"
        self._client.set_terminated(self._run, word, end_time=_milliseconds(time))
        self.ended = True

    def close(self) -> None:
        """All of it is on disk already."""

    def _log(self, step: int, time: float, figures: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(name, value, _milliseconds(time), step) for name, value in figures.items()]
        self._client.log_batch(self._run, metrics=metrics)


def _milliseconds(time: float) -> int:
    return round(1000 * time)
