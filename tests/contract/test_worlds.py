"""What every world must do: one suite for the simulation and for processes on the wall clock."""

import asyncio
import os
import signal
import threading

import numpy as np
import pytest
import torch

from paceline.errors import Dropped, Misplaced, SiteError
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.graph import mean
from paceline.learn.promises import Comparison, Reading
from paceline.learn.recipe import LocalSGD
from paceline.ledger.events import Event
from paceline.runs.local import make_local_run
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from tests.worlds.threads import Thread
from tests.worlds.worlds import learn

WORDS = ["clients=4", "partition=iid", "model=logistic", "local.steps=3"]
LOCAL = LocalSGD(steps=3)


def made(kind, workers=2):
    settings = make_settings("fedavg", WORDS)
    if kind == "simulation":
        return make_run(settings, check_places=True)
    run = make_local_run(settings, workers=workers, **({"launch": Thread} if kind == "threads" else {}))
    run.on_start()
    return run


@pytest.fixture(scope="module", params=["simulation", "local"])
def run(request):
    found = made(request.param)
    yield found
    found.close()


@pytest.fixture
def world(run):
    return run.world


def value(world, model):
    """A model's value, as whoever observes the run sees it."""

    async def look():
        return await world.observe(Reading([model], lambda values: values[0].clone()))

    return learn(world, look(), CohortTrainer("cpu", 1, 1))


def played(world, main):
    return learn(world, main, CohortTrainer("cpu", 1, 1))


def test_clients_have_samples_and_streams_have_addresses(world):
    assert list(world.clients) == [0, 1, 2, 3] and world.server == -1
    assert sum(map(world.samples, world.clients)) == 1437
    assert world.stream("a", 1).integers(1 << 60) == world.stream("a", 1).integers(1 << 60)
    assert world.stream("a", 1).integers(1 << 60) != world.stream("a", 2).integers(1 << 60)


def test_a_visit_takes_time_and_counts_once(world):
    before, now = world.ledger.visits, world.now()

    async def main():
        received = await world.send(world.initial_model(), world.server, 0)
        trained = await world.train(0, received, LOCAL)
        return await world.send(trained, 0, world.server)

    trained = played(world, main())
    assert world.ledger.visits == before + 1 and world.now() > now
    assert not torch.equal(value(world, trained), value(world, world.initial_model()))


def test_all_worlds_train_the_same():
    """The third visit of a client, with a mask and an anchor, to the last bit."""

    async def main(world):
        start = await world.send(world.initial_model(), world.server, 1)
        for _ in range(2):
            start = await world.train(1, start, LOCAL)
        trained = await world.train(1, start, LocalSGD(steps=2, prox=0.5), anchor=world.initial_model())
        full = await world.learning.probe(1, trained, LOCAL)
        both = [await world.send(model, 1, world.server) for model in (trained, full)]
        spread = await world.observe(Comparison(both))
        return both, spread

    found = []
    for kind in ("simulation", "local"):
        run = made(kind, workers=1)  # a process takes seconds to start
        both, spread = played(run.world, main(run.world))
        found.append(([value(run.world, model) for model in both], spread))
        run.close()
    (values, spread), (others, other) = found
    assert all(torch.equal(one, same) for one, same in zip(values, others, strict=True))
    assert spread.distance == other.distance


def test_training_and_the_gradient_that_follows_are_one_visit(world):
    before = world.ledger.visits

    async def main():
        start = await world.send(world.initial_model(), world.server, 2)
        halved = lambda trained: trained * 0.5  # noqa: E731
        trained, slope = await world.learning.train_then_gradient(2, start, LOCAL, at=halved)
        return await world.send_all([trained, slope], 2, world.server)

    trained, slope = played(world, main())
    assert world.ledger.visits == before + 1
    assert value(world, slope).norm() > 0 and value(world, trained).norm() > 0


def test_what_is_sent_arrives_bit_for_bit_and_bytes_are_booked_at_both_ends(world):
    async def main():
        up = await world.train(0, world.initial_model(), LOCAL)
        there = await world.send(up, 0, 3)
        back = await world.send(there, 3, world.server)
        return up, back

    up, back = played(world, main())
    assert torch.equal(value(world, up), value(world, back))
    rows = world.ledger.table().to_pylist()
    sent = [(r["site"], r["peer"], r["bytes"], r["end"]) for r in rows if r["kind"] == "send"]
    received = [(r["peer"], r["site"], r["bytes"], r["end"]) for r in rows if r["kind"] == "receive"]
    assert sent == received and all(size >= world.initial_model().nbytes for *_, size, _ in sent)


def test_a_site_fetches_from_several_what_each_of_them_has(world):
    async def main():
        start = world.initial_model()
        own = {client: [await world.train(client, start, LOCAL), start] for client in (2, 0)}
        found = await world.fetch(own, 3)
        back = {client: await world.send(models[0], 3, world.server) for client, models in found.items()}
        return own, found, back

    own, found, back = played(world, main())
    assert list(found) == [2, 0] and all(len(models) == 2 for models in found.values())
    for client, model in back.items():
        assert torch.equal(value(world, model), value(world, own[client][0]))


def test_a_visit_may_bring_the_update_alone(world):
    async def main():
        start = world.initial_model()
        delta = await world.visit(1, start, LOCAL, update=True)
        return await world.work(world.server, 1.0, start + delta), delta

    newest, delta = played(world, main())
    assert value(world, delta).norm() > 0 and torch.isfinite(value(world, newest)).all()
    assert torch.allclose(value(world, newest) - value(world, world.initial_model()), value(world, delta), atol=1e-6)


def test_a_model_is_where_it_was_sent_and_nowhere_else(world):
    async def main():
        trained = await world.train(0, world.initial_model(), LOCAL)
        with pytest.raises(Misplaced):
            await world.train(1, trained, LOCAL)
        with pytest.raises(Misplaced):
            await world.work(world.server, 1.0, mean([trained, world.initial_model()]))

    played(world, main())


def test_algebra_is_done_where_its_terms_are(world):
    async def main():
        start = await world.send(world.initial_model(), world.server, 1)
        trained = await world.train(1, start, LOCAL)
        delta = await world.send(trained - start, 1, world.server)
        newest = await world.work(world.server, 10.0, world.initial_model() + delta)
        return trained, newest

    trained, newest = played(world, main())
    assert np.allclose(value(world, trained), value(world, newest), atol=1e-6)


def test_a_barrier_gives_results_in_order_and_books_who_waited(world):
    over = world.loop.create_future()

    async def early():
        await world.train(2, await world.send(world.initial_model(), world.server, 2), LOCAL)
        over.set_result(None)
        return 2

    async def late():
        model = await world.send(world.initial_model(), world.server, 0)
        await over
        await world.train(0, model, LOCAL)
        return 0

    begin = world.now()
    assert played(world, world.gather([early(), late()])) == [2, 0]
    rows = [r for r in world.ledger.table().to_pylist() if r["start"] >= begin]
    assert any(r["kind"] == "wait" and r["site"] == 2 and r["peer"] == 0 for r in rows)


def test_nobody_waits_while_it_is_busy(world):
    """Of all that the tests before have booked: a client's waits overlap nothing of its own."""
    rows = [r for r in world.ledger.table().to_pylist() if r["site"] >= 0 and r["end"] > r["start"]]
    for client in world.clients:
        waits = [r for r in rows if r["site"] == client and r["kind"] == "wait"]
        for wait in waits:
            for other in [r for r in rows if r["site"] == client and r is not wait]:
                assert min(wait["end"], other["end"]) - max(wait["start"], other["start"]) <= 1e-9, (wait, other)


def test_time_stands_still_while_something_is_learned(world):
    async def main():
        trained = await world.train(0, world.initial_model(), LOCAL)
        begin = world.now()
        norm = await world.observe(Reading([trained], lambda values: float(values[0].norm())))
        return norm, world.now() - begin

    norm, taken = played(world, main())
    assert norm > 0 and taken == 0.0


def test_settled_comes_last_at_an_instant(world):
    said = []

    async def late():
        await world.settled()
        said.append("late")

    async def early():
        for _ in range(5):
            await asyncio.sleep(0)
        said.append("early")

    played(world, world.gather([late(), early()]))
    assert said == ["early", "late"]


def test_a_branch_that_fails_ends_the_run(world):
    async def bug():
        await world.train(0, world.initial_model(), LOCAL)
        raise ZeroDivisionError("here")

    async def main():
        world.spawn(bug())
        await world.loop.create_future()

    with pytest.raises(ZeroDivisionError, match="here"):
        played(world, main())
    world.loop.stop_tasks()
    world.loop._failure = None  # the next test is another run


def test_what_is_told_and_counted_is_kept(world):
    world.log.tell(Event(text="decided", figures={"x": 1}))
    world.log.count("staleness", 2)
    assert world.chronicle.events[-1].event.figures == {"x": 1}
    assert world.chronicle.counts["staleness"][2] >= 1


def test_rounds_are_entered_by_branches(world):
    async def branch(round):
        world.enter(round)
        await world.settled()
        return world.round

    assert played(world, world.gather([branch(3), branch(5)])) == [3, 5]
    assert world.round == world.progress


# -- the wall clock's own ------------------------------------------------------------------------------------------


def killed(run, client):
    process = run.world.machines._machines._hands._hosts.of(client).process
    os.kill(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("absence", [pytest.param("skip", marks=pytest.mark.slow), "wait"])
def test_a_worker_that_dies_is_a_drop_out_and_comes_back_with_what_it_held(absence):
    run = make_local_run(make_settings("fedavg", [*WORDS, f"absence={absence}"]), workers=1)
    run.on_start()
    world = run.world

    async def main():
        kept = await world.train(0, world.initial_model(), LOCAL)
        before = await world.observe(Reading([kept], lambda values: values[0].clone()))
        visit = asyncio.ensure_future(world.train(0, kept, LocalSGD(steps=200_000)), loop=world.loop)
        await world.loop.at(world.now() + 0.3)
        killed(run, 0)
        reason = ""
        if absence == "skip":
            with pytest.raises(Dropped) as dropped:
                await visit
            reason = dropped.value.reason
            assert not dropped.value.gone and not world.presence.online(0)
        else:
            await world.loop.at(world.now() + 0.2)
            visit.cancel()
        await world.presence.reach([0])
        again = await world.train(0, kept, LOCAL)
        return before, kept, await world.send(again, 0, world.server), reason

    before, kept, again, reason = played(world, main())
    assert reason == ("lost" if absence == "skip" else "")
    assert torch.equal(before, value(world, kept)) and not torch.equal(before, value(world, again))
    run.close()


def test_what_a_dying_worker_was_to_keep_is_made_again(monkeypatch):
    """It had been asked to send what it had yet to compute: nobody may count on its having done so."""
    run = made("threads", workers=1)
    world, process = run.world, run.world.machines._machines._hands._hosts.of(0)
    ask, lost = process.ask, []

    def once(words, blobs, answered):
        if words["do"] == "send" and not lost:
            lost.append(words)
            process._clock.post(lambda: answered(None))
        else:
            ask(words, blobs, answered)

    async def main():
        trained = await world.train(0, world.initial_model(), LOCAL)
        half = 0.5 * trained
        monkeypatch.setattr(process, "ask", once)
        with pytest.raises(Dropped):
            await world.send(half, 0, world.server)
        return trained, half, await world.send(half, 0, world.server)

    try:
        trained, half, came = played(world, main())
        assert torch.equal(value(world, came), 0.5 * value(world, trained))
        assert torch.equal(value(world, half), value(world, came))
    finally:
        run.close()


def test_a_worker_is_given_up_after_three_starts_in_a_row_that_fail(monkeypatch):
    class Dead(Thread):
        def __init__(self, theirs):
            self._thread, self._socket = threading.Thread(), theirs

        def wait(self):
            return 1

    def launch(theirs):
        launched.append((Dead if launched else Thread)(theirs))
        return launched[-1]

    launched = []
    monkeypatch.setattr("paceline.worlds.local.workers.RESTART", 0.0)
    run = make_local_run(make_settings("fedavg", WORDS), workers=1, launch=launch)
    run.on_start()
    process = run.world.machines._machines._hands._hosts.of(0)
    process.process.kill()
    process._thread.join(120)
    assert len(launched) == 1 + 3
    run.close()


def test_real_devices_score_what_each_of_them_has():
    run = made("threads", workers=1)

    async def main():
        start = run.world.initial_model()
        return [await run.world.train(k, await run.world.send(start, -1, k), LOCAL) for k in range(4)]

    try:
        own = played(run.world, main())
        score = run.world.score(own).function([])
        assert score.samples == sum(map(len, run.world.learner.problem.personal_rows))
        assert run.world.score([own[1], *own[1:]]) is None
    finally:
        run.close()


def test_a_world_that_is_closed_ends_its_hosts():
    hosts = []
    run = make_local_run(
        make_settings("fedavg", WORDS), workers=2, launch=lambda end: hosts.append(Thread(end)) or hosts[-1]
    )
    run.on_start()
    assert [host.poll() for host in hosts] == [None, None]
    run.world.close()
    assert [host.poll() for host in hosts] == [0, 0]
    run.close()


def test_a_device_that_cannot_compute_says_why():
    run = made("threads", workers=1)

    async def main():
        await run.world.train(0, run.world.initial_model(), LocalSGD(steps=1, loss="squared"))

    try:
        with pytest.raises(SiteError, match="client 0 could not visit"):
            played(run.world, main())
    finally:
        run.close()
