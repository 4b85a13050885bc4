"""The executor runs what is needed, in waves.

All ready algebra until none is left, then every training node whose input is ready, grouped by space and recipe
into one call of the trainer; again, until every wanted node has its value. Nodes of different runs, algorithms
and seeds meet in one wave when their recipes agree (rates may differ).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from paceline.errors import Diverged
from paceline.learn.graph import Apply, Job, Model, Rows, Sum
from paceline.learn.job import (
    Counting,
    EvalJob,
    Probed,
    Score,
    Spread,
    Submitting,
    Trained,
    Trainer,
    TrainJob,
    mean_score,
)
from paceline.learn.memory import Budget, row_bytes
from paceline.learn.pending import Pending, agreement, visit_of
from paceline.learn.promises import Comparison, Measure, Promise, Reading
from paceline.learn.sums import weighted

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
    budget: Budget | None = None
    """How much memory may be taken; None: as much as there is."""

    @property
    def visits(self) -> int:
        """Visits learned so far, also those of a wave that is under way."""
        under_way = self.trainer.finished if isinstance(self.trainer, Counting) else ()
        return self.statistics.visits + sum(under_way)

    def run(self, models: Iterable[Model], promises: Sequence[Promise[Any]] = ()) -> dict[object, Diverged]:
        """Give every one of these a value; returns the owners whose training diverged, with what to tell them.

        Others' nodes are computed all the same: a wave may hold many runs, and one that diverges spoils no other.
        Nodes are not held here: what nobody else holds is freed as soon as all that need it are computed.
        """
        self._diverged: dict[object, Diverged] = {}
        promised = (model for promise in promises for model in promise.models)
        pending = Pending(chain(models, promised), self.trainer.device, self.budget)
        measures = [p for p in promises if isinstance(p, Measure) and p.result is None]
        try:
            self._compute(pending, measures)
        finally:
            pending.give_back()
        self._measure([measure for measure in measures if measure.result is None])
        for promise in promises:
            if promise.result is not None:
                continue
            if isinstance(promise, Comparison):
                promise.settle(_spread(promise.models))
            elif isinstance(promise, Reading):
                promise.settle(promise.function([m.value for m in promise.models if m.value is not None]))
        return self._diverged

    def _compute(self, pending: Pending, measures: list[Measure]) -> None:
        while pending.busy:
            self._calculate(pending)
            if pending.rows:
                stacked, pending.rows = pending.rows, []
                self._stack(pending, stacked)
                stacked.clear()
            elif pending.visits:
                wave, pending.visits = pending.visits, []
                self._train(pending, wave)
            elif self.budget is not None and pending.busy:
                self._train_group(pending, *pending.portion())
                self._calculate(pending)
                self._measure_early(measures)
                self.budget.give_back()

    def _calculate(self, pending: Pending) -> None:
        while pending.algebra:
            model = pending.algebra.pop()
            if len(model.parents) == 1:  # the same model in another place, or on the wire
                model.figure = model.parents[0].figure
            running = pending.running.get(id(model))
            pending.settle(model, _algebra(model, self.trainer) if running is None else running.finish())

    def close(self) -> None:
        """Nothing more will be learned: whoever helped may go."""
        if isinstance(self.trainer, Submitting):
            self.trainer.close()

    def _train(self, pending: Pending, wave: list[Model]) -> None:
        groups: dict[tuple[object, ...], list[Model]] = defaultdict(list)
        for model in wave:
            groups[agreement(model)].append(model)
        wave.clear()  # what is trained is let go, group by group
        del model
        if isinstance(self.trainer, Submitting) and len(groups) > 1:  # all are under way at once
            under_way = [
                self.trainer.submit(visit_of(group[0]).act, list(map(_job, group))) for group in groups.values()
            ]
            for group, results in zip(groups.values(), under_way, strict=True):
                self._settle_group(pending, group, results())
            return
        for agreed in [*groups]:
            self._train_group(pending, groups.pop(agreed))

    def _train_group(self, pending: Pending, group: list[Model], widest: int | None = None) -> None:
        jobs = [_job(model) for model in group]
        visit = visit_of(group[0])
        if self.budget is not None:
            self.budget.see(visit.shards.x, visit.shards.y)
        results: Sequence[Trained | Probed] = (
            self.trainer.train(jobs) if visit.act == "train" else self.trainer.probe(jobs, widest)
        )
        del jobs  # they hold what the visits started from
        self._settle_group(pending, group, results)

    def _settle_group(self, pending: Pending, group: list[Model], results: Sequence[Trained | Probed]) -> None:
        self.statistics.waves += 1
        self.statistics.visits += len(group)
        self.statistics.widest = max(self.statistics.widest, len(group))
        for owner, problem in _diverged(group, [result.value for result in results]).items():
            self._diverged.setdefault(owner, problem)
        for model, result in zip(group, results, strict=True):
            model.figure = result.loss if isinstance(result, Trained) else result.variance
            pending.settle(model, result.value)

    def _stack(self, pending: Pending, models: list[Model]) -> None:
        """Nodes that are computed row by row: those that agree in what is done, together."""
        groups: dict[tuple[object, ...], list[Model]] = defaultdict(list)
        for model in models:
            rows = model.operation
            assert isinstance(rows, Rows)
            groups[model.space, rows.function, rows.options, len(model.parents)].append(model)
        for group in groups.values():
            first = 0
            while first < len(group):
                part = group[first : first + self._most_rows(group[first])]  # anew: results are held, too
                if self.budget is not None:  # what training has freed is in pieces that do not fit here
                    self.budget.give_back(coming=len(part) * row_bytes(part[0].space, len(part[0].parents)))
                for model, value in zip(part, _by_rows(part), strict=True):
                    pending.settle(model, value)
                first += len(part)

    def _most_rows(self, model: Model) -> int:
        stacked = STACKED_CUDA if self.trainer.device.type == "cuda" else STACKED
        most = max(1, stacked // (model.space.size * len(model.parents)))
        return most if self.budget is None else min(most, self.budget.stacked(model.space, len(model.parents)))

    def _measure_early(self, measures: list[Measure]) -> None:
        """Score what waits for nothing else, once that has become much, so that it need not be held."""
        ready = [m for m in measures if m.result is None and all(model.value is not None for model in m.models)]
        waiting = [model for measure in ready for model in measure.models]
        if self.budget is not None and self.budget.to_be_measured(waiting):
            self._measure(ready)

    def _measure(self, measures: list[Measure]) -> None:
        if self.budget is not None:
            self.budget.give_back(above=0.0)  # what training has freed is in pieces that do not fit here
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
            measure.settle(mean_score(scores[number]))


def _algebra(model: Model, trainer: Trainer) -> Tensor:
    operation = model.operation
    values = [parent.value for parent in model.parents if parent.value is not None]
    if isinstance(operation, Apply):
        return operation.function(*values, **dict(operation.options))
    if isinstance(operation, Job):
        return operation.function(trainer, *values).to(trainer.device)
    assert isinstance(operation, Sum)
    if operation.coefficients == (1.0,):  # the same on the wire, or at another site: values never change, so no copy
        return values[0]
    return weighted(values, operation.coefficients)


def _by_rows(models: list[Model]) -> list[Tensor]:
    rows = models[0].operation
    assert isinstance(rows, Rows)
    values = [[parent.value for parent in model.parents if parent.value is not None] for model in models]
    stacks = [torch.stack(column) for column in zip(*values, strict=True)]
    # Each with memory of its own: a view would keep all the others'.
    return [value.clone() for value in rows.function(*stacks, **dict(rows.options)).unbind(0)]


def _spread(gradients: Sequence[Model]) -> Spread:
    """Compare gradients with their mean, in double precision: their differences may be small.

    In one place for all: where each has places of its own, the small result of one keeps the next from the large
    place that was freed just before, and the C library takes as much again for every gradient.
    """
    values = [gradient.value for gradient in gradients if gradient.value is not None]
    middle = torch.zeros_like(values[0], dtype=torch.float64)
    for value in values:
        middle += value
    middle /= len(values)
    apart, distance = torch.empty_like(middle), torch.empty(len(values), dtype=middle.dtype, device=middle.device)
    for k, value in enumerate(values):
        distance[k] = torch.sub(value, middle, out=apart).square_().sum()
    variance = torch.stack([gradient.figure for gradient in gradients if gradient.figure is not None])
    return Spread(tuple(variance.tolist()), tuple(distance.tolist()))


def _job(model: Model) -> TrainJob:
    visit = visit_of(model)
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
        visit = visit_of(model)
        if visit.owner not in found and not bool(torch.isfinite(value).all()):
            found[visit.owner] = Diverged(
                f"training diverged to NaN or infinity at client {visit.client}, round {visit.round + 1},"
                f" t={visit.time:g} s\n"
                f"it used lr={visit.lr:g}, batch={visit.recipe.batch}, clip={visit.recipe.clip}\n"
                "hint: lower local.lr, or set local.clip (10 is a common choice)"
            )
    return found
