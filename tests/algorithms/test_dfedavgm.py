"""DFedAvgM: momentum, quantised differences, mixing."""

import numpy as np
import pytest
import torch

from paceline.algorithms.base import encoded
from paceline.algorithms.dfedavgm import DFedAvgM
from paceline.algorithms.neighbourhoods import Neighbourhoods
from paceline.errors import SettingError
from paceline.learn.codecs import Rounded
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.graph import Model
from paceline.learn.recipe import LocalSGD
from paceline.seeds import stream
from paceline.topology import make_mixing, parse_graph
from tests.algorithms.test_gossip import RING, personal
from tests.algorithms.test_pfedavg import LOCAL, quadratics, world_of
from tests.worlds.worlds import SPACE, FixedLinks, follow, quadratic_world

RATE, MOMENTUM = 0.2, 0.5
LOCALLY = LocalSGD(lr=RATE, batch=6, steps=2, momentum=MOMENTUM, loss="squared")


def locally(x, centre):
    """Two heavy-ball steps on |x - c|^2/2."""
    y = x - RATE * (x - centre)
    return y - RATE * (y - centre) + MOMENTUM * (y - x)


def start_of(problem):
    start = quadratic_world(problem).initial_model()
    Executor(CohortTrainer()).run([start])
    return np.tile(start.value.numpy(), (len(problem), 1))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"bits": 1}, "2 to 16"),
        ({"bits": 32}, "none for whole models"),
        ({"neighbours": Neighbourhoods(degree=36)}, "1 to 35"),
        ({"neighbours": Neighbourhoods(graph="torus:3x3")}, "9 nodes for 36 clients"),
    ],
)
def test_impossible_settings_are_refused(words, said):
    with pytest.raises(SettingError, match=said):
        DFedAvgM(**words).check(36)


@pytest.mark.parametrize("word", ["ring:9", "star:9", "torus:3x3"])
def test_whole_models_are_the_matrix_formula(word):
    """Algorithm 1: X(t+1) = W Z(t), Z(t) from X(t) by local steps with momentum. Scored is Z."""
    problem = quadratics(9, sigma2=0.0)
    algorithm = DFedAvgM(rounds=4, bits=None, neighbours=Neighbourhoods(graph=word), local=LOCALLY)
    w, x = make_mixing(parse_graph(word), "metropolis").matrix, start_of(problem)
    for found in personal(algorithm, quadratic_world(problem)):
        z = locally(x, problem.centre)
        assert np.allclose(found, z, rtol=0, atol=1e-12)
        x = w @ z


@pytest.mark.parametrize("base", ["start", "trained"])
def test_differences_are_added_to_the_own_model(base):
    """Algorithm 2, Eq. 7: X(t+1) = X(t) + W Q(Z(t) - X(t)); DA-DPFL's code has Z(t) + W Q(Z(t) - X(t)). With 16 bits
    Q is off by a step at most, largest/32767, of differences that stay below 10; errors of 3 rounds add up."""
    problem = quadratics(9, sigma2=0.0)
    algorithm = DFedAvgM(rounds=4, neighbours=RING, base=base, local=LOCALLY)
    w, x = make_mixing(parse_graph("ring:9"), "metropolis").matrix, start_of(problem)
    for found in personal(algorithm, quadratic_world(problem)):
        z = locally(x, problem.centre)
        assert np.allclose(found, z, rtol=0, atol=3 * 3 * 10 / 32767)
        x = (x if base == "start" else z) + w @ (z - x)


def test_one_round_from_a_common_start_is_the_same_for_both_algorithms():
    problem = quadratics(9, sigma2=0.0)
    one, other = (
        personal(DFedAvgM(rounds=2, bits=bits, neighbours=RING, local=LOCALLY), quadratic_world(problem))
        for bits in (None, 16)
    )
    assert np.allclose(one[0], other[0], rtol=0, atol=1e-12)
    assert np.allclose(one[1], other[1], rtol=0, atol=1e-3) and not np.array_equal(one[1], other[1])


def test_differences_alone_do_not_make_clients_agree():
    """What the module says of Algorithm 2, one step a round: X - C is multiplied by I - rate W, which for a ring,
    with eigenvalues below 0, has some above 1; in DA-DPFL's code by I - rate (I + W), which always shrinks: there
    clients end at their own optima. Whole models stay together."""
    problem = quadratics(5, sigma2=0.0)
    spread = np.linalg.norm(problem.centre - problem.centre.mean(axis=0))

    def end(**words):
        one = LocalSGD(lr=RATE, batch=6, steps=1, loss="squared")
        return personal(DFedAvgM(rounds=150, neighbours=RING, local=one, **words), quadratic_world(problem))[-1]

    assert np.allclose(end(base="trained"), problem.centre, rtol=0, atol=1e-3)
    drifted, together = end(), end(bits=None)
    assert np.linalg.norm(drifted - drifted.mean(axis=0)) > 10 * spread
    assert np.linalg.norm(together - together.mean(axis=0)) < 0.5 * spread
    assert np.allclose(together.mean(axis=0), problem.centre.mean(axis=0), rtol=0, atol=1e-9)


def values_of(models):
    Executor(CohortTrainer()).run(models)
    return torch.stack([model.value for model in models])


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
def test_the_error_of_a_number_is_at_most_a_step(bits):
    x = Model(SPACE, torch.from_numpy(stream(1, "quantised").normal(size=SPACE.size)))
    step = float(x.value.abs().max()) / (2 ** (bits - 1) - 1)
    nearest, random = values_of([encoded(x, Rounded(bits)), encoded(x, Rounded(bits, 5))])
    assert (nearest - x.value).abs().max() <= step / 2 * (1 + 1e-9)
    assert (random - x.value).abs().max() <= step * (1 + 1e-9)
    for found in (nearest, random):
        whole = found / step
        assert torch.allclose(whole, whole.round(), rtol=0, atol=1e-6) and whole.abs().max() < 2 ** (bits - 1)


def test_random_rounding_has_no_bias_and_nearest_has():
    """4,000 draws of each of 8 numbers at 3 bits: a mean lies within 5 of its own standard errors (at most half a
    step over the root of 4,000); a false alarm in 200,000 for all 8 together."""
    x = Model(SPACE, torch.linspace(-1.0, 0.93, SPACE.size, dtype=torch.float64))
    draws = values_of([encoded(x, Rounded(3, key)) for key in range(4000)])
    step = 1.0 / 3
    assert (draws.mean(dim=0) - x.value).abs().max() < 5 * (step / 2) / np.sqrt(4000)
    assert len({tuple(row.tolist()) for row in draws[:50]}) > 10
    assert (values_of([encoded(x, Rounded(3))])[0] - x.value).abs().max() > 0.1


def test_nothing_to_send_is_nothing():
    zero = Model(SPACE, torch.zeros(SPACE.size))
    assert not values_of([encoded(zero, Rounded(8, 1)), encoded(zero, Rounded(8))]).any()


@pytest.mark.parametrize(("bits", "size"), [(None, 4), (16, 2), (8, 1)])
def test_bits_are_what_travels(bits, size):
    """M = 3 neighbours for each of 10 clients; besides the numbers the step, 4 bytes."""
    world = world_of([1.0] * 10, FixedLinks(0.1))
    follow(world, DFedAvgM(rounds=2, bits=bits, neighbours=Neighbourhoods(degree=3), local=LOCAL))
    assert world.ledger.bytes == 2 * 10 * 3 * (SPACE.size * size + (4 if bits else 0))
