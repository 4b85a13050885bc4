"""How unequally data are spread over clients: a chart of who has how many samples of which label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError
from paceline.reading import MIB, parse_object, read_text
from paceline.report.runs import Group, Run
from paceline.report.text import number

FILE = "partition.json"
SHOWN, MOST_LABELS = 60, 20
LARGEST = 64 * MIB


def skew_chart(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """The chart of the first run that wrote its partition down; a list of none where none did."""
    for group in groups:
        for run in group.runs:
            if (found := read_partition(run)) is not None:
                return [_chart(run, *found)]
    return []


def read_partition(run: Run) -> tuple[NDArray[np.int64], NDArray[np.int64] | None] | None:
    """Samples by client, and by client and label where labels are few; None where a run wrote none down."""
    path = run.path / FILE
    if not path.exists():
        return None
    kept = parse_object(read_text(path, most=LARGEST), str(path))
    try:
        samples = np.array(kept["samples"], np.int64)
        labels = None if kept.get("labels") is None else np.array(kept["labels"], np.int64)
        fits = samples.ndim == 1 and len(samples) > 0 and samples.min() >= 0
        fits &= labels is None or (labels.shape[:1] == samples.shape and labels.ndim == 2 and labels.min() >= 0)
    except (KeyError, TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise DataError(
            f"{path} must hold samples (one whole number a client) and labels (one row a client, or null)"
        )
    return samples, labels


def effective_labels(labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many labels a client has as it were: the exponential of the entropy of its shares."""
    shares = labels / np.maximum(labels.sum(axis=1, keepdims=True), 1)
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return np.asarray(np.exp(-(shares * logs).sum(axis=1)))


def _chart(run: Run, samples: NDArray[np.int64], labels: NDArray[np.int64] | None) -> dict[str, Any]:
    order = np.argsort(-samples, kind="stable")
    picked = np.sort(np.unique(np.linspace(0, len(order) - 1, min(len(order), SHOWN)).astype(int)))
    clients = order[picked]
    if labels is None or labels.shape[1] > MOST_LABELS:
        stacks = [{"name": "samples", "values": samples[clients].tolist()}]
    else:
        columns = labels[clients].T
        stacks = [{"name": f"label {k}", "values": column.tolist()} for k, column in enumerate(columns)]
    text = (
        f"Partition {run.settings.get('partition', 'unknown')}, seed {run.seed}: {len(samples):,} clients have"
        f" {number(float(samples.min()))} to {number(float(samples.max()))} samples,"
        f" {number(float(np.median(samples)))} in the middle"
    )
    if labels is not None:
        effective = effective_labels(labels)
        text += (
            f"; of {labels.shape[1]} labels a client has {number(float((labels > 0).sum(axis=1).mean()), 3)} on"
            f" average, which by the entropy of their shares are as good as {number(float(effective.mean()), 3)}"
        )
    if len(clients) < len(samples):
        text += (
            f". Shown are {len(clients)} clients, picked evenly from the one with most samples to the one with fewest"
        )
    return {
        "id": "skew",
        "title": "How the data are spread",
        "text": f"{text}.",
        "axis": "client",
        "unit": "",
        "words": "samples",
        "places": [str(client) for client in clients.tolist()],
        "stacks": stacks,
    }
