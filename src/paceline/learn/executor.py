"""The executor runs what is needed, in waves.

All ready algebra until none is left, then every training node whose input is ready, grouped by space and recipe
into one call of the trainer; again, until every wanted node has its value. Nodes of different runs, algorithms
and seeds meet in one wave when their recipes agree (rates may differ).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch
from torch import Tensor

from paceline.errors import Diverged
from paceline.learn.graph import Measure, Model, Sum, Visit
from paceline.learn.job import EvalJob, Score, Trainer, TrainJob
from paceline.learn.recipe import LocalSGD


@dataclass
class Statistics:
    """What the executor has done so far."""

    waves: int = 0
    """Calls of the trainer: groups of visits that ran together."""
    visits: int = 0
    widest: int = 0

    @property
    def mean_wave(self) -> float:
        """Visits per call of the trainer."""
        return self.visits / self.waves if self.waves else 0.0


@dataclass(eq=False)
class Executor:
    """Computes deferred models and measures with a trainer."""

    trainer: Trainer
    statistics: Statistics = field(default_factory=Statistics)

    def run(self, models: Iterable[Model], measures: Sequence[Measure] = ()) -> dict[object, Diverged]:
        """Give every one of these a value; returns the owners whose training diverged, with what to tell them.

        Others' nodes are computed all the same: a wave may hold many runs, and one that diverges spoils no other.
        """
        self._diverged: dict[object, Diverged] = {}
        wanted = list(models) + [model for measure in measures for model in measure.models]
        self._compute(_Pending(wanted))
        self._measure([m for m in measures if m.result is None])
        return self._diverged

    def _compute(self, pending: _Pending) -> None:
        while pending.sums or pending.visits:
            while pending.sums:
                model = pending.sums.pop()
                pending.settle(model, _sum(model))
            if pending.visits:
                wave, pending.visits = pending.visits, []
                self._train(pending, wave)

    def _train(self, pending: _Pending, wave: list[Model]) -> None:
        groups: dict[tuple[object, ...], list[Model]] = defaultdict(list)
        for model in wave:
            visit = model.operation
            assert isinstance(visit, Visit)
            shape = _shape(visit.recipe)
            groups[model.space, shape, id(visit.shards.x), id(visit.shards.y), visit.extras].append(model)
        for group in groups.values():
            results = self.trainer.train([_job(model) for model in group])
            self.statistics.waves += 1
            self.statistics.visits += len(group)
            self.statistics.widest = max(self.statistics.widest, len(group))
            for owner, problem in _diverged(group, [trained.value for trained in results]).items():
                self._diverged.setdefault(owner, problem)
            for model, trained in zip(group, results, strict=True):
                model.loss = trained.loss
                pending.settle(model, trained.value)

    def _measure(self, measures: list[Measure]) -> None:
        by_space: dict[tuple[object, ...], list[tuple[int, EvalJob]]] = defaultdict(list)
        for number, measure in enumerate(measures):
            for k, model in enumerate(measure.models):
                assert model.value is not None
                rows = None if measure.rows is None else measure.rows[k]
                job = EvalJob(model.space, model.value, measure.x, measure.y, rows)
                by_space[model.space, id(measure.x), id(measure.y)].append((number, job))
        scores: dict[int, list[Score]] = defaultdict(list)
        for entries in by_space.values():
            found = self.trainer.evaluate([job for _, job in entries])
            for (number, _), score in zip(entries, found, strict=True):
                scores[number].append(score)
        for number, measure in enumerate(measures):
            measure.settle(_mean_score(scores[number]))


@lru_cache(maxsize=256)
def _shape(recipe: LocalSGD) -> LocalSGD:
    """A recipe without its rate, which is a number per client: recipes that differ in nothing else share a group."""
    return replace(recipe, lr=1.0, schedule="constant")


class _Pending:
    """The part of the graph that must be computed, with what is ready to be."""

    def __init__(self, wanted: Iterable[Model]) -> None:
        self.sums: list[Model] = []
        self.visits: list[Model] = []
        self._missing: dict[int, int] = {}
        self._children: dict[int, list[Model]] = defaultdict(list)
        stack = [model for model in wanted if model.value is None]
        while stack:
            model = stack.pop()
            if id(model) in self._missing:
                continue
            lacking = [parent for parent in model.parents if parent.value is None]
            self._missing[id(model)] = len(lacking)
            for parent in lacking:
                self._children[id(parent)].append(model)
                stack.append(parent)
            if not lacking:
                self._ready(model)

    def _ready(self, model: Model) -> None:
        (self.sums if isinstance(model.operation, Sum) else self.visits).append(model)

    def settle(self, model: Model, value: Tensor) -> None:
        """Store a value and see who was waiting for it."""
        model.settle(value)
        for child in self._children.pop(id(model), ()):
            self._missing[id(child)] -= 1
            if not self._missing[id(child)]:
                self._ready(child)


def _sum(model: Model) -> Tensor:
    operation = model.operation
    assert isinstance(operation, Sum)
    values = [parent.value for parent in model.parents if parent.value is not None]
    # The initial model is drawn on the CPU; whatever was trained stays where it was trained.
    device = next((value.device for value in values if value.is_cuda), values[0].device)
    total = values[0].to(device) * operation.coefficients[0]
    for value, coefficient in zip(values[1:], operation.coefficients[1:], strict=True):
        total.add_(value.to(total.device), alpha=coefficient)
    return total


def _job(model: Model) -> TrainJob:
    visit = model.operation
    assert isinstance(visit, Visit)
    start, *others = [parent.value for parent in model.parents if parent.value is not None]
    extras = dict(zip(visit.extras, others, strict=True))
    return TrainJob(
        model.space, start, visit.recipe, visit.lr, visit.shards, visit.client, visit.key,
        extras.get("mask"), extras.get("correction"), extras.get("anchor"),
    )  # fmt: skip


def _diverged(group: list[Model], values: list[Tensor]) -> dict[object, Diverged]:
    """The owners of visits that ended in NaN or infinity, each with the first such client, round and time."""
    if bool(torch.isfinite(torch.stack([value.sum() for value in values])).all()):
        return {}
    found: dict[object, Diverged] = {}
    for model, value in zip(group, values, strict=True):
        visit = model.operation
        assert isinstance(visit, Visit)
        if visit.owner not in found and not bool(torch.isfinite(value).all()):
            found[visit.owner] = Diverged(
                f"training diverged to NaN or infinity at client {visit.client}, round {visit.round + 1},"
                f" t={visit.time:g} s\n"
                f"it used lr={visit.lr:g}, batch={visit.recipe.batch}, clip={visit.recipe.clip}\n"
                "hint: lower local.lr, or set local.clip (10 is a common choice)"
            )
    return found


def _mean_score(scores: list[Score]) -> Score:
    """The unweighted mean over models; one model's score is itself."""
    count = len(scores)
    return Score(
        sum(s.accuracy for s in scores) / count,
        sum(s.loss for s in scores) / count,
        sum(s.samples for s in scores),
    )
