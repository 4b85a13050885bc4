"""Clients at rest in a fleet that comes and goes: every present client is found, and none twice."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from paceline.algorithms.pool import RestingClients
from paceline.clock import VirtualLoop
from paceline.system.availability import Windows
from paceline.worlds.absence import SKIP
from paceline.worlds.simulation.presence import SimulatedPresence
from tests.effort import calls


class Fleet:
    """So many clients of which a tenth is there at any time, and a third of them at work if they can be."""

    def __init__(self, clients, places):
        self.loop = VirtualLoop()
        self.presence = SimulatedPresence(self.loop, Windows.duty(60, 0.1, seed=0), SKIP)
        world = SimpleNamespace(
            clients=range(clients), presence=self.presence, now=self.loop.time,
            stream=lambda *path: np.random.default_rng(0),
        )  # fmt: skip
        self.resting, self.drawn, self.most = RestingClients(world, places), Counter(), clients // 30

    async def draw(self, times):
        """Take so many clients, one after the other; who was taken first comes back first."""
        working = []
        for _ in range(times):
            client = self.resting.take()
            if client is None:
                client = await self.resting.next()
            assert self.presence.online(client) and client not in working
            self.drawn[client] += 1
            working.append(client)
            if len(working) > self.most:
                await self.loop.at(self.loop.now + 61.7 / self.most)
                self.resting.put_back(working.pop(0))


@pytest.mark.parametrize(("clients", "places"), [(100, 100), (600, 600), (600, 100)])
def test_only_those_are_drawn_who_are_there_and_at_rest(clients, places):
    fleet = Fleet(clients, places)
    fleet.loop.run_until_complete(fleet.draw(20 * clients))
    assert len(fleet.drawn) == clients and max(fleet.drawn.values()) < 60, "everybody, and nobody much more often"


def test_a_pool_closes_when_all_have_gone_for_good():
    fleet = Fleet(300, 300)

    async def main():
        for left in range(300, 0, -1):
            assert fleet.resting.places == 300, f"{left} are left"
            client = fleet.resting.take()
            fleet.resting.put_back(await fleet.resting.next() if client is None else client, for_good=True)
        return await fleet.resting.next()

    assert fleet.loop.run_until_complete(main()) is None and fleet.resting.places == 299


def test_who_comes_is_found_at_the_same_cost_in_a_larger_fleet():
    def a_client(clients):
        fleet = Fleet(clients, clients)
        fleet.most = clients // 5  # whoever is there is at work
        return calls(lambda: fleet.loop.run_until_complete(fleet.draw(4 * clients))) / (4 * clients)

    assert a_client(1_600) < 1.5 * a_client(400)
