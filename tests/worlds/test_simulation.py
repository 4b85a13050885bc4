"""The simulated world: whole timelines, queues, drop-outs, barriers and who is blamed for them."""

import asyncio
import math

import numpy as np
import pytest

from paceline.algorithms.base import Dropped, Reading
from paceline.data.quadratic import Quadratic
from paceline.errors import CostError, Deadlock, SettingError
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.recipe import LocalSGD
from paceline.ledger.spans import NO_SITE
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.system import Dropouts, Leave, UndefinedServer
from paceline.worlds.absence import WAIT, Absence
from tests.worlds.worlds import FixedLinks, Late, Table, dry_world, play, quadratic_world, spans

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
        (0, "train", 1.0, 4.0, 0.0, NO_SITE),
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
        ("train", 0.0, 2.0, NO_SITE),
        ("train", 2.0, 4.0, NO_SITE),
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
    assert {lane for site, lane in spans(world, "site", "lane", kinds=["send"]) if site >= 0} == {0}
    received = spans(world, "site", "kind", "lane", "start", "end", kinds=["receive"])
    assert sorted(received) == [
        (-1, "receive", 0, 0.0, 3.0),
        (-1, "receive", 1, 3.0, 6.0),
        (-1, "receive", 2, 0.0, 3.0),
        (0, "receive", 0, 0.0, 3.0),
    ]


def between_devices(*wanted):
    """Transfers of a second each, asked for in this order at these instants: who, to whom, when it began."""
    world = dry_world([1.0] * 4, links=FixedLinks(1.0))

    async def one(when, source, target):
        if when:
            await asyncio.sleep(when)
        await world.send(world.initial_model(), source, target)

    async def main():
        await world.gather(one(*each) for each in wanted)

    play(world, main())
    return sorted(spans(world, "start", "site", "peer", kinds=("send",)))


def test_a_line_at_one_device_holds_up_nobody_else():
    found = between_devices((0.0, 0, 1), (0.0, 2, 1), (0.0, 2, 3))
    assert found == [(0.0, 0, 1), (0.0, 2, 3), (1.0, 2, 1)]


def test_who_stands_in_line_goes_before_who_comes():
    """0 has more for 1 at the instant when its link is free again; 2 has been waiting for it."""
    assert between_devices((0.0, 0, 1), (0.5, 2, 1), (1.0, 0, 1)) == [(0.0, 0, 1), (1.0, 2, 1), (2.0, 0, 1)]


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


class LeavesOnce:
    """In the first second of its first visit, until 10."""

    def next_online(self, device, now):
        return now

    def online_until(self, device, now):
        return math.inf

    def leaves(self, device, visit, start, seconds):
        return Leave(start + 1.0, 10.0) if visit == 0 else None


def test_a_dropped_device_raises_at_the_await_and_is_away_until_it_is_back():
    world = dry_world([4.0], availability=LeavesOnce())
    log = []

    async def main():
        model = world.initial_model()
        try:
            await world.train(0, model, LOCAL)
        except Dropped as dropped:
            log.append((world.now(), dropped.reason, dropped.site, dropped.back, world.presence.online(0)))
        try:
            await world.train(0, model, LOCAL)
        except Dropped as dropped:
            log.append((world.now(), dropped.reason, dropped.site, dropped.back))
        await world.presence.reach([0])
        await world.train(0, model, LOCAL)
        log.append(world.now())

    play(world, main())
    assert log == [(1.0, "left", 0, 10.0, False), (1.0, "away", 0, 10.0), 14.0]
    assert spans(world, "kind", "start", "end", "joules") == [
        ("train", 0.0, 1.0, 2.0),  # a quarter of the energy for a quarter of the work
        ("train", 10.0, 14.0, 8.0),  # being away is nobody's waiting
    ]
    assert world.ledger.totals().visits == 1


def test_a_device_that_leaves_and_is_waited_for_does_it_again_when_it_is_back():
    world = dry_world([4.0], availability=LeavesOnce(), absence=WAIT)
    play(world, world.train(0, world.initial_model(), LOCAL))
    assert world.now() == 14.0
    assert spans(world, "kind", "start", "end") == [("train", 0.0, 1.0), ("train", 10.0, 14.0)]
    assert world.ledger.totals().visits == 1


@pytest.mark.parametrize(("patience", "end", "reason"), [(9.0, 14.0, None), (8.5, 9.5, "late")])
def test_with_a_deadline_a_device_is_waited_for_so_long(patience, end, reason):
    """It leaves at 1 and is back at 10: nine seconds are enough, eight and a half are not."""
    world = dry_world([4.0], availability=LeavesOnce(), absence=Absence(patience))

    async def main():
        try:
            await world.train(0, world.initial_model(), LOCAL)
        except Dropped as dropped:
            return dropped.reason

    assert play(world, main()) == reason
    assert world.now() == end


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
    object.__setattr__(world.machines.fleet, "server", UndefinedServer())
    with pytest.raises(CostError):
        play(world, world.work(-1, 1e9, world.initial_model()))


def test_a_dry_run_cannot_observe():
    world = dry_world([1.0])

    async def main():
        await world.observe(Reading([world.initial_model()], lambda values: 0))

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


@pytest.mark.parametrize("name", ["fedavg", "sfl", "psfl", "fedbuff", "fedasync"])
@pytest.mark.parametrize("availability", ["dropout:0.02,forever", "dropout:0.2,forever+duty:30,0.6"])
def test_devices_that_never_return_end_no_run_before_they_are_all_gone(name, availability):
    """A run goes on with whoever is left; when nobody is, it says so and ends, and what it has learned counts."""
    words = ["clients=60", "rounds=30", f"fleet.availability={availability}", "fleet.links=rate:1,1"]
    words += ["psfl.width=5", "psfl.length=4"]
    run = make_run(make_settings(name, words), dry=True)
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None
    if run.ended is None:
        assert run.world.progress == 30
    else:
        presence, now = run.world.machines.presence, run.world.now()
        assert run.ended.endswith(f"{run.world.progress} of 30 rounds are done") and run.world.progress < 30
        assert {presence.next_online(client, now) for client in run.world.clients} == {math.inf}


def test_a_transfer_starts_when_both_ends_are_there():
    """Client 0 is there in [0, 10) and [20, 30), client 1 from 12 on; they meet, also when a link must be freed."""

    class Hours:
        def next_online(self, device, now):
            if device == 1:
                return max(now, 12.0)
            return now if now % 20 < 10 else now - now % 20 + 20

        def online_until(self, device, now):
            return math.inf if device == 1 else now - now % 20 + 10

        def leaves(self, device, visit, start, seconds):
            return None

    world = dry_world([1.0, 1.0], links=FixedLinks(2.0), availability=Hours(), absence=WAIT)

    async def main():
        await world.send(world.initial_model(), 0, 1)

    play(world, main())
    assert spans(world, "site", "kind", "start", "end", "peer") == [
        (1, "wait", 12.0, 20.0, 0),  # the last to be ready was client 0, at the beginning of its next hours
        (0, "send", 20.0, 22.0, 1),
        (1, "receive", 20.0, 22.0, 0),
    ]


def test_a_rider_waits_for_the_next_one_to_come_online():
    world = dry_world([1.0, 1.0], availability=Late(), absence=WAIT)

    async def ride():
        model = await world.train(0, world.initial_model(), LOCAL)
        await world.send(model, 0, 1)
        await world.train(1, model, LOCAL)

    async def main():
        await world.gather([ride()])

    play(world, main())
    # Client 1 was away until 7: that is no wait of its own. Client 0 held the model and waited for it.
    assert spans(world, "site", "start", "end", "peer", kinds=["wait"]) == [
        (0, 1.0, 7.0, 1),
        (0, 7.0, 8.0, 1),
    ]


def test_training_and_the_gradient_that_follows_are_one_visit():
    """Full batches of a quadratic with A = I: the gradient at x is x - b. One batch after four: a quarter more."""
    problem = Quadratic(curvature=np.tile(np.eye(2), (3, 1, 1)), centre=np.array([[1.0, 2.0], [0, 0], [3, 1]]))
    world, plain = (quadratic_world(problem, times=Table([8.0] * 3)) for _ in range(2))
    recipe = LocalSGD(lr=0.1, batch=4, steps=4, loss="squared", momentum=0.9, weight_decay=0.1)

    async def main():
        return await world.learning.train_then_gradient(0, world.initial_model(), recipe, at=lambda end: 2.0 * end)

    trained, found = world.loop.run_until_complete(main())
    alone = plain.loop.run_until_complete(plain.train(0, plain.initial_model(), recipe))
    Executor(CohortTrainer()).run([trained, found, alone])
    assert np.array_equal(trained.value, alone.value)
    assert np.allclose(found.value.numpy(), 2.0 * trained.value.numpy() - problem.centre[0], atol=1e-12)
    ((flops,),) = spans(plain, "flops")
    assert spans(world, "kind", "start", "end", "flops") == [("train", 0.0, 10.0, 1.25 * flops)]
    assert world.ledger.visits == 1


def test_who_was_waited_for_may_be_known_afterwards():
    world = dry_world([1.0, 3.0])

    async def later():
        await world.loop.at(2.0)
        return 7

    play(world, world.wait(1, later(), lambda found: found))
    assert spans(world, "site", "start", "end", "peer", kinds=("wait",)) == [(1, 0.0, 2.0, 7)]
