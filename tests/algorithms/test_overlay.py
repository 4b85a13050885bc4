"""Servers and links that fail in mid-run (PF-5, PF-E5): nothing stops, no client is lost, and in every round the
weights that were really used form a symmetric, doubly stochastic matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.algorithms import pfedavg
from paceline.algorithms.homes import Homes
from paceline.algorithms.overlay import Overlay
from paceline.algorithms.pfedavg import PFedAvg
from paceline.errors import SiteError
from paceline.learn.recipe import LocalSGD
from paceline.ledger import Ledger
from paceline.seeds import stream
from paceline.system import AlwaysOn, Cost, Fleet, FreeServer
from paceline.system.compute import parse_times
from paceline.system.failures import Failures
from paceline.topology import Graph, make_mixing, parse_graph
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.machines import simulate
from tests.worlds.worlds import SPACE, FixedLinks, follow, spans

LOCAL = LocalSGD(lr=0.05, batch=4, steps=3)
ROUNDS, CLIENTS = 12, 36


class Watched(Overlay):
    """Keeps the rows of all rounds."""

    latest = None

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.history = {}
        Watched.latest = self

    def _forget(self, round):
        for r, rows in self.rows.items():
            if r <= round:
                self.history[r] = {node: dict(row) for node, row in rows.items() if node in self.living}
        super()._forget(round)


class Kept(Homes):
    """Can be looked at after the run."""

    latest = None

    def __init__(self, *arguments):
        super().__init__(*arguments)
        Kept.latest = self


@pytest.fixture(autouse=True)
def watched(monkeypatch):
    monkeypatch.setattr(pfedavg, "Overlay", Watched)
    monkeypatch.setattr(pfedavg, "Homes", Kept)


def world_of(failures, seed=0, link=0.4):
    fleet = Fleet(
        size=CLIENTS,
        compute=parse_times("exponential", seed=seed, jitter=0.5),
        links=FixedLinks(link),
        availability=AlwaysOn(),
        server=FreeServer(),
        failures=failures,
    )
    return simulate(fleet, Problem(SPACE, "none", nominal=10), seed, Ledger(), learning=False)


def go(failures, graph="torus:3x3", seed=0, weights="metropolis", link=0.4):
    world = world_of(failures, seed, link)
    times = follow(world, PFedAvg(rounds=ROUNDS, topology=graph, participants=3, weights=weights, local=LOCAL))
    return world, times


def matrices(overlay):
    """Every round's matrix. Of a node that failed only what others used of it counts: its own model is lost, so its
    row is what makes the matrix symmetric."""
    nodes = len(overlay.sites)
    for round, rows in sorted(overlay.history.items()):
        matrix = np.zeros((nodes, nodes))
        for node, row in rows.items():
            for other, weight in row.items():
                matrix[node, other] = weight
        gone = [node for node in range(nodes) if node not in rows]
        matrix[gone] = matrix[:, gone].T
        for node in gone:
            matrix[node, node] = 1.0 - matrix[node].sum()
        yield round, matrix


def assert_doubly_stochastic(overlay, shape):
    support = np.eye(shape.nodes, dtype=bool)
    for i, j in shape.edges:
        support[i, j] = support[j, i] = True
    seen = 0
    for round, matrix in matrices(overlay):
        assert np.allclose(matrix, matrix.T, atol=1e-12), round
        assert np.allclose(matrix.sum(axis=0), 1.0, atol=1e-12), round
        assert (matrix >= -1e-12).all(), round
        assert not matrix[~support].any(), round
        seen += 1
    assert seen == ROUNDS


def assert_every_client_has_a_place(homes, living):
    assert sorted(client for node in living for client in homes.of(node)) == list(range(CLIENTS))


def test_any_server_of_a_torus_may_die_at_any_time():
    """Whichever server it is and whenever: 50 random schedules."""
    rng = stream(11, "deaths")
    lengths = [go(Failures(), seed=seed)[1][-1] for seed in range(7)]
    for k in range(50):
        server, when = int(rng.integers(9)), float(rng.uniform(0, lengths[k % 7]))
        world, times = go(Failures(servers={-1 - server: when}), seed=k % 7)
        assert len(times) == ROUNDS, (server, when)
        overlay = Watched.latest
        assert overlay.living == set(range(9)) - {server}
        assert_every_client_has_a_place(Kept.latest, overlay.living)
        assert_doubly_stochastic(overlay, parse_graph("torus:3x3"))
        assert [note.text for note in world.chronicle.events if f"server {server + 1} has failed" in note.text]
        ends = [end for site, end in spans(world, "site", "end") if site == -1 - server]
        assert all(end <= when for end in ends)  # the dead do nothing


@given(
    graph=st.sampled_from(["torus:3x3", "ring:9", "complete:5", "barbell:3,3", "tree:9", "hypercube:3"]),
    weights=st.sampled_from(["metropolis", "constant", "random"]),
    seed=st.integers(0, 50),
    data=st.data(),
)
def test_links_and_servers_may_fail_together(graph, weights, seed, data):
    """All rounds are done by whoever is left, and every round's matrix is doubly stochastic."""
    shape = parse_graph(graph)
    moments = st.floats(0.0, 60.0)
    links = data.draw(st.dictionaries(st.sampled_from(shape.edges), moments, max_size=5))
    servers = data.draw(st.dictionaries(st.integers(0, shape.nodes - 1), moments, max_size=shape.nodes - 1))
    failures = Failures(
        servers={-1 - k: when for k, when in servers.items()},
        links={(-1 - j, -1 - i): when for (i, j), when in links.items()},
    )
    world, times = go(failures, graph, seed, weights)
    assert len(times) == ROUNDS
    overlay = Watched.latest
    assert_every_client_has_a_place(Kept.latest, overlay.living)
    if all(note.figures["parts"] == 1 for note in world.chronicle.events):
        assert_doubly_stochastic(overlay, shape)


def test_what_is_left_is_weighed_anew():
    """After a death the optimum of the remaining graph, not that of the whole with holes."""
    world, _ = go(Failures(servers={-5: 10.0}), weights="optimal")
    edges = [(i - (i > 4), j - (j > 4)) for i, j in parse_graph("torus:3x3").edges if 4 not in (i, j)]
    best = make_mixing(Graph.of(8, edges), "optimal").p
    assert world.chronicle.events[0].figures == {"nodes": 8, "parts": 1, "p": pytest.approx(best, abs=1e-9)}
    assert_doubly_stochastic(Watched.latest, parse_graph("torus:3x3"))


def test_a_partition_is_found_and_said():
    """Two links of a ring: its parts go on by themselves."""
    world, times = go(Failures(links={(-2, -1): 5.0, (-6, -5): 9.0}), "ring:9")
    assert len(times) == ROUNDS
    first, second = [note for note in world.chronicle.events if "has failed" in note.text]
    assert first.time == 5.0 and "fallen apart" not in first.text and first.figures["p"] > 0
    assert second.time == 9.0 and "{server 2, server 3, server 4, server 5}" in second.text
    assert second.figures["parts"] == 2 and second.figures["p"] == 0.0


def test_clients_go_to_the_nearest_server_with_fewest_clients():
    homes = Homes([1] * CLIENTS, parse_graph("ring:9"))
    moved = homes.reattach(0, {2, 3, 8})
    assert moved == {8: 4}  # one link away; 2 is two links away
    moved = homes.reattach(5, {2, 3, 8})
    assert moved == {3: 4}  # two links away, as far as nobody else is
    assert sorted(client for node in (2, 3, 8, 1, 4, 6, 7) for client in homes.of(node)) == list(range(CLIENTS))


def test_clients_of_a_dead_server_train_for_others():
    world, _ = go(Failures(servers={-5: 10.0}))
    mine = set(range(4, CLIENTS, 9))
    later = [
        (site, peer) for site, peer, start in spans(world, "site", "peer", "start", kinds=("send",)) if start > 10
    ]
    assert {site for site, _ in later} & mine
    assert all(peer != -5 for site, peer in later)


def test_no_server_left_ends_the_run():
    with pytest.raises(SiteError, match=r"no server is left at t=14 s; \d of 12 rounds are done"):
        go(Failures(servers={-1 - k: 6.0 + k for k in range(9)}))


def test_what_one_end_has_used_reaches_the_other_by_way_of_others():
    """A ring of 3 whose link 1-2 breaks when server 1 has mixed with 2's model, but 2 has not got 1's yet."""

    class Slow(FixedLinks):
        def cost(self, source, target, size, now):
            return Cost(5.0 if (source, target) == (-1, -2) else 0.5, 0.0)

    fleet = Fleet(
        size=3,
        compute=parse_times("constant:1", seed=0, jitter=0.0),
        links=Slow(0.5),
        availability=AlwaysOn(),
        server=FreeServer(),
        failures=Failures(links={(-2, -1): 4.0}),
    )
    world = simulate(fleet, Problem(SPACE, "none", nominal=10), 0, Ledger(), learning=False)
    follow(world, PFedAvg(rounds=3, topology="ring:3", participants=1, local=LOCAL))
    rows = Watched.latest.history
    assert rows[0][0][1] == rows[0][1][0] == pytest.approx(1 / 3)
    hops = [(source, target) for source, target, start in spans(world, "site", "peer", "start", kinds=("send",))
            if start >= 4.0 and source < 0 and target < 0]  # fmt: skip
    assert (-1, -3) in hops and (-3, -2) in hops
    assert 1 not in rows[1][0] and 0 not in rows[1][1]  # the link is gone from the next round on
