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
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from paceline.errors import Diverged
from paceline.learn.graph import Apply, Comparison, Job, Measure, Model, Promise, Reading, Rows, Sum, Visit
from paceline.learn.job import EvalJob, Probed, Score, Spread, Trained, Trainer, TrainJob
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space

STACKED, STACKED_CUDA = 1 << 28, 1 << 30
"""Most numbers in the matrices of one call: one gibibyte in single precision, or four."""


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

    def since(self, before: Statistics) -> Statistics:
        """What has been done after ``before``; the widest is that of all."""
        return replace(self, waves=self.waves - before.waves, visits=self.visits - before.visits)


@dataclass(eq=False)
class Executor:
    """Computes deferred models and measures with a trainer."""

    trainer: Trainer
    statistics: Statistics = field(default_factory=Statistics)

    def run(self, models: Iterable[Model], promises: Sequence[Promise[Any]] = ()) -> dict[object, Diverged]:
        """Give every one of these a value; returns the owners whose training diverged, with what to tell them.

        Others' nodes are computed all the same: a wave may hold many runs, and one that diverges spoils no other.
        Nodes are not held here: what nobody else holds is freed as soon as all that need it are computed.
        """
        self._diverged: dict[object, Diverged] = {}
        promised = (model for promise in promises for model in promise.models)
        self._compute(_Pending(chain(models, promised), self.trainer.device))
        self._measure([p for p in promises if isinstance(p, Measure) and p.result is None])
        for promise in promises:
            if promise.result is not None:
                continue
            if isinstance(promise, Comparison):
                promise.settle(_spread(promise.models))
            elif isinstance(promise, Reading):
                promise.settle(promise.function([m.value for m in promise.models if m.value is not None]))
        return self._diverged

    def _compute(self, pending: _Pending) -> None:
        while pending.algebra or pending.rows or pending.visits:
            self._calculate(pending)
            if pending.rows:
                stacked, pending.rows = pending.rows, []
                _stacked(pending, stacked)
                stacked.clear()
            elif pending.visits:
                wave, pending.visits = pending.visits, []
                self._train(pending, wave)

    def _calculate(self, pending: _Pending) -> None:
        while pending.algebra:
            model = pending.algebra.pop()
            if len(model.parents) == 1:  # the same model in another place, or on the wire
                model.figure = model.parents[0].figure
            pending.settle(model, _algebra(model, self.trainer))

    def _train(self, pending: _Pending, wave: list[Model]) -> None:
        groups: dict[tuple[object, ...], list[Model]] = defaultdict(list)
        for model in wave:
            visit = model.operation
            assert isinstance(visit, Visit)
            shape = _shape(visit.recipe)
            key = (model.space, visit.act, shape, id(visit.shards.x), id(visit.shards.y), visit.extras)
            groups[key].append(model)
        wave.clear()  # what is trained is let go, group by group
        del model
        for agreed in [*groups]:
            self._train_group(pending, groups.pop(agreed))

    def _train_group(self, pending: _Pending, group: list[Model]) -> None:
        jobs = [_job(model) for model in group]
        visit = group[0].operation
        assert isinstance(visit, Visit)
        results: Sequence[Trained | Probed] = (
            self.trainer.train(jobs) if visit.act == "train" else self.trainer.probe(jobs)
        )
        self.statistics.waves += 1
        self.statistics.visits += len(group)
        self.statistics.widest = max(self.statistics.widest, len(group))
        for owner, problem in _diverged(group, [result.value for result in results]).items():
            self._diverged.setdefault(owner, problem)
        for model, result in zip(group, results, strict=True):
            model.figure = result.loss if isinstance(result, Trained) else result.variance
            pending.settle(model, result.value)

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

    def __init__(self, wanted: Iterable[Model], device: torch.device) -> None:
        self.algebra: list[Model] = []
        self.rows: list[Model] = []
        self.visits: list[Model] = []
        self._missing: dict[int, int] = {}
        self._children: dict[int, list[Model]] = defaultdict(list)
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
                self._ready(model)

    def _ready(self, model: Model) -> None:
        waiting = {Visit: self.visits, Rows: self.rows}.get(type(model.operation), self.algebra)
        waiting.append(model)

    def settle(self, model: Model, value: Tensor) -> None:
        """Store a value and see who was waiting for it."""
        model.settle(value)
        for child in self._children.pop(id(model), ()):
            self._missing[id(child)] -= 1
            if not self._missing[id(child)]:
                self._ready(child)


def _algebra(model: Model, trainer: Trainer) -> Tensor:
    operation = model.operation
    values = [parent.value for parent in model.parents if parent.value is not None]
    if isinstance(operation, Apply):
        return operation.function(*values, **dict(operation.options))
    if isinstance(operation, Job):
        return operation.function(trainer, *values).to(trainer.device)
    assert isinstance(operation, Sum)
    total = values[0] * operation.coefficients[0]
    for value, coefficient in zip(values[1:], operation.coefficients[1:], strict=True):
        total.add_(value, alpha=coefficient)
    return total


def _stacked(pending: _Pending, models: list[Model]) -> None:
    """Nodes that are computed row by row: those that agree in what is done, together."""
    groups: dict[tuple[object, ...], list[Model]] = defaultdict(list)
    for model in models:
        rows = model.operation
        assert isinstance(rows, Rows)
        groups[model.space, rows.function, rows.options, len(model.parents)].append(model)
    for (space, *_), group in groups.items():
        assert isinstance(space, Space)
        stacked = STACKED_CUDA if any(p.value is not None and p.value.is_cuda for p in group[0].parents) else STACKED
        most = max(1, stacked // (space.size * len(group[0].parents)))
        for first in range(0, len(group), most):
            part = group[first : first + most]
            for model, value in zip(part, _by_rows(part), strict=True):
                pending.settle(model, value)


def _by_rows(models: list[Model]) -> list[Tensor]:
    rows = models[0].operation
    assert isinstance(rows, Rows)
    values = [[parent.value for parent in model.parents if parent.value is not None] for model in models]
    stacks = [torch.stack(column) for column in zip(*values, strict=True)]
    # Each with memory of its own: a view would keep all the others'.
    return [value.clone() for value in rows.function(*stacks, **dict(rows.options)).unbind(0)]


def _spread(gradients: Sequence[Model]) -> Spread:
    """Compare gradients with their mean, in double precision: their differences may be small."""
    values = [gradient.value for gradient in gradients if gradient.value is not None]
    middle = torch.zeros_like(values[0], dtype=torch.float64)
    for value in values:
        middle += value
    middle /= len(values)
    distance = torch.stack([(value - middle).square().sum() for value in values])
    variance = torch.stack([gradient.figure for gradient in gradients if gradient.figure is not None])
    return Spread(tuple(variance.tolist()), tuple(distance.tolist()))


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
    # One launch on a GPU for all; a norm that overflows only makes the exact check below run for nothing.
    if bool(torch.isfinite(torch.stack(list(torch._foreach_norm(values)))).all()):
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
