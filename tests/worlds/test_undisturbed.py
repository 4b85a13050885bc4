"""A world in which nothing comes in anybody's way takes shortcuts; its books are those of the world without them."""

import asyncio

import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.learn.executor import Executor
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import ReferenceTrainer
from paceline.runs.driver import drive
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.worlds.simulation.undisturbed import UndisturbedStage
from paceline.worlds.stage import Stage
from tests.worlds.worlds import dry_world, play, spans

SMALL = [
    *("clients=24", "rounds=3", "public=0.1", "fedbuff.concurrency=8", "fedbuff.buffer=4", "fedasync.concurrency=7"),
    *("psfl.width=3", "psfl.length=3", "da-dpfl.neighbours.degree=4", "p-fedavg.topology=ring:6"),
    *("hierfavg.servers=4", "hierfavg.participants=2"),
]
RECIPE = LocalSGD()


def books(name, *, shortcuts):
    """What a dry run books; who checks places takes no shortcuts."""
    run = make_run(make_settings(name, SMALL), dry=True, check_places=not shortcuts)
    assert type(run.world) is (UndisturbedStage if shortcuts else Stage)
    drive([run], Executor(ReferenceTrainer()))
    assert run.failure is None
    return run.rows, run.world.ledger.table(), run.world.chronicle.counts


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_shortcuts_change_no_booking(name):
    rows, table, counts = books(name, shortcuts=True)
    others, other_table, other_counts = books(name, shortcuts=False)
    assert rows == others
    assert counts == other_counts
    assert table.num_rows > 0
    for column in table.column_names:
        assert repr(table[column].to_pylist()) == repr(other_table[column].to_pylist()), column  # NaN is NaN


def test_a_client_does_one_thing_at_a_time_also_where_nothing_disturbs_it():
    """Two visits and a training of client 0 begin together; its visits take 3, 5 and 2 seconds."""
    world = dry_world([[3.0, 5.0, 2.0], 1.0])
    assert type(world) is UndisturbedStage
    start = world.initial_model()

    async def main():
        visits = (world.visit(client, start, RECIPE) for client in (0, 0, 1))
        await asyncio.gather(*visits, world.train(0, start, RECIPE))
        return world.now()

    assert play(world, main()) == 10.0
    assert spans(world, "site", "start", "end", kinds=["train"]) == [
        *[(1, 0.0, 1.0), (0, 0.0, 3.0), (0, 3.0, 8.0), (0, 8.0, 10.0)]
    ]
    assert spans(world, "site", "start", kinds=["send"]) == [
        *[(-1, 0.0), (-1, 0.0), (-1, 0.0), (1, 1.0), (0, 3.0), (0, 8.0)]
    ]


def test_a_branch_that_fails_says_where_it_was_last():
    world = dry_world([1.0, 1.0])

    async def failing():
        await world.visit(1, world.initial_model(), RECIPE, -2)
        raise ValueError("no")

    async def main():
        world.spawn(failing())
        await world.loop.at(5.0)

    with pytest.raises(ValueError, match="no") as caught:
        play(world, main())
    assert caught.value.__notes__ == ["in a branch last at server 2"]
