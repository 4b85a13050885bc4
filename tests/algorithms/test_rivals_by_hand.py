"""Rivals of DA-DPFL a second time, in numpy and without any of their code: the same trajectories, number by number.

Losses are a_k|x - c_k|^2/2 with full batches, so a local step is one line. Random draws are read from the addresses
at which the algorithms make them, round by round; rates fall by a schedule, so that no round is like another.
"""

import numpy as np
import pytest
import torch

from paceline.algorithms.beer import BEER
from paceline.algorithms.dfedavgm import DFedAvgM
from paceline.algorithms.dfedsam import DFedSAM
from paceline.algorithms.ditto import Ditto
from paceline.algorithms.gossip import draws
from paceline.algorithms.gossipfl import GossipFL
from paceline.algorithms.neighbourhoods import Neighbourhoods
from paceline.data.quadratic import Quadratic
from paceline.learn.recipe import LocalSGD
from paceline.seeds import stream
from tests.algorithms.test_dfedavgm import start_of
from tests.algorithms.test_gossip import personal
from tests.worlds.worlds import quadratic_world

CLIENTS, SIZE, DEGREE = 8, 5, 3
FALL, DECAY = 0.9, 0.01
BEND = stream(1, "bend").uniform(0.5, 2.0, size=(CLIENTS, 1))
CENTRE = stream(1, "centre").normal(size=(CLIENTS, SIZE))
PROBLEM = Quadratic(curvature=BEND[:, :, None] * np.eye(SIZE), centre=CENTRE, sigma2=0.0)
EVERYBODY = list(range(CLIENTS))


def recipe(**words):
    return LocalSGD(batch=2 * SIZE, loss="squared", schedule=f"exponential:{FALL}", weight_decay=DECAY, **words)


def trained(x, lr, steps, *, clients=EVERYBODY, momentum=0.0, radius=0.0, pull=0.0, anchor=0.0):
    """Heavy-ball steps of these clients, perhaps at the worst point near by, perhaps pulled towards an anchor."""
    velocity = np.zeros_like(x)
    for _ in range(steps):
        slope = BEND[clients] * (x - CENTRE[clients])
        if radius:
            worst = x + radius * slope / np.linalg.norm(slope, axis=1, keepdims=True)
            slope = BEND[clients] * (worst - CENTRE[clients])
        velocity = momentum * velocity + slope + pull * (x - anchor) + DECAY * x
        x = x - lr * velocity
    return x


def keys(world, name, round):
    return [int(key) for key in world.stream(name, "keys", round).integers(2**63, size=CLIENTS)]


def uniform(key):
    return draws(key, torch.zeros(SIZE)).double().numpy()


def weights(world, graph, round):
    """Row k: how much client k weighs whom."""
    if graph == "random":
        rows = np.eye(CLIENTS)
        for own, near in enumerate(Neighbourhoods(graph="random", degree=DEGREE).draw(world, round)):
            rows[own, list(near)] = 1.0
        return rows / (DEGREE + 1)
    links = {"ring": [(k, (k + 1) % CLIENTS) for k in EVERYBODY], "star": [(0, k) for k in EVERYBODY[1:]]}[graph]
    degree = np.bincount(np.ravel(links))
    rows = np.zeros((CLIENTS, CLIENTS))
    for i, j in links:
        rows[i, j] = rows[j, i] = 1 / (1 + max(degree[i], degree[j]))
    return rows + np.diag(1 - rows.sum(axis=1))


def agree(algorithm, by_hand, atol=1e-12):
    """Every round's personal models, ours and those made by hand."""
    world = quadratic_world(PROBLEM)
    ours, theirs = personal(algorithm, world), by_hand(world)
    assert len(ours) == algorithm.rounds
    for round, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        assert np.allclose(one, other, rtol=0, atol=atol), f"round {round}"
    assert np.ptp(ours[-1], axis=0).min() > 1e-2  # clients differ, so that a wrong weight would show


# -- BEER -----------------------------------------------------------------------------------------------------------


def rounded(x, bits, key):
    """gsgd: random rounding to multiples of |x|/2^(bits-1), at most 2^(bits-1) - 1 of them, damped."""
    levels, norm = 2.0 ** (bits - 1), np.linalg.norm(x)
    damping = 1 + min(SIZE / levels**2, SIZE**0.5 / levels)
    whole = np.minimum(np.floor(levels * np.abs(x) / norm + uniform(key)), levels - 1)
    return np.sign(x) * whole * norm / (levels * damping)


def largest(x, share):
    kept = np.argsort(-np.abs(x))[: round(share * SIZE)]
    return np.where(np.isin(np.arange(SIZE), kept), x, 0.0)


COMPRESSORS = {
    "none": ({"compressor": "none"}, lambda x, key: x),
    "top": ({"compressor": "top", "share": 0.4}, lambda x, key: largest(x, 0.4)),
    "4 bits": ({"compressor": "gsgd", "bits": 4}, lambda x, key: rounded(x, 4, key)),
    "2 bits": ({"compressor": "gsgd", "bits": 2}, lambda x, key: rounded(x, 2, key)),
}


def beer(world, graph, gamma, lr, compress):
    """Algorithm 1 in the paper's order: x and h first, then the gradient there, v and g; the first g is C(v)."""
    mixing, x = weights(world, graph, 0) - np.eye(CLIENTS), start_of(PROBLEM)

    def compressed(vectors, round, flip):
        at = [~key if flip else key for key in keys(world, "beer", round)]
        return np.array([compress(vector, key) for vector, key in zip(vectors, at, strict=True)])

    def slope(x):
        return BEND * (x - CENTRE) + DECAY * x

    v, h = slope(x), np.zeros_like(x)
    g = compressed(v, 0, flip=False)
    round = 0
    while True:
        before = slope(x)
        x = x + gamma * mixing @ h - lr * FALL**round * v
        h = h + compressed(x - h, round, flip=True)
        yield x
        round += 1
        v = v + gamma * mixing @ g + slope(x) - before
        g = g + compressed(v - g, round, flip=False)


@pytest.mark.parametrize("gradients", ["batch", "full"])
@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("graph", ["ring", "star"])
def test_beer(graph, name, gradients):
    words, compress = COMPRESSORS[name]
    word = f"{graph}:{CLIENTS}"
    algorithm = BEER(rounds=8, graph=word, gamma=0.2, gradients=gradients, local=recipe(lr=0.1, steps=1), **words)
    agree(algorithm, lambda world: beer(world, graph, 0.2, 0.1, compress))


# -- DFedAvgM and DFedSAM -------------------------------------------------------------------------------------------


def quantised(x, bits, key):
    """To multiples of largest/(2^(bits-1) - 1): up with the right probability, or to the nearest without a key."""
    most = 2 ** (bits - 1) - 1
    step = np.abs(x).max() / most
    whole = np.round(x / step) if key is None else np.clip(np.floor(x / step + uniform(key)), -most, most)
    return whole * step


def dfedavgm(world, graph, bits, base, rounding, **local):
    """Algorithm 1 without bits, else Algorithm 2 (Eq. 7), or its variant of DA-DPFL's code."""
    x, round = start_of(PROBLEM), 0
    while True:
        z = trained(x, 0.15 * FALL**round, 3, momentum=0.9, **local)
        yield z
        rows = weights(world, graph, round)
        if bits is None:
            x = rows @ z
        else:
            at = keys(world, "dfedavgm", round) if rounding == "stochastic" else [None] * CLIENTS
            q = np.array([quantised(z[k] - x[k], bits, at[k]) for k in EVERYBODY])
            x = (x if base == "start" else z) + rows @ q
        round += 1


@pytest.mark.parametrize("graph", ["star", "random"])
@pytest.mark.parametrize(
    ("bits", "base", "rounding"),
    [
        (None, "start", "nearest"),
        (4, "start", "stochastic"),
        (2, "trained", "stochastic"),
        (4, "trained", "nearest"),
        (16, "start", "nearest"),
    ],
)
def test_dfedavgm(graph, bits, base, rounding):
    near = Neighbourhoods(graph=graph if graph == "random" else f"{graph}:{CLIENTS}", degree=DEGREE)
    local = recipe(lr=0.15, steps=3, momentum=0.9)
    algorithm = DFedAvgM(rounds=6, bits=bits, base=base, rounding=rounding, neighbours=near, local=local)
    agree(algorithm, lambda world: dfedavgm(world, graph, bits, base, rounding))


@pytest.mark.parametrize("graph", ["star", "random"])
def test_dfedsam(graph):
    """Dividing by the length of a gradient costs a few digits where it is short."""
    near = Neighbourhoods(graph=graph if graph == "random" else f"{graph}:{CLIENTS}", degree=DEGREE)
    algorithm = DFedSAM(rounds=5, neighbours=near, local=recipe(lr=0.15, steps=3, momentum=0.9, sam=0.3))
    agree(algorithm, lambda world: dfedavgm(world, graph, None, "start", "nearest", radius=0.3), atol=1e-9)


# -- GossipFL -------------------------------------------------------------------------------------------------------


def gossipfl(world, group, density):
    x, round = start_of(PROBLEM), 0
    while True:
        z = trained(x, 0.15 * FALL**round, 3)
        yield z
        mask = uniform(int(world.stream("gossipfl", "mask", round).integers(2**63))) < density
        order = [int(k) for k in world.stream("matching", round).permutation(CLIENTS)]
        groups = [order[k : k + group] for k in range(0, CLIENTS - CLIENTS % group, group)]
        for k, extra in enumerate(order[CLIENTS - CLIENTS % group :]):
            groups[k % len(groups)].append(extra)
        x = z.copy()
        for members in groups:
            x[members] = np.where(mask, z[members].mean(axis=0), z[members])
        round += 1


@pytest.mark.parametrize(("group", "density"), [(2, 0.5), (3, 0.5), (2, 0.2), (8, 1.0)])
def test_gossipfl(group, density):
    algorithm = GossipFL(rounds=8, group=group, density=density, local=recipe(lr=0.15, steps=3))
    agree(algorithm, lambda world: gossipfl(world, group, density))


# -- Ditto ----------------------------------------------------------------------------------------------------------


def ditto(world, participants):
    own, round = start_of(PROBLEM), 0
    centre = own[0]
    while True:
        drawn = [int(k) for k in world.stream("ditto", "draw", round).choice(CLIENTS, participants, replace=False)]
        received = np.tile(centre, (participants, 1))
        own = own.copy()
        own[drawn] = trained(own[drawn], 0.2 * FALL**round, 2, clients=drawn, momentum=0.5, pull=0.7, anchor=received)
        yield own
        centre = trained(received, 0.15 * FALL**round, 3, clients=drawn).mean(axis=0)
        round += 1


def test_ditto():
    local, own = recipe(lr=0.15, steps=3), recipe(lr=0.2, steps=2, prox=0.7, momentum=0.5)
    agree(Ditto(rounds=12, participants=3, local=local, personal=own), lambda world: ditto(world, 3))
