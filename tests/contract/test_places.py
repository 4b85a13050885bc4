"""A model exists where it was made and where it was sent: every algorithm keeps to that, whatever happens to it."""

import pytest

from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import Deserted, Fruitless, Misplaced, SiteError
from paceline.learn.graph import combine
from paceline.learn.promises import LocalReadings, Reading
from paceline.learn.recipe import LocalSGD
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from tests.worlds.worlds import learn, play

SMALL = [
    *("clients=8", "rounds=3", "local.steps=1", "partition=iid", "model=logistic", "fleet.times=uniform:0.5,2"),
    *("fleet.links=seconds:0.1,0.1", "fedbuff.concurrency=4", "fedbuff.buffer=2", "fedasync.concurrency=4"),
    *("fedasync.rounds=8", "apfl.rounds=8", "p-fedavg.topology=ring:4", "p-fedavg.participants=2"),
    *("hierfavg.servers=4", "hierfavg.participants=2", "beer.degree=4", "feddst.interval=1", "public=0.1"),
    *("da-dpfl.rounds=5", "da-dpfl.pruning.threshold=1000", "da-dpfl.neighbours.degree=3"),
    *("psfl.participants=6", "psfl.warmup.rounds=2", "feddf.distillation.steps=2"),
]
RULES = ("own", "skip", "wait", "deadline:1")
CASES = [("always", "own"), *(("windows", rule) for rule in RULES)]
CASES += [(presence, rule) for presence in ("duty:6,0.6", "dropout:0.3") for rule in ("skip", "wait")]
CASES += [("dropout:0.05,forever", "own"), ("vanish:0.3,4", "own"), ("vanish:0.3,4", "deadline:1")]


def traits(name):
    settings = make_settings(name, SMALL)
    return settings.algorithm.traits(settings.clients)


@pytest.fixture(scope="module")
def hours(tmp_path_factory):
    """Windows that open and close, some for good."""
    path = tmp_path_factory.mktemp("hours") / "hours.csv"
    rows = [f"d{k},{start},{start + 4 + k}" for k in range(8) for start in (0, 9 + k)]
    path.write_text("device,start,end\n" + "\n".join(rows) + "\n")
    return path


def checked(name, *words):
    run = make_run(make_settings(name, [*SMALL, *words]), check_places=True)
    drive([run], make_executor(run.settings.executor))
    return run


@pytest.mark.parametrize(("presence", "absence"), CASES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_nobody_uses_what_it_was_not_sent(name, presence, absence, hours):
    word = f"windows:{hours},30" if presence == "windows" else presence
    run = checked(name, f"fleet.availability={word}", f"absence={absence}")
    # A fleet that leaves may end a run, and a warm-up may see too few; that is no matter of places.
    assert run.failure is None or isinstance(run.failure, Deserted | Fruitless) or "warm-up" in str(run.failure)
    assert run.world.ledger.visits or run.failure


@pytest.mark.parametrize("presence", ["always", "dropout:0.3", "vanish:0.3,4"])
def test_nor_does_a_server_that_keeps_everybodys_last_model(presence):
    distil = ("apfl.aggregation.rule=distil", "apfl.aggregation.distillation.steps=2")
    run = checked("apfl", "apfl.table=true", *distil, f"fleet.availability={presence}", "apfl.rounds=20")
    assert run.failure is None and run.world.progress == 20


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if traits(name).servers > 1])
@pytest.mark.parametrize("failures", ["server:2@1.5", "link:LINK@1+server:3@2", "servers:4", "links:3"])
def test_nor_do_servers_that_fail(name, failures):
    link = "{}-{}".format(*min(traits(name).links))
    run = checked(name, f"fleet.failures={failures.replace('LINK', link)}", "rounds=6")
    assert run.failure is None or (isinstance(run.failure, SiteError) and not isinstance(run.failure, Misplaced))


# -- the check itself ------------------------------------------------------------------------------------------------


@pytest.fixture
def world():
    return make_run(make_settings("fedavg", SMALL), check_places=True).world


def refused(world, act):
    with pytest.raises(Misplaced):
        learn(world, act())


def test_training_needs_the_model_at_the_client(world):
    async def act():
        trained = await world.train(0, world.initial_model(), LocalSGD())
        await world.train(1, trained, LocalSGD())

    refused(world, act)


def test_what_send_returned_may_be_used_and_what_was_sent_may_not(world):
    async def act():
        trained = await world.train(0, world.initial_model(), LocalSGD())
        arrived = await world.send(trained, 0, 1)
        await world.train(1, arrived, LocalSGD())
        await world.train(1, trained, LocalSGD())

    refused(world, act)


def test_a_mean_of_two_clients_is_nowhere(world):
    async def act():
        one, other = [await world.train(k, world.initial_model(), LocalSGD()) for k in (0, 1)]
        await world.work(world.server, 1.0, combine([(0.5, one), (0.5, other)]))

    refused(world, act)


def test_reading_needs_all_at_one_site_or_each_its_own(world):
    async def act():
        one, other = [await world.train(k, world.initial_model(), LocalSGD()) for k in (0, 1)]
        each = LocalReadings([(one,), (other,)], len)
        assert await world.observe(each) == 2
        await world.observe(Reading([one, other], lambda values: 0))

    refused(world, act)


def test_everybody_has_the_initial_model_and_what_is_made_of_it(world):
    async def act():
        zero = world.initial_model() * 0.0
        await world.send(zero, 3, world.server)
        return await world.train(2, zero, LocalSGD())

    assert learn(world, act()).places == {2}


def test_an_unchecked_world_asks_nothing():
    world = make_run(make_settings("fedavg", SMALL), dry=True).world

    async def act():
        trained = await world.train(0, world.initial_model(), LocalSGD())
        return await world.train(1, trained, LocalSGD())

    assert play(world, act()).places is None
