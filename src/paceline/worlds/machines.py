"""What does the work of a world: simulated durations, real processes, or a recording of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from paceline.algorithms.world import Failing, Presence
from paceline.clock import VirtualLoop
from paceline.learn.graph import Model
from paceline.learn.job import Score
from paceline.learn.promises import Promise
from paceline.learn.recipe import LocalSGD
from paceline.worlds.learner import Act


@dataclass(slots=True, eq=False)
class Task:
    """One visit: what a client is to compute. (Not frozen: a million of them are made, and freezing takes time.)"""

    act: Act
    client: int
    model: Model
    recipe: LocalSGD
    round: int
    flops: float
    """Of the whole visit."""
    extras: dict[str, Model] = field(default_factory=dict)
    """Further models by name: a mask, a correction, an anchor."""
    gradient_at: Callable[[Model], Model] | None = None
    """Where the gradient of one batch is to be taken afterwards; none unless given."""
    gradient_flops: float = 0.0
    """Of a whole visit with the dense network: a gradient knows no mask."""
    gradient_share: float = 0.0
    """How much of such a visit the gradient is."""

    @property
    def all_flops(self) -> float:
        """Of the visit and the gradient that follows."""
        return self.flops + self.gradient_flops * self.gradient_share if self.gradient_share else self.flops


class Machines(Protocol):
    """Devices, servers and links, whatever they are."""

    @property
    def loop(self) -> VirtualLoop:
        """The clock on which everything happens."""
        ...

    @property
    def size(self) -> int:
        """How many devices there are."""
        ...

    @property
    def presence(self) -> Presence:
        """Who can be reached, and how to wait for somebody."""
        ...

    @property
    def failures(self) -> Failing:
        """Which servers and links may break down, and when."""
        ...

    @property
    def shares_links(self) -> bool:
        """Whether transfers of one site go side by side."""
        ...

    def failing(self, site: int) -> float:
        """When a server fails; infinity if never."""
        ...

    def seconds(self, client: int, flops: float) -> float:
        """How long a client takes for so much work, on average; for ratios of two kinds of work."""
        ...

    async def visit(self, task: Task) -> tuple[Model, Model | None]:
        """Have a client compute; what it trained, and the gradient that was asked for."""
        ...

    async def carry(
        self, models: Sequence[Model], source: int, target: int, round: int, *, waits: bool
    ) -> Sequence[Model]:
        """Move models in one message; returns them as they are at the target."""
        ...

    async def work(self, site: int, flops: float, round: int, model: Model) -> Model:
        """Have a server compute for as long as so many FLOPs take it."""
        ...

    def read(self, promise: Promise[Any]) -> None:
        """An algorithm is about to read this."""
        ...

    def bring(self, models: Sequence[Model]) -> None:
        """Make the values of these models known to whoever observes the run; that is not part of the run."""
        ...

    def score(self, models: Sequence[Model]) -> Promise[Score] | None:
        """Have clients score their own models on their own test rows; None: whoever observes the run does that."""
        ...

    def close(self) -> None:
        """The run is over: end what was started for it."""
        ...
