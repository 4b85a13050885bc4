"""What an algorithm may ask: the World, and the few things all algorithms share.

An algorithm is a frozen dataclass with one coroutine, ``run(world)``, that says who waits for whom and yields a
``Progress`` whenever a new global model (or set of personal models) exists. The number of ``Progress`` so far is
the *round*; learning-rate schedules and the ledger go by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from torch import Tensor

from paceline.errors import Dropped, SettingError
from paceline.learn.graph import Comparison, Measure, Model, Promise, Reading, apply, by_rows, combine, mean, packed
from paceline.learn.job import Score, Spread
from paceline.learn.recipe import LocalSGD
from paceline.seeds import Address

__all__ = [
    "Algorithm",
    "Comparison",
    "Dropped",
    "Measure",
    "Model",
    "Progress",
    "Reading",
    "Score",
    "Spread",
    "World",
    "apply",
    "by_rows",
    "combine",
    "count_rejected",
    "mean",
    "packed",
    "train_once",
    "train_when_back",
    "transferred",
    "visit",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
    """A new state of the learning."""

    model: Model | Sequence[Model]
    """The global model, or every client's own, in the order of the clients."""
    info: Mapping[str, float] = field(default_factory=dict)
    """Numbers about this round that the schedule knows (staleness, participants); they go to the metrics."""
    others: Mapping[str, Model | Sequence[Model]] = field(default_factory=dict)
    """Further models by name (one of another architecture): scored beside the first; of several (every server's own)
    the mean score."""


class World(Protocol):
    """All that an algorithm sees. Verbs that take virtual time are awaited."""

    server: int
    """The site of the (first) server."""

    @property
    def clients(self) -> range:
        """All client sites."""
        ...

    @property
    def round(self) -> int:
        """How many ``Progress`` have been yielded."""
        ...

    def now(self) -> float:
        """The time in seconds."""
        ...

    def stream(self, *path: Address) -> np.random.Generator:
        """The run's random stream at an address."""
        ...

    def initial_model(self, kind: int = 0) -> Model:
        """The model that learning starts from, of one of the architectures."""
        ...

    @property
    def kinds(self) -> int:
        """How many architectures the clients have."""
        ...

    def kind(self, client: int) -> int:
        """Which of them a client has."""
        ...

    def samples(self, client: int) -> int:
        """How many training samples a client owns."""
        ...

    def online(self, client: int) -> bool:
        """Whether a client can be reached now."""
        ...

    @property
    def shares_links(self) -> bool:
        """Whether transfers of one site go side by side at shares of its rate, and not one after the other."""
        ...

    async def train(
        self,
        client: int,
        model: Model,
        recipe: LocalSGD,
        *,
        mask: Model | None = None,
        correction: Model | None = None,
        anchor: Model | None = None,
        flops: float | None = None,
    ) -> Model:
        """Local training on that client's data; takes the client's time. Raises ``Dropped`` if it leaves.

        ``flops`` are those of one sample's forward pass where the network is not the dense one.
        """
        ...

    async def probe(self, client: int, model: Model, recipe: LocalSGD) -> Model:
        """The gradient of that client's whole loss at a model; takes the client's time. ``Comparison`` reads them."""
        ...

    async def gradient(self, client: int, model: Model, recipe: LocalSGD) -> Model:
        """The gradient of one batch of that client's data at a model; takes the client's time for one batch."""
        ...

    def visits_per_probe(self, client: int, recipe: LocalSGD) -> float:
        """How long a visit with this recipe takes, in probes of that client."""
        ...

    async def send(self, model: Model, source: int, target: int, *, waits: bool = True) -> Model:
        """Move a model; takes the links' time.

        Where a link is busy, the end whose link is free waits, unless ``waits`` says that it has other things to do.
        """
        ...

    async def work(self, site: int, flops: float) -> None:
        """Server-side work of so many FLOPs; takes that site's time."""
        ...

    async def observe(self, promise: Promise[T]) -> T:
        """Await something learned to branch on; virtual time stands still."""
        ...

    def expect(self, promise: Promise[Any]) -> None:
        """Say that something will be observed later: it is learned together with whatever is learned next."""
        ...

    def note(self, text: str, **figures: Any) -> None:
        """Say what was decided and why, with its figures: it goes to the log and the report."""
        ...

    def evaluate(self, model: Model | Sequence[Model]) -> Measure:
        """Accuracy and loss on the test set, or the clients' means of their own; deferred, never charged."""
        ...

    def record(self, name: str, value: int) -> None:
        """Count one more of this value (a staleness, say): its distribution goes to the summary and the report."""
        ...

    async def reach(self, *clients: int) -> None:
        """Until one of these can be reached; ``Dropped`` if none ever will be. Being away is nobody's waiting."""
        ...

    async def wait(self, site: int, event: Awaitable[T], cause: int | Callable[[T], int]) -> T:
        """Let a site wait for something; that it waited, and for whom, goes to the ledger.

        Whom may be known only when it has happened: then ``cause`` says it of what came.
        """
        ...

    def public(self) -> tuple[Tensor, Tensor]:
        """The server's own samples and labels."""
        ...

    def public_size(self) -> int:
        """How many they are, also in a dry run."""
        ...

    async def gather(self, branches: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Run branches side by side and wait for all: a barrier. Who waited, and for whom, goes to the ledger."""
        ...

    async def settled(self) -> None:
        """Go on when all else that happens at this instant has happened: a server acts before devices restart."""
        ...

    def enter(self, round: int) -> None:
        """Say that this branch is in this round now, where branches are not in the same one: learning rates and the
        ledger go by it."""
        ...

    @property
    def breakable(self) -> bool:
        """Whether any server or link may ever fail."""
        ...

    async def breakdown(self, *sites: int) -> None:
        """Until a server has failed, or the link between two of them; perhaps for ever."""
        ...

    def spawn(self, branch: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start something that runs on by itself until the run ends; if it fails, the run fails."""
        ...


class Algorithm(Protocol):
    """A frozen dataclass of settings and one coroutine."""

    def check(self, clients: int) -> None:
        """Refuse impossible settings before any work starts."""
        ...

    def run(self, world: World) -> AsyncIterator[Progress]:
        """Learn; see the module's text."""
        ...


async def train_once(world: World, client: int, model: Model, recipe: LocalSGD) -> Model:
    """Train; whoever goes away meanwhile is not waited for."""
    return await world.train(client, model, recipe)


PATIENCE = 1000
"""Visits in a row that a client may break off before it is taken never to finish one."""


async def train_when_back(world: World, client: int, model: Model, recipe: LocalSGD) -> Model:
    """Train, and if the client goes away meanwhile, again when it is back: whoever waits for it waits in full."""
    for _ in range(PATIENCE):
        try:
            return await world.train(client, model, recipe)
        except Dropped as dropped:
            if dropped.gone:
                raise
    raise Dropped(client, world.now())  # it is never there for as long as it needs


async def transferred(world: World, transfers: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All transfers of one site: one after the other where its link carries one at a time, else side by side.

    One request at a time keeps lines short, and whoever asks in an order of its own hardly meets anybody in them.
    """
    if world.shares_links:
        return list(await asyncio.gather(*transfers))
    return [await transfer for transfer in transfers]


async def visit(world: World, client: int, model: Model, recipe: LocalSGD, server: int | None = None) -> Model:
    """The server (the first unless said) sends, the client trains, the client sends back."""
    home = world.server if server is None else server
    received = await world.send(model, home, client)
    trained = await world.train(client, received, recipe)
    return await world.send(trained, client, home)


def draw_clients(world: World, count: int, *path: Address, among: Sequence[int] | None = None) -> list[int]:
    """Clients drawn uniformly without replacement among those online, as far as there are enough.

    By rejection: the cost does not grow with the number of clients.
    """
    rng = world.stream(*path)
    clients = world.clients if among is None else among
    chosen = [clients[int(k)] for k in rng.choice(len(clients), count, replace=False)]
    if all(map(world.online, chosen)):
        return chosen
    taken = {k: None for k in chosen if world.online(k)}
    for k in rng.integers(len(clients), size=50 * count):
        if len(taken) == count:
            break
        if world.online(clients[int(k)]):
            taken[clients[int(k)]] = None
    late = (k for k in chosen if k not in taken)  # hardly anyone is online: these will be waited for
    return [*taken, *late][:count]


def count_rejected(world: World, devices: Sequence[int | Sequence[int]]) -> Callable[[Sequence[int]], None]:
    """For a screening: how often the update of each device, or of those that made it together, was left out."""

    def count(places: Sequence[int]) -> None:
        for place in places:
            makers = devices[place]
            for maker in [makers] if isinstance(makers, int) else makers:
                world.record("rejected client", maker)

    return count


def require(holds: bool, message: str) -> None:
    """Raise a SettingError with this message unless the condition holds."""
    if not holds:
        raise SettingError(message)
