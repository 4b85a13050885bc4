"""Small worlds for tests: times are given by hand, and nothing is learned unless asked."""

import math

import numpy as np
import torch

from paceline.errors import Deserted
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.job import Shards
from paceline.learn.models import build
from paceline.learn.space import Space
from paceline.ledger import Ledger
from paceline.system import AlwaysOn, Cost, Fleet, FreeLinks, FreeServer
from paceline.worlds.absence import SKIP
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.machines import simulate

SPACE = Space("logistic", lambda: build("logistic", (3,), 2), (3,))


class Table:
    """Compute times from a list: times[device], or times[device][visit]."""

    def __init__(self, times):
        self.times = times

    def cost(self, device, visit, flops):
        entry = self.times[device]
        seconds = entry[visit % len(entry)] if isinstance(entry, list | tuple) else entry
        return Cost(float(seconds), 2.0 * seconds)

    def mean_seconds(self, device, flops):
        return self.cost(device, 0, flops).seconds


class FixedLinks:
    """Every transfer takes as long."""

    def __init__(self, seconds):
        self.seconds = seconds

    def cost(self, source, target, size, now):
        return Cost(self.seconds, 0.5 * self.seconds)


def dry_world(times, links=None, availability=None, absence=SKIP):
    fleet = Fleet(
        size=len(times),
        compute=Table(times),
        links=links or FreeLinks(),
        availability=availability or AlwaysOn(),
        server=FreeServer(),
    )
    return simulate(fleet, Problem(SPACE, "none", nominal=10), 0, Ledger(), learning=False, absence=absence)


def play(world, main):
    """Run a coroutine in the world's time to its end."""
    result = world.loop.run_until_complete(main)
    world.loop.stop_tasks()
    return result


def follow(world, algorithm, rounds=None):
    """Run an algorithm as a driver would, without evaluation; returns the times of its Progress."""

    async def main():
        times = []
        stream = algorithm.run(world)
        async for _ in stream:
            world.progress += 1
            times.append(world.now())
            if rounds is not None and world.progress >= rounds:
                break
        await stream.aclose()
        return times

    return play(world, main())


def follow_while_there(world, algorithm):
    """The same of a run that everybody may leave: the times, and what it said when nobody was left (None: never)."""
    times, stream = [], algorithm.run(world)

    async def main():
        try:
            async for _ in stream:
                world.progress += 1
                times.append(world.now())
        except Deserted as end:
            return times, str(end)
        return times, None

    return play(world, main())


def spans(world, *columns, kinds=None):
    """The ledger's rows as tuples of these columns, in the order they were booked."""
    rows = world.ledger.table().to_pylist()
    return [tuple(row[c] for c in columns) for row in rows if kinds is None or row["kind"] in kinds]


def quadratic_world(problem, *, times=None, seed=3, availability=None):
    """Clients whose losses are those of a ``data.quadratic`` with A = s²I; noise is its σ² at every point."""
    count, dimension = problem.centre.shape
    space = Space("linear", lambda: torch.nn.Linear(1, dimension, bias=False), (1,), torch.float64)
    features, targets = zip(*(problem.vector_samples(n) for n in range(count)), strict=True)
    rows = 2 * dimension
    shards = Shards(
        torch.from_numpy(np.concatenate(features)),
        torch.from_numpy(np.concatenate(targets)),
        np.arange(count * rows),
        np.arange(0, count * rows + 1, rows),
    )
    compute = times if times is not None else Table([1.0] * count)
    there = availability or AlwaysOn()
    fleet = Fleet(size=count, compute=compute, links=FreeLinks(), availability=there, server=FreeServer())
    return simulate(fleet, Problem(space, "quadratic", None, rows, shards), seed, Ledger())


def learn(world, main, trainer=None):
    """Run a coroutine that observes, computing what it asks for; returns what it returns."""
    executor = Executor(trainer or CohortTrainer())
    world.loop.start(main)
    while not world.loop.advance():
        promises, world.learner.promises = world.learner.promises, []
        executor.run([], [promise for promise, _ in promises])
        for promise, hold in promises:
            if hold is not None:
                world.loop.settle(hold, promise.result)
    return world.loop.result()


class Late:
    """Device 1 is away until 7 s."""

    def next_online(self, device, now):
        return max(now, 7.0) if device == 1 else now

    def online_until(self, device, now):
        return math.inf

    def leaves(self, device, visit, start, seconds):
        return None
