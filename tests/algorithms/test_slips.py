"""A forgotten yield or await in an algorithm of one's own is named, in a run and in a dry run."""

import gc
import re
from dataclasses import dataclass, field

import pytest

import paceline
from paceline.errors import PacelineError


@dataclass(frozen=True)
class Slip(paceline.Algorithm):
    """Derived here for its settings alone: each way of running it is a slip."""

    slip: str = "yield"
    rounds: int = 2
    local: paceline.LocalSGD = field(default_factory=paceline.LocalSGD)

    def run(self, world):
        return getattr(self, f"no_{self.slip}")(world)

    async def no_yield(self, world):
        await paceline.visit(world, 0, world.initial_model(), self.local)

    async def no_await(self, world):
        yield paceline.Progress(paceline.visit(world, 0, world.initial_model(), self.local))

    async def no_await_in_a_mean(self, world):
        yield paceline.Progress(paceline.mean([paceline.visit(world, 0, world.initial_model(), self.local)]))

    async def no_await_in_send(self, world):
        model = world.train(0, world.initial_model(), self.local)
        yield paceline.Progress(await world.send(model, 0, -1))

    async def no_progress(self, world):
        yield await paceline.visit(world, 0, world.initial_model(), self.local)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize(
    ("slip", "said"),
    [
        ("yield", r"Slip.run has no yield; yield paceline.Progress\(model\)"),
        ("await", "Slip.run yields a model without its await"),
        ("await_in_a_mean", r"models is .*coroutine.* but must be a list \(each a Model\); await it"),
        (
            "await_in_send",
            r"Slip.run lacks an await at or before line \d+ of test_slips.py: 'coroutine' object has",
        ),
        ("progress", "Slip.run yields a (Model|Ghost); yield paceline.Progress"),
    ],
)
def test_what_was_forgotten_is_named(slip, said, dry):
    assert re.search(said, complaint(paceline.dry if dry else paceline.run, Slip(slip)))
    gc.collect()  # coroutines that nobody awaited: now, while Python's warning of them is let pass


def complaint(doing, algorithm):
    try:
        doing(algorithm, clients=3, partition="iid")
    except PacelineError as problem:
        return str(problem)
