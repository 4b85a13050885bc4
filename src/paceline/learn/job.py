"""What a trainer is given and what it gives back."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.errors import DataError
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space

_finite: dict[int, weakref.ref[Tensor]] = {}
"""Tensors that hold no NaN, by their numbers: runs share their data, and looking takes long."""
LOOKED_AT = 1 << 18
"""Numbers that are looked at together: what is computed on the way stays in the cache."""


def _is_finite(x: Tensor) -> bool:
    """Whether all numbers are finite; looked at once for every tensor."""
    if not x.is_floating_point():
        return True
    known = _finite.get(id(x))
    if known is not None and known() is x:
        return True
    # NumPy needs a fifth of torch's time for this.
    flat = x.detach().reshape(-1).cpu().numpy()
    if not all(np.isfinite(flat[at : at + LOOKED_AT]).all() for at in range(0, len(flat), LOOKED_AT)):
        return False
    number = id(x)
    _finite[number] = weakref.ref(x, lambda _: _finite.pop(number, None))
    return True


@dataclass(frozen=True, eq=False)
class Shards:
    """Samples with their owners: client k owns rows ``indices[offsets[k]:offsets[k+1]]`` of x and y."""

    x: Tensor
    y: Tensor
    """Class numbers (int64), or targets (float, one row a sample) for the squared loss."""
    indices: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(empty := np.flatnonzero(np.diff(self.offsets) < 1)):
            raise DataError(f"client {empty[0]} owns no samples; every client needs at least one to train on")
        if not _is_finite(self.x):
            raise DataError("training features hold NaN or infinity; clean the data before training on it")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def rows(self, client: int) -> NDArray[np.int64]:
        """Rows of x and y that this client owns."""
        return self.indices[self.offsets[client] : self.offsets[client + 1]]

    def size(self, client: int) -> int:
        """How many samples this client owns."""
        return self._sizes[client]

    @cached_property
    def _sizes(self) -> list[int]:
        """By client: every visit asks, and a list answers sooner than an array."""
        found: list[int] = np.diff(self.offsets).tolist()
        return found


@dataclass(frozen=True, eq=False, slots=True)
class TrainJob:
    """One visit, ready to compute: every input is a value."""

    space: Space
    start: Tensor
    recipe: LocalSGD
    lr: float
    shards: Shards
    client: int
    key: int
    """The visit's address as a signed 64-bit number (``hashing.signed(seeds.address(...))``)."""
    mask: Tensor | None = None
    correction: Tensor | None = None
    anchor: Tensor | None = None

    @property
    def size(self) -> int:
        """Samples the client trains on."""
        return self.shards.size(self.client)


@dataclass(frozen=True, eq=False, slots=True)
class Trained:
    """What a visit has come to: the trained model and its mean loss."""

    value: Tensor
    loss: Tensor
    """Mean over the visit's steps of the batch loss before the step; a 0-d tensor, so that nobody waits for it."""


@dataclass(frozen=True, eq=False, slots=True)
class Probed:
    """A client's full gradient, and how its samples' gradients scatter around it."""

    value: Tensor
    variance: Tensor
    """Of one sample's gradient: E‖∇f(x; ξ) - ∇F(x)‖² over the client's samples ξ, estimated without bias; 0-d."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Gradients of several clients, compared."""

    variance: tuple[float, ...]
    """Of each client's gradient of one sample (``Probed.variance``)."""
    distance: tuple[float, ...]
    """Each client's squared distance from the mean gradient."""


@dataclass(frozen=True, eq=False, slots=True)
class EvalJob:
    """Score one model on some rows of a test set."""

    space: Space
    value: Tensor
    x: Tensor
    y: Tensor
    rows: Tensor | None = None
    """Rows to score on; all of them when None."""


@dataclass(frozen=True, slots=True)
class Score:
    """How good a model is on a test set."""

    accuracy: float
    loss: float
    samples: int


def mean_score(scores: Sequence[Score]) -> Score:
    """The unweighted mean over models; one model's score is itself."""
    count = len(scores)
    return Score(
        sum(s.accuracy for s in scores) / count,
        sum(s.loss for s in scores) / count,
        sum(s.samples for s in scores),
    )


class Trainer(Protocol):
    """The seam of learning: a cohort of visits in, their results out, in the same order."""

    @property
    def device(self) -> torch.device:
        """The device on which models are kept."""
        ...

    def prepare(self, space: Space) -> None:
        """Refuse an architecture that cannot be run, before any work."""
        ...

    def fills(self, space: Space, batch: int) -> bool:
        """Whether one client's step leaves no room for others, so that nothing is gained by running them together."""
        ...

    def train(self, jobs: list[TrainJob]) -> list[Trained]:
        """Run visits that share space and recipe."""
        ...

    def probe(self, jobs: list[TrainJob], width: int | None = None) -> list[Probed]:
        """Full gradients, and the variance of one sample's gradient, of visits that share space and loss.

        ``width`` is the largest part of those that would be probed together if there were memory for all.
        """
        ...

    def evaluate(self, jobs: list[EvalJob]) -> list[Score]:
        """Score models of one space."""
        ...


@runtime_checkable
class Submitting(Protocol):
    """A trainer that others compute for, so that much can be under way at once."""

    def submit(self, act: Literal["train", "probe"], jobs: list[TrainJob]) -> Callable[[], list[Any]]:
        """Have visits computed; what is returned waits for the results."""
        ...

    def close(self) -> None:
        """Let those go who compute elsewhere."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A trainer that can be asked from another thread how far it has come."""

    @property
    def finished(self) -> list[int]:
        """The visits of each cohort that is done, of the call that is under way; none between two calls."""
        ...
