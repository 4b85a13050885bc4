"""What an algorithm is, and the few things all algorithms share; what it may ask is in ``algorithms/world.py``.

An algorithm is a frozen dataclass with one coroutine, ``run(world)``, that says who waits for whom and yields a
``Progress`` whenever a new global model (or set of personal models) exists. The number of ``Progress`` so far is
the *round*; learning-rate schedules and the ledger go by it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, Literal, Protocol, TypeVar

from paceline.algorithms.world import World
from paceline.errors import Deserted, Dropped, SettingError
from paceline.learn.graph import Model, apply, by_rows, combine, encoded, mean, once, packed, total
from paceline.learn.job import Score, Spread
from paceline.learn.promises import Comparison, LocalReadings, Measure, Reading
from paceline.learn.recipe import LocalSGD
from paceline.ledger.events import Event
from paceline.seeds import Address

__all__ = [
    "Algorithm",
    "Assumption",
    "Comparison",
    "Dropped",
    "LocalReadings",
    "Measure",
    "Model",
    "Progress",
    "Reading",
    "Score",
    "Spread",
    "Sums",
    "World",
    "apply",
    "by_rows",
    "combine",
    "Traits",
    "Event",
    "came_back",
    "comes",
    "count_rejected",
    "encoded",
    "mean",
    "once",
    "packed",
    "somebody",
    "those",
    "total",
    "unless_dropped",
    "visit",
]

K = TypeVar("K")
T = TypeVar("T")


@dataclass(slots=True)
class Progress:
    """A new state of the learning. (Not frozen: a round may be a single visit, and freezing takes time.)"""

    model: Model | Sequence[Model]
    """The global model, or every client's own, in the order of the clients."""
    info: Mapping[str, float] = field(default_factory=dict)
    """Numbers about this round that the schedule knows (staleness, participants); they go to the metrics."""
    others: Mapping[str, Model | Sequence[Model]] = field(default_factory=dict)
    """Further models by name (one of another architecture): scored beside the first; of several (every server's own)
    the mean score."""
    own: Callable[[], Sequence[Model]] | None = None
    """Function that returns every client's own model, in the order of the clients. Set it if ``model`` is a mean that
    no client has: with personal=true these are scored instead."""


AbsenceWord = Literal["skip", "wait"]
Weights = Literal["equal", "samples"]
BY_OBJECTIVE = {"equal": {"objective": "clients"}, "samples": {"objective": "samples"}}
"""``Traits.weighing`` of algorithms with a setting ``objective``."""


@dataclass(frozen=True)
class Assumption:
    """What a dry run takes for granted instead of learning it."""

    text: str
    """In words, with the settings that choose something else."""
    settings: Mapping[str, Any]
    """The algorithm's own settings that come to this."""


@dataclass(frozen=True)
class Sums:
    """What others can know of uploads, where clients send nothing but updates of what a server sent them."""

    together: int = 1
    """The server uses nothing but sums of so many uploads, of different clients, all with the same weight, one sum a
    round; 1: uploads may be used in any way, and each must be protected by itself."""
    drawn: bool = False
    """Whether the clients of a sum are drawn anew, uniformly among all that are there, without replacement."""


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What must be known of an algorithm before it runs."""

    rounds: int
    """How many ``Progress`` it yields at most."""
    local: LocalSGD
    """The local training that most of its visits do."""
    absence: AbsenceWord
    """Its own rule for devices that are away: they are left out, or waited for."""
    servers: int = 1
    """How many servers it has."""
    links: Collection[tuple[int, int]] | None = ()
    """The links between servers that may fail, each from the lower number; None: not known before the run."""
    outlives_servers: bool = False
    """Whether it can go on when a server has failed; if not, a failure of the first one ends the run."""
    arrivals: bool = False
    """Whether its rounds are arrivals at the server, so that nobody need begin anything between two of them."""
    mixes_architectures: bool = False
    """Whether its clients may have different architectures."""
    paced_by_rounds: bool = False
    """Whether something in it (a cosine over the run) depends on how many rounds there are."""
    needs_public: bool = False
    """Whether its server needs samples of its own."""
    private: Sums | str = ""
    """For differential privacy: what others can know of uploads, or why it cannot be had."""
    weights: Weights = "equal"
    """Weights of clients in the objective: all alike, or by their samples."""
    weighing: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of the algorithm that produce each of these weights, if it has any."""
    assumption: Assumption | None = None
    """Where the schedule depends on something learned: what a dry run, which learns nothing, takes for granted."""


class Algorithm(Protocol):
    """A frozen dataclass of settings and one coroutine.

    A class of your own that is derived from this one needs only ``run``, and the settings ``rounds`` and ``local``.
    """

    def check(self, clients: int) -> None:
        """Refuse impossible settings before any work starts; unless a class says otherwise, all are possible."""
        return

    def traits(self, clients: int) -> Traits:
        """What must be known of it before it runs with so many clients.

        Unless a class says otherwise: its own ``rounds`` and ``local``, and who is away is left out.
        """
        try:
            rounds, local = self.rounds, self.local  # type: ignore[attr-defined]
        except AttributeError:
            raise SettingError(
                f"{type(self).__name__} has no settings `rounds: int` and `local: LocalSGD`; give it both, or a"
                " method traits(clients) that says them"
            ) from None
        return Traits(rounds=rounds, local=local, absence="skip")

    def run(self, world: World) -> AsyncIterator[Progress]:
        """Learn, and yield a ``Progress`` after every round; the module's text says more."""
        ...


async def came_back(world: World, branches: Mapping[K, Coroutine[Any, Any, T | None]]) -> dict[K, T]:
    """Run branches side by side, wait for all at a barrier, and return what those brought that came back.

    Each branch has a name, as a rule its client. Whose branch drops out is not in the answer, and neither is one that
    has nothing to bring (None); the others stay in their order.
    """
    try:
        answers = await world.gather(unless_dropped(branch) for branch in branches.values())
    except BaseException:
        for branch in branches.values():  # a run that is cut off leaves no branch that nobody began
            if getcoroutinestate(branch) == CORO_CREATED:
                branch.close()
        raise
    return those(branches, answers)


async def unless_dropped(branch: Awaitable[T]) -> T | None:
    """Return what a branch brings, or None if it drops out: for branches that no barrier of all ends."""
    try:
        return await branch
    except Dropped:
        return None


def those(names: Iterable[K], answers: Iterable[T | None]) -> dict[K, T]:
    """Return the answers that there are, by name and in the order of the names."""
    return {name: answer for name, answer in zip(names, answers, strict=True) if answer is not None}


async def comes(world: World, clients: Sequence[int]) -> bool:
    """Wait until one of these clients can be reached; False if none ever will be."""
    try:
        await world.presence.reach(clients)
    except Dropped:
        return False
    return True


async def somebody(world: World, done: int, rounds: int) -> None:
    """Wait until any client is there; where all have left for good, the run ends and says so."""
    if not await comes(world, world.clients):
        raise deserted(world, done, rounds)


def deserted(world: World, done: int, rounds: int) -> Deserted:
    """The end of a run that nobody is left for."""
    return Deserted(f"every client has left for good at t={world.now():g} s; {done} of {rounds} rounds are done")


def visit(
    world: World, client: int, model: Model, recipe: LocalSGD, server: int | None = None, *, update: bool = False
) -> Coroutine[Any, Any, Model]:
    """The server (the first unless said) sends, the client trains, the client sends back.

    It sends what it has trained, or, as an ``update``, the difference from what came.

    >>> import paceline
    >>> class Once(paceline.Algorithm):
    ...     rounds, local = 1, paceline.LocalSGD()
    ...
    ...     async def run(self, world):
    ...         yield paceline.Progress(await visit(world, 0, world.initial_model(), self.local))
    >>> paceline.dry(Once(), {"times": "constant:3", "jitter": 0}, clients=1).seconds
    3.0
    """
    return world.visit(client, model, recipe, server, update=update)


def draw_clients(world: World, count: int, *path: Address, among: Sequence[int] | None = None) -> list[int]:
    """Clients drawn uniformly without replacement among those online, as far as there are enough; then also others.

    By rejection: the cost does not grow with the number of clients.

    >>> import paceline
    >>> class Some(paceline.Algorithm):
    ...     rounds, local = 1, paceline.LocalSGD()
    ...
    ...     async def run(self, world):
    ...         chosen = draw_clients(world, 3, "who")
    ...         assert len(set(chosen)) == 3
    ...         yield paceline.Progress(world.initial_model())
    >>> len(paceline.dry(Some(), clients=10).times)
    1
    """
    rng = world.stream(*path)
    clients = world.clients if among is None else among
    chosen = [clients[int(k)] for k in rng.choice(len(clients), count, replace=False)]
    if all(map(world.presence.online, chosen)):
        return chosen
    taken = {k: None for k in chosen if world.presence.online(k)}
    for k in rng.integers(len(clients), size=50 * count):
        if len(taken) == count:
            break
        if world.presence.online(clients[int(k)]):
            taken[clients[int(k)]] = None
    late = (k for k in chosen if k not in taken)  # hardly anyone is online: the run's rule says what becomes of these
    return [*taken, *late][:count]


def count_rejected(world: World, devices: Sequence[int | Sequence[int]]) -> Callable[[Sequence[int]], None]:
    """For a screening: how often the update of each device, or of those that made it together, was left out."""

    def count(places: Sequence[int]) -> None:
        for place in places:
            makers = devices[place]
            for maker in [makers] if isinstance(makers, int) else makers:
                world.log.count("rejected client", maker)

    return count


def require(holds: bool, message: str) -> None:
    """Raise a SettingError with this message unless the condition holds."""
    if not holds:
        raise SettingError(message)
