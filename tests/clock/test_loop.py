"""The virtual loop: jumps, ties, holds, deadlocks, exceptions. Whole timelines are asserted."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import calls

from paceline.clock import VirtualLoop
from paceline.errors import Deadlock


def run(main):
    return VirtualLoop().run_until_complete(main)


def test_time_jumps_without_waiting():
    async def main():
        await asyncio.sleep(3600.0)
        return asyncio.get_running_loop().time()

    assert run(main()) == 3600.0  # or the suite's limit on a test's time ends it


def test_ties_run_in_creation_order_and_are_seen_together():
    log = []

    async def sleeper(name, delay):
        await asyncio.sleep(delay)
        log.append((asyncio.get_running_loop().time(), name))

    async def main():
        async with asyncio.TaskGroup() as group:
            for name in range(50):
                group.create_task(sleeper(name, 2.0 if name % 2 else 1.0))

    run(main())
    assert log == [(1.0, n) for n in range(0, 50, 2)] + [(2.0, n) for n in range(1, 50, 2)]


def test_arrivals_at_one_instant_reach_a_waiting_server_together():
    taken = []

    async def main():
        inbox: asyncio.Queue[int] = asyncio.Queue()

        async def client(name):
            await asyncio.sleep(5.0)
            inbox.put_nowait(name)

        async def server():
            while sum(map(len, taken)) < 3:
                batch = [await inbox.get()]
                await asyncio.sleep(0)
                while not inbox.empty():
                    batch.append(inbox.get_nowait())
                taken.append(batch)

        async with asyncio.TaskGroup() as group:
            group.create_task(server())
            for name in range(3):
                group.create_task(client(name))

    run(main())
    assert taken == [[0, 1, 2]]


def test_hold_stops_the_clock_until_settled():
    loop, log = VirtualLoop(), []

    async def ticking():
        for _ in range(3):
            await asyncio.sleep(1.0)
            log.append(("tick", loop.time()))

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(ticking())
            await asyncio.sleep(1.5)
            holds.append(loop.hold())
            log.append(("learned", await holds[0], loop.time()))

    holds = []
    task = loop.start(main())
    assert loop.advance() is False
    assert (loop.time(), log) == (1.5, [("tick", 1.0)])
    assert loop.advance() is False
    loop.settle(holds[0], 0.9)
    assert loop.advance() is True
    assert task.done()
    assert log == [("tick", 1.0), ("learned", 0.9, 1.5), ("tick", 2.0), ("tick", 3.0)]


def test_deadlock_names_who_waits_where():
    async def main():
        gate = asyncio.Event()

        async def client():
            await asyncio.sleep(4.0)
            await gate.wait()  # nobody opens it

        async with asyncio.TaskGroup() as group:
            group.create_task(client(), name="client 7")

    with pytest.raises(Deadlock) as caught:
        run(main())
    text = str(caught.value)
    assert "t=4" in text
    assert "client 7 waits at" in text
    assert "await gate.wait()" in text


def test_an_exception_nobody_awaits_ends_the_run():
    async def main():
        async def bug():
            await asyncio.sleep(1.0)
            raise ZeroDivisionError("client 3")

        asyncio.get_running_loop().create_task(bug())
        await asyncio.sleep(10.0)

    with pytest.raises(ZeroDivisionError, match="client 3"):
        run(main())


def test_timeouts_and_cancellation_use_virtual_time():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.0):
                await asyncio.sleep(100.0)
        return asyncio.get_running_loop().time()

    assert run(main()) == 2.0


def test_two_loops_take_turns():
    loops = [VirtualLoop(), VirtualLoop()]

    async def main(loop, step):
        for _ in range(3):
            await asyncio.sleep(step)
            loop.settle_me = loop.hold()
            await loop.settle_me

    tasks = [loop.start(main(loop, 1.0 + k)) for k, loop in enumerate(loops)]
    for _ in range(3):
        assert [loop.advance() for loop in loops] == [False, False]
        for loop in loops:
            loop.settle(loop.settle_me, None)
    assert [loop.advance() for loop in loops] == [True, True]
    assert [loop.time() for loop in loops] == [3.0, 6.0]
    assert all(task.done() for task in tasks)


@given(st.lists(st.lists(st.floats(0, 1e6), min_size=1, max_size=6), min_size=1, max_size=6))
def test_the_clock_is_monotone(plans):
    seen = []

    async def walker(delays):
        for delay in delays:
            before = asyncio.get_running_loop().time()
            await asyncio.sleep(delay)
            seen.append(asyncio.get_running_loop().time())
            assert seen[-1] >= before + delay * (1 - 1e-12)

    async def main():
        async with asyncio.TaskGroup() as group:
            for delays in plans:
                group.create_task(walker(delays))

    run(main())
    assert seen == sorted(seen)


def test_an_await_takes_few_calls():
    """13 of them, the task and what it awaits included, which take 2 to 4 µs on an idle machine."""
    visits = 20_000

    async def walker():
        loop = asyncio.get_running_loop()
        for _ in range(visits // 20):
            await loop.at(loop.time() + 1.0)

    async def main():
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(walker())

    assert calls(lambda: run(main())) / visits < 20


async def _timeout_that_does_not_fire():
    async with asyncio.timeout(5.0):
        await asyncio.sleep(1.0)


async def _wait_for_in_time():
    await asyncio.wait_for(asyncio.sleep(1.0), 5.0)


async def _sleep_is_cancelled():
    task = asyncio.ensure_future(asyncio.sleep(5.0))
    await asyncio.sleep(1.0)
    task.cancel()
    await asyncio.wait([task])


async def _calls_are_cancelled():
    loop = asyncio.get_running_loop()
    loop.call_soon(pytest.fail, "it was cancelled").cancel()
    loop.call_later(5.0, pytest.fail, "it was cancelled").cancel()
    await asyncio.sleep(1.0)


async def _one_timer_cancels_another_of_its_instant():
    loop = asyncio.get_running_loop()
    timers = []

    def cancel():
        timers.pop().cancel()

    loop.call_later(1.0, cancel)
    timers.append(loop.call_later(1.0, pytest.fail, "it was cancelled"))
    await asyncio.sleep(1.0)


@pytest.mark.parametrize(
    "cancelling",
    [
        _timeout_that_does_not_fire,
        _wait_for_in_time,
        _sleep_is_cancelled,
        _calls_are_cancelled,
        _one_timer_cancels_another_of_its_instant,
    ],
)
def test_what_was_cancelled_runs_as_nothing(cancelling):
    async def main():
        await cancelling()
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(9.0)  # past everything that was cancelled
        return begun, asyncio.get_running_loop().time()

    assert run(main()) == (1.0, 10.0)


def test_a_timeout_fires_when_its_time_has_come():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.0):
                await asyncio.sleep(5.0)
        return asyncio.get_running_loop().time()

    assert run(main()) == 2.0
