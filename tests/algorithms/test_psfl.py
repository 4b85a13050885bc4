"""PSFL's training phase: PS-1 to PS-3 on times and on a quadratic, with FedAvg and SFL as its ends."""

import asyncio

import numpy as np
import pytest
import torch

from paceline.algorithms.base import Dropped, draw_clients
from paceline.algorithms.psfl import PSFL
from paceline.algorithms.samplers import UniformSampler
from paceline.algorithms.time_order import TimeOrder
from paceline.algorithms.warmup import WarmUp
from paceline.errors import SettingError
from paceline.learn.executor import Executor
from paceline.learn.job import Shards
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import ReferenceTrainer
from paceline.learn.space import Space
from paceline.ledger import Ledger
from paceline.system import AlwaysOn, Cost, Dropouts, Fleet, FreeLinks, FreeServer, Windows
from paceline.system.availability import Schedule
from paceline.worlds.absence import WAIT
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.machines import simulate
from tests.worlds.worlds import Table, dry_world, follow, spans

TIMES = [0.5, 1.0, 2.0, 4.0, 5.0, 0.5, 1.0, 2.0, 4.0, 5.0]


class Fixed:
    """The sequences are given."""

    learns_times = False

    def __init__(self, *sequences):
        self.sequences = sequences

    def draw(self, world, times, round, width, length):
        return [list(s) for s in self.sequences]


@pytest.mark.parametrize(("width", "length"), [(5, 1), (1, 5), (3, 2), (2, 5)])
def test_round_time_is_the_slowest_sequence(width, length):
    """PS-3: T = max over sequences of the sum of their clients' times."""
    world = dry_world(TIMES)
    algorithm = PSFL(rounds=4, width=width, length=length, sampler="uniform")
    expected, clock = [], 0.0
    for r in range(4):
        sequences = UniformSampler().draw(world, TimeOrder(len(TIMES), 0), r, width, length)
        clock += max(sum(TIMES[k] for k in sequence) for sequence in sequences)
        expected.append(clock)
    assert follow(dry_world(TIMES), algorithm) == pytest.approx(expected, rel=1e-12)


def test_the_model_rides_from_server_over_clients_to_server():
    world = dry_world(TIMES)
    follow(world, PSFL(rounds=1, width=2, length=2, sampler=Fixed([3, 1], [0, 2])))
    sends = spans(world, "site", "peer", "start", kinds=["send"])
    assert sends == [(-1, 3, 0.0), (-1, 0, 0.0), (0, 2, 0.5), (2, -1, 2.5), (3, 1, 4.0), (1, -1, 5.0)]


def quadratic_world(centres, availability=None, links=None, times=None):
    """Client n minimises half |x - centre_n|^2: one squared-loss sample with features 1 and target centre_n."""
    dimension = centres.shape[1]
    space = Space("linear", lambda: torch.nn.Linear(1, dimension, bias=False), (1,), torch.float64)
    count = len(centres)
    shards = Shards(
        torch.ones(count, 1, dtype=torch.float64), torch.from_numpy(centres), np.arange(count), np.arange(count + 1)
    )
    fleet = Fleet(
        size=count,
        compute=Table(times or [1.0] * count),
        links=links or FreeLinks(),
        availability=availability or AlwaysOn(),
        server=FreeServer(),
    )
    problem = Problem(space, "quadratic", None, 1, shards)
    return simulate(fleet, problem, 3, Ledger())


def final_model(world, algorithm):
    async def main():
        models = []
        async for progress in algorithm.run(world):
            world.progress += 1
            models.append(progress.model)
        return models[-1]

    model = world.loop.run_until_complete(main())
    Executor(ReferenceTrainer()).run([model])
    return model.value.numpy()


@pytest.mark.parametrize("sequences", [([0, 1, 2, 3],), ([0], [1], [2], [3]), ([0, 1], [2, 3]), ([0, 1, 2], [3])])
def test_a_round_on_a_quadratic_is_its_closed_form(sequences):
    """PS-1, PS-2: each visit is x <- x - lr (x - c_n); the ends are averaged without weights."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 3))
    world = quadratic_world(centres)
    lr, rounds = 0.3, 3
    local = LocalSGD(lr=lr, batch=1, steps=1, loss="squared")
    algorithm = PSFL(rounds=rounds, width=1, length=1, local=local, sampler=Fixed(*sequences))

    x = world.initial_model().value.numpy()
    for _ in range(rounds):
        ends = []
        for sequence in sequences:
            y = x
            for n in sequence:
                y = y - lr * (y - centres[n])
            ends.append(y)
        x = np.mean(ends, axis=0)
    assert final_model(world, algorithm) == pytest.approx(x, abs=1e-12)


def test_a_client_that_drops_out_is_passed_over(monkeypatch):
    """20 rounds of 2 sequences of 3: each of the 120 is away when the model comes, leaves in mid-visit, or trains."""
    world = dry_world(TIMES, availability=Dropouts(0.5, seed=1))
    away, send = [], world.send

    async def watched(model, source, target, **more):
        try:
            return await send(model, source, target, **more)
        except Dropped as dropped:
            away.append((dropped.site == target, dropped.reason))
            raise

    monkeypatch.setattr(world, "send", watched)
    times = follow(world, PSFL(rounds=20, width=2, length=3))
    assert len(times) == 20
    totals = world.ledger.totals()
    trains = spans(world, "site", kinds=["train"])
    assert set(away) == {(True, "away")}
    assert 0 < totals.visits < len(trains) == 120 - len(away)


def test_if_everyone_drops_the_model_stays():
    world = dry_world(TIMES, availability=Dropouts(1.0, seed=1))
    assert len(follow(world, PSFL(rounds=3, width=2, length=2))) == 3
    assert world.ledger.totals().visits == 0


def test_only_clients_that_are_online_are_drawn():
    world = dry_world([1.0] * 200, availability=Windows.duty(100.0, 0.5, seed=4))

    async def main():
        for r in range(30):
            chosen = draw_clients(world, 10, "cohort", r)
            assert len(set(chosen)) == 10
            assert all(world.presence.online(k) for k in chosen)
            await asyncio.sleep(7.0)

    world.loop.run_until_complete(main())


def test_more_clients_than_there_are_is_an_error_before_the_start():
    with pytest.raises(SettingError, match=r"5\*4 = 20 clients but there are 12"):
        PSFL(width=5, length=4).check(12)


@pytest.mark.parametrize(
    ("given", "structure"),
    [
        ({}, None),
        ({"width": 4}, (4, 5)),
        ({"length": 3}, (6, 3)),
        ({"width": 2, "length": 3}, (2, 3)),
        ({"width": 13}, (13, 1)),
        ({"length": 1, "participants": 7}, (7, 1)),
    ],
)
def test_what_is_not_given_of_a_structure_is_filled_up_to_the_participants(given, structure):
    assert PSFL(**given).given_structure() == structure


def test_a_width_or_a_length_alone_is_at_most_the_participants():
    for given in ({"width": 4}, {"length": 4}, {"width": 5, "length": 2}):
        PSFL(participants=4, **given).check(12)
    for name in ("width", "length"):
        with pytest.raises(SettingError, match=rf"psfl\.{name} is 5 but psfl\.participants is 4"):
            PSFL(participants=4, **{name: 5}).check(12)


def test_the_server_learns_who_is_slow():
    """With time partition, once all are known, every sequence of two has one of the fast and one of the slow half."""
    world = dry_world([1.0] * 10 + [9.0] * 10)
    times = follow(world, PSFL(rounds=60, width=5, length=2))
    lengths = np.diff(times)
    assert set(np.round(lengths[:5], 6)) - {10.0}  # nobody is known yet: unlucky sequences have two slow clients
    assert np.allclose(lengths[-30:], 10.0)


class Uplinks:
    """What a client sends takes its own time; the server's way down is quick."""

    def __init__(self, seconds, down=0.0):
        self.seconds, self.down = seconds, down

    def cost(self, source, target, size, now):
        return Cost(self.down if source < 0 else self.seconds[source], 0.0)


def test_a_clients_time_is_its_training_and_its_way_onward():
    """PS-E11: a slow uplink is charged to its owner, not to whoever comes next; the way down is nobody's."""
    world = dry_world([1.0, 2.0, 3.0, 4.0], links=Uplinks([0.25, 9.0, 0.5, 0.75], down=7.0))
    times = TimeOrder(4, 0)

    async def main():
        await PSFL(width=1, length=4).ride(world, world.initial_model(), [2, 0, 1, 3], times)

    world.loop.run_until_complete(main())
    assert times.estimates() == pytest.approx([1.25, 11.0, 3.5, 4.75])


def test_partition_sampling_knows_slow_uplinks():
    """Half of the uplinks take 9 s: once all are known, every sequence of four has two of each kind, 4 + 2 * 9 + 2 *
    0.1 s. Uniform sampling often puts three or four slow ones into a sequence, and the slowest of five counts."""
    slow = Uplinks([9.0] * 50 + [0.1] * 50)
    means = {}
    for sampler in ("partition", "uniform"):
        ends = follow(dry_world([1.0] * 100, links=slow), PSFL(rounds=80, width=5, length=4, sampler=sampler))
        means[sampler] = np.diff(ends)[-40:].mean()
    assert means["partition"] == pytest.approx(22.2)
    assert means["uniform"] > 28


def test_a_holder_that_waits_for_an_absent_client_is_not_timed():
    """Client 1 comes at 10 s: that client 0 kept the model until then says nothing of client 0."""
    away = Windows([Schedule([(0.0, 99.0)]), Schedule([(10.0, 99.0)]), Schedule([(0.0, 99.0)])], seed=0)
    world = dry_world([1.0, 2.0, 3.0], links=Uplinks([0.5] * 3), availability=away, absence=WAIT)
    times = TimeOrder(3, 0)

    async def main():
        await PSFL(width=1, length=3).ride(world, world.initial_model(), [0, 1, 2], times)

    world.loop.run_until_complete(main())
    assert times.known == 2
    assert [times.estimate(client) for client in (1, 2)] == pytest.approx([2.5, 3.5])


def test_a_warm_up_needs_clients_that_are_there():
    with pytest.raises(SettingError, match=r"warmup\.clients is 30 and there are 20"):
        PSFL(warmup=WarmUp(clients=30)).check(20)
    with pytest.raises(SettingError, match="participants is 20 but there are 12"):
        PSFL().check(12)
