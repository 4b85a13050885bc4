"""The simulated world: whole timelines, queues, drop-outs, barriers and who is blamed for them."""

import asyncio

import pytest

from paceline.algorithms.base import Dropped
from paceline.errors import CostError, Deadlock, SettingError
from paceline.learn.recipe import LocalSGD
from paceline.ledger.spans import NOBODY
from paceline.system import Dropouts, Leave, UndefinedServer
from tests.worlds.worlds import FixedLinks, dry_world, play, spans

LOCAL = LocalSGD()


def test_a_visit_is_five_spans():
    world = dry_world([3.0], links=FixedLinks(1.0))

    async def main():
        model = world.initial_model()
        received = await world.send(model, world.server, 0)
        trained = await world.train(0, received, LOCAL)
        await world.send(trained, 0, world.server)

    play(world, main())
    size = world.initial_model().nbytes
    assert spans(world, "site", "kind", "start", "end", "bytes", "peer") == [
        (-1, "send", 0.0, 1.0, size, 0),
        (0, "receive", 0.0, 1.0, size, -1),
        (0, "train", 1.0, 4.0, 0.0, NOBODY),
        (0, "send", 4.0, 5.0, size, -1),
        (-1, "receive", 4.0, 5.0, size, 0),
    ]
    assert size == 4 * (3 * 2 + 2)
    totals = world.ledger.totals()
    assert (totals.visits, totals.bytes, totals.busiest_bytes) == (1, 2 * size, 2 * size)
    assert totals.energy == 2.0 * 3.0 + 2 * 0.5
    assert (totals.busy_seconds, totals.wait_seconds) == (5.0, 0.0)


def test_a_client_computes_one_thing_at_a_time_and_queues_the_rest():
    world = dry_world([2.0])

    async def main():
        model = world.initial_model()
        await asyncio.gather(world.train(0, model, LOCAL), world.train(0, model, LOCAL))
        return world.now()

    assert play(world, main()) == 4.0
    assert spans(world, "kind", "start", "end", "peer") == [
        ("train", 0.0, 2.0, NOBODY),
        ("wait", 0.0, 2.0, 0),
        ("train", 2.0, 4.0, NOBODY),
    ]


def test_a_clients_link_carries_one_transfer_at_a_time_and_a_servers_many():
    world = dry_world([1.0, 1.0], links=FixedLinks(3.0))

    async def main():
        model = world.initial_model()
        await asyncio.gather(
            world.send(model, 0, -1), world.send(model, 0, -1), world.send(model, 1, -1), world.send(model, -1, 0)
        )
        return world.now()

    assert play(world, main()) == 6.0
    received = spans(world, "site", "kind", "lane", "start", "end", kinds=["receive"])
    assert sorted(received) == [
        (-1, "receive", 0, 0.0, 3.0),
        (-1, "receive", 1, 3.0, 6.0),
        (-1, "receive", 2, 0.0, 3.0),
        (0, "receive", 0, 0.0, 3.0),
    ]


def test_a_barrier_books_who_waited_for_whom():
    """FedAvg's round: clients of 1, 4 and 2 s; the first and third wait for the second."""
    world = dry_world([1.0, 4.0, 2.0])

    async def main():
        model = world.initial_model()
        await world.gather(world.train(k, model, LOCAL) for k in range(3))

    play(world, main())
    assert spans(world, "site", "start", "end", "peer", kinds=["wait"]) == [(0, 1.0, 4.0, 1), (2, 2.0, 4.0, 1)]
    totals = world.ledger.totals()
    assert totals.idle_share == pytest.approx((3 + 2) / (3 * 4))
    assert world.ledger.blame() == [(1, 5.0)]


def test_in_a_sequence_the_rider_in_front_is_blamed():
    """Two sequences: 0 then 1 (1 s + 2 s), and 2 alone (5 s)."""
    world = dry_world([1.0, 2.0, 5.0])

    async def ride(clients):
        model = world.initial_model()
        for client in clients:
            model = await world.train(client, model, LOCAL)

    async def main():
        await world.gather([ride([0, 1]), ride([2])])

    play(world, main())
    waits = sorted(spans(world, "site", "start", "end", "peer", kinds=["wait"]))
    assert waits == [(0, 1.0, 5.0, 2), (1, 0.0, 1.0, 0), (1, 3.0, 5.0, 2)]


def test_nested_barriers_count_no_wait_twice():
    world = dry_world([1.0, 2.0, 6.0])

    async def inner():
        model = world.initial_model()
        await world.gather([world.train(0, model, LOCAL), world.train(1, model, LOCAL)])

    async def main():
        await world.gather([inner(), world.train(2, world.initial_model(), LOCAL)])

    play(world, main())
    waits = sorted(spans(world, "site", "start", "end", "peer", kinds=["wait"]))
    assert waits == [(0, 1.0, 2.0, 1), (0, 2.0, 6.0, 2), (1, 2.0, 6.0, 2)]


def test_a_dropped_device_raises_at_the_await_and_is_away_until_it_is_back():
    class LeavesOnce:
        def next_online(self, device, now):
            return now

        def leaves(self, device, visit, start, seconds):
            return Leave(start + 1.0, 10.0) if visit == 0 else None

    world = dry_world([4.0], availability=LeavesOnce())
    log = []

    async def main():
        model = world.initial_model()
        try:
            await world.train(0, model, LOCAL)
        except Dropped as dropped:
            log.append((world.now(), dropped.site, dropped.back, world.online(0)))
        await world.train(0, model, LOCAL)
        log.append(world.now())

    play(world, main())
    assert log == [(1.0, 0, 10.0, False), 14.0]
    assert spans(world, "kind", "start", "end", "joules") == [
        ("train", 0.0, 1.0, 2.0),  # a quarter of the energy for a quarter of the work
        ("wait", 1.0, 10.0, 0.0),
        ("train", 10.0, 14.0, 8.0),
    ]
    assert world.ledger.totals().visits == 1


def test_a_device_that_never_comes_back_cannot_be_sent_to():
    world = dry_world([4.0], availability=Dropouts(1.0, seed=0, forever=True))

    async def main():
        model = world.initial_model()
        with pytest.raises(Dropped):
            await world.train(0, model, LOCAL)
        with pytest.raises(Dropped):
            await world.send(model, -1, 0)

    play(world, main())


def test_server_work_that_nobody_priced_is_an_error():
    world = dry_world([1.0])
    object.__setattr__(world.fleet, "server", UndefinedServer())
    with pytest.raises(CostError):
        play(world, world.work(-1, 1e9))


def test_a_dry_run_cannot_observe():
    world = dry_world([1.0])

    async def main():
        await world.observe(None)

    with pytest.raises(SettingError, match="dry run"):
        play(world, main())


def test_a_failing_branch_ends_the_others_and_comes_home():
    world = dry_world([1.0, 50.0])

    async def bug():
        await world.train(0, world.initial_model(), LOCAL)
        raise ZeroDivisionError("here")

    async def main():
        await world.gather([bug(), world.train(1, world.initial_model(), LOCAL)])

    with pytest.raises(ZeroDivisionError, match="here"):
        play(world, main())
    assert world.now() == 1.0


def test_a_failing_background_task_ends_the_run():
    world = dry_world([1.0])

    async def bug():
        await world.train(0, world.initial_model(), LOCAL)
        raise ZeroDivisionError("in the background")

    async def main():
        world.spawn(bug())
        await world.loop.at(100.0)

    with pytest.raises(ZeroDivisionError, match="in the background"):
        play(world, main())


def test_a_server_that_waits_for_nobody_is_a_deadlock():
    world = dry_world([1.0])

    async def main():
        await asyncio.Queue().get()

    with pytest.raises(Deadlock, match="main waits at"):
        play(world, main())
