"""The part of the graph that must be computed: what is ready, and what waits for what.

With a limit on memory, sums are added up term by term as their terms become known, and of the visits that are ready
those come first whose sum was begun first: one round's mean is finished, and its models are let go, before the next
run's round is trained.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import heappop, heappush

import torch
from torch import Tensor

from paceline.learn.draws import largest_part
from paceline.learn.footprint import Need
from paceline.learn.graph import Model, Rows, Sum, Visit
from paceline.learn.memory import Budget
from paceline.learn.recipe import LocalSGD
from paceline.learn.sums import RunningSum

Place = tuple[int, int, int]
"""Where a model will go: after how many sums, into which sum, as which of its terms; what goes first is smaller."""
LAST: Place = (1 << 62, 0, 0)


@lru_cache(maxsize=256)
def shape_of(recipe: LocalSGD) -> LocalSGD:
    """A recipe without its rate, which is a number per client: recipes that differ in nothing else share a group."""
    return replace(recipe, lr=1.0, schedule="constant")


def agreement(model: Model) -> tuple[object, ...]:
    """What visits must agree in to be computed together."""
    visit = visit_of(model)
    shards = visit.shards
    return model.space, visit.act, shape_of(visit.recipe), id(shards.x), id(shards.y), visit.extras


def visit_of(model: Model) -> Visit:
    """The visit that this node is."""
    assert isinstance(model.operation, Visit)
    return model.operation


@dataclass(eq=False)
class Group:
    """Visits that can be computed together, in the order of the places that they go to."""

    heap: list[tuple[Place, int, Model]] = field(default_factory=list)
    longest: int = 0
    """The most samples that one of them has had."""
    widest: int = 0
    """The largest part of one of them in a probe."""
    pushed: int = 0

    def push(self, place: Place, model: Model) -> None:
        """Add a visit; those of the same place stay in their order."""
        visit = visit_of(model)
        size = visit.shards.size(visit.client)
        self.longest = max(self.longest, size)
        self.widest = max(self.widest, largest_part(size))
        self.pushed += 1
        heappush(self.heap, (place, self.pushed, model))

    def need(self) -> Need:
        """What one of them needs."""
        model = self.heap[0][2]
        visit = visit_of(model)
        batch = visit.recipe.batch if visit.act == "train" else self.widest
        return Need(model.space, visit.recipe, self.longest, batch, len(visit.extras))


class Pending:
    """What is ready to be computed, and what waits; with a ``budget``, cut to what may be taken."""

    def __init__(self, wanted: Iterable[Model], device: torch.device, budget: Budget | None = None) -> None:
        self.algebra: list[Model] = []
        self.rows: list[Model] = []
        self.visits: list[Model] = []
        self.running: dict[int, RunningSum] = {}
        self._budget = budget
        self._groups: dict[tuple[object, ...], Group] = {}
        self._places: dict[int, Place] = {}
        self._missing: dict[int, int] = {}
        self._children: dict[int, list[Model]] = defaultdict(list)
        ready = self._find(wanted, device)
        if budget is not None:
            self._find_places(ready)
        for model in ready:
            self._ready(model)

    def _find(self, wanted: Iterable[Model], device: torch.device) -> list[Model]:
        """See who waits for whom; returns those that wait for nobody."""
        ready: list[Model] = []
        stack = [model for model in wanted if model.value is None]
        while stack:
            model = stack.pop()
            if id(model) in self._missing:
                continue
            for parent in model.parents:
                if parent.value is not None:  # initial models are drawn on the CPU, and move once
                    parent.value = parent.value.to(device)
            lacking = [parent for parent in model.parents if parent.value is None]
            self._missing[id(model)] = len(lacking)
            for parent in lacking:
                self._children[id(parent)].append(model)
                stack.append(parent)
            if not lacking:
                ready.append(model)
        return ready

    def _find_places(self, ready: list[Model]) -> None:
        """Where the parents of a node go: as terms of it, if it is a sum, else where it goes itself."""
        order, depth = self._sorted(ready)
        for serial in range(len(order) - 1, -1, -1):  # children before their parents
            model = order[serial]
            adds = isinstance(model.operation, Sum) and len(model.parents) > 1
            for k, parent in enumerate(model.parents):
                place = (depth[id(model)], serial, k) if adds else self._places.get(id(model), LAST)
                self._places[id(parent)] = min(place, self._places.get(id(parent), LAST))
            if adds:
                self.running[id(model)] = RunningSum(model)

    def _sorted(self, ready: list[Model]) -> tuple[list[Model], dict[int, int]]:
        """All nodes, parents before their children, and how many sums must be finished before each."""
        order, depth, missing = [*ready], defaultdict[int, int](int), dict(self._missing)
        for model in order:  # it grows meanwhile
            below = depth[id(model)] + isinstance(model.operation, Sum)
            for child in self._children.get(id(model), ()):
                depth[id(child)] = max(depth[id(child)], below)
                missing[id(child)] -= 1
                if not missing[id(child)]:
                    order.append(child)
        return order, depth

    def _ready(self, model: Model) -> None:
        if self._budget is not None and isinstance(model.operation, Visit):
            group = self._groups.setdefault(agreement(model), Group())
            group.push(self._places.get(id(model), LAST), model)
            return
        waiting = {Visit: self.visits, Rows: self.rows}.get(type(model.operation), self.algebra)
        waiting.append(model)

    @property
    def busy(self) -> bool:
        """Whether anything is ready to be computed."""
        return bool(self.algebra or self.rows or self.visits or self._groups)

    @property
    def nbytes(self) -> int:
        """Bytes of sums that are under way."""
        return sum(running.nbytes for running in self.running.values())

    def portion(self) -> tuple[list[Model], int]:
        """The visits that go first, as many as may be computed in one call, and the widest part of their group."""
        assert self._budget is not None
        agreed = min(self._groups, key=lambda key: self._groups[key].heap[0][:2])
        group = self._groups[agreed]
        count = min(len(group.heap), self._budget.visits(group.need(), self.nbytes))
        found = [heappop(group.heap)[2] for _ in range(count)]
        if not group.heap:
            del self._groups[agreed]
        return found, group.widest

    def settle(self, model: Model, value: Tensor) -> None:
        """Store a value and see who was waiting for it."""
        model.settle(value)
        self.running.pop(id(model), None)
        if self._budget is not None:
            self._budget.note(model)
        for child in self._children.pop(id(model), ()):
            running = self.running.get(id(child))
            if running is not None:
                running.add_known()
            self._missing[id(child)] -= 1
            if not self._missing[id(child)]:
                self._ready(child)

    def give_back(self) -> None:
        """Leave the graph as somebody else can compute it."""
        for running in self.running.values():
            running.give_back()
        self.running.clear()
