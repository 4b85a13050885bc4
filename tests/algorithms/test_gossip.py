"""What the rivals without a server share: who sends to whom, who is left out, and which weights are used."""

import numpy as np
import pytest
import torch

from paceline.algorithms.base import somebody
from paceline.algorithms.beer import BEER
from paceline.algorithms.dfedavgm import DFedAvgM
from paceline.algorithms.dfedsam import DFedSAM
from paceline.algorithms.ditto import Ditto
from paceline.algorithms.gossip import draws, equal_shares, heard_by, meet, metropolis_shares, train_and_meet
from paceline.algorithms.gossipfl import GossipFL
from paceline.algorithms.neighbourhoods import Neighbourhoods
from paceline.errors import Deserted
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.recipe import LocalSGD
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import Settings
from paceline.system.availability import parse_availability
from paceline.topology import make_mixing, parse_graph
from paceline.worlds.absence import parse_absence
from tests.algorithms.test_pfedavg import LOCAL, SIZE, world_of
from tests.worlds.worlds import FixedLinks, follow, follow_while_there, play, spans

SHORT = LocalSGD(lr=0.05, batch=20, steps=2)
RING = Neighbourhoods(graph="ring")
RIVALS = {
    "ditto": lambda **words: Ditto(participants=3, personal=SHORT, **words),
    "dfedavgm": lambda **words: DFedAvgM(neighbours=RING, **words),
    "dfedsam": lambda **words: DFedSAM(neighbours=Neighbourhoods(degree=3), **words),
    "gossipfl": GossipFL,
    "beer": lambda **words: BEER(degree=4, **{**words, "local": LocalSGD(lr=0.05, batch=20, steps=1)}),
}


def personal(algorithm, world):
    """Every round's personal models, as an array of clients by weights."""

    async def main():
        found = []
        async for progress in algorithm.run(world):
            world.progress += 1
            found.append(progress.model)
        return found

    found = world.loop.run_until_complete(main())
    Executor(CohortTrainer()).run([model for models in found for model in models])
    return [np.array([model.value.numpy() for model in models]) for models in found]


@pytest.mark.parametrize("name", RIVALS)
def test_a_dry_run_has_the_same_timeline_and_costs(name):
    """Through the machinery of the command line: scored on each client's own test rows, or not learned at all."""
    settings = Settings(name=name, algorithm=RIVALS[name](rounds=3, local=SHORT), clients=12, partition="exdir:2,10")
    runs = [make_run(settings), make_run(settings, dry=True)]
    drive(runs, make_executor(settings.executor))
    assert [run.failure for run in runs] == [None, None]
    learned, dry = (run.rows for run in runs)
    assert len(learned) == 3 and all(0 < row["accuracy"] <= 1 for row in learned)
    for one, other in zip(learned, dry, strict=True):
        assert all(one[key] == other[key] for key in ("time", "bytes", "visits", "idle_share"))


@pytest.mark.parametrize("name", RIVALS)
def test_clients_that_come_and_go_end_no_run(name):
    """Who comes back is there in all 12 rounds; where visits may be the last the run goes on with fewer, or ends."""
    for words in ("dropout:0.3", "dropout:0.05,forever", "dropout:0.6,forever"):
        algorithm, coming = RIVALS[name](rounds=12, local=LOCAL), parse_availability(words, seed=1, size=8)
        absence = parse_absence(algorithm.traits(8).absence)
        world = world_of([1.0] * 8, FixedLinks(0.1), availability=coming, absence=absence)
        times, end = follow_while_there(world, algorithm)
        assert times == sorted(times)
        if end is None:
            assert len(times) == 12
        else:
            assert words != "dropout:0.3" and 1 <= len(times) < 12
            assert end == f"every client has left for good at t={world.now():g} s; {len(times)} of 12 rounds are done"
            assert not any(map(world.presence.online, world.clients))


@pytest.mark.parametrize("name", ["dfedavgm", "dfedsam", "gossipfl"])
def test_who_leaves_is_left_out_and_keeps_its_model(name):
    world = world_of([1.0] * 6, FixedLinks(0.1), availability=parse_availability("dropout:0.3", seed=1, size=6))

    async def main():
        return [progress.info["clients"] async for progress in RIVALS[name](rounds=10, local=LOCAL).run(world)]

    counts = play(world, main())
    assert len(counts) == 10 and min(counts) < 6  # all 60 visits to their end: 0.7**60, about 5e-10


def test_meeting_ends_when_nobody_is_left():
    world = world_of([1.0] * 2, availability=parse_availability("dropout:0.9,forever", seed=3, size=2))

    def meeting():
        return train_and_meet(world, [[1], [0]], [world.initial_model()] * 2, LOCAL)

    async def main():
        for done in range(100):
            await somebody(world, done, 100)
            await meeting()

    with pytest.raises(Deserted, match=r"every client has left for good at t=.* of 100 rounds are done"):
        play(world, main())
    assert play(world, meeting()).trained == {}, "those who have gone are left out"


def test_what_is_sent_is_heard_by_those_who_asked():
    hears = [(1, 2), (2,), (0,), (0, 1, 2)]
    world = world_of([1.0, 2.0, 3.0, 4.0], FixedLinks(0.5))

    async def main():
        return await meet(
            world,
            hears,
            lambda client: world.train(client, world.initial_model(), LOCAL),
            lambda client, trained: trained,
        )

    met = play(world, main())
    assert {client: sorted(came) for client, came in met.heard.items()} == {
        client: sorted({client, *sources}) for client, sources in enumerate(hears)
    }
    sent = {(site, peer) for site, peer in spans(world, "site", "peer", kinds=("send",))}
    assert sent == {(source, client) for client, sources in enumerate(hears) for source in sources}
    begins = dict(spans(world, "site", "start", kinds=("send",)))
    assert begins[1] >= 2.0 and begins[0] < 3.0  # each as soon as it has trained, whoever trains still


def test_a_complete_graph_has_no_queues():
    """n - 1 transfers of one second each, every client sending and receiving all the time."""
    count = 7
    world = world_of([1.0] * count, FixedLinks(1.0))
    times = follow(world, DFedSAM(rounds=1, neighbours=Neighbourhoods(graph="complete"), local=LOCAL))
    assert times == [1.0 + count - 1]
    assert world.ledger.wait_seconds == 0 and world.ledger.bytes == count * (count - 1) * SIZE
    assert heard_by([[1, 2], [0, 2], [0, 1]]) == [[1, 2], [2, 0], [0, 1]]


@pytest.mark.parametrize("word", ["ring:9", "star:9", "torus:3x3", "tree:9"])
def test_metropolis_shares_are_the_matrix_of_the_topology(word):
    graph = parse_graph(word)
    everybody = {client: [client, *near] for client, near in enumerate(graph.neighbours)}
    rows = metropolis_shares(graph.neighbours, everybody)
    matrix = np.zeros((9, 9))
    for client, row in rows.items():
        for other, weight in row.items():
            matrix[client, other] = weight
    assert np.allclose(matrix, make_mixing(graph, "metropolis").matrix, rtol=0, atol=1e-15)


def test_metropolis_shares_stay_doubly_stochastic_when_somebody_is_missing():
    graph = parse_graph("torus:3x3")
    heard = {client: {client, *near} for client, near in enumerate(graph.neighbours)}
    del heard[4]  # did not finish its training, though others have what it once sent
    heard[0].discard(1)  # this one lost on the way: then 1 must not use that of 0
    rows = metropolis_shares(graph.neighbours, heard)
    matrix = np.zeros((9, 9))
    for client, row in rows.items():
        for other, weight in row.items():
            matrix[client, other] = weight
    assert np.array_equal(matrix, matrix.T) and matrix[0, 1] == 0 == matrix[4].sum()
    assert np.allclose(np.delete(matrix, 4, 0).sum(axis=1), 1.0) and (matrix >= 0).all()


def test_equal_shares():
    assert equal_shares({3: [5, 3, 1], 4: [4]}) == {3: {1: 1 / 3, 3: 1 / 3, 5: 1 / 3}, 4: {4: 1.0}}


def test_draws_have_an_address():
    """The mean of 100,000 uniform draws is within 5 standard errors of 1/2: a false alarm in 1.7 million."""
    like = torch.zeros(100_000)
    one, other = draws(7, like), draws(8, like)
    assert torch.equal(one, draws(7, like)) and not torch.equal(one, other)
    assert torch.equal(one[:10], draws(7, torch.zeros(3, 10)))
    assert abs(float(one.mean()) - 0.5) < 5 / np.sqrt(12 * 100_000)
