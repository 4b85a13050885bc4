"""Messages that go wrong: drawn by address, charged, told apart, and never averaged."""

import math

import numpy as np
import pytest
import torch

from paceline.algorithms import pfedavg
from paceline.algorithms.hierfavg import HierFAVG
from paceline.algorithms.pfedavg import PFedAvg
from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import Dropped, Fruitless, SettingError
from paceline.learn.recipe import LocalSGD
from paceline.ledger import Ledger
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.system import AlwaysOn, Fleet, FreeServer
from paceline.topology import parse_graph
from paceline.worlds.faults import Fault, Faults, parse_faults
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.machines import SimulatedMachines, simulate
from tests.algorithms.test_overlay import ROUNDS, Watched, assert_doubly_stochastic
from tests.contract.test_places import SMALL
from tests.worlds.worlds import SPACE, FixedLinks, Table, follow, play, spans

LOCAL = LocalSGD(lr=0.05, batch=4, steps=3)


def world_with(faults, times=(1.0, 1.0, 1.0), link=1.0, seed=0):
    fleet = Fleet(
        size=len(times),
        compute=Table(times),
        links=FixedLinks(link),
        availability=AlwaysOn(),
        server=FreeServer(),
    )
    faults = parse_faults(faults, seed) if isinstance(faults, str) else faults
    return simulate(fleet, Problem(SPACE, "none", nominal=10), seed, Ledger(), learning=False, faults=faults)


def sent(world, source, target, times=1):
    """Send a model so often; returns what became of each, with the time at which it ended."""

    async def main():
        ends = []
        for _ in range(times):
            try:
                await world.send(world.initial_model(), source, target)
                ends.append(("arrived", world.now()))
            except Dropped as dropped:
                ends.append((dropped.reason, world.now(), dropped.site, dropped.gone))
        return ends

    return play(world, main())


# -- words -----------------------------------------------------------------------------------------------------------


def test_words_become_faults():
    faults = parse_faults("lost:0.1+delayed:0.2,5+reordered:0.3", 0)
    assert faults.parts == (Fault("lost", 0.1), Fault("delayed", 0.2, 5.0), Fault("reordered", 0.3, 1.0))
    assert parse_faults("none", 0) == Faults()


@pytest.mark.parametrize(
    "word", ["lots:0.1", "lost", "lost:2", "lost:nan", "delayed:0.1", "delayed:0.1,0", "lost:0.1+"]
)
def test_other_words_are_refused(word):
    with pytest.raises(SettingError, match="faults is"):
        make_run(make_settings("fedavg", [*SMALL, f"faults={word}"]), dry=True)


def test_each_kind_befalls_its_share_of_messages_at_addresses_of_its_own():
    """Of 10,000 draws the count is within 5 standard deviations: a false alarm in two million."""
    faults = parse_faults("lost:0.1+corrupted:0.1", 3)
    found = [faults.befalling(source, -1, number) for source in range(20) for number in range(500)]
    lost, corrupted = (
        {place for place, kinds in enumerate(found) if kind in kinds} for kind in ("lost", "corrupted")
    )
    for kind in (lost, corrupted):
        assert abs(len(kind) - 1000) < 5 * math.sqrt(10_000 * 0.1 * 0.9)
    assert abs(len(lost & corrupted) - 100) < 5 * math.sqrt(100)
    assert found == [faults.befalling(source, -1, number) for source in range(20) for number in range(500)]
    assert found[:500] != [parse_faults("lost:0.1+corrupted:0.1", 4).befalling(0, -1, n) for n in range(500)]


# -- what becomes of a message ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lost", "corrupted"])
def test_what_is_lost_was_sent_in_vain(kind):
    world = world_with(f"{kind}:1")
    assert sent(world, -1, 0, 2) == [("lost", 1.0, 0, False), ("lost", 2.0, 0, False)]
    assert world.ledger.bytes == 2 * SPACE.nbytes
    assert world.chronicle.counts == {f"{kind} messages of client": {0: 2}}


@pytest.mark.parametrize("kind", ["oversized", "nan"])
def test_what_cannot_be_used_is_refused_and_named_by_its_sender(kind):
    world = world_with(f"{kind}:1")
    assert sent(world, 2, -1) == [("refused", 1.0, 2, False)]
    assert world.ledger.bytes == SPACE.nbytes
    assert world.chronicle.counts == {f"{kind} messages of client": {2: 1}, "rejected client": {2: 1}}
    assert sent(world_with(f"{kind}:1"), -1, 2) == [("arrived", 1.0)]  # servers send no nonsense


def test_what_comes_twice_takes_twice_as_long_and_counts_once():
    world = world_with("duplicated:1")
    assert sent(world, 0, -1) == [("arrived", 2.0)]
    assert world.ledger.bytes == 2 * SPACE.nbytes


def test_what_is_late_is_waited_for():
    world = world_with("delayed:1,5")
    assert sent(world, -1, 0) == [("arrived", 6.0)]
    assert spans(world, "site", "start", "end", "peer", kinds=("wait",)) == [(0, 1.0, 6.0, -1)]


def test_messages_overtake_each_other():
    world = world_with("reordered:1,10", times=[1.0] * 10, link=0.0)
    arrivals = []

    async def one(client):
        await world.loop.at(0.1 * client)
        await world.send(world.initial_model(), client, -1)
        arrivals.append((client, world.now() - 0.1 * client))

    async def main():
        await world.gather(one(client) for client in world.clients)

    play(world, main())
    assert [client for client, _ in arrivals] != sorted(world.clients)
    assert all(0 < late <= 10 for _, late in arrivals) and len({late for _, late in arrivals}) == 10


def test_faults_come_together():
    world = world_with("delayed:1,5+lost:1+duplicated:1+nan:1")
    assert sent(world, 0, -1) == [("lost", 7.0, -1, False)]


# -- runs ------------------------------------------------------------------------------------------------------------


def learned(name, *words):
    run = make_run(make_settings(name, [*SMALL, *words]), check_places=True, keep_model=True)
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None
    return run


def test_without_faults_nothing_is_in_the_way():
    assert isinstance(make_run(make_settings("fedavg", SMALL)).world.machines, SimulatedMachines)


def test_what_arrives_twice_never_counts_twice():
    once, twice = learned("fedavg"), learned("fedavg", "faults=duplicated:1")
    assert torch.equal(once.final["model"], twice.final["model"])
    assert twice.world.ledger.bytes == 2 * once.world.ledger.bytes


def test_a_run_with_faults_is_repeatable():
    words = ["faults=lost:0.1+nan:0.1+reordered:0.3+duplicated:0.1"]
    assert learned("fedbuff", *words).rows == learned("fedbuff", *words).rows


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("faults", ["lost:0.3", "nan:0.3+reordered:0.5"])
def test_nobody_uses_what_never_arrived(name, faults):
    run = make_run(make_settings(name, [*SMALL, f"faults={faults}"]), check_places=True, dry=True)
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None or "warm-up" in str(run.failure)


@pytest.mark.parametrize("name", ["fedasync", "apfl"])
@pytest.mark.parametrize(("faults", "whose"), [("lost:1", "servers"), ("nan:1", "devices")])
def test_where_nothing_ever_arrives_a_run_says_so(name, faults, whose):
    """Also where only one way is blocked, and where no time passes."""
    run = make_run(make_settings(name, [*SMALL, f"faults={faults}", "fleet.links=free"]), dry=True)
    drive([run], make_executor(run.settings.executor))
    assert isinstance(run.failure, Fruitless) and f"no message of {whose} arrives" in str(run.failure)


def test_hierfavg_goes_on_when_no_edge_server_was_reached():
    """All servers are there: what was lost in this round is no reason to say that none is left."""

    class First(Faults):
        def befalling(self, source, target, number):
            return {"lost": 0.0} if source == -4 and not number else {}

    world = world_with(First((Fault("lost", 1.0),)), [1.0] * 6)
    assert follow(world, HierFAVG(rounds=3, servers=3, participants=2, partial=1, local=LOCAL)) == [1.0, 6.0, 11.0]


@pytest.mark.parametrize("seed", range(8))
def test_weights_on_an_overlay_stay_symmetric_when_messages_are_lost(seed, monkeypatch):
    """A link is used by both of its ends or by neither, also if what is sent again is lost again."""
    monkeypatch.setattr(pfedavg, "Overlay", Watched)
    times = np.random.default_rng(seed).uniform(0.5, 4, 18).tolist()
    world = world_with("lost:0.4", times, seed=seed)
    follow(world, PFedAvg(rounds=ROUNDS, topology="torus:3x3", participants=2, weights="metropolis", local=LOCAL))
    assert_doubly_stochastic(Watched.latest, parse_graph("torus:3x3"))
