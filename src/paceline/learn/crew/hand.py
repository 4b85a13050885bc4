"""One of a crew: a process that keeps networks and data at hand, and computes whole cohorts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.crew.parcel import Parcel, Results, packed, score_jobs, train_jobs
from paceline.learn.space import Space

WHOLE = 1_000_000
"""Most clients of a cohort: more than any parcel has."""
Fetch = Callable[[Any], Any]
"""Gets what was shared, from wherever it is."""


class Hand:
    """Computes parcels, each as one cohort: who cut them decides what runs together."""

    def __init__(self, device: str, fetch: Fetch) -> None:
        if device == "cpu":
            torch.set_num_threads(1)
        self._trainer = CohortTrainer(device, WHOLE, 1)
        self._fetch = fetch
        self._spaces: dict[str, Space] = {}
        self._data: dict[str, tuple[Tensor, Tensor]] = {}

    def compute(self, parcel: Parcel, shared: Mapping[str, Any]) -> Results:
        """Carry one out; what it names and is not at hand is fetched once."""
        if parcel.space not in self._spaces:
            self._spaces[parcel.space] = self._fetch(shared[parcel.space])
        if parcel.data not in self._data:
            x, y = self._fetch(shared[parcel.data])
            self._data[parcel.data] = torch.from_numpy(x.copy()), torch.from_numpy(y.copy())  # what came is read-only
        space, (x, y) = self._spaces[parcel.space], self._data[parcel.data]
        if parcel.act == "score":
            return packed(self._trainer.evaluate(score_jobs(parcel, space, x, y)))
        visits = train_jobs(parcel, space, x, y)
        return packed(
            self._trainer.train(visits) if parcel.act == "train" else self._trainer.probe(visits, parcel.width)
        )
