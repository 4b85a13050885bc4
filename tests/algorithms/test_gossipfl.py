"""GossipFL: random pairs that average what a shared mask covers."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from paceline.algorithms.gossip import draws
from paceline.algorithms.gossipfl import GossipFL, under_mask
from paceline.errors import SettingError
from paceline.learn.recipe import LocalSGD
from tests.algorithms.test_gossip import personal
from tests.algorithms.test_pfedavg import LOCAL, quadratics, world_of
from tests.worlds.worlds import SPACE, FixedLinks, follow, quadratic_world, spans

RATE = 0.25
ONE_STEP = LocalSGD(lr=RATE, batch=24, steps=1, loss="squared")


@pytest.mark.parametrize(
    ("words", "said"), [({"group": 1}, "2 or more"), ({"group": 37}, "2 to 36"), ({"density": 0.0}, "above 0")]
)
def test_impossible_settings_are_refused(words, said):
    with pytest.raises(SettingError, match=said):
        GossipFL(**words).check(36)


@pytest.mark.parametrize(("clients", "alone"), [(10, 0), (11, 1)])
def test_pairs_are_a_matching(clients, alone):
    world = world_of([1.0] * clients)
    rounds = [GossipFL().groups(world, round) for round in range(20)]
    for groups in rounds:
        met = [client for group in groups for client in group]
        assert all(len(group) == 2 for group in groups)
        assert len(met) == len(set(met)) == clients - alone
    assert len({frozenset(map(frozenset, groups)) for groups in rounds}) == 20  # of 945 matchings or more; seeded


def test_on_a_graph_neighbours_meet():
    """On a ring of 10, only those beside each other; nobody is left over beside another one who is."""
    world = world_of([1.0] * 10)
    rounds = [GossipFL(graph="ring").groups(world, round) for round in range(20)]
    for groups in rounds:
        met = {client for group in groups for client in group}
        assert all((one - other) % 10 in (1, 9) for one, other in groups)
        assert len(met) == 2 * len(groups)
        assert not any(k not in met and (k + 1) % 10 not in met for k in range(10))
    assert len({frozenset(map(frozenset, groups)) for groups in rounds}) > 3


@pytest.mark.parametrize("words", [{"graph": "ring", "group": 3}, {"graph": "random"}])
def test_graphs_are_for_pairs(words):
    with pytest.raises(SettingError, match="neighbours meet in pairs"):
        GossipFL(**words).check(12)
    with pytest.raises(SettingError, match="9 nodes for 12"):
        GossipFL(graph="torus:3x3").check(12)


@pytest.mark.parametrize(
    ("clients", "group", "sizes"), [(100, 11, [11] * 8 + [12]), (12, 4, [4] * 3), (11, 4, [5, 6])]
)
def test_groups_hold_everybody_once(clients, group, sizes):
    groups = GossipFL(group=group).groups(world_of([1.0] * clients), 3)
    assert sorted(map(len, groups)) == sizes
    assert sorted(client for one in groups for client in one) == list(range(clients))


@pytest.mark.parametrize("group", [2, 3])
def test_masked_weights_are_the_groups_mean_and_others_are_untouched(group):
    """After one more full-batch step z = x - rate (x - c), x can be read off: it is the state after the meeting."""
    problem = quadratics(6, dimension=12, sigma2=0.0)
    algorithm = GossipFL(rounds=2, group=group, local=ONE_STEP)
    world = quadratic_world(problem)
    first, second = personal(algorithm, world)
    after = (second - RATE * problem.centre) / (1 - RATE)
    key = int(world.stream("gossipfl", "mask", 0).integers(2**63))
    mask = (draws(key, torch.zeros(12)) < 0.5).numpy()
    assert 0 < mask.sum() < 12
    groups = algorithm.groups(world, 0)
    assert len(groups) == 6 // group
    for members in groups:
        mean = first[list(members)].mean(axis=0)
        for client in members:
            assert np.allclose(after[client], np.where(mask, mean, first[client]), rtol=0, atol=1e-12)
            assert not np.allclose(mean, first[client], atol=1e-3)


def test_the_mask_is_the_same_for_all_and_covers_its_share():
    """Of 100,000 weights half are covered, within 5 standard deviations: a false alarm in 1.7 million."""
    own, centre = torch.zeros(3, 100_000), torch.ones(3, 100_000)
    found = under_mask(own, centre, key=11, density=0.5)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    assert abs(float(found[0].sum()) - 50_000) < 5 * np.sqrt(25_000)
    assert not torch.equal(found, under_mask(own, centre, key=12, density=0.5))
    assert torch.equal(under_mask(own, centre, key=11, density=1.0), centre)


def test_with_all_weights_and_one_group_it_is_fedavg():
    problem = quadratics(5, sigma2=0.0)
    local = LocalSGD(lr=RATE, batch=6, steps=1, loss="squared")
    found = personal(GossipFL(rounds=3, group=5, density=1.0, local=local), quadratic_world(problem))
    for before, after in pairwise(found):
        x = before.mean(axis=0)
        assert np.allclose(after, x - RATE * (x - problem.centre), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("density", "group"), [(0.5, 2), (1.0, 2), (0.5, 5)])
def test_only_values_under_the_mask_travel(density, group):
    """As many as the round's mask covers, 4 bytes each; the mask itself follows from a seed that all have."""
    world = world_of([1.0] * 10, FixedLinks(0.1))
    follow(world, GossipFL(rounds=3, density=density, group=group, local=LOCAL))
    keys = [int(world.stream("gossipfl", "mask", round).integers(2**63)) for round in range(3)]
    covered = [int((draws(key, torch.zeros(SPACE.size)) < density).sum()) for key in keys]
    assert (covered == [SPACE.size] * 3) == (density == 1.0)
    sizes = sorted(spans(world, "round", "bytes", kinds=("send",)))
    assert sizes == [(round, 4.0 * covered[round]) for round in range(3) for _ in range(10 * (group - 1))]
