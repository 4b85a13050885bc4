"""What an algorithm may ask: a small core that every world has, and facets that some have.

A world may be simulated (``worlds/simulation/machines.py``) or real machines; an algorithm cannot tell which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from torch import Tensor

from paceline.learn.graph import Model
from paceline.learn.promises import Promise
from paceline.learn.recipe import LocalSGD
from paceline.ledger.events import Event
from paceline.seeds import Address

T = TypeVar("T")


class Presence(Protocol):
    """Who is there. Every device may go away; in a steady world none ever does."""

    def online(self, client: int) -> bool:
        """Whether a client can be reached now."""
        ...

    def expected(self, client: int) -> float:
        """Return when a client is next reachable: now, later, never (infinity), or nan if that is unknown."""
        ...

    async def reach(self, clients: Sequence[int]) -> None:
        """Wait until one of these can be reached; ``Dropped`` if none ever will be, as far as anybody knows.

        However long that takes: it is for algorithms that have nothing else to do. Being away is nobody's waiting.
        """
        ...


class Learning(Protocol):
    """What some algorithms learn besides trained models."""

    @property
    def kinds(self) -> int:
        """How many architectures the clients have."""
        ...

    def kind(self, client: int) -> int:
        """Which of them a client has."""
        ...

    async def probe(self, client: int, model: Model, recipe: LocalSGD) -> Model:
        """The gradient of that client's whole loss at a model; takes the client's time. ``Comparison`` reads them."""
        ...

    def visits_per_probe(self, client: int, recipe: LocalSGD) -> float:
        """How long a visit with this recipe takes, in probes of that client."""
        ...

    async def train_then_gradient(
        self,
        client: int,
        model: Model,
        recipe: LocalSGD,
        *,
        at: Callable[[Model], Model],
        mask: Model | None = None,
        flops: float | None = None,
    ) -> tuple[Model, Model]:
        """One visit: local training, then the gradient of one batch at what ``at`` makes of the trained model.

        Returns the trained model and the gradient; takes a visit's time and the time of one batch.
        """
        ...

    def expect(self, promise: Promise[Any]) -> None:
        """Say that something will be observed later: it is learned together with whatever is learned next."""
        ...


class Public(Protocol):
    """Samples that the server holds itself."""

    @property
    def size(self) -> int:
        """How many they are, also in a dry run."""
        ...

    def data(self) -> tuple[Tensor, Tensor]:
        """The samples and their labels."""
        ...


class Failing(Protocol):
    """Servers that fail and links between servers that break, for good."""

    @property
    def possible(self) -> bool:
        """Whether any server or link may ever fail."""
        ...

    async def breakdown(self, *sites: int) -> None:
        """Wait until a server has failed, or the link between two of them; perhaps for ever."""
        ...


class Log(Protocol):
    """What an algorithm tells besides its models."""

    def tell(self, event: Event) -> None:
        """Say what was decided or what failed: it goes to the log and the report."""
        ...

    def count(self, name: str, value: int) -> None:
        """Count one more of this value (a staleness, say): its distribution goes to the summary and the report."""
        ...


class World(Protocol):
    """All that an algorithm sees. Verbs that take time are awaited.

    A model exists where it was made and where it was sent: at a site only what ``send`` returned there may be used.
    Whether a device that is away is waited for is the run's rule for absence (``absence``), and the verbs follow it:
    they raise ``Dropped`` when the device is to be left out.
    """

    server: int
    """The site of the (first) server. Devices are the sites 0, 1, 2, ...; further servers are -2, -3, ..."""

    # -- every world has these ------------------------------------------------------------------------------------

    @property
    def clients(self) -> range:
        """The sites of all clients."""
        ...

    @property
    def round(self) -> int:
        """How many ``Progress`` have been yielded, or the round that this branch has entered."""
        ...

    def now(self) -> float:
        """The time on the run's clock, in seconds."""
        ...

    def stream(self, *path: Address) -> np.random.Generator:
        """The run's random stream at an address."""
        ...

    def initial_model(self, kind: int = 0) -> Model:
        """The model that learning starts from, of one of the architectures; everybody has it."""
        ...

    def samples(self, client: int) -> int:
        """How many training samples a client owns."""
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
        """Local training on that client's data; takes the client's time.

        ``flops`` are those of one sample's forward pass where the network is not the dense one.
        """
        ...

    async def visit(
        self, client: int, model: Model, recipe: LocalSGD, server: int | None = None, *, update: bool = False
    ) -> Model:
        """The server (the first unless said) sends, the client trains, the client sends back: what arrives there.

        That is what was trained, or, as an ``update``, its difference from what came.
        """
        ...

    async def send(self, model: Model, source: int, target: int, *, waits: bool = True) -> Model:
        """Move a model: what this returns is the model at the target. Takes the links' time.

        Where a link is busy, the end whose link is free waits, unless ``waits`` says that it has other things to do.
        """
        ...

    async def send_all(
        self, models: Sequence[Model], source: int, target: int, *, waits: bool = True
    ) -> Sequence[Model]:
        """The same for several models in one message."""
        ...

    async def fetch(self, parcels: Mapping[int, Sequence[Model]], target: int) -> Mapping[int, Sequence[Model]]:
        """Have several sites each send its parcel to one, which waits for them: what came, by who sent it.

        In the order of the parcels, one after the other or side by side as with ``transfers``; who drops out is not
        in the answer.
        """
        ...

    async def transfers(self, moves: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """All transfers of one site: one after the other where its link carries one at a time, else side by side.

        One request at a time keeps lines short, and whoever asks in an order of its own hardly meets anybody in them.
        """
        ...

    async def work(self, site: int, flops: float, model: Model) -> Model:
        """Have a server compute this model, which costs it so many FLOPs; takes that site's time."""
        ...

    async def observe(self, promise: Promise[T]) -> T:
        """Await something learned to branch on; virtual time stands still."""
        ...

    async def wait(self, site: int, event: Awaitable[T], cause: int | Callable[[T], int]) -> T:
        """Let a site wait for something; that it waited, and for whom, goes to the ledger.

        Whom may be known only when it has happened: then ``cause`` says it of what came.
        """
        ...

    async def gather(self, branches: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Run branches side by side and wait for all: a barrier. Who waited, and for whom, goes to the ledger."""
        ...

    def spawn(self, branch: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start something that runs on by itself until the run ends; if it fails, the run fails."""
        ...

    def settled(self) -> Awaitable[None]:
        """Go on when all else that happens at this instant has happened: a server acts before devices restart."""
        ...

    def enter(self, round: int) -> None:
        """Say that this branch is in this round now, where branches are not in the same one: learning rates and the
        ledger go by it."""
        ...

    # -- facets ----------------------------------------------------------------------------------------------------

    @property
    def log(self) -> Log:
        """Where an algorithm tells what it counts, and what has happened."""
        ...

    @property
    def presence(self) -> Presence:
        """Who can be reached, and how to wait for somebody."""
        ...

    @property
    def learning(self) -> Learning:
        """What can be computed besides training: probes, comparisons, scores."""
        ...

    @property
    def public(self) -> Public:
        """Samples of the server's own, which belong to no client."""
        ...

    @property
    def failures(self) -> Failing:
        """Which servers and links may break down, and when that happens."""
        ...
