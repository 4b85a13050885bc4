"""FedAsync and FedBuff: timelines by hand, staleness, and their formulas on numbers."""

import numpy as np
import pytest

import paceline
from paceline.algorithms.base import draw_clients
from paceline.algorithms.fedasync import FedAsync
from paceline.algorithms.fedbuff import FedBuff, weight
from paceline.algorithms.pool import RestingClients
from paceline.errors import SettingError
from paceline.learn.executor import Executor
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import ReferenceTrainer
from paceline.system import Dropouts
from tests.algorithms.test_psfl import quadratic_world
from tests.worlds.worlds import dry_world, follow, spans


def test_fedbuff_counts_updates_not_clients():
    """Two clients of 1 s and one of 3 s, always at work, buffer 2: 2, 4, 7, 9, 11, 14 updates at 1, ..., 6 s."""
    world = dry_world([1.0, 1.0, 3.0])
    assert follow(world, FedBuff(rounds=7, concurrency=3, buffer=2)) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.0]


def test_fedasync_makes_a_version_of_every_arrival():
    world = dry_world([2.0, 3.0])
    assert follow(world, FedAsync(rounds=6, concurrency=2)) == [2.0, 3.0, 4.0, 6.0, 6.0, 8.0]


def staleness_of(algorithm, times):
    world = dry_world(times)
    seen = []

    async def main():
        stream = algorithm.run(world)
        async for progress in stream:
            world.progress += 1
            seen.append(progress.info["staleness"])
        await stream.aclose()

    world.loop.run_until_complete(main())
    return seen


def test_staleness_is_the_number_of_versions_in_between():
    """Clients of 1 s and 3.5 s: the slow one's first update meets a model three versions younger than its start."""
    assert staleness_of(FedAsync(rounds=8, concurrency=2), [1.0, 3.5])[:5] == [0, 0, 0, 3, 1]


def test_one_client_alone_is_never_stale():
    assert staleness_of(FedAsync(rounds=5, concurrency=1), [1.0, 2.0, 3.0]) == [0] * 5


def final(world, algorithm):
    async def main():
        stream = algorithm.run(world)
        models = []
        async for progress in stream:
            world.progress += 1
            models.append(progress.model)
        await stream.aclose()
        return models[-1]

    model = world.loop.run_until_complete(main())
    Executor(ReferenceTrainer()).run([model])
    return model.value.numpy()


def test_fedasync_on_a_quadratic_is_its_recursion():
    """One client: x <- (1 - α) x + α (x - lr (x - c)), staleness 0 throughout."""
    centre = np.array([[1.0, -2.0, 0.5]])
    world = quadratic_world(centre)
    x = world.initial_model().value.numpy()
    for _ in range(7):
        x = 0.4 * x + 0.6 * (x - 0.3 * (x - centre[0]))
    local = LocalSGD(lr=0.3, batch=1, steps=1, loss="squared")
    algorithm = FedAsync(rounds=7, concurrency=1, mixing=0.6, staleness="constant", local=local)
    assert final(world, algorithm) == pytest.approx(x, abs=1e-12)


def test_fedasyncs_staleness_can_be_counted_as_in_its_paper():
    """One client, never late: the paper's staleness of its updates is 1, so that each counts (1 + 1)^-0.5 of α."""
    centre = np.array([[1.0, -2.0, 0.5]])
    for fresh, share in ((0, 0.6), (1, 0.6 * 2**-0.5)):
        world = quadratic_world(centre)
        x = world.initial_model().value.numpy()
        for _ in range(4):
            x = (1 - share) * x + share * (x - 0.3 * (x - centre[0]))
        local = LocalSGD(lr=0.3, batch=1, steps=1, loss="squared")
        algorithm = FedAsync(rounds=4, concurrency=1, mixing=0.6, fresh=fresh, local=local)
        assert final(world, algorithm) == pytest.approx(x, abs=1e-12)


def test_fedbuff_on_a_quadratic_is_its_recursion():
    """Three equal clients in step, buffer 3: every version applies three moves from the version before; the moves
    that started one version earlier do not exist, since all arrive together and restart together."""
    centres = np.array([[1.0], [2.0], [6.0]])
    world = quadratic_world(centres)
    x = world.initial_model().value.numpy()
    for _ in range(5):
        moves = [-0.25 * (x - c) for c in centres]
        x = x + 0.5 * np.mean(moves, axis=0)
    local = LocalSGD(lr=0.25, batch=1, steps=1, loss="squared")
    algorithm = FedBuff(rounds=5, concurrency=3, buffer=3, server_lr=0.5, local=local)
    assert final(world, algorithm) == pytest.approx(x, abs=1e-12)


def test_staleness_weights():
    assert [weight(s) for s in (0, 3, 8)] == [1.0, 0.5, pytest.approx(1 / 3)]
    poly, hinge = FedAsync(a=0.5), FedAsync(staleness="hinge", a=10.0, b=4.0)
    assert poly.weight(3) == 0.5
    assert [hinge.weight(s) for s in (0, 4, 5)] == [1.0, 1.0, 1.0 / 11.0]


def test_no_client_does_two_things_at_once():
    world = dry_world([float(1 + k % 3) for k in range(8)])
    follow(world, FedBuff(rounds=40, concurrency=6, buffer=3))
    assert not spans(world, "site", kinds=["wait"])


def test_dropped_clients_are_replaced():
    world = dry_world([float(1 + k % 3) for k in range(20)], availability=Dropouts(0.3, seed=2))
    assert len(follow(world, FedBuff(rounds=30, concurrency=5, buffer=2))) == 30


@pytest.mark.parametrize("algorithm", [FedBuff(concurrency=50), FedAsync(concurrency=50)])
def test_more_at_work_than_there_are_is_an_error(algorithm):
    with pytest.raises(SettingError, match="concurrency is 50 but there are 20 clients"):
        algorithm.check(20)


def test_a_wrong_staleness_word_is_an_error():
    with pytest.raises(SettingError, match="polynomial"):
        FedAsync(staleness="polinomial").check(100)


# -- who is drawn ---------------------------------------------------------------------------------------------------


class Fleet:
    """A world of so many clients, of whom these are away."""

    def __init__(self, clients, away):
        self.clients, self.away, self.asked = range(clients), away, []
        self.presence = self

    def stream(self, *path):
        return np.random.default_rng(3)

    def online(self, client):
        self.asked.append(client)
        return client not in self.away


@pytest.mark.parametrize("away", [{0, 1, 2, 3, 4}, {0, 1, 3, 4}, {2}, set(), {1, 2}])
def test_a_pool_draws_as_if_it_asked_everybody_every_time_and_asks_nobody_twice(away):
    world = Fleet(5, away)
    idle, plain, busy = RestingClients(world, 1), world.stream(), set()
    for turn in range(12):
        draws = (int(plain.integers(5)) for _ in range(RestingClients.TRIES))
        wanted = next((client for client in draws if client not in busy | away), None)
        world.asked.clear()
        assert idle.take() == wanted
        assert len(set(world.asked)) == len(world.asked)
        busy |= {wanted} - {None}
        if turn % 3 == 2 and busy:
            idle.put_back(gone := min(busy))
            busy.discard(gone)


def test_clients_that_are_there_are_looked_for_fifty_times_each():
    stream = np.random.default_rng(3)
    first, tries = int(stream.choice(10_000, 1, replace=False)[0]), stream.integers(10_000, size=60).tolist()
    for found, wanted in ((tries[49], tries[49]), (tries[50], first)):
        assert draw_clients(Fleet(10_000, set(range(10_000)) - {found}), 1) == [wanted]


@pytest.mark.parametrize(("places", "clients", "drawn"), [(5, 10, True), (5, 11, True), (6, 11, False)])
def test_a_pool_that_half_of_the_clients_fill_draws_by_rejection(places, clients, drawn):
    """From a list, the first number would be of those left, and a client's own only until the list is changed."""
    world = Fleet(clients, set())
    draws = dict.fromkeys(world.stream().integers(clients, size=256).tolist())
    idle = RestingClients(world, places)
    assert ([idle.take() for _ in range(places)] == [*draws][:places]) == drawn


def test_a_pool_with_a_place_for_everybody_has_everybody_at_work_all_the_time():
    """Each visit takes 1 s: at every second all four finish, and nobody is drawn twice at a time."""
    full = FedBuff(rounds=5, concurrency=4, buffer=4)
    timeline = paceline.dry(full, {"times": "constant:1", "jitter": 0}, clients=4)
    assert timeline.times == [1.0, 2.0, 3.0, 4.0, 5.0]
    trained = [row for row in timeline.spans().to_pylist() if row["kind"] == "train"]
    assert sorted((row["start"], row["site"]) for row in trained) == [(t, k) for t in range(5) for k in range(4)]
