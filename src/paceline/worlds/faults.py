"""Messages that go wrong: lost, twice, late, spoilt on the way, or nonsense from the start.

What befalls a message is drawn at its address (seed, kind, source, target, how many went between these two before),
so it is the same whenever a run is repeated or resumed. What a receiver does about it is modelled as any careful
receiver does it, and no fault ever reaches an average:

- what never comes, or comes with bits flipped, which its checksum tells, was sent in vain: ``Dropped``, ``lost``;
- what is longer than its model can be, or not finite, is ``refused`` on arrival: nobody reads past the length that it
  expects, and the sum of the squares of what came is NaN if any number is;
- what comes twice is taken once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, get_args

from paceline.errors import Dropped, Fruitless
from paceline.forms import ABOVE_ZERO, SHARE, Form, Forms, joined
from paceline.learn.graph import Model
from paceline.seeds import address, uniform
from paceline.worlds.diary import Diary
from paceline.worlds.machines import Machines
from paceline.worlds.wrapping import WrappedMachines

FaultKind = Literal["lost", "corrupted", "oversized", "nan", "duplicated", "delayed", "reordered"]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
LOST: tuple[FaultKind, ...] = ("lost", "corrupted")
REFUSED: tuple[FaultKind, ...] = ("oversized", "nan")
"""Of these a device is to blame, not the way: servers send neither."""
IN_VAIN, EACH = 2000, 20
"""Messages that may fail one after the other, or so many for each device, before none is taken ever to arrive."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault, and how much of it there is."""

    kind: FaultKind
    share: float
    """Of all messages that it can befall."""
    seconds: float = 0.0
    """How late, where it makes a message late; at most, where that is drawn."""


@dataclass(frozen=True)
class Faults:
    """Everything that befalls the messages of a run."""

    parts: tuple[Fault, ...] = ()
    key: int = 0

    def befalling(self, source: int, target: int, number: int) -> dict[FaultKind, float]:
        """What befalls a message: each kind, with the seconds by which it makes it late."""
        found: dict[FaultKind, float] = {}
        for place, fault in enumerate(self.parts):
            if source < 0 and fault.kind in REFUSED:
                continue
            draw = uniform(self.key, place, KINDS.index(fault.kind), source, target, number)
            if draw < fault.share:
                # Given draw < share, draw / share is uniform again, and says how late.
                late = fault.seconds * (draw / fault.share if fault.kind == "reordered" else 1.0)
                found[fault.kind] = found.get(fault.kind, 0.0) + late
        return found


def _one(kind: FaultKind, default: float = 0.0) -> Callable[..., Fault]:
    """What makes a fault of this kind."""

    def make(share: float, seconds: float = default) -> Fault:
        return Fault(kind, share, seconds)

    return make


_KINDS = {"SHARE": SHARE, "SECONDS": ABOVE_ZERO}
FAULTS: Forms[Fault | None] = Forms(
    "faults",
    Form("none", lambda: None, "all messages arrive as they were sent", "none"),
    Form("lost:SHARE", _one("lost"), "this share of all messages is sent in vain", "lost:0.1", _KINDS),
    Form("duplicated:SHARE", _one("duplicated"), "they travel twice, and count once", "duplicated:0.1", _KINDS),
    Form("delayed:SHARE,SECONDS", _one("delayed"), "they arrive so much later", "delayed:0.1,5", _KINDS),
    Form(
        "reordered:SHARE[,SECONDS]",
        _one("reordered", 1.0),
        "each of them arrives later by a time of its own, up to 1 s unless given, so that others overtake it",
        "reordered:0.2",
        _KINDS,
    ),
    Form(
        "corrupted:SHARE",
        _one("corrupted"),
        "some of their bits are flipped, which the receiver's checksum tells: they count as lost",
        "corrupted:0.1",
        _KINDS,
    ),
    Form(
        "oversized:SHARE",
        _one("oversized"),
        "this share of the messages that clients send is longer than a model can be, and refused on arrival",
        "oversized:0.1",
        _KINDS,
    ),
    Form("nan:SHARE", _one("nan"), "this share of them holds NaN, and is refused on arrival", "nan:0.05", _KINDS),
)
"""What can be said about messages; several are joined by ``+``."""


def parse_faults(text: str, seed: int) -> Faults:
    """Faults from words, several of which may be joined by ``+``: ``lost:0.1+delayed:0.2,5``."""
    said = [FAULTS.parse(part) for part in joined(text)]
    parts = tuple(fault for fault in said if fault is not None)
    return Faults(parts, address(seed, "faults") if parts else 0)


class FaultyMachines(WrappedMachines):
    """Any machines, whose messages go wrong now and then."""

    def __init__(self, machines: Machines, faults: Faults, diary: Diary) -> None:
        super().__init__(machines)
        self.on_fault: Callable[[FaultKind, int, int], None] = lambda kind, source, target: None
        """Told what befell a message, and between whom."""
        self._faults = faults
        self._diary = diary
        self._sent: Counter[tuple[int, int]] = Counter()
        self._failed: Counter[bool] = Counter()
        """How many in a row: of those that servers send, and of those that devices do."""

    async def carry(
        self, models: Sequence[Model], source: int, target: int, round: int, *, waits: bool
    ) -> Sequence[Model]:
        """As ever, and then what befalls this message: time and bytes have been spent by then."""
        number = self._sent[source, target]
        self._sent[source, target] += 1
        found = self._faults.befalling(source, target, number)
        arrived = await self._machines.carry(models, source, target, round, waits=waits)
        if found:
            await self._suffer(found, models, source, target, round, waits)
        self._failed[source >= 0] = 0
        return arrived

    async def _suffer(
        self,
        found: dict[FaultKind, float],
        models: Sequence[Model],
        source: int,
        target: int,
        round: int,
        waits: bool,
    ) -> None:
        for kind in found:
            self.on_fault(kind, source, target)
        if "duplicated" in found:
            with suppress(Dropped):  # the first one has arrived, whatever becomes of the second
                await self._machines.carry(models, source, target, round, waits=waits)
        if late := sum(found.values()):
            await self._late(late, source, target, round, waits)
        if any(kind in found for kind in LOST):
            raise self._failure(source, target, "lost")
        if any(kind in found for kind in REFUSED):
            raise self._failure(source, source, "refused")

    async def _late(self, seconds: float, source: int, target: int, round: int, waits: bool) -> None:
        """The message is somewhere on its way; a device that was to receive it waits."""
        begin = self.loop.time()
        question = self._diary.ask(begin)
        try:
            await self.loop.at(begin + seconds)
            if waits and target >= 0:
                self._diary.book_wait(target, begin, self.loop.time(), round, source)
        finally:  # what is in flight when a run ends is not booked
            self._diary.answered(question)
        if self.failing(target) <= self.loop.time():
            raise Dropped(target, self.loop.time(), reason="failed")

    def _failure(self, source: int, site: int, reason: Literal["lost", "refused"]) -> Dropped | Fruitless:
        """What its sender is told; where nothing arrives any more, a run says so and ends."""
        self._failed[source >= 0] += 1
        failed, now = self._failed[source >= 0], self.loop.time()
        if failed < max(IN_VAIN, EACH * self.size):
            return Dropped(site, now, reason=reason, gone=False)
        return Fruitless(
            f"no message of {'devices' if source >= 0 else 'servers'} arrives: the last {failed:,} were all lost or"
            f" refused; now t={now:g} s. Lower the shares in `faults`"
        )
