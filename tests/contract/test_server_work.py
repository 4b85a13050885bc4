"""Every model that a server makes of several costs it time: no algorithm aggregates for nothing.

Machines that check places know where every model is. Here they know of a server's models besides whether one has come
in a message or was worked at (``CLEAN``): algebra on two of them leaves neither mark, until the server has worked.
"""

from dataclasses import dataclass, field, replace
from itertools import count

import pytest

import paceline
from paceline.algorithms.registry import ALGORITHMS
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.worlds.places import CheckedMachines
from paceline.worlds.simulation import machines as simulation
from tests.contract.test_places import SMALL

CLEAN = 10**9
"""A place that only models have that were worked at; messages that came have one each above it."""


class Unpaid(Exception):
    """A server sends or shows what it has made of several models for nothing."""


class ChargedMachines(CheckedMachines):
    """Machines that find an aggregation for which no server worked."""

    def __init__(self, machines):
        super().__init__(machines)
        self._numbers = count(CLEAN + 1)

    async def carry(self, models, source, target, round, *, waits):
        if source < 0:
            self._require_paid(models)
        arrived = await super().carry(models, source, target, round, waits=waits)
        for model in arrived if target < 0 else ():
            model.places |= {next(self._numbers)}
        return arrived

    async def work(self, site, flops, round, model):
        made = await super().work(site, flops, round, model)
        self._mark(made, site)
        return made

    def _mark(self, model, site):
        """A model, and what it was made of on the way: masks beside weights, say."""
        if model.places is not None and site in model.places and CLEAN not in model.places:
            model.places |= {CLEAN}
            for parent in model.parents:
                self._mark(parent, site)

    def bring(self, models):
        self._require_paid([model for model in models if model.places and min(model.places) < 0])

    def _require_paid(self, models):
        for model in models:
            if model.places is not None and max(model.places) < CLEAN:
                raise Unpaid(f"a model of servers {sorted(model.places)} was made of several, and nobody worked")


def performed(monkeypatch, name, *words, algorithm=None):
    """A run whose server's work takes a second each time."""
    monkeypatch.setattr(simulation, "CheckedMachines", ChargedMachines)
    settings = make_settings(name, [*SMALL, "fleet.server=constant:1", *words])
    run = make_run(replace(settings, algorithm=algorithm or settings.algorithm), check_places=True)
    drive([run], make_executor(run.settings.executor))
    return run


VARIANTS = [
    *((name, ()) for name in ALGORITHMS),
    ("feddf", ("feddf.teach=false",)),
    ("hierfavg", ("hierfavg.partial=1", "hierfavg.participants=1")),
    ("apfl", ("apfl.table=true",)),
    ("spfl", ("spfl.aggregate=models",)),
    ("fedavg", ("fedavg.server.rule=adam",)),
]


@pytest.mark.parametrize(("name", "words"), VARIANTS)
def test_no_algorithm_aggregates_for_nothing(monkeypatch, name, words):
    run = performed(monkeypatch, name, *words)
    assert run.failure is None, run.failure
    works = [row for row in run.world.ledger.table().to_pylist() if row["kind"] == "work"]
    assert bool(works) == bool(run.traits.servers)
    assert all(row["flops"] > 0 for row in works)


@dataclass(frozen=True, kw_only=True)
class Own(paceline.Algorithm):
    """FedAvg by hand, whose server works or does not."""

    pays: bool
    rounds: int = 2
    local: paceline.LocalSGD = field(default_factory=lambda: paceline.LocalSGD(steps=1))

    async def run(self, world):
        model = world.initial_model()
        for _ in range(self.rounds):
            ends = await world.gather(paceline.visit(world, client, model, self.local) for client in world.clients)
            model = paceline.mean(ends)
            if self.pays:
                model = await paceline.aggregated(world, model, len(ends))
            yield paceline.Progress(model)


def test_one_of_a_users_own_is_found_too(monkeypatch):
    assert performed(monkeypatch, "fedavg", algorithm=Own(pays=True)).failure is None
    found = performed(monkeypatch, "fedavg", algorithm=Own(pays=False))
    assert isinstance(found.failure.__cause__, Unpaid)


WORDS = [
    *("clients=36", "rounds=10", "fedavg.width=36", "fleet.times=constant:2", "fleet.jitter=0"),
    *("fleet.links=free", "fleet.availability=always", "partition=iid"),
]


@pytest.mark.parametrize(
    ("name", "free", "seconds"),
    [
        ("fedavg", 20, 10 * (2 + 5)),
        ("fedbuff", 10, 2 + 10 * 5),  # two buffers are filled every 2 s, so the server is never idle after that
        ("fedasync", 2, 2 + 10 * 5),
        ("p-fedavg", 20, 10 * (2 + 5 + 5)),  # a server averages its clients' models, then its neighbours'
        ("hierfavg", 40, 10 * (2 * (2 + 5) + 5)),  # twice at the edge, once at the cloud
    ],
)
def test_a_round_takes_as_long_as_its_aggregations(name, free, seconds):
    for server, wanted in (("free", free), ("constant:5", seconds)):
        run = make_run(make_settings(name, [*WORDS, f"fleet.server={server}"]), dry=True)
        drive([run], make_executor(run.settings.executor))
        assert run.failure is None
        assert run.world.now() == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["fedbuff", "fedasync"])
def test_no_more_updates_wait_at_a_slow_server_than_clients_can_be_at_work(name):
    """Else a server that is slower than its clients would have ever more to keep, and ever staler ones."""
    words = ["clients=36", f"{name}.concurrency=4", "rounds=60", "fleet.times=constant:1", "fleet.jitter=0"]
    run = make_run(make_settings(name, [*words, "fleet.server=constant:20", "fedbuff.buffer=2"]), dry=True)
    drive([run], make_executor(run.settings.executor))
    taken = 60 * (2 if name == "fedbuff" else 1)
    assert taken <= run.world.ledger.visits <= taken + 3 * 4
    assert max(run.world.chronicle.counts["staleness"]) <= 3 * 4
