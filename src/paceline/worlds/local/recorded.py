"""A journal as hands: everything takes as long as it took, and ends as it ended; values are learned anew."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.clock import VirtualLoop
from paceline.errors import Dropped
from paceline.learn.graph import Model
from paceline.worlds.learner import Learner
from paceline.worlds.local.journal import Act, Entry, by_act
from paceline.worlds.local.machines import Carried
from paceline.worlds.local.presence import WallPresence
from paceline.worlds.machines import Task


class RecordedHands:
    """Repeats a run on the wall clock; ``strays`` are acts that began at another time than they did then."""

    def __init__(self, loop: VirtualLoop, learner: Learner, entries: Sequence[Entry]) -> None:
        self.strays: list[str] = []
        self._loop = loop
        self._learner = learner
        self._acts: dict[Act, Entry] = by_act(entries)

    async def visit(self, act: Act, task: Task, visit: int) -> tuple[Model, Model | None]:
        """Promised by the learner, as in any simulation."""
        await self._again(act)
        client, round = task.client, task.round
        trained = self._learner.visit(task.act, client, visit, task.model, task.recipe, round, task.extras)
        if task.gradient_at is None:
            return trained, None
        return trained, self._learner.gradient(client, visit, task.gradient_at(trained), task.recipe, round)

    async def carry(self, act: Act, models: Sequence[Model]) -> Carried:
        """What arrives is what the codec leaves, which the models are already."""
        return Carried(models, (await self._again(act)).bytes)

    async def work(self, act: Act, model: Model) -> Model:
        """Return the model as a promise, at the time at which the server had computed it."""
        await self._again(act)
        return model

    def bring(self, models: Sequence[Model]) -> None:
        """Do nothing: all models are here already."""

    def score(self, models: Sequence[Model]) -> None:
        """Whoever repeats a run scores all models by itself."""

    def close(self) -> None:
        """Do nothing: no process was started."""

    async def _again(self, act: Act) -> Entry:
        """Until this act ended then; one that had not when the run did never does."""
        entry = self._acts.get(act)
        if entry is None:
            await self._loop.create_future()
            raise AssertionError("a future that nobody sets")
        if entry.start != self._loop.time():
            self.strays.append(str(act))
        await ended(self._loop, entry)
        return entry


async def ended(loop: VirtualLoop, entry: Entry) -> None:
    """Until an act ended, as it ended."""
    if entry.end > loop.time():
        await loop.at(entry.end)
    if entry.outcome:
        raise Dropped(entry.dropped, entry.end, reason=entry.outcome, gone=entry.gone)  # type: ignore[arg-type]


def repeat_presence(loop: VirtualLoop, presence: WallPresence, entries: Sequence[Entry]) -> None:
    """Let devices come and go as they did."""
    for entry in entries:
        if entry.what in ("online", "offline"):
            loop.call_at(entry.end, presence.change, entry.site, entry.what == "online")
