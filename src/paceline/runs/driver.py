"""Several runs, one executor: every run goes on until it needs a value, then all they need is computed together."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch

from paceline.errors import PacelineError, is_of_disk
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.crew.cluster import start_crew
from paceline.learn.crew.trainer import CrewTrainer
from paceline.learn.executor import Executor
from paceline.learn.footprint import Need
from paceline.learn.graph import Model
from paceline.learn.promises import Promise
from paceline.learn.reference import ReferenceTrainer
from paceline.runs.run import Run, wrapped
from paceline.runs.settings import ExecutorSettings


def make_executor(settings: ExecutorSettings) -> Executor:
    """The executor these settings ask for."""
    if settings.name == "reference":
        return Executor(ReferenceTrainer())
    if settings.name == "ray":
        return Executor(
            CrewTrainer(start_crew(settings.cluster, settings.workers), settings.cohort, settings.threads)
        )
    device = settings.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    trainer = CohortTrainer(device, settings.cohort, settings.threads, settings.limit)
    return Executor(trainer, budget=trainer.budget)


def make_ready(runs: Sequence[Run], executor: Executor) -> None:
    """Refuse what cannot be learned here, before any work: architectures, and a limit on memory that is too low."""
    trainer, budget = executor.trainer, executor.budget
    needs = []
    for run in runs:
        problem, recipe = run.problem, run.traits.local
        for space in problem.spaces:
            trainer.prepare(space)
            needs.append(Need(space, recipe, max(map(problem.samples, range(run.settings.clients))), recipe.batch))
            if budget is not None and isinstance(trainer, CohortTrainer) and problem.test is not None:
                trainer.hold(problem.shards().x, problem.shards().y, space)
                trainer.hold(*problem.test, space)
    if budget is not None:
        budget.require(needs)


def wanted(runs: Sequence[Run]) -> tuple[list[Model], list[Promise[Any]]]:
    """What all of them need; a function of its own, because a loop's last names would hold on to models."""
    models: list[Model] = []
    promises: list[Promise[Any]] = []
    for run in runs:
        some, asked = run.learner.wanted()
        models += some
        promises += asked
    return models, promises


def _given_away(models: list[Model]) -> Iterator[Model]:
    """One after the other, held no longer: a trained model must not outlive the average that it went into."""
    models.reverse()
    while models:
        yield models.pop()


def learn(runs: Sequence[Run], executor: Executor) -> Mapping[object, PacelineError]:
    """Compute what these runs need, together; returns whose learning failed or diverged."""
    models, promises = wanted(runs)
    if not models and not promises:
        return {}
    try:
        return executor.run(_given_away(models), promises)
    except Exception as problem:
        if is_of_disk(problem):
            raise
        if len(runs) == 1:
            return {runs[0].learner: _failed(runs[0], problem)}
    # One of them cannot be computed: each by itself, and only that one fails.
    found: dict[object, PacelineError] = {}
    for run in runs:
        found |= learn([run], executor)
    return found


def _failed(run: Run, problem: Exception) -> PacelineError:
    if isinstance(problem, PacelineError):
        return problem
    return wrapped(problem, f"learning failed at t={run.world.now():g} s")


class Memory(Protocol):
    """What remembers a drive, so that another can go on where it ended."""

    def learn(self, runs: Sequence[Run]) -> Mapping[object, PacelineError]:
        """Compute what these runs need, or remember it; returns whose learning failed."""
        ...

    def stopped(self) -> None:
        """Everything that was learned at this stop is settled: the moment to keep it, or to give it back."""
        ...


def drive(runs: Sequence[Run], executor: Executor, memory: Memory | None = None) -> None:
    """Take all runs to their ends; failures stay with their runs. Files are complete even if interrupted."""
    active = list(runs)
    # Tasks, futures and nodes die by reference count; the collector would only walk over them again and again.
    mine = not gc.get_freeze_count()  # else somebody has done it, and it is not ours to undo
    if mine:
        gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 100)
    try:
        while active:
            for run in active:
                run.advance()
            failed = learn(active, executor) if memory is None else memory.learn(active)
            for run in active:
                run.settle(failed.get(run.learner))
                if run.done:
                    run.close()
            active = [run for run in active if not run.done]
            if memory is not None:
                memory.stopped()
    finally:
        gc.set_threshold(*before)
        if mine:
            gc.unfreeze()
        for run in active:  # only after an interruption
            run.failure = run.failure or sys.exception()
            run.close()
