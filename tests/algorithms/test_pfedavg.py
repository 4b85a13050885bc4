"""P-FedAvg (PF-1 ... PF-5): the matrix formula, who waits for whom, traffic by the ledger, clients' weights."""

from collections import Counter

import numpy as np
import pytest

from paceline.algorithms.pfedavg import PFedAvg
from paceline.algorithms.psfl import PSFL
from paceline.data.quadratic import Quadratic
from paceline.errors import SettingError
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.recipe import LocalSGD
from paceline.ledger import Ledger
from paceline.seeds import stream
from paceline.system import AlwaysOn, Fleet, FreeServer
from paceline.system.failures import Failures
from paceline.topology import make_mixing, parse_graph
from paceline.worlds.absence import SKIP
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.machines import simulate
from tests.worlds.worlds import SPACE, FixedLinks, Table, follow, quadratic_world, spans

LOCAL = LocalSGD(lr=0.05, batch=4, steps=3, loss="squared")
GRAPHS = ("complete:9", "torus:3x3", "ring:9", "tree:9", "barbell:3,3", "star:9")
SIZE = SPACE.size * 4


def world_of(times, links=None, seed=0, availability=None, failures=None, absence=SKIP):
    fleet = Fleet(
        size=len(times),
        compute=Table(times),
        links=links or FixedLinks(0.0),
        availability=availability or AlwaysOn(),
        server=FreeServer(),
        failures=failures or Failures(),
    )
    return simulate(fleet, Problem(SPACE, "none", nominal=10), seed, Ledger(), learning=False, absence=absence)


def quadratics(clients, dimension=3, sigma2=0.3):
    rng = stream(5, "quadratics")
    curvature = np.tile(np.eye(dimension), (clients, 1, 1))
    return Quadratic(curvature=curvature, centre=rng.normal(size=(clients, dimension)), sigma2=sigma2)


def outcome(algorithm, problem, seed=3):
    """Every round's average model and servers' models, as vectors."""
    world = quadratic_world(problem, seed=seed)

    async def main():
        found = []
        async for progress in algorithm.run(world):
            world.progress += 1
            found.append((progress.model, progress.others.get("servers", ())))
        return found

    found = world.loop.run_until_complete(main())
    Executor(CohortTrainer()).run([model for one, others in found for model in (one, *others)])
    return [(one.value.numpy(), np.array([other.value.numpy() for other in others])) for one, others in found]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"rounds": 0}, "rounds is 0"),
        ({"weights": "metropolitan"}, "metropolis"),
        ({"participants": 0}, "1 or more"),
        ({"participants": 5}, "set participants to 4 or less"),
        ({"topology": "torus:9x9"}, "81 servers for 36 clients"),
        ({"topology": "rong:9"}, "ring"),
    ],
)
def test_impossible_settings_are_refused(overrides, said):
    with pytest.raises(SettingError, match=said):
        PFedAvg(**overrides).check(36)


def test_more_participants_than_clients_are_possible_with_replacement():
    PFedAvg(participants=5, replacement=True).check(36)


@pytest.mark.parametrize("weights", ["metropolis", "optimal", "random"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_one_round_is_the_matrix_formula(graph, weights):
    """PF-5, Eq. 9: the columns of X are those of V times W; V by training every client by itself."""
    problem = quadratics(18)
    algorithm = PFedAvg(rounds=1, topology=graph, weights=weights, participants=None, local=LOCAL)
    ((average, servers),) = outcome(algorithm, problem)

    world = quadratic_world(problem)

    async def alone():
        return [await world.train(client, world.initial_model(), LOCAL) for client in world.clients]

    models = world.loop.run_until_complete(alone())
    Executor(CohortTrainer()).run(models)
    clients = np.array([model.value.numpy() for model in models])
    v = np.array([clients[k::9].mean(axis=0) for k in range(9)])
    w = make_mixing(parse_graph(graph), weights).matrix
    assert np.allclose(servers, w @ v, rtol=0, atol=1e-12)
    assert np.allclose(average, v.mean(axis=0), rtol=0, atol=1e-12)  # doubly stochastic: mixing keeps the mean


def test_a_single_server_is_fedavg():
    """M = 1, all clients: the same bits, round by round."""
    problem = quadratics(6)
    ours = outcome(PFedAvg(rounds=4, topology="complete:1", participants=None, local=LOCAL), problem)
    fedavg = outcome(PSFL(rounds=4, participants=6, width=6, length=1, sampler="uniform", local=LOCAL), problem)
    for (one, _), (other, _) in zip(ours, fedavg, strict=True):
        assert np.allclose(one, other, rtol=0, atol=1e-12)


def test_a_server_waits_for_its_neighbours_only():
    """A ring of 6 with one slow client at server 1: after r rounds only servers within r links have waited for it."""
    times = [10.0] + [1.0] * 5
    world = world_of(times)
    follow(world, PFedAvg(rounds=3, topology="ring:6", participants=None, local=LOCAL))
    begins = {site: [] for site in range(6)}
    for site, start in spans(world, "site", "start", kinds=("train",)):
        begins[site].append(start)
    assert begins[3] == [0.0, 1.0, 2.0]  # opposite of the slow one: it is three links away
    assert (
        begins[2] == begins[4] == [0.0, 1.0, 11.0]
    )  # who are at 10 with the second round of a neighbour that waited
    assert begins[1] == begins[5] == [0.0, 10.0, 20.0]
    assert begins[0] == [0.0, 10.0, 20.0]


def test_waits_name_the_neighbour_that_was_late():
    world = world_of([10.0] + [1.0] * 5)
    follow(world, PFedAvg(rounds=1, topology="ring:6", participants=None, local=LOCAL))
    late = {(site, peer) for site, peer in spans(world, "site", "peer", kinds=("wait",)) if site < 0}
    assert (-2, -1) in late and (-6, -1) in late
    assert not any(site in (-3, -4, -5) and peer == -1 for site, peer in late)


@pytest.mark.parametrize("graph", GRAPHS)
def test_traffic_of_the_ledger_is_the_papers(graph):
    """PF-9: in all 2Ks + |L - I|s, at most max 2(K_i + deg_i)s, over the rounds."""
    world, rounds = world_of([1.0] * 90, FixedLinks(0.1)), 3
    follow(world, PFedAvg(rounds=rounds, topology=graph, participants=4, local=LOCAL))
    shape, totals = parse_graph(graph), world.ledger.totals()
    assert totals.bytes == rounds * (2 * 36 + 2 * len(shape.edges)) * SIZE
    assert totals.busiest_bytes == rounds * 2 * (4 + max(shape.degrees)) * SIZE


def test_rounds_of_the_ledger_and_learning_rates_are_the_servers_own():
    world = world_of([10.0] + [1.0] * 5)
    follow(world, PFedAvg(rounds=3, topology="ring:6", participants=None, local=LOCAL))
    assert [r for site, r in spans(world, "site", "round", kinds=("train",)) if site == 3] == [0, 1, 2]


def test_replacement_counts_a_client_as_often_as_it_was_drawn():
    """Three draws from one client and one from nobody else: it trains once a round."""
    world = world_of([1.0, 1.0, 1.0])
    follow(world, PFedAvg(rounds=20, topology="complete:1", participants=3, replacement=True, local=LOCAL))
    visits = Counter(r for (r,) in spans(world, "round", kinds=("train",)))
    assert min(visits.values()) < 3  # a repetition in 20 rounds of 3 draws of 3: all but certain (1 - (2/9)^20)


def test_samples_as_the_objective_move_the_fixed_point():
    """PF-E7: with one full-batch step a round on a complete graph, the limit is the mean of the centres weighted
    by clients or by samples; here all clients have as many samples, but servers not as many clients."""
    problem = quadratics(5, sigma2=0.0)
    local = LocalSGD(lr=0.2, batch=6, steps=1, loss="squared")
    base = {"rounds": 150, "topology": "complete:2", "participants": None, "local": local}
    by_clients = outcome(PFedAvg(**base), problem)[-1][0]
    by_samples = outcome(PFedAvg(**base, objective="samples"), problem)[-1][0]
    servers = problem.centre[0::2].mean(axis=0), problem.centre[1::2].mean(axis=0)
    assert np.allclose(by_clients, np.mean(servers, axis=0), atol=1e-6)
    assert np.allclose(by_samples, problem.centre.mean(axis=0), atol=1e-6)
    assert not np.allclose(by_clients, by_samples, atol=1e-2)


def test_blocks_are_neighbouring_clients():
    world = world_of([1.0] * 10)
    follow(world, PFedAvg(rounds=1, topology="ring:3", participants=None, layout="blocks", local=LOCAL))
    pairs = {(min(a, b), max(a, b)) for a, b in spans(world, "site", "peer", kinds=("send",)) if a >= 0}
    assert pairs == {(-1 - k, c) for k, block in enumerate((range(3), range(3, 6), range(6, 10))) for c in block}
