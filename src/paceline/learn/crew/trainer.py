"""A trainer whose cohorts others compute: cut here by the same rules as ever, so that the bits are the same.

How many there are, who computes what and in which order changes nothing: a cohort is computed whole, by one, and as it
would be here. One that is lost with whoever had it is handed out again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.crew.parcel import Act, Parcel, Results, score_parcel, train_parcel, unpacked
from paceline.learn.job import EvalJob, Probed, Score, Trained, TrainJob
from paceline.learn.space import Space

R = TypeVar("R", Trained, Probed, Score)
Ticket = Hashable


class Crew(Protocol):
    """Those who compute."""

    def share(self, name: str, thing: Any) -> None:
        """Have something where everybody can get it by this name."""
        ...

    def hand_out(self, parcel: Parcel) -> Ticket | None:
        """Give a parcel to somebody; None if all have enough to do."""
        ...

    def next(self) -> tuple[Ticket, Results | None] | None:
        """Wait for one that was handed out (without results it was lost), or until somebody can be asked again."""
        ...

    def close(self) -> None:
        """Send all home."""
        ...


class CrewTrainer:
    """Train and score visits with a crew."""

    def __init__(self, crew: Crew, cohort: int | None = None, threads: int | None = None) -> None:
        self.device = torch.device("cpu")
        self.again = 0
        """Cohorts that were computed again because whoever had them was lost."""
        self._crew = crew
        self._rules = CohortTrainer("cpu", cohort, threads)
        self.threads = self._rules.threads
        self._named: dict[tuple[int, ...], tuple[str, tuple[object, ...]]] = {}

    def prepare(self, space: Space) -> None:
        """Compile the program here first: an architecture that cannot be batched is refused before any work."""
        self._rules.prepare(space)

    def fills(self, space: Space, batch: int) -> bool:
        """As on one machine."""
        return self._rules.fills(space, batch)

    def train(self, jobs: list[TrainJob]) -> list[Trained]:
        """Visits, cohort by cohort."""
        return self._visited("train", jobs, self._rules.cut(jobs))

    def probe(self, jobs: list[TrainJob]) -> list[Probed]:
        """Gradients, cohort by cohort."""
        return self._visited("probe", jobs, self._rules.cut_probes(jobs))

    def evaluate(self, jobs: list[EvalJob]) -> list[Score]:
        """Scores, of several models at a time where that pays."""
        space, data = self._space(jobs[0].space), self._data(jobs[0].x, jobs[0].y)
        return self._done(
            "score", self._rules.cut_scores(jobs), lambda part: score_parcel(space, data, [jobs[k] for k in part])
        )

    def close(self) -> None:
        """Send the crew home."""
        self._crew.close()

    def _visited(self, act: Act, jobs: Sequence[TrainJob], parts: Iterable[list[int]]) -> list[Any]:
        space, data = self._space(jobs[0].space), self._data(jobs[0].shards.x, jobs[0].shards.y)
        return self._done(act, parts, lambda part: train_parcel(act, space, data, [jobs[k] for k in part]))

    def _done(self, act: Act, parts: Iterable[list[int]], wrap: Callable[[list[int]], Parcel]) -> list[Any]:
        """Hand out all parts, and collect what comes back in whatever order."""
        waiting, flying = deque(parts), dict[Ticket, list[int]]()
        found: dict[int, Any] = {}
        while waiting or flying:
            while waiting and (ticket := self._crew.hand_out(wrap(waiting[0]))) is not None:
                flying[ticket] = waiting.popleft()
            if (came := self._crew.next()) is None:
                continue
            ticket, results = came
            part = flying.pop(ticket)
            if results is None:
                self.again += 1
                waiting.appendleft(part)
            else:
                found |= zip(part, unpacked(act, results), strict=True)
        return [found[k] for k in sorted(found)]

    # -- what is shared ------------------------------------------------------------------------------------------

    def _space(self, space: Space) -> str:
        return self._name((id(space),), (space,), lambda: f"network {len(self._named)}", lambda: space)

    def _data(self, x: Tensor, y: Tensor) -> str:
        """Named by content: runs that have the same data share it, whatever they are."""
        return self._name((id(x), id(y)), (x, y), lambda: _digest(x, y), lambda: (_array(x), _array(y)))

    def _name(
        self, key: tuple[int, ...], things: tuple[object, ...], name: Callable[[], str], shared: Callable[[], Any]
    ) -> str:
        if key not in self._named:
            self._named[key] = name(), things  # held, so that no other thing gets its number
            self._crew.share(self._named[key][0], shared())
        return self._named[key][0]


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().cpu().numpy()


def _digest(*tensors: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        array = np.ascontiguousarray(_array(tensor))
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.data.cast("B"))
    return f"data {digest.hexdigest()}"
