"""Servers, links and clients that fail at awkward moments: what a review of P-FedAvg and its baselines found."""

import asyncio
import math

import numpy as np
import pytest

from paceline.algorithms import pfedavg
from paceline.algorithms.dpsgd import DPSGD
from paceline.algorithms.hierfavg import HierFAVG
from paceline.algorithms.pfedavg import PFedAvg
from paceline.errors import Fruitless, SiteError
from paceline.ledger import Ledger
from paceline.system import AlwaysOn, Cost, Fleet, FreeServer
from paceline.system.availability import parse_availability
from paceline.system.compute import parse_times
from paceline.system.failures import Failures
from paceline.topology import Graph, Mixing
from paceline.worlds.absence import SKIP, WAIT
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.machines import simulate
from tests.algorithms.test_overlay import LOCAL, Watched, matrices
from tests.worlds.worlds import SPACE, FixedLinks, Table, follow, play, spans


def world_of(times, links=None, failures=None, availability=None):
    fleet = Fleet(
        size=len(times),
        compute=Table(times),
        links=links or FixedLinks(0.5),
        availability=availability or AlwaysOn(),
        server=FreeServer(),
        failures=failures or Failures(),
    )
    return simulate(fleet, Problem(SPACE, "none", nominal=10), 0, Ledger(), learning=False)


class SlowOneWay(FixedLinks):
    """From server 1 to server 2 it takes long, so that server 1 has used what server 2 does not have yet."""

    def cost(self, source, target, size, now):
        return Cost(5.0 if (source, target) == (-1, -2) else 0.5, 0.0)


def test_a_link_of_negative_weight_is_used_by_both_ends_or_by_neither(monkeypatch):
    """Signed weights (PF-E3): ``_settle_link`` takes a weight below 0 for a link that was not used."""

    def weigh(self, graph: Graph) -> Mixing:
        matrix = np.eye(graph.nodes)
        for i, j in graph.edges:
            weight = -0.1 if (i, j) == (0, 1) else 0.3
            matrix[i, j] = matrix[j, i] = weight
            matrix[i, i] -= weight
            matrix[j, j] -= weight
        return Mixing(graph, "optimal", matrix, True)

    monkeypatch.setattr(pfedavg, "Overlay", Watched)
    monkeypatch.setattr(PFedAvg, "weigh", weigh)
    world = world_of([1.0] * 3, SlowOneWay(0.5), Failures(links={(-2, -1): 4.0}))
    follow(world, PFedAvg(rounds=3, topology="ring:3", participants=1, signed=True, weights="optimal", local=LOCAL))
    for round, matrix in matrices(Watched.latest):
        assert np.allclose(matrix, matrix.T, atol=1e-12), (round, matrix)


def test_a_server_that_is_dead_from_the_start_does_no_round():
    """A server without neighbours waits for nobody: it does all its rounds at t = 0 before it learns that it has
    failed, and the run ends as if all had gone well."""
    world = world_of([1.0] * 4, failures=Failures(servers={-1: 0.0}))
    with pytest.raises(SiteError, match="no server is left at t=0 s; 0 of 3"):
        follow(world, PFedAvg(rounds=3, topology="complete:1", participants=2, local=LOCAL))


def test_hierfavg_says_when_a_server_failed():
    """The report draws its line at the note's time: it must be that of the failure, not the end of the round."""
    world = world_of([10.0] * 6, failures=Failures(servers={-2: 3.0}))
    follow(world, HierFAVG(rounds=2, servers=3, participants=2, local=LOCAL))
    assert [note.time for note in world.chronicle.events if "server 2 has failed" in note.text] == [3.0]


def test_hierfavg_does_not_call_a_broken_link_a_failed_server():
    world = world_of([10.0] * 6, failures=Failures(links={(-4, -2): 3.0}))
    follow(world, HierFAVG(rounds=2, servers=3, participants=2, local=LOCAL))
    (text,) = [note.text for note in world.chronicle.events]
    assert "link" in text and "server 2 has failed" not in text


def test_hierfavg_keeps_what_an_edge_server_had_learned_before_its_clients_left():
    """kappa_2 = 2; the clients of server 2 all leave in its second aggregation: that of the first must still count
    at the cloud, where the weight is that of the last aggregation, 0."""
    seen = []

    class Spied(HierFAVG):
        async def edge(self, world, homes, server, round, model):
            answer = await super().edge(world, homes, server, round, model)
            seen.append((server, answer[0]))
            return answer

    class Leaves:
        """Clients 1 and 3, those of server 2, leave in their second visit."""

        def next_online(self, device, when):
            return when

        def online_until(self, device, now):
            return math.inf

        def leaves(self, device, visit, start, seconds):
            from paceline.system import Leave

            return Leave(start + seconds / 2, start + seconds) if device % 2 and visit == 1 else None

    world = world_of([1.0] * 4, availability=Leaves())
    follow(world, Spied(rounds=1, servers=2, participants=2, partial=2, local=LOCAL))
    assert all(weight > 0 for _, weight in seen), seen


@pytest.mark.parametrize("absence", [SKIP, WAIT], ids=["skip", "wait"])
def test_dpsgd_ends_although_a_clients_windows_are_too_short(absence, tmp_path):
    """Client 0 is there for 2 of every 20 s and needs 5 s: it is asked again for ever, and the run never ends.
    Left out, the others do their two rounds without it; waited for, the run says that nothing comes of that."""
    file = tmp_path / "windows.csv"
    file.write_text("device,start,end\n0,0,2\n1,0,20\n2,0,20\n")
    fleet = Fleet(
        size=3,
        compute=parse_times("constant:5", seed=0, jitter=0.0),
        links=FixedLinks(0.0),
        availability=parse_availability(f"windows:{file},20", seed=0, size=3),
        server=FreeServer(),
    )
    world = simulate(
        fleet, Problem(SPACE, "none", nominal=10), 0, Ledger(keep=False), learning=False, absence=absence
    )
    stuck = 1e6

    async def main():
        run = asyncio.ensure_future(_consume(DPSGD(rounds=2, local=LOCAL), world))
        await asyncio.wait([run, world.loop.at(stuck)], return_when=asyncio.FIRST_COMPLETED)
        assert run.done(), f"still at it after {stuck:g} s"
        return await run

    if absence is SKIP:
        world.loop.run_until_complete(main())
        assert (world.progress, world.now()) == (2, 10.0)
    else:
        with pytest.raises(Fruitless, match="no visit can be finished"):
            world.loop.run_until_complete(main())


async def _consume(algorithm, world):
    async for _ in algorithm.run(world):
        world.progress += 1


def test_what_stands_in_line_for_a_server_that_fails_was_never_on_its_way():
    """A device's link is busy until 5 s, and the server fails at 3 s."""
    world = world_of([1.0], FixedLinks(5.0), Failures(servers={-2: 3.0}))
    model = world.initial_model()

    async def main():
        line = await asyncio.gather(world.send(model, 0, -1), world.send(model, 0, -2), return_exceptions=True)
        return line[1].reason, line[1].at

    assert play(world, main()) == ("failed", 3.0)
    assert spans(world, "start", "end", kinds=["send"]) == [(0.0, 5.0)]
