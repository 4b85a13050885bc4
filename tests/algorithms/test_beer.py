"""BEER: gradient tracking that compression does not spoil."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from paceline.algorithms.beer import BEER
from paceline.data.quadratic import Quadratic
from paceline.errors import SettingError
from paceline.learn.codecs import Gsgd, Top
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.recipe import LocalSGD
from paceline.ledger import Ledger
from paceline.seeds import stream
from paceline.system.availability import Leave, parse_availability
from paceline.topology import make_mixing, parse_graph
from paceline.worlds.absence import WAIT
from paceline.worlds.simulation.machines import simulate
from tests.algorithms.test_dfedavgm import start_of
from tests.algorithms.test_gossip import personal
from tests.algorithms.test_pfedavg import quadratics, world_of
from tests.worlds.worlds import SPACE, FixedLinks, follow, quadratic_world, spans

ONE = LocalSGD(lr=0.1, batch=6, steps=1, loss="squared")
NOISY = LocalSGD(lr=0.1, batch=2, steps=1, loss="squared")
COMPRESSORS = [{"compressor": "none"}, {"compressor": "gsgd", "bits": 4}, {"compressor": "top", "share": 0.34}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"gamma": 0.0}, "above 0"),
        ({"bits": 1}, "2 to 16"),
        ({"share": 1.5}, "at most 1"),
        ({"graph": "random"}, "fixed"),
        ({"graph": "torus:3x3"}, "9 nodes for 36"),
        ({"local": LocalSGD(momentum=0.9)}, "set it to 0"),
    ],
)
def test_impossible_settings_are_refused(words, said):
    with pytest.raises(SettingError, match=said):
        BEER(**words).check(36)


@pytest.mark.parametrize("clients", [2, 3, 7, 11, 36])
def test_the_default_graph_suits_any_number_of_clients(clients):
    BEER().check(clients)
    links = BEER().links(world_of([1.0] * clients))
    assert {len(near) for near in links} == {min(10, clients - 1)}
    assert all(own in links[other] and own != other for own, near in enumerate(links) for other in near)


def tracks_of(algorithm, world):
    async def main():
        found = []
        async for tracks in algorithm.tracks(world):
            world.progress += 1
            found.append(tracks)
        return found

    found = world.loop.run_until_complete(main())
    parts = [parts_of(tracks) for tracks in found]
    copies = [estimate for tracks in found for known in tracks.known.values() for estimate in known]
    Executor(CohortTrainer()).run([model for some in parts for models in some.values() for model in models] + copies)
    for tracks in found:  # whoever is in step knows what its neighbour believes it to know
        for (_, of_whom), known in tracks.known.items():
            for copy, own in zip(known, tracks.estimates[of_whom], strict=True):
                assert torch.equal(copy.value, own.value)
    return [{p: np.array([m.value.numpy() for m in models]) for p, models in some.items()} for some in parts]


def parts_of(tracks):
    estimates = {
        "model_estimates": [one.model for one in tracks.estimates.values()],
        "tracker_estimates": [one.tracker for one in tracks.estimates.values()],
    }
    return {part: [*getattr(tracks, part).values()] for part in ("models", "trackers", "gradients")} | estimates


@pytest.mark.parametrize("gradients", ["batch", "full"])
@pytest.mark.parametrize("words", COMPRESSORS, ids=lambda words: words["compressor"])
def test_the_mean_of_the_trackers_is_the_mean_of_the_gradients(words, gradients):
    """The invariant, in every round, with noisy gradients and whatever is compressed; trackers are not all alike."""
    problem = quadratics(9)
    algorithm = BEER(rounds=15, graph="ring", gamma=0.3, gradients=gradients, local=NOISY, **words)
    for tracks in tracks_of(algorithm, quadratic_world(problem)):
        assert np.allclose(tracks["trackers"].mean(axis=0), tracks["gradients"].mean(axis=0), rtol=0, atol=1e-12)
        assert np.ptp(tracks["trackers"], axis=0).min() > 1e-3


def test_without_compression_it_is_the_recursion():
    """V' = V + gamma (W - I) G + new - last gradient, X' = X + gamma (W - I) H - rate V'; then G = V', H = X'."""
    problem, gamma, rate = quadratics(7, sigma2=0.0), 0.4, 0.1
    algorithm = BEER(rounds=6, graph="ring", gamma=gamma, compressor="none", local=ONE)
    mixing = make_mixing(parse_graph("ring:7"), "metropolis").matrix - np.eye(7)
    x = start_of(problem)
    v, g, h, last = (np.zeros_like(x) for _ in range(4))
    for tracks in tracks_of(algorithm, quadratic_world(problem)):
        slope = x - problem.centre
        assert np.allclose(tracks["gradients"], slope, rtol=0, atol=1e-12)
        v = v + gamma * mixing @ g + slope - last
        x = x + gamma * mixing @ h - rate * v
        g, h, last = v, x, slope
        assert np.allclose(tracks["models"], x, rtol=0, atol=1e-12)
        assert np.allclose(tracks["trackers"], v, rtol=0, atol=1e-12)


@pytest.mark.parametrize("words", COMPRESSORS, ids=lambda words: words["compressor"])
def test_all_clients_arrive_at_the_optimum_of_the_mean(words):
    """However different their own optima are; without tracking, as in DPSGD, each would stay on its own side."""
    problem = quadratics(9, sigma2=0.0)
    algorithm = BEER(rounds=300, graph="torus:3x3", gamma=0.3, local=ONE, **words)
    found = personal(algorithm, quadratic_world(problem))[-1]
    assert np.ptp(problem.centre, axis=0).min() > 0.5
    assert np.allclose(found, problem.centre.mean(axis=0), rtol=0, atol=1e-6)


@pytest.mark.slow
def test_the_default_mixing_arrives_too():
    problem = quadratics(12, sigma2=0.0)
    local = replace(ONE, lr=0.05)
    found = personal(BEER(rounds=500, local=local), quadratic_world(problem))[-1]
    assert np.allclose(found, problem.centre.mean(axis=0), rtol=0, atol=1e-3)


def test_several_steps_are_one_gradient_along_the_way():
    """(x - x')/rate of three full-batch steps of |x - c|^2/2 is (x - c) (1 - (1 - rate)^3)/rate."""
    problem, rate = quadratics(4, sigma2=0.0), 0.1
    local = LocalSGD(lr=rate, batch=6, steps=3, loss="squared")
    (tracks,) = tracks_of(BEER(rounds=1, local=local), quadratic_world(problem))
    expected = (start_of(problem) - problem.centre) * (1 - (1 - rate) ** 3) / rate
    assert np.allclose(tracks["gradients"], expected, rtol=0, atol=1e-11)


def test_several_steps_end_beside_the_optimum():
    """What the settings say of more than one step: with unequal bends the sums along the way vanish elsewhere."""
    plain = quadratics(3, sigma2=0.0)
    bends = np.linspace(0.5, 2.0, 3)[:, None]
    problem = Quadratic(curvature=plain.curvature * bends[:, :, None], centre=plain.centre, sigma2=0.0)
    optimum = (bends * plain.centre).sum(axis=0) / bends.sum()
    away = []
    for steps in (1, 10):
        local = LocalSGD(lr=0.2, batch=6, steps=steps, loss="squared")
        algorithm = BEER(rounds=80, graph="complete", gamma=1.0, compressor="none", local=local)
        away.append(np.abs(personal(algorithm, quadratic_world(problem))[-1].mean(axis=0) - optimum).max())
    assert away[0] < 1e-6 and away[1] > 0.01


def test_full_gradients_decay_weights_too():
    problem = quadratics(4, sigma2=0.0)
    local = LocalSGD(lr=0.1, batch=6, steps=1, weight_decay=0.3, loss="squared")
    one, other = (
        tracks_of(BEER(rounds=3, gradients=kind, local=local), quadratic_world(problem))[-1]["gradients"]
        for kind in ("batch", "full")
    )
    assert np.allclose(one, other, rtol=0, atol=1e-11)


def test_the_largest_numbers_are_kept():
    x = torch.tensor([[1.0, -5.0, 0.5, 3.0], [0.0, 0.1, -0.2, 0.0]])
    assert Top(0.5).through(x).tolist() == [[0, -5, 0, 3], [0, pytest.approx(0.1), pytest.approx(-0.2), 0]]


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_gsgd_is_a_contraction(bits):
    """E|C(x) - x|^2 <= (1 - 1/tau)|x|^2, here with 2 % for the mean over 400 draws of a sum over 300 numbers, and
    E C(x) = x/tau, here within three times the expected error of that mean. Seeded."""
    x = torch.from_numpy(stream(2, "gsgd").normal(size=300))
    levels = 2.0 ** (bits - 1)
    tau = 1 + min(300 / levels**2, 300**0.5 / levels)
    draws = torch.stack([Gsgd(bits, key).through(x) for key in range(400)])
    error = float((draws - x).square().sum(dim=1).mean() / x.square().sum())
    assert error <= (1 - 1 / tau) * 1.02
    bias = float((draws.mean(dim=0) * tau - x).norm() / x.norm())
    assert bias < 1.5 * np.sqrt(300 / 400) / levels  # at most |x|/(2 levels) a number, 300 numbers, 400 draws
    assert not Gsgd(bits, 1).through(torch.zeros(5)).any()


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ({"compressor": "none"}, 2 * 4.0 * SPACE.size),
        ({"compressor": "gsgd", "bits": 8}, 2 * (SPACE.size + 4)),
        ({"compressor": "top", "share": 0.25}, 2 * 8 * round(0.25 * SPACE.size)),
    ],
    ids=["none", "gsgd", "top"],
)
def test_two_compressed_vectors_travel(words, size):
    world = world_of([1.0] * 12, FixedLinks(0.1))
    follow(world, BEER(rounds=2, degree=4, **words))
    assert world.ledger.bytes == 2 * 12 * 4 * size
    assert len(spans(world, "site", kinds=("train",))) == 2 * 12


class Losing:
    """These clients leave for good in the visit of this number."""

    def __init__(self, visits):
        self.visits = visits

    def next_online(self, client, now):
        return now

    def online_until(self, client, now):
        return math.inf

    def leaves(self, client, visit, start, seconds):
        return Leave(start + seconds / 2, math.inf) if self.visits.get(client) == visit else None


@pytest.mark.parametrize("words", COMPRESSORS, ids=lambda words: words["compressor"])
def test_those_who_are_left_track_their_own_gradients(words):
    """Clients 2 and 5 of 8 leave in rounds 6 and 9: the invariant holds in every round for those who are there, and
    they arrive at the optimum of their own mean, not at one that the lost gradients pull at."""
    problem = quadratics(8, sigma2=0.0)
    calm = quadratic_world(problem)
    fleet = replace(calm.machines.fleet, availability=Losing({2: 6, 5: 9}))
    world = simulate(fleet, calm.learner.problem, 3, Ledger(), absence=WAIT)
    algorithm = BEER(rounds=200, graph="complete", gamma=0.3, local=ONE, **words)
    found = tracks_of(algorithm, world)
    assert [len(tracks["trackers"]) for tracks in found] == [8] * 6 + [7] * 3 + [6] * 191
    for tracks in found:
        assert np.allclose(tracks["trackers"].mean(axis=0), tracks["gradients"].mean(axis=0), rtol=0, atol=1e-12)
    for round in (6, 9):
        assert not found[round]["tracker_estimates"].any()
        assert found[round + 1]["tracker_estimates"].any()
    stay = [0, 1, 3, 4, 6, 7]
    assert np.allclose(found[-1]["models"][stay], problem.centre[stay].mean(axis=0), rtol=0, atol=1e-6)
    assert not np.allclose(problem.centre[stay].mean(axis=0), problem.centre.mean(axis=0), atol=0.01)
    assert ["clients 2; trackers start again" in world.chronicle.events[0].text, len(world.chronicle.events)] == [
        True,
        2,
    ]


def test_who_is_away_is_waited_for_and_who_is_gone_is_left_out():
    """Each visit is the last with 5 %: 30 rounds of 8 clients without a loss have a chance below 1e-5; seeded."""
    world = world_of([1.0] * 8, availability=parse_availability("dropout:0.3", seed=4, size=8), absence=WAIT)
    follow(world, BEER(rounds=10))
    assert world.ledger.visits == 10 * 8
    gone = parse_availability("dropout:0.05,forever", seed=4, size=8)
    world = world_of([1.0] * 8, availability=gone, absence=WAIT)
    follow(world, BEER(rounds=30))
    assert any("gone for good" in note.text for note in world.chronicle.events)
