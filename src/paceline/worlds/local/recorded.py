"""A journal as hands: everything takes as long as it took, and ends as it ended; values are learned anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paceline.clock import VirtualLoop
from paceline.errors import Dropped
from paceline.learn.graph import Model
from paceline.worlds.learner import Learner
from paceline.worlds.local.journal import Act, Entry, by_act
from paceline.worlds.local.presence import WallPresence
from paceline.worlds.machines import Task


class RecordedHands:
    """Repeats a run on the wall clock; ``strays`` are acts that began at another time than they did then."""

    def __init__(self, loop: VirtualLoop, learner: Learner, entries: Sequence[Entry]) -> None:
        self.strays: list[str] = []
        self._loop = loop
        self._learner = learner
        self._acts: dict[Act, Entry] = by_act(entries)
        self._begun: Counter[tuple[str, int, int]] = Counter()

    async def visit(self, task: Task, visit: int) -> tuple[Model, Model | None]:
        """Promised by the learner, as in any simulation."""
        await self._again("visit", task.client, 0)
        client, round = task.client, task.round
        trained = self._learner.visit(task.act, client, visit, task.model, task.recipe, round, task.extras)
        if task.gradient_at is None:
            return trained, None
        return trained, self._learner.gradient(client, visit, task.gradient_at(trained), task.recipe, round)

    async def carry(self, models: Sequence[Model], source: int, target: int) -> tuple[Sequence[Model], float]:
        """What arrives is what the codec leaves, which the models are already."""
        return models, (await self._again("send", source, target)).bytes

    async def work(self, site: int, model: Model) -> Model:
        """A promise."""
        await self._again("work", site, 0)
        return model

    def bring(self, models: Sequence[Model]) -> None:
        """Everything is here."""

    def close(self) -> None:
        """Nothing was started."""

    async def _again(self, what: str, site: int, target: int) -> Entry:
        """Until the act of this number ended then; one that had not when the run did never does."""
        number = self._begun[what, site, target]
        self._begun[what, site, target] += 1
        entry = self._acts.get((what, site, target, number))
        if entry is None:
            await self._loop.create_future()
            raise AssertionError("a future that nobody sets")
        if entry.start != self._loop.time():
            self.strays.append(f"{what} {number} of {site} began at {self._loop.time()!r}, then at {entry.start!r}")
        if entry.end > self._loop.time():
            await self._loop.at(entry.end)
        if entry.outcome:
            raise Dropped(entry.dropped, entry.end, reason=entry.outcome, gone=entry.gone)  # type: ignore[arg-type]
        return entry


def repeat_presence(loop: VirtualLoop, presence: WallPresence, entries: Sequence[Entry]) -> None:
    """Let devices come and go as they did."""
    for entry in entries:
        if entry.what in ("online", "offline"):
            loop.call_at(entry.end, presence.change, entry.site, entry.what == "online")
