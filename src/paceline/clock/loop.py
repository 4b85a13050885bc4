"""An asyncio event loop on virtual time.

Rules, in the order they matter:

1. Time stands still while anything is ready to run, and jumps to the next due timer when nothing is.
2. All timers due at one instant fire before anything they wake runs, in the order they were created. (Plain
   asyncio compares times only and may wake them in any order.) So arrivals at one instant are seen together.
3. While a *hold* is open (someone waits for a learned value) time does not advance: ``advance`` returns to the
   driver, which learns, settles the hold and calls ``advance`` again.
4. Who awaits ``settled`` goes on last of all at an instant, after holds opened at it are settled: a device that
   restarts when its upload arrives sees what the server made of everything that arrived at that instant.
5. If nothing is ready, due or held and the main task is not done, that is a ``Deadlock``, and the error says
   who waits where.
6. With a ``Source`` time is not virtual: things also happen outside, each at an instant of its own, and between them
   the loop sleeps until the next timer is due. Within an instant time stands still all the same.

Ordinary asyncio tools (tasks, futures, queues, events, ``TaskGroup``, ``gather``, ``sleep``, ``timeout``) work
unchanged. Threads, sockets and subprocesses do not exist here.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any, Protocol, TypeVar, TypeVarTuple

from paceline.clock.waiting import describe_waiting
from paceline.errors import Deadlock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Timer = asyncio.Future[None] | asyncio.TimerHandle
Step = tuple[Context | None, Callable[..., object], tuple[Any, ...]]
"""What is ready to run, and in which context; None where it sees to that itself."""


class Source(Protocol):
    """Where things happen that no timer of the loop knows of."""

    @property
    def expecting(self) -> bool:
        """Whether anything may still happen."""
        ...

    def next(self, until: float | None) -> tuple[float, Callable[[], None]] | None:
        """Sleep until something happens: when, and what is to be done then; None if nothing does until then."""
        ...


class VirtualLoop(asyncio.AbstractEventLoop):
    """One run's own time; several loops may take turns in one thread."""

    def __init__(self, source: Source | None = None) -> None:
        self._source = source
        self.now = 0.0
        """The virtual time in seconds, which only the loop sets: ``time()`` for whoever asks millions of times."""
        self._ready: deque[Step] = deque()
        self._times: list[float] = []
        """When anything is due: a heap, each time once. Numbers are compared sooner than tuples that hold them."""
        self._timers: dict[float, Timer | list[Timer]] = {}
        """What is due then: nearly always one, else a list in the order of their making."""
        self._late: list[asyncio.Future[None]] = []
        self._holds: set[asyncio.Future[Any]] = set()
        self._failure: BaseException | None = None
        self._running = False
        self._closed = False
        self._tasks_made = 0
        self.main: asyncio.Task[Any] | None = None

    # -- driving ------------------------------------------------------------------------------------------

    def start(self, main: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Set the task whose end is the end of the run."""
        task = self.create_task(main, name="main")
        self.main = task
        return task

    def advance(self) -> bool:
        """Run until the main task is done (True) or a hold stops the clock (False)."""
        assert self.main is not None, "start(coroutine) comes before advance()"
        outer = events._get_running_loop()
        events._set_running_loop(self)
        self._running = True
        try:
            return self._advance(self.main)
        finally:
            self._running = False
            events._set_running_loop(outer)

    def _advance(self, main: asyncio.Task[Any]) -> bool:
        times, pop_time, due_at, done = self._times, heapq.heappop, self._timers.pop, main.done
        while True:
            self._run_ready()
            if self._failure is not None:
                raise self._failure
            if done():
                return True
            if self._holds:
                return False
            if self._late:
                self._wake_late()
                continue
            if self._source is not None and self._happened(self._source):
                continue
            if not times:
                raise Deadlock(describe_waiting(self, asyncio.all_tasks(self)))
            now = self.now = max(times[0], self.now)
            while times and times[0] <= now:
                due = due_at(pop_time(times))
                for timer in due if isinstance(due, list) else (due,):
                    if isinstance(timer, asyncio.TimerHandle):
                        self._ready.append((None, _run_handle, (timer,)))
                    elif not timer.done():  # done already: the sleeper was cancelled
                        timer.set_result(None)

    def _wake_late(self) -> None:
        late, self._late = self._late, []
        for future in late:
            if not future.done():
                future.set_result(None)

    def _run_ready(self) -> None:
        """All that is ready, and what becomes so meanwhile; as asyncio's handles would, but without one for each."""
        ready, pop = self._ready, self._ready.popleft
        while ready:
            try:
                while ready:
                    context, callback, args = pop()
                    if context is None:
                        callback(*args)
                    else:
                        context.run(callback, *args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as problem:
                self.call_exception_handler({"exception": problem})

    def _happened(self, source: Source) -> bool:
        """Wait for what happens outside; False if a timer comes first, or nothing can come any more."""
        if not self._times and not source.expecting:
            return False
        event = source.next(self._times[0] if self._times else None)
        if event is None:
            return False
        when, act = event
        # Every event is an instant of its own: who repeats the run from its times repeats the order.
        self.now = max(when, math.nextafter(self.now, math.inf))
        act()
        return True

    def result(self) -> Any:
        """What the main task returned, or the exception it ended with."""
        assert self.main is not None
        return self.main.result()

    def run_until_complete(self, future: Coroutine[Any, Any, T]) -> T:  # type: ignore[override]
        """Run one coroutine to its end; for tests and for schedules that learn nothing."""
        task = self.start(future)
        if not self.advance():
            raise Deadlock("a hold is open and nobody will settle it: drive this loop with advance() instead")
        return task.result()

    def stop_tasks(self) -> None:
        """Cancel everything still running; afterwards no task is left."""
        outer = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while pending := asyncio.all_tasks(self):
                for task in pending:
                    task.cancel()
                if not self._ready:
                    break
                while self._ready:
                    # A task that was interrupted raises its KeyboardInterrupt once more; the rest must still end.
                    with suppress(KeyboardInterrupt):
                        self._run_ready()
        finally:
            events._set_running_loop(outer)

    # -- time ---------------------------------------------------------------------------------------------

    def time(self) -> float:
        """The virtual time in seconds."""
        return self.now

    def at(self, when: float) -> asyncio.Future[None]:
        """A future that is done at this virtual time: the cheap form of sleeping."""
        future: asyncio.Future[None] = asyncio.Future(loop=self)
        if when in self._timers:
            self._join(when, future)
        else:
            self._timers[when] = future
            heapq.heappush(self._times, when)
        return future

    def _join(self, when: float, timer: Timer) -> None:
        """One more for a time at which something else is due."""
        others = self._timers[when]
        if isinstance(others, list):
            others.append(timer)
        else:
            self._timers[when] = [others, timer]

    def settled(self) -> asyncio.Future[None]:
        """A future that is done when all else that happens at this instant has happened."""
        future: asyncio.Future[None] = asyncio.Future(loop=self)
        self._late.append(future)
        return future

    def hold(self) -> asyncio.Future[Any]:
        """A future that stops the clock until the driver settles it."""
        future: asyncio.Future[Any] = asyncio.Future(loop=self)
        self._holds.add(future)
        future.add_done_callback(self._holds.discard)
        return future

    def settle(self, hold: asyncio.Future[Any], value: object) -> None:
        """Give a hold its value, so that whoever awaits it goes on, and the clock too if no other hold is open."""
        self._holds.discard(hold)
        if not hold.done():
            hold.set_result(value)

    # -- what asyncio asks of a loop ------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle | None:
        """Run a callback at this instant, after what is ready already.

        Only where no context is given is there a handle, by which it may be cancelled: tasks and futures, which wake
        each other millions of times, give one and never look at the handle.
        """
        if context is not None:
            self._ready.append((context, callback, args))
            return None
        handle = asyncio.Handle(callback, args, self, None)
        self._ready.append((None, _run_handle, (handle,)))
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a virtual time."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if when in self._timers:
            self._join(when, handle)
        else:
            self._timers[when] = handle
            heapq.heappush(self._times, when)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback after a virtual delay."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio's TimerHandle reports its cancellation here; a cancelled handle runs as nothing."""

    def create_future(self) -> asyncio.Future[Any]:
        """A future that belongs to this loop, as asyncio wants one."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        """A task of this loop; unnamed tasks are numbered within the loop, so that names repeat between runs."""
        if name is None:
            self._tasks_made += 1
            name = f"task {self._tasks_made}"
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An exception that nobody would have looked at ends the run instead of being logged."""
        failure = context.get("exception")
        if isinstance(failure, BaseException) and not isinstance(failure, asyncio.CancelledError):
            self.fail(failure)

    def fail(self, problem: BaseException) -> None:
        """End the run with this exception at the next step of the clock."""
        self._failure = self._failure or problem

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: generators are closed by whoever iterates them."""

    get_debug = bool
    """asyncio's debug mode would slow everything down, so it is never on. ``bool()`` is False too, and sooner: every
    future and every task asks."""

    def is_running(self) -> bool:
        """Whether the loop is running just now, that is, whether ``advance`` is on the stack."""
        return self._running

    def is_closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def close(self) -> None:
        """End the loop; what was scheduled is forgotten."""
        self.stop_tasks()
        self._ready.clear()
        self._times.clear()
        self._timers.clear()
        self._closed = True


def _run_handle(handle: asyncio.Handle) -> None:
    """Run a handle unless it was cancelled, even at this instant."""
    if not handle.cancelled():
        handle._run()


def make_loop(source: Source | None = None) -> VirtualLoop:
    """A new virtual clock whose time is 0; with a source of events it keeps the source's time."""
    return VirtualLoop(source)  # type: ignore[abstract]  # asyncio's methods for sockets and processes do not exist here
