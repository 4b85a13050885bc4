"""A trainer whose cohorts others compute: cut here by the same rules as ever, so that the bits are the same.

How many there are, who computes what and in which order changes nothing: a cohort is computed whole, by one, and as
it would be here. One that is lost with whoever had it is handed out again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from paceline.learn.cohort.rules import Part, Rules
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.crew.parcel import Act, Parcel, Results, score_parcel, train_parcel, unpacked
from paceline.learn.job import EvalJob, Probed, Score, Trained, TrainJob
from paceline.learn.space import Space

Ticket = Hashable


class Crew(Protocol):
    """The workers who compute cohorts."""

    @property
    def gpu_memory(self) -> float:
        """Bytes of the GPU that each of them has; 0 if they have none."""
        ...

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
        """Let all workers go."""
        ...


@dataclass(eq=False)
class Wave:
    """Visits or scores that were asked for together."""

    act: Act
    wrap: Callable[[Part], Parcel]
    left: int = 0
    found: dict[int, Any] = field(default_factory=dict)


class CrewTrainer:
    """Train and score visits with a crew."""

    def __init__(self, crew: Crew, cohort: int | None = None, threads: int | None = None) -> None:
        self.device = torch.device("cpu")
        self.again = 0
        """Cohorts that were computed again because whoever had them was lost."""
        self._crew = crew
        self._here = CohortTrainer("cpu", cohort, threads)
        self.threads = self._here.threads
        self._rules = Rules(crew.gpu_memory > 0, crew.gpu_memory, cohort, self.threads)
        self._named: dict[tuple[int, ...], tuple[str, tuple[object, ...]]] = {}
        self._waiting: deque[tuple[Wave, Part]] = deque()
        self._flying: dict[Ticket, tuple[Wave, Part]] = {}

    def prepare(self, space: Space) -> None:
        """Compile the program here first: an architecture that cannot be batched is refused before any work."""
        self._here.prepare(space)

    def fills(self, space: Space, batch: int) -> bool:
        """Whether one client's step keeps one of the crew busy."""
        return self._rules.fills(space, batch)

    def train(self, jobs: list[TrainJob]) -> list[Trained]:
        """Have the crew train these visits, cohort by cohort."""
        return self.submit("train", jobs)()

    def probe(self, jobs: list[TrainJob], width: int | None = None) -> list[Probed]:
        """Have the crew compute these gradients, cohort by cohort."""
        return self.submit("probe", jobs, width or 0)()

    def submit(self, act: Act, jobs: list[TrainJob], width: int = 0) -> Callable[[], list[Any]]:
        """Have visits computed beside all others that are under way; what is returned waits for the results."""
        program, first = self._here.program(jobs[0].space), jobs[0]
        parts = self._rules.visits(program, jobs) if act == "train" else self._rules.probes(program, jobs, width)
        space, data = self._space(first.space), self._data(first.shards.x, first.shards.y)
        return self._begun(
            Wave(act, lambda part: train_parcel(act, space, data, [jobs[k] for k in part.places], part.rows)), parts
        )

    def evaluate(self, jobs: list[EvalJob]) -> list[Score]:
        """Scores, of several models at a time where that pays."""
        program = self._here.program(jobs[0].space)
        space, data = self._space(jobs[0].space), self._data(jobs[0].x, jobs[0].y)
        wave = Wave("score", lambda part: score_parcel(space, data, [jobs[k] for k in part.places]))
        return self._begun(wave, self._rules.scores(program, jobs))()

    def close(self) -> None:
        """Let the crew go."""
        self._crew.close()

    # -- handing out ---------------------------------------------------------------------------------------------

    def _begun(self, wave: Wave, parts: Sequence[Part]) -> Callable[[], list[Any]]:
        wave.left = len(parts)
        self._waiting += [(wave, part) for part in parts]
        self._hand_out()

        def results() -> list[Any]:
            while wave.left:
                self._collect()
                self._hand_out()
            return [wave.found[k] for k in sorted(wave.found)]

        return results

    def _hand_out(self) -> None:
        """As many as somebody has room for."""
        while self._waiting:
            wave, part = self._waiting[0]
            ticket = self._crew.hand_out(wave.wrap(part))
            if ticket is None:
                return
            self._flying[ticket] = self._waiting.popleft()

    def _collect(self) -> None:
        """One that comes back, of whatever wave."""
        if (came := self._crew.next()) is None:
            return
        ticket, results = came
        wave, part = self._flying.pop(ticket)
        if results is None:
            self.again += 1
            self._waiting.appendleft((wave, part))
        else:
            wave.found |= zip(part.places, unpacked(wave.act, results), strict=True)
            wave.left -= 1

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
