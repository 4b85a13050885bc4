"""Machines on a virtual clock: durations come from ``system``, values are promised by ``learn``.

Every client computes one thing at a time and has one uplink and one downlink, each of which carries one transfer
at a time; what comes too early queues. A server computes one thing at a time and carries any number of transfers.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any

from paceline.algorithms.base import Sums
from paceline.clock import VirtualLoop, make_loop
from paceline.errors import Dropped, Fruitless
from paceline.learn.graph import Model
from paceline.learn.promises import Promise
from paceline.ledger import Ledger
from paceline.ledger.events import Event
from paceline.system import Fleet, Leave
from paceline.system.failures import Failures
from paceline.worlds.absence import SKIP, Absence
from paceline.worlds.diary import Diary
from paceline.worlds.faults import REFUSED, FaultKind, Faults, FaultyMachines
from paceline.worlds.hostile import HARMLESS, Hostile
from paceline.worlds.learner import Learner
from paceline.worlds.machines import Machines, Task
from paceline.worlds.network.transfers import Transfers
from paceline.worlds.places import CheckedMachines
from paceline.worlds.privacy.machines import PrivateMachines
from paceline.worlds.privacy.settings import UNPROTECTED, Privacy
from paceline.worlds.privacy.spending import Spending
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.presence import SimulatedPresence
from paceline.worlds.simulation.undisturbed import UndisturbedStage
from paceline.worlds.stage import Stage

FRUITLESS = 2000
"""Visits that may be broken off one after the other, in the whole fleet, before none is taken ever to be finished;
with many clients, so many each."""
EACH = 20


class SimulatedMachines:
    """Devices, servers and links as a fleet describes them."""

    def __init__(
        self, loop: VirtualLoop, fleet: Fleet, learner: Learner, ledger: Ledger, absence: Absence = SKIP
    ) -> None:
        self.loop = loop
        self.fleet = fleet
        self.size = fleet.size
        self.presence = SimulatedPresence(loop, fleet.availability, absence)
        self.failures = SimulatedFailures(loop, fleet.failures)
        self._safe = fleet.failures.none
        self.failing = _never if self._safe else fleet.failures.server
        self.shares_links = fleet.network is not None and fleet.network.sharing is not None
        self.seconds = fleet.compute.mean_seconds
        self._cost = fleet.compute.cost
        self.diary = Diary(ledger, None if self.presence.steady else self.presence.away)
        self._learner = learner
        self._ledger = ledger
        self._transfers = Transfers(loop, fleet, self.presence, ledger, self.diary)
        self.at_once = self._transfers.at_once
        # Columns, not dictionaries: with many clients at work these are in nobody's cache, and every look costs.
        self._visits = array("L", bytes(array("L").itemsize * fleet.size))
        """How many each client has begun."""
        self._free = array("d", bytes(array("d").itemsize * fleet.size))
        """When each client will have nothing to do."""
        self._servers_free: dict[int, float] = {}
        self._broken_off = 0
        self._undelivered: set[int] = set()
        """Clients that have finished a visit and have not tried to send since; nobody where all are always there."""
        self._in_vain = 0
        """Visits of this round that were finished one after the other, and of which nothing arrived."""
        self._vain_round = -1

    def is_busy(self, client: int) -> bool:
        """Whether a client computes just now."""
        return self._free[client] > self.loop.now

    def begin(self, client: int, flops: float, task: Task | None = None) -> tuple[int, float, float]:
        """Let a client begin what nothing will interrupt: the visit's number, when it ends, and its joules.

        The task need only be given where a gradient follows.
        """
        start, visit = self.loop.now, self._visits[client]
        self._visits[client] = visit + 1
        seconds, joules = self._cost(client, visit, flops)
        if task is not None and task.gradient_share:
            more = self._cost(client, visit, task.gradient_flops)
            seconds += more.seconds * task.gradient_share
            joules += more.joules * task.gradient_share
        end = self._free[client] = start + seconds
        self.diary.add(client, start, end)
        return visit, end, joules

    async def visit(self, task: Task) -> tuple[Model, Model | None]:
        """The client's time passes, the result is a promise; one that leaves may have to do it again when back."""
        client, loop, steady = task.client, self.loop, self.presence.steady
        while True:
            if not steady or self._free[client] > loop.now:
                await self._ready(client)
            start, visit = loop.now, self._visits[client]
            self._visits[client] = visit + 1
            flops = task.flops
            seconds, joules = self._cost(client, visit, flops)
            if task.gradient_share:
                more = self._cost(client, visit, task.gradient_flops)
                seconds += more.seconds * task.gradient_share
                joules += more.joules * task.gradient_share
                flops = task.all_flops
            leave = None if steady else self.presence.leave(client, visit, start, seconds)
            end = self._free[client] = start + seconds if leave is None else leave.at
            self.diary.add(client, start, end)
            found = self.promise(task, visit) if leave is None else None
            if end > start:
                await loop.at(end)
            if found is not None:
                self._ledger.train(client, start, end, task.round, flops, joules)
                self._broken_off = 0
                if not steady:
                    self._undelivered.add(client)
                return found
            assert leave is not None
            done = (end - start) / seconds if seconds else 1.0
            self._ledger.train(client, start, end, task.round, flops * done, joules * done, False)
            await self._left(client, visit, leave)

    async def _left(self, client: int, visit: int, leave: Leave) -> None:
        """A client has gone in mid-visit: wait until it is back, as long as the rule for absence allows."""
        if self.presence.resumes(client):
            self._visits[client] = visit
        self.presence.left(client, leave.back)
        self.diary.add(client, leave.at, leave.back)
        self._count_broken()
        if leave.back == math.inf or not self.presence.absence.patience:
            raise Dropped(client, leave.at, leave.back)
        await self.presence.sleep(client, leave.at, leave.back)

    async def _ready(self, client: int) -> None:
        """Until the client is there and has nothing else to do."""
        while True:
            while (free := self._free[client]) > self.loop.now:
                await self.loop.at(free)
            try:
                await self.presence.attend(client)
            except Dropped:
                self._count_broken()
                raise
            if self._free[client] <= self.loop.now:  # else somebody else came first
                return

    def promise(self, task: Task, visit: int) -> tuple[Model, Model | None]:
        """What a visit of this number will have computed."""
        if self._learner.dry and task.gradient_at is None:
            return task.model, None
        trained = self._learner.visit(task.act, task.client, visit, task.model, task.recipe, task.round, task.extras)
        if task.gradient_at is None:
            return trained, None
        point = task.gradient_at(trained)
        return trained, self._learner.gradient(task.client, visit, point, task.recipe, task.round)

    def _count_broken(self) -> None:
        """A run in which no visit can finish says so and ends."""
        self._broken_off += 1
        if self._broken_off >= max(FRUITLESS, EACH * self.size):
            raise Fruitless(
                f"no visit can be finished: the last {self._broken_off:,} were all broken off, because devices were"
                f" away or left in the middle; now t={self.loop.now:g} s. Let devices stay longer"
                " (fleet.availability), or give them less to do (local.steps, fleet.times)"
            )

    def _count_in_vain(self, client: int, round: int) -> None:
        """What a client has trained could not be sent; a round in which nothing ever arrives says so and ends."""
        self._undelivered.discard(client)
        self._in_vain = self._in_vain + 1 if round == self._vain_round else 1
        self._vain_round = round
        if self._in_vain >= max(FRUITLESS, EACH * self.size):
            raise Fruitless(
                f"nothing that is trained arrives: the last {self._in_vain:,} visits of round {round} were finished,"
                f" and then devices were away that were to send or to receive; now t={self.loop.now:g} s. Let devices"
                " stay longer (fleet.availability), or have faster links (fleet.links)"
            )

    async def carry(
        self, models: Sequence[Model], source: int, target: int, round: int, *, waits: bool
    ) -> Sequence[Model]:
        """Move models over the links of both ends."""
        size = sum([model.nbytes for model in models])
        try:
            await self._transfers.carry(source, target, size, round, waits=waits)
        except Dropped as dropped:
            if source in self._undelivered and dropped.reason in ("away", "late"):
                self._count_in_vain(source, round)
            raise
        if source in self._undelivered:
            self._undelivered.discard(source)
            self._in_vain = 0
        return models

    async def work(self, site: int, flops: float, round: int, model: Model) -> Model:
        """A job at a server; the model is a promise already."""
        failing = math.inf if self._safe else self.failing(site)
        start, end, seconds, joules = self.begin_work(site, flops, failing)
        if end > self.loop.now:
            await self.loop.at(end)
        share = (end - start) / seconds if end == failing and seconds else 1.0
        if end > start or end < failing:
            self._ledger.work(site, start, end, round, flops * share, joules * share)
        if end >= failing:
            raise Dropped(site, end, reason="failed")
        return model

    def begin_work(self, site: int, flops: float, failing: float = math.inf) -> tuple[float, float, float, float]:
        """Let a server begin a job as soon as it can: from when to when, and what the whole job costs."""
        now = self.loop.now
        start = max(now, self._servers_free.get(site, 0.0))
        seconds, joules = self.fleet.work(flops)
        end = self._servers_free[site] = max(now, min(start + seconds, failing))
        self.diary.add(site, start, end)
        return start, end, seconds, joules

    def read(self, promise: Promise[Any]) -> None:
        """Whoever reads in a simulation has everything at hand."""

    def bring(self, models: Sequence[Model]) -> None:
        """Whoever observes a simulation sees everything."""

    def score(self, models: Sequence[Model]) -> None:
        """And scores it, all clients' together."""

    def close(self) -> None:
        """Do nothing: no process was started."""


def _never(site: int) -> float:
    """When a server fails in a fleet in which none does."""
    return math.inf


class SimulatedFailures:
    """Failures at times that are fixed before the run."""

    def __init__(self, loop: VirtualLoop, failures: Failures) -> None:
        self._loop = loop
        self._failures = failures

    @property
    def possible(self) -> bool:
        """Whether the fleet has failures."""
        return not self._failures.none

    async def breakdown(self, *sites: int) -> None:
        """Sleep until a server, or the link between two, has failed."""
        failures = self._failures
        when = failures.server(*sites) if len(sites) == 1 else failures.link(*sites)
        if when > self._loop.time():
            await (self._loop.create_future() if when == math.inf else self._loop.at(when))


def simulate(
    fleet: Fleet,
    problem: Problem,
    seed: int,
    ledger: Ledger | None = None,
    *,
    learning: bool = True,
    adversary: Hostile = HARMLESS,
    absence: Absence = SKIP,
    flush: float = math.inf,
    frugal: bool = False,
    faults: Faults | None = None,
    check_places: bool = False,
    privacy: Privacy = UNPROTECTED,
    sums: Sums | None = None,
) -> Stage:
    """One run's simulated world; without ``learning`` it is a dry one: the schedule and its costs only.

    ``flush`` and ``frugal`` say when what is promised is learned (``Learner``). With ``check_places`` a model that is
    used where it was never sent is an error. With ``privacy``, where ``sums`` says how the algorithm adds uploads up,
    these are protected.
    """
    loop, ledger = make_loop(), ledger if ledger is not None else Ledger()
    learner = Learner(loop, problem, seed, dry=not learning, adversary=adversary, flush=flush, frugal=frugal)
    machines = SimulatedMachines(loop, fleet, learner, ledger, absence)
    outer: Machines = CheckedMachines(machines) if check_places else machines
    faulty = FaultyMachines(outer, faults, machines.diary) if faults is not None and faults.parts else None
    if faulty is not None:
        outer = faulty
    spending = Spending(privacy, sums, fleet.size, steady=machines.presence.steady) if sums is not None else None
    if spending is not None:  # what a device sends is protected before anything can happen to it on its way
        outer = PrivateMachines(outer, learner, spending)
    undisturbed = outer is machines and machines.at_once
    stage = (UndisturbedStage if undisturbed else Stage)(outer, learner, ledger, machines.diary)
    if spending is not None:
        stage.spending = spending
        stage.tell(Event(text=spending.text()))
    machines.presence.on_absence = stage.note
    if faulty is not None:
        faulty.on_fault = partial(_count_fault, stage)
    return stage


def _count_fault(stage: Stage, kind: FaultKind, source: int, target: int) -> None:
    """Faults are counted by the device that sent the message or was to get it; what was refused is also rejected."""
    device = source if source >= 0 else target
    stage.count(f"{kind} messages of {'client' if device >= 0 else 'server'}", abs(device))
    if kind in REFUSED:
        stage.count("rejected client", source)
