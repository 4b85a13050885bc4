"""Differential privacy of runs: who can have it, what leaves a client, and what ε that comes to."""

import gc
import json
import math
import weakref
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

import paceline
from paceline.algorithms.base import Progress, Reading, Sums, Traits, mean, visit
from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import SettingError
from paceline.learn.recipe import LocalSGD
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.worlds.privacy import settings as privacy_settings
from paceline.worlds.privacy.machines import PrivateMachines
from paceline.worlds.privacy.settings import Privacy
from paceline.worlds.privacy.spending import Spending, composed, sampled
from paceline.worlds.simulation.machines import SimulatedMachines
from tests.contract.test_places import SMALL
from tests.worlds.worlds import spans

PRIVATE = {
    **{"fedavg": Sums(8, drawn=True), "spfl": Sums(8), "dga@extra=false": Sums(8), "ditto": Sums(8, drawn=True)},
    **dict.fromkeys(("apfl", "mifa", "feddf", "p-fedavg", "hierfavg", "fedasync", "fedbuff"), Sums(1)),
}
REFUSED = {
    "sfl": "passes through several clients",
    "psfl": "warm-up compares gradients",
    "psfl@width=2,length=2": "passes through several clients",
    "dga": "dga.extra=false can",
    "feddst": "clients send masks",
    **dict.fromkeys(("dpsgd", "da-dpfl", "dispfl", "gossipfl", "dfedavgm", "dfedsam", "beer"), "no server"),
}
DP = ["privacy.clip=0.5", "privacy.noise=2"]


def made(name, *words, **options):
    return make_run(make_settings(name, [*SMALL, *words]), **options)


def ran(name, *words, **options):
    run = made(name, *words, **options)
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None, run.failure
    return run


# -- who can have it ------------------------------------------------------------------------------------------------


def test_every_algorithm_is_private_or_refused():
    assert {name.partition("@")[0] for name in (*PRIVATE, *REFUSED)} == set(ALGORITHMS)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name_with_the_reason(name):
    with pytest.raises(SettingError, match=f"{name.partition('@')[0]} cannot be made private: .*{REFUSED[name]}"):
        made(name, *DP)


@pytest.mark.parametrize("name", PRIVATE)
def test_private_runs_learn_and_say_what_they_spent(name):
    pytest.importorskip("dp_accounting")
    settings = make_settings(name, SMALL)
    assert settings.algorithm.traits(settings.clients).private == PRIVATE[name]
    run = ran(name, *DP, check_places=True)
    spent = [row["epsilon"] for row in run.rows]
    assert spent == sorted(spent) and spent[0] > 0
    assert run.summary()["privacy"]["epsilon"] >= spent[-1]  # an asynchronous server may have had more since
    assert run.summary()["privacy"]["delta"] == 8**-1.1
    assert json.loads(json.dumps(run.summary()["privacy"]))


def test_weights_and_robust_means_protect_each_upload_by_itself():
    pytest.importorskip("dp_accounting")
    for words in (["fedavg.server.weights=samples"], ["fedavg.aggregation.rule=median"]):
        assert make_settings("fedavg", [*SMALL, *words]).algorithm.sums() == Sums(1)
    assert make_settings("fedavg", [*SMALL, "fedavg.sampler=weighted"]).algorithm.sums() == Sums(8)
    assert make_settings("fedavg", [*SMALL, "fedavg.server.rule=adam"]).algorithm.sums() == Sums(8, drawn=True)
    alone = made("fedavg", *DP, "fedavg.aggregation.rule=median").world.spending
    assert alone.deviation == 1.0
    assert made("fedavg", *DP).world.spending.deviation == pytest.approx(1.0 / math.sqrt(8))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["privacy.clip=0"], "privacy.clip is 0.*greater than 0"),
        (["privacy.clip=-1"], "privacy.clip is -1"),
        (["privacy.clip=nan"], "privacy.clip is nan"),
        (["privacy.clip=inf"], "privacy.clip is inf"),
        (["privacy.clip=1", "privacy.noise=-0.1"], "privacy.noise is -0.1.*0 or more"),
        (["privacy.clip=1", "privacy.noise=inf"], "privacy.noise is inf"),
        (["privacy.clip=1", "privacy.delta=0"], "privacy.delta is 0"),
        (["privacy.clip=1", "privacy.delta=1"], "privacy.delta is 1"),
        (["privacy.noise=1"], "privacy.clip is not given"),
        (["privacy.delta=0.1"], "privacy.clip is not given"),
        (["privacy.epsilon=1"], "unknown setting.*epsilon"),
        (["privacy=1"], "privacy"),
    ],
)
def test_bad_words_are_refused(words, message):
    with pytest.raises(SettingError, match=message):
        make_settings("fedavg", words)


def test_without_the_package_noise_is_refused(monkeypatch):
    monkeypatch.setattr(privacy_settings, "PACKAGE", "no_such_package")
    with pytest.raises(SettingError, match=r"install the extra `privacy`; see docs/install.md"):
        made("fedavg", *DP)
    assert made("fedavg", "privacy.clip=1").world.spending is not None  # clipping needs none


def test_the_local_world_refuses():
    from paceline.runs.local import make_local_run

    with pytest.raises(SettingError, match=r"privacy\.clip is given, but real devices"):
        make_local_run(make_settings("fedavg", ["privacy.clip=1"]), workers=1)


# -- what leaves a client -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Leaky(paceline.Algorithm):
    """Clients that send what they should not."""

    rounds: int = 1
    leak: str = ""
    local: LocalSGD = field(default_factory=lambda: LocalSGD(steps=1))

    def traits(self, clients):
        """It says that it is private."""
        return Traits(rounds=1, local=self.local, absence="skip", private=Sums())

    async def run(self, world):
        """One of several leaks, or none."""
        start = await world.send(world.initial_model(), world.server, 0)
        trained = await world.train(0, start, self.local)
        if self.leak == "personal":  # trained from a model of its own, so that this is in what it sends
            trained = await world.train(0, trained, self.local)
        elif self.leak == "gradient":
            trained = await world.learning.probe(0, start, self.local)
        elif self.leak == "peer":
            await world.send(trained, 0, 1)
        elif self.leak == "twice":
            await world.send_all([trained, trained], 0, world.server)
        elif self.leak == "mixture":
            trained = 0.5 * (await world.train(0, start, self.local)) + 0.5 * trained
        elif self.leak == "observed":
            await world.observe(Reading([trained], lambda values: float(values[0].norm())))
        yield Progress(await world.send(trained, 0, world.server))


@pytest.mark.parametrize("leak", ["personal", "gradient", "peer", "twice", "mixture", "observed"])
def test_what_is_no_update_does_not_leave(leak):
    name = f"tests.worlds.test_privacy:Leaky@leak={leak}"
    for words, told in ([], None), (["privacy.clip=1"], "privacy.clip"):
        run = made(name, *words)
        drive([run], make_executor(run.settings.executor))
        assert run.failure is None if told is None else told in str(run.failure)


def test_an_update_leaves():
    assert ran("tests.worlds.test_privacy:Leaky", "privacy.clip=1").rows


@dataclass(frozen=True, kw_only=True)
class Repeating(paceline.Algorithm):
    """A client that sends the same upload in every round."""

    rounds: int = 3
    together: int = 1
    local: LocalSGD = field(default_factory=lambda: LocalSGD(steps=1))

    def traits(self, clients):
        """It says that it is private."""
        return Traits(rounds=self.rounds, local=self.local, absence="skip", private=Sums(self.together))

    async def run(self, world):
        """One visit, many uploads."""
        start = await world.send(world.initial_model(), world.server, 0)
        trained = await world.train(0, start, self.local)
        for _ in range(self.rounds):
            yield Progress(await world.send(trained, 0, world.server))


@pytest.mark.parametrize(("together", "counted"), [(1, 1), (2, 3)])
def test_the_same_upload_again_tells_nothing_new_unless_it_is_in_another_sum(together, counted):
    """By itself it has the same noise each time; added up with others' it has other noise around it."""
    pytest.importorskip("dp_accounting")
    run = ran(f"tests.worlds.test_privacy:Repeating@together={together}", *DP)
    assert run.summary()["privacy"]["most_uploads"] == counted
    assert len({row["loss"] for row in run.rows}) == 1  # the same noise, to the bit


def test_uploads_that_are_lost_are_let_go(monkeypatch):
    """With them the models that they were trained from: one a round, for as long as the run goes on."""
    made_of, whole = [], PrivateMachines._hidden

    def noted(self, trained, client):
        made_of.append(weakref.ref(self._starts[trained]))
        return whole(self, trained, client)

    monkeypatch.setattr(PrivateMachines, "_hidden", noted)
    run = ran("fedavg", "privacy.clip=1", "faults=lost:0.3", "rounds=12")
    gc.collect()
    assert len(made_of) > 40 and len({start() for start in made_of} - {None}) <= 2
    assert run.rows


def test_algorithms_that_say_nothing_are_refused():
    @dataclass(frozen=True, kw_only=True)
    class Mine(paceline.Algorithm):
        rounds: int = 1
        local: LocalSGD = field(default_factory=LocalSGD)

        async def run(self, world):
            yield Progress(mean([await visit(world, 0, world.initial_model(), self.local)]))

    with pytest.raises(SettingError, match=r"does not say .*Traits\.private"):
        paceline.run(Mine(), settings={"privacy.clip": 1.0, "clients": 4}, out=None)


# -- without it, nothing changes ------------------------------------------------------------------------------------


def test_without_privacy_nothing_is_touched():
    run = ran("fedavg")
    assert isinstance(run.world.machines, SimulatedMachines) and run.world.spending is None
    assert "privacy" not in run.summary() and "epsilon" not in run.rows[-1]
    assert isinstance(ran("fedavg", "privacy.clip=1").world.machines, PrivateMachines)


@pytest.mark.parametrize("name", [name for name in PRIVATE if name != "feddf"])
def test_a_clip_that_nothing_reaches_changes_no_bit(name):
    plain, clipped = ran(name), ran(name, "privacy.clip=1000")
    assert clipped.rows == plain.rows
    assert spans(clipped.world, "kind", "site", "start", "end") == spans(plain.world, "kind", "site", "start", "end")
    assert clipped.summary()["privacy"]["epsilon"] is None


def test_dittos_personal_models_are_not_noised():
    """They never leave their clients: with huge noise they learn, pulled by nothing, as without privacy."""
    pytest.importorskip("dp_accounting")
    words = ["ditto.personal.prox=0"]
    plain, noised = ran("ditto", *words), ran("ditto", *words, "privacy.clip=1", "privacy.noise=100")
    assert [row["loss"] for row in noised.rows] == [row["loss"] for row in plain.rows]
    assert noised.rows[-1]["loss_global"] != plain.rows[-1]["loss_global"]


# -- what it comes to -----------------------------------------------------------------------------------------------


def accountant(*events, relation="REPLACE_ONE", kind="rdp"):
    """dp-accounting's own."""
    dp = pytest.importorskip("dp_accounting")
    relation = getattr(dp.NeighboringRelation, relation)
    found = (dp.rdp.RdpAccountant if kind == "rdp" else dp.pld.PLDAccountant)(neighboring_relation=relation)
    for event, count in events:
        found.compose(event, count)
    return found


@pytest.mark.parametrize(
    ("clients", "drawn", "noise", "rounds"), [(40, 4, 4, 7), (1000, 20, 1, 100), (300, 5, 9, 50), (60, 1, 2, 30)]
)
def test_epsilon_of_drawn_clients_is_dp_accountings(clients, drawn, noise, rounds):
    """A dry run of FedAvg; m of N without replacement, one client replaced: its update moves by 2C, so z/2."""
    dp = pytest.importorskip("dp_accounting")
    words = [f"clients={clients}", f"fedavg.participants={drawn}", f"rounds={rounds}", f"privacy.noise={noise}"]
    run = make_run(make_settings("fedavg", [*words, "privacy.clip=3", "privacy.delta=1e-5"]), dry=True)
    drive([run], make_executor(run.settings.executor))
    event = dp.SampledWithoutReplacementDpEvent(clients, drawn, dp.GaussianDpEvent(noise / 2))
    for row in (run.rows[0], run.rows[len(run.rows) // 2], run.rows[-1]):
        want = accountant((event, row["round"])).get_epsilon(1e-5)
        visits = [site for site, r in spans(run.world, "site", "round", kinds=["train"]) if r < row["round"]]
        unsampled = dp.get_epsilon_gaussian(noise / 2 / math.sqrt(max(Counter(visits).values())), 1e-5)
        assert row["epsilon"] == (want if want < unsampled else pytest.approx(unsampled, rel=1e-12))
    bounds = run.summary()["privacy"]["bounds"]
    assert bounds["sampled"] == want and bounds["composition"] == pytest.approx(unsampled, rel=1e-12)


@pytest.mark.parametrize("name", ["fedbuff", "fedasync", "apfl", "mifa", "p-fedavg", "hierfavg"])
def test_epsilon_of_single_uploads_counts_those_of_the_busiest_client(name):
    """No amplification: k Gaussian mechanisms of multiplier z/2, whose ε dp-accounting's PLDs give too."""
    dp = pytest.importorskip("dp_accounting")
    run = ran(name, *DP)
    uploads = Counter(site for (site,) in spans(run.world, "site", kinds=["send"]) if site >= 0)
    most = max(uploads.values())
    found = run.summary()["privacy"]
    assert found["most_uploads"] == most and list(found["bounds"]) == ["composition"]
    want = accountant((dp.GaussianDpEvent(2 / 2), most), relation="ADD_OR_REMOVE_ONE", kind="pld")
    assert found["epsilon"] == pytest.approx(want.get_epsilon(8**-1.1), rel=1e-3)
    assert found["epsilon"] == pytest.approx(dp.get_epsilon_gaussian(1 / math.sqrt(most), 8**-1.1), rel=1e-12)


def test_where_clients_leave_nothing_is_amplified_and_missing_noise_is_counted():
    dp = pytest.importorskip("dp_accounting")
    run = ran("fedavg", *DP, "fleet.availability=dropout:0.4", "absence=skip", "rounds=12", "fedavg.participants=4")
    arrivals = {}
    for site, round in spans(run.world, "site", "round", kinds=["send"]):
        if site >= 0:
            arrivals.setdefault(round, []).append(site)
    assert min(map(len, arrivals.values())) < 4
    losses = Counter()
    for sites in arrivals.values():
        variance = (2 * 0.5) ** 2 / 4 * len(sites)  # of the sum that was made
        for site in sites:
            losses[site] += (2 * 0.5) ** 2 / variance  # one client replaced: 2C
    want = dp.get_epsilon_gaussian(1 / math.sqrt(max(losses.values())), 8**-1.1)
    assert run.summary()["privacy"]["bounds"] == {"composition": pytest.approx(want, rel=1e-12)}
    assert run.rows[-1]["epsilon"] == pytest.approx(want, rel=1e-12)


def test_a_client_twice_in_a_sum_counts_fourfold():
    pytest.importorskip("dp_accounting")
    spending = Spending(Privacy(clip=1.0, noise=4.0), Sums(4), 10, steady=True)
    for client in (0, 0, 1, 2):
        spending.arrived(client, 0)
    assert spending.epsilon(0) == 0.0  # the round is not over
    assert spending.epsilon(1) == composed(4 * 4 / 16, spending.delta)
    assert spending.uploads[0] == 2


@pytest.mark.parametrize("name", ["fedavg", "ditto"])
def test_one_drawn_client_a_round_spends_too(name):
    """Its upload is a sum of one, and each round is a draw of one among all."""
    dp = pytest.importorskip("dp_accounting")
    run = ran(name, *DP, f"{name}.participants=1", "rounds=4")
    event = dp.SampledWithoutReplacementDpEvent(8, 1, dp.GaussianDpEvent(1.0))
    found = run.summary()["privacy"]
    most = max(Counter(site for (site,) in spans(run.world, "site", kinds=["send"]) if site >= 0).values())
    unsampled = dp.get_epsilon_gaussian(1 / math.sqrt(most), 8**-1.1)
    assert found["bounds"] == {
        "composition": pytest.approx(unsampled, rel=1e-12),
        "sampled": accountant((event, 4)).get_epsilon(8**-1.1),
    }
    assert found["epsilon"] == min(found["bounds"].values()) > 0
    assert [row["epsilon"] > 0 for row in run.rows] == [True] * len(run.rows)


def test_more_noise_or_fewer_rounds_spend_less():
    pytest.importorskip("dp_accounting")
    assert composed(0.0, 1e-5) == 0.0 == sampled(10, 2, 1.0, 0, 1e-5)
    assert np.all(np.diff([composed(loss, 1e-5) for loss in (0.1, 1, 10, 100)]) > 0)
    assert np.all(np.diff([sampled(100, 5, z, 10, 1e-5) for z in (0.5, 1, 2, 8)]) < 0)
    assert sampled(100, 5, 1e-3, 10, 1e-5) > 1e3


def test_delta_unless_given():
    assert Privacy(clip=1.0).delta_for(100) == pytest.approx(100**-1.1)
    assert Privacy(clip=1.0, delta=1e-6).delta_for(100) == 1e-6
    assert Privacy(clip=1.0).delta_for(1) == 0.5


def test_the_table_says_epsilon_at_delta(tmp_path):
    pytest.importorskip("dp_accounting")
    words = {"privacy.clip": 0.5, "privacy.noise": 2.0, "clients": 10, "rounds": 2, "local.steps": 1}
    result = paceline.compare(["fedavg", "fedbuff"], settings={**words, "fedbuff.buffer": 2}, out=tmp_path / "out")
    text = str(result.table())
    assert "differential privacy (one client replaced): fedavg ε = " in text and "at δ = 0.0794" in text
