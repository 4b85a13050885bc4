"""The warm-up on quadratics whose σ² and B are known (PS-9, PS-10): it recovers them within its own intervals."""

import numpy as np
import pytest
from tests.worlds.worlds import learn, quadratic_world, spans

from paceline.algorithms.psfl import PSFL
from paceline.algorithms.time_order import TimeOrder
from paceline.algorithms.warmup import WarmUp, warm_up
from paceline.data.quadratic import quadratic
from paceline.learn.recipe import LocalSGD
from paceline.seeds import stream
from paceline.system import Cost, FlopTimes, LawTimes

CLIENTS, DIMENSION, B, SIGMA2 = 60, 12, 2.5, 4.0


def found_by(seed, settings, clients=CLIENTS, times=None):
    problem = quadratic(
        stream(seed, "quadratic"), clients=clients, dimension=DIMENSION, heterogeneity=B, sigma2=SIGMA2
    )
    world = quadratic_world(problem, times=times, seed=seed)
    local = LocalSGD(lr=0.2, loss="squared")
    main = warm_up(world, world.initial_model(), local, settings, TimeOrder(clients, 1))
    model, found = learn(world, main)
    return world, problem, model, found


def test_with_all_clients_heterogeneity_is_exact_and_noise_within_its_interval():
    """B has no sampling error here. σ²: 20 intervals of 95 %; fewer than 14 cover once in 29,000 seeds."""
    covered = 0
    for seed in range(20):
        _, _, _, found = found_by(seed, WarmUp(rounds=2))
        assert found.B.value == pytest.approx(B, rel=1e-9)
        assert found.B.error > 0
        covered += abs(found.sigma2.value - SIGMA2) <= found.sigma2.error
        assert abs(found.sigma2.value - SIGMA2) < 0.1 * SIGMA2  # and the intervals are not merely wide
    assert covered >= 14


def test_with_some_clients_the_intervals_cover_the_truth():
    """B and σ² of 150 clients from 30: at a coverage of 0.90 or more, fewer than 45 of 60 covered is a false alarm
    of 1 in 5,000 or less for each of the two."""
    covered = {"B": 0, "sigma2": 0}
    for seed in range(60):
        _, _, _, found = found_by(seed, WarmUp(rounds=2, clients=30), clients=150)
        covered["B"] += abs(found.B.value - B) <= found.B.error
        covered["sigma2"] += abs(found.sigma2.value - SIGMA2) <= found.sigma2.error
    assert all(count >= 45 for count in covered.values()), covered


def test_times_and_their_variance_within_their_intervals():
    """t̄ = 2.5 and κ² = 0.04 E[t²] = 0.37 of the discrete law (Eq. 26); fewer than 22 of 30 covered at a coverage
    of 0.9 is a false alarm of 1 in 500 for each."""
    covered = {"mean": 0, "kappa2": 0}
    for seed in range(30):
        times = LawTimes(law="discrete", seed=seed, jitter=0.2)
        _, _, _, found = found_by(seed, WarmUp(rounds=5), clients=100, times=times)
        covered["mean"] += abs(found.time_mean.value - 2.5) <= found.time_mean.error
        covered["kappa2"] += abs(found.kappa2.value - 0.04 * 9.25) <= found.kappa2.error
    assert all(count >= 22 for count in covered.values()), covered


def test_the_model_takes_gradient_steps_and_time_is_charged():
    """PS-10: x <- x - lr * mean of all full gradients, twice; rounds last as long as their slowest client."""
    times = LawTimes(law="discrete", seed=0, jitter=0.2)
    world, problem, model, found = found_by(0, WarmUp(rounds=2), times=times)
    x = world.initial_model().value.numpy()
    for _ in range(2):
        x = x - 0.2 * problem.mean_gradient(x)
    from paceline.learn.executor import Executor
    from paceline.learn.reference import ReferenceTrainer

    Executor(ReferenceTrainer()).run([model])
    assert model.value.numpy() == pytest.approx(x, abs=1e-12)
    slowest = [max(times.cost(n, k, 0.0).seconds for n in range(CLIENTS)) for k in range(2)]
    assert world.now() == pytest.approx(sum(slowest))
    assert found.seconds == pytest.approx(sum(slowest))
    assert world.ledger.visits == 2 * CLIENTS


def test_noise_of_a_batch_is_that_of_samples_drawn_without_replacement():
    _, _, _, samples = found_by(1, WarmUp(rounds=2))
    _, _, _, batches = found_by(1, WarmUp(rounds=2, noise="batch"))
    n, b = 2 * DIMENSION, 20
    assert batches.sigma2.value == pytest.approx(samples.sigma2.value / b * (n - b) / (n - 1), rel=1e-9)


def test_clients_that_leave_are_left_out_and_too_few_is_an_error():
    from paceline.errors import SettingError
    from paceline.system import Dropouts

    problem = quadratic(np.random.default_rng(0), clients=40, dimension=4, heterogeneity=1.0, sigma2=1.0)
    for share, enough in ((0.3, True), (1.0, False)):
        world = quadratic_world(problem, availability=Dropouts(share, seed=1))
        main = warm_up(world, world.initial_model(), LocalSGD(loss="squared"), WarmUp(rounds=3), TimeOrder(40, 1))
        if enough:
            _, found = learn(world, main)
            assert 0.5 < found.B.value < 1.5
            assert found.clients < 40
        else:
            with pytest.raises(SettingError, match="clients came back from warm-up round 1"):
                learn(world, main)


def test_a_part_of_the_fleet_is_the_same_part_in_every_round():
    """Else hardly anyone of a large fleet would be seen twice, and times could not be seen to vary."""
    world, _, _, found = found_by(2, WarmUp(rounds=3, clients=5), clients=300)
    assert found.clients == 5
    assert world.ledger.visits == 15
    assert len(set(spans(world, "site", kinds=("train",)))) == 5


def test_where_time_is_work_a_probe_is_read_as_a_visit():
    """A visit of 3 steps of 4 samples is 12 of the 24 samples that a probe computes: it takes half as long."""
    problem = quadratic(stream(0, "q"), clients=20, dimension=DIMENSION, heterogeneity=1.0, sigma2=1.0)
    world = quadratic_world(problem, times=FlopTimes(rate=1e3, jitter=0.1, seed=1))
    local = LocalSGD(lr=0.1, batch=4, steps=3, loss="squared")
    _, found = learn(world, warm_up(world, world.initial_model(), local, WarmUp(rounds=4), TimeOrder(20, 1)))
    visit = world.learner.problem.flops(0, local) / 1e3
    assert world.learner.problem.probe_flops(0) / 1e3 == pytest.approx(2 * visit)
    assert found.time_mean.value == pytest.approx(visit, rel=0.1)


def test_waiting_for_a_device_that_is_away_is_not_taken_for_slowness():
    """Half of the time everybody is away for up to 10 s; a visit still takes 1 s."""
    from paceline.system import Windows

    problem = quadratic(stream(0, "q"), clients=60, dimension=4, heterogeneity=1.0, sigma2=1.0)
    world = quadratic_world(problem, availability=Windows.duty(20.0, 0.5, seed=4))
    main = warm_up(world, world.initial_model(), LocalSGD(loss="squared"), WarmUp(rounds=6), TimeOrder(60, 1))
    _, found = learn(world, main)
    assert found.seconds > 20
    assert found.time_mean.value == pytest.approx(1.0)
    assert found.kappa2.value == pytest.approx(0.0, abs=1e-12)
    assert "variance κ² = 0: every client always takes the same time" in found.text()


@pytest.mark.parametrize("kappa", ["mean", "max"])
def test_both_meanings_of_kappa_reach_the_bound(kappa):
    """Of the discrete law with a jitter of 0.2: 0.61 on average (Eq. 26), at least 1 of one client (Assumption 5)."""
    times = LawTimes(law="discrete", seed=0, jitter=0.2)
    _, _, _, found = found_by(0, WarmUp(rounds=5, kappa=kappa), clients=100, times=times)
    assert found.time_std == pytest.approx(0.61, rel=0.1) if kappa == "mean" else found.time_std > 1
    assert "of one client at most" in found.text()


class Slowing:
    """Every visit takes 1 s until the third; from then on those of half of the clients take 40 s."""

    def mean_seconds(self, device, flops):
        return 1.0

    def cost(self, device, visit, flops):
        return Cost(40.0 if visit >= 2 and device % 2 else 1.0, 0.0)


def test_the_structure_follows_times_that_change():
    """It is chosen after the warm-up, when all clients look alike, and again after four rounds, from the times seen
    since: rounds are then known to take longer."""
    problem = quadratic(stream(1, "q"), clients=20, dimension=4, heterogeneity=1.0, sigma2=1.0)
    world = quadratic_world(problem, times=Slowing())
    local = LocalSGD(lr=0.1, loss="squared")
    algorithm = PSFL(
        rounds=8, participants=6, warmup=WarmUp(rounds=2), rounds_by="simulation", restructure=4, local=local
    )

    async def main():
        return [progress async for progress in algorithm.run(world)]

    learn(world, main())
    told = [one.event for one in world.chronicle.events if one.event.text.startswith("structure")]
    assert len(told) == 2
    assert "chosen by simulated rounds" in told[0].text
    assert told[0].figures["expected_round_seconds"] == pytest.approx(told[0].figures["S"])
    assert told[1].figures["expected_round_seconds"] > 10
