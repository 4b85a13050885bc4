"""Clients that attack, and devices that vanish with the model in hand."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.algorithms.base import Dropped
from paceline.errors import SettingError
from paceline.learn.executor import Executor
from paceline.learn.graph import Model
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import ReferenceTrainer
from paceline.ledger import Ledger
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.problem import build_problem
from paceline.runs.settings import make_settings
from paceline.system import AlwaysOn, Fleet, FreeLinks, FreeServer, Leave
from paceline.system.availability import Stragglers, parse_availability
from paceline.worlds.absence import WAIT
from paceline.worlds.hostile import HARMLESS, Hostile, gaussian, parse_hostile
from paceline.worlds.problem import flipped_labels
from paceline.worlds.simulation.machines import simulate
from tests.worlds.worlds import Table, dry_world, learn, play, spans

LOCAL = LocalSGD(steps=3, batch=8)
ATTACKS = ["sign-flip:0.2", "scaled:0.2,10", "random:0.2", "label-flip:0.2"]


def digits_world(adversary=HARMLESS, clients=10, availability=None):
    problem = build_problem(
        dataset="digits", partition="iid", clients=clients, model="logistic", seed=0, dtype="float64"
    )
    fleet = Fleet(
        size=clients,
        compute=Table([1.0] * clients),
        links=FreeLinks(),
        availability=availability or AlwaysOn(),
        server=FreeServer(),
    )
    return simulate(fleet, problem, 0, Ledger(), adversary=adversary)


def trained_value(world, client=0, visits=1, mask=None):
    """The last of a client's visits, each from the initial model."""

    async def main():
        for _ in range(visits):
            model = await world.train(client, world.initial_model(), LOCAL, mask=mask)
        return model

    model = learn(world, main())
    Executor(ReferenceTrainer()).run([model])
    return model.value


def start_and_update():
    start = digits_world().initial_model().value
    return start, trained_value(digits_world()) - start


@pytest.mark.parametrize(
    ("text", "factor"),
    [("sign-flip:1", -1.0), ("sign-flip:1,4", -4.0), ("scaled:1,10", 10.0), ("scaled:1,-0.5", -0.5)],
)
def test_an_update_is_pushed_along_its_own_line(text, factor):
    start, update = start_and_update()
    assert update.norm() > 0.1
    torch.testing.assert_close(trained_value(digits_world(parse_hostile(text, 10, 0))), start + factor * update)


def test_random_uploads_are_noise_as_long_as_the_honest_update():
    start, update = start_and_update()
    world = digits_world(parse_hostile("random:1", 10, 0))
    noise = trained_value(world) - start
    assert float(noise.norm()) == pytest.approx(float(update.norm()))
    # 650 coordinates: the cosine of independent directions has deviation 0.04; at 5 of them, 6e-7 false alarms.
    assert abs(float(torch.cosine_similarity(noise, update, dim=0))) < 5 / np.sqrt(len(noise))
    assert torch.equal(trained_value(digits_world(parse_hostile("random:1", 10, 0))) - start, noise)


def test_random_uploads_of_two_visits_differ():
    world = digits_world(parse_hostile("random:1", 10, 0))
    start = world.initial_model().value
    first, second = trained_value(world) - start, trained_value(world) - start
    other = trained_value(world, client=1) - start
    for one, another in [(first, second), (first, other)]:
        assert abs(float(torch.cosine_similarity(one, another, dim=0))) < 5 / np.sqrt(len(one))  # 6e-7, as above


def test_noise_is_gaussian():
    """Mean, variance and fourth moment of 1e5 draws within 5 standard errors: false-alarm rate 2e-6."""
    draws = gaussian(-(2**62) + 7, torch.zeros(100_000, dtype=torch.float64)).numpy()
    root = np.sqrt(len(draws))
    assert abs(draws.mean()) < 5 / root
    assert abs((draws**2).mean() - 1) < 5 * np.sqrt(2) / root
    assert abs((draws**4).mean() - 3) < 5 * np.sqrt(96) / root


@pytest.mark.parametrize("text", ["sign-flip:1", "scaled:1,10", "random:1", "random:1,3"])
def test_a_sparse_upload_stays_sparse(text):
    """A start that is not sparse yet: the honest update is counted from where training really began."""
    world = digits_world()
    start = world.initial_model().value
    mask = (torch.arange(len(start)) % 3 == 0).to(start.dtype)
    honest = trained_value(world, mask=Model(world.learner.problem.space, mask)) - start * mask
    hostile = digits_world(parse_hostile(text, 10, 0))
    value = trained_value(hostile, mask=Model(hostile.learner.problem.space, mask))
    assert torch.equal(value * (1 - mask), torch.zeros_like(value))
    factor = {"sign-flip:1": 1.0, "scaled:1,10": 10.0, "random:1": 1.0, "random:1,3": 3.0}[text]
    assert float((value - start * mask).norm()) == pytest.approx(factor * float(honest.norm()))


def test_flipped_labels_are_trained_on_and_shared_by_all_runs():
    world = digits_world(parse_hostile("label-flip:1", 10, 0))
    problem = world.learner.problem
    flipped = problem.flipped_shards
    assert torch.equal(flipped.y, 9 - problem.shards().y)
    assert flipped.x is problem.shards().x
    assert flipped.indices is problem.shards().indices
    assert digits_world(clients=5).learner.problem.flipped_shards.y is flipped.y
    honest = digits_world()
    honest.learner.problem.train_shards = flipped
    assert torch.equal(trained_value(world), trained_value(honest))
    assert not torch.equal(trained_value(digits_world()), trained_value(honest))


def test_labels_that_are_numbers_cannot_be_flipped():
    with pytest.raises(SettingError, match="needs classes"):
        flipped_labels(torch.zeros(3), 10)


@pytest.mark.parametrize("text", ATTACKS)
def test_only_hostile_clients_attack(text):
    adversary = parse_hostile(text, 10, 0)
    honest = next(k for k in range(10) if k not in adversary.clients)
    hostile = min(adversary.clients)
    for client, same in [(honest, True), (hostile, False)]:
        have = trained_value(digits_world(adversary), client)
        assert torch.equal(have, trained_value(digits_world(), client)) is same


def test_probes_are_honest_but_see_the_labels_of_the_client():
    def probed(adversary):
        world = digits_world(adversary)

        async def main():
            return await world.learning.probe(0, world.initial_model(), LOCAL)

        model = learn(world, main())
        Executor(ReferenceTrainer()).run([model])
        return model.value

    truth = probed(HARMLESS)
    assert torch.equal(probed(parse_hostile("sign-flip:1", 10, 0)), truth)
    assert torch.equal(probed(parse_hostile("random:1", 10, 0)), truth)
    assert not torch.equal(probed(parse_hostile("label-flip:1", 10, 0)), truth)


@given(st.integers(0, 100), st.integers(1, 300), st.integers(0, 10**6))
def test_the_share_of_hostile_clients_is_exact(percent, clients, seed):
    found = parse_hostile(f"random:{percent / 100}", clients, seed).clients
    assert len(found) == percent * clients // 100
    assert found <= set(range(clients))


def test_the_seed_says_who_is_hostile_and_the_attack_does_not():
    groups = {text: parse_hostile(text, 50, 3).clients for text in ATTACKS}
    assert len(set(groups.values())) == 1
    assert parse_hostile(ATTACKS[0], 50, 4).clients != groups[ATTACKS[0]]
    assert parse_hostile("none", 50, 3) == Hostile() == HARMLESS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sign-flop:0.2", "did you mean 'sign-flip'"),
        ("scale:0.2,10", "did you mean 'scaled'"),
        ("nobody", "did you mean 'none'|known: "),
        ("none:0.2", "takes nothing after it"),
        ("none:", "takes nothing after it"),
        ("sign-flip", "wanted sign-flip:SHARE"),
        ("sign-flip:", "wanted sign-flip:SHARE"),
        ("sign-flip:0.2,3,4", "wanted sign-flip:SHARE"),
        ("scaled:0.2", "wanted scaled:SHARE,FACTOR"),
        ("scaled:0.2,nan", "wanted scaled:SHARE,FACTOR"),
        ("scaled:0.3,1e39", "FACTOR is '1e39', which is not a number of at most 3e38 in size"),
        ("random:many", "wanted random:SHARE"),
        ("label-flip:1.5", "from 0 to 1"),
        ("label-flip:-0.1", "from 0 to 1"),
    ],
)
def test_attacks_that_cannot_be_are_named(text, message):
    with pytest.raises(SettingError, match=message):
        parse_hostile(text, 10, 0)
    with pytest.raises(SettingError, match=message):
        make_run(make_settings("fedavg", [f"hostile={text}"]), dry=True)


# -- whole runs ---------------------------------------------------------------------------------------------------

SMALL = ["clients=30", "rounds=5", "local.steps=3", "fedavg.width=8", "psfl.width=3", "psfl.length=3"]
SMALL += ["fedbuff.concurrency=8", "fedbuff.buffer=4", "executor.dtype=float64"]


def run_alone(name, *more, **options):
    run = make_run(make_settings(name, [*SMALL, *more]), **options)
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None, run.failure
    return run


def losses(run):
    return np.array([row["loss"] for row in run.rows])


@pytest.mark.parametrize("name", ["fedavg", "psfl", "fedbuff"])
@pytest.mark.parametrize("text", ["sign-flip:0.3", "scaled:0.3,3", "random:0.3", "label-flip:0.3"])
def test_cohort_size_changes_nothing_of_an_attack(name, text):
    want = run_alone(name, f"hostile={text}", "executor.name=reference")
    assert np.isfinite(losses(want)).all()
    have = run_alone(name, f"hostile={text}", "executor.cohort=7", "flush=21")
    assert losses(have) == pytest.approx(losses(want), rel=1e-9)
    assert losses(run_alone(name)) != pytest.approx(losses(want), rel=1e-3)


def test_runs_beside_change_nothing_of_an_attack():
    words = [
        ("fedavg", "random:0.3", 0),
        ("fedavg", "label-flip:0.3", 1),
        ("fedavg", "none", 0),
        ("psfl", "random:1", 2),
    ]
    runs = [make_run(make_settings(n, [*SMALL, f"hostile={h}", f"seed={s}"])) for n, h, s in words]
    drive(runs, make_executor(runs[0].settings.executor))
    for run, (name, text, seed) in zip(runs, words, strict=True):
        alone = run_alone(name, f"hostile={text}", f"seed={seed}")
        assert losses(run) == pytest.approx(losses(alone), rel=1e-9)


def test_nobody_hostile_and_a_share_of_nothing_are_the_same_run():
    assert losses(run_alone("fedavg", "hostile=sign-flip:0.01")).tolist() == losses(run_alone("fedavg")).tolist()


def test_the_summary_names_the_hostile(tmp_path):
    run = run_alone("fedavg", "hostile=sign-flip:0.2", directory=tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["hostile"] == sorted(run.learner.adversary.clients)
    assert len(run.learner.adversary.clients) == 6
    assert run_alone("fedavg", dry=True).summary()["hostile"] == []


def test_an_attack_costs_no_time():
    keys = ("site", "kind", "start", "end", "bytes")
    truth, attacked = (run_alone("fedavg", f"hostile={text}") for text in ("none", "random:0.5"))
    assert spans(truth.world, *keys) == spans(attacked.world, *keys)


# -- stragglers: the same visit when they are back ---------------------------------------------------------------


def test_a_straggler_does_the_same_visit_when_it_is_back():
    """Times differ by visit number: 1 s, then 2 s, then 3 s. It vanishes at every number once, and once only."""
    world = dry_world([[1.0, 2.0, 3.0]], availability=Stragglers(1.0, 10.0, size=1, seed=0))
    log = []

    async def main():
        for _ in range(3):
            received = await world.send(world.initial_model(), world.server, 0)
            for _ in range(2):
                try:
                    await world.train(0, received, LOCAL)
                    log.append(("trained", world.now()))
                except Dropped as dropped:
                    log.append((dropped.reason, dropped.at, dropped.back))
                    await world.presence.reach([0])

    play(world, main())
    assert log == [
        ("left", 0.0, 10.0),
        ("trained", 11.0),
        ("left", 11.0, 21.0),
        ("trained", 23.0),
        ("left", 23.0, 33.0),
        ("trained", 36.0),
    ]
    assert world.ledger.totals().visits == 3


def test_a_straggler_that_is_waited_for_does_the_same_visit_too():
    world = dry_world([[1.0, 2.0, 3.0]], availability=Stragglers(1.0, 10.0, size=1, seed=0), absence=WAIT)
    log = []

    async def main():
        for _ in range(3):
            received = await world.send(world.initial_model(), world.server, 0)
            await world.train(0, received, LOCAL)
            log.append(world.now())

    play(world, main())
    assert log == [11.0, 23.0, 36.0]
    assert world.ledger.totals().visits == 3


def test_a_straggler_that_is_sent_a_newer_model_when_it_is_back_does_not_vanish_again():
    world = dry_world([[1.0, 2.0]], availability=Stragglers(1.0, 10.0, size=1, seed=0))

    async def main():
        received = await world.send(world.initial_model(), world.server, 0)
        with pytest.raises(Dropped):
            await world.train(0, received, LOCAL)
        with pytest.raises(Dropped, match="away"):
            await world.send(world.initial_model(), world.server, 0)
        await world.presence.reach([0])
        newer = await world.send(world.initial_model(), world.server, 0)
        await world.train(0, newer, LOCAL)
        return world.now()

    assert play(world, main()) == 11.0


def test_nobody_vanishes_with_a_model_that_did_not_just_come():
    """Local steps that go on from one's own model are no chance to vanish."""
    world = dry_world([[1.0, 2.0]], availability=Stragglers(1.0, 10.0, size=1, seed=0))

    async def main():
        await world.train(0, await world.train(0, world.initial_model(), LOCAL), LOCAL)
        return world.now()

    assert play(world, main()) == 3.0


def test_a_straggler_learns_what_it_would_have_learned():
    """The visit's draws are those of its number, so that stragglers change who is late and not what is trained."""
    late = digits_world(availability=Stragglers(1.0, 5.0, size=10, seed=0))

    async def main():
        received = await late.send(late.initial_model(), late.server, 0)
        with pytest.raises(Dropped):
            await late.train(0, received, LOCAL)
        await late.presence.reach([0])
        return await late.train(0, received, LOCAL)

    model = learn(late, main())
    Executor(ReferenceTrainer()).run([model])
    assert torch.equal(model.value, trained_value(digits_world()))


def test_one_that_leaves_later_has_used_its_visit_up():
    class Midway:
        def next_online(self, device, now):
            return now

        def online_until(self, device, now):
            return math.inf

        def leaves(self, device, visit, start, seconds):
            return Leave(start + seconds / 2, start + seconds) if visit == 0 else None

    world = dry_world([[2.0, 7.0]], availability=Midway())

    async def main():
        with pytest.raises(Dropped):
            await world.train(0, world.initial_model(), LOCAL)
        await world.presence.reach([0])
        await world.train(0, world.initial_model(), LOCAL)

    play(world, main())
    assert world.now() == 9.0
    waiting = dry_world([[2.0, 7.0]], availability=Midway(), absence=WAIT)
    play(waiting, waiting.train(0, waiting.initial_model(), LOCAL))
    assert waiting.now() == 9.0


def test_a_run_with_stragglers_from_words():
    words = ["clients=20", "rounds=4", "fedavg.width=20", "fleet.availability=stragglers:0.25,40"]
    run = make_run(make_settings("fedavg", words), dry=True)
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None
    late = [site for site, start, end in spans(run.world, "site", "start", "end", kinds=["train"]) if start == end]
    first = parse_availability("stragglers:0.25,40", seed=0, size=20)
    assert set(late[:5]) == {device for device in range(20) if first.leaves(device, 0, 0.0, 1.0)}
