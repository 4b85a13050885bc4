"""FedDST: one mask for all, of constant density, decided by averages over those who have a weight."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from paceline.algorithms import feddst
from paceline.algorithms.base import Model
from paceline.algorithms.feddst import FedDST, Update, aggregate
from paceline.algorithms.sparse import Peer, Swarm
from paceline.errors import SettingError
from paceline.learn.cohort.trainer import CohortTrainer
from paceline.learn.executor import Executor
from paceline.learn.models import build
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space
from paceline.learn.sparsity import counts, maskable
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from tests.algorithms.test_pfedavg import world_of
from tests.worlds.worlds import SPACE, FixedLinks, follow, spans

LOCAL = LocalSGD(lr=0.1, batch=4, epochs=5)
EVERY = {"interval": 1, "last": 1000}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"participants": 13}, "1 to 12"),
        ({"sparsity": 1.0}, "sparsity is 1.0"),
        ({"fraction": 1.5}, "fraction is 1.5"),
        ({"interval": 0}, "interval is 0"),
        ({"before": 0}, "before is 0"),
        ({"last": 0}, "last is 0"),
    ],
)
def test_impossible_settings_are_refused(words, said):
    with pytest.raises(SettingError, match=said):
        FedDST(**words).check(12)


# -- the server -----------------------------------------------------------------------------------------------------


def tiny():
    """One masked layer of 6 weights, and a bias."""
    return Space("tiny", lambda: torch.nn.Linear(6, 1), (6,))


def settled(peer):
    Executor(CohortTrainer()).run([peer.weights, peer.mask])
    return peer.weights.value.tolist(), peer.mask.value.tolist()


def vector(space, *numbers):
    """Six weights and a bias in the order of the flat vector."""
    value, (slot,) = torch.zeros(space.size), maskable(space)
    value[slot.start : slot.stop] = torch.tensor(numbers[:6])
    value[[k for k in range(7) if not slot.start <= k < slot.stop]] = numbers[6]
    return Model(space, value)


def update(space, weights, mask, samples):
    return Update(vector(space, *weights, 1.0 * samples), vector(space, *mask, 1.0), samples)


def weights_of(space, flat):
    (slot,) = maskable(space)
    return flat[slot.start : slot.stop]


def test_an_average_counts_only_those_who_have_the_weight():
    space = tiny()
    first = vector(space, 1, 1, 1, 0, 0, 0, 1)
    old = Peer(vector(space, *[0.0] * 7), first, first, (3,), known={0: first})
    updates = [
        update(space, (4.0, 2.0, 0, 0, 1.0, 0), (1, 1, 0, 0, 1, 0), 10),
        update(space, (1.0, 0, 3.0, 0, 0, 9.0), (1, 0, 1, 0, 0, 1), 30),
    ]
    new = aggregate(old, updates, maskable(space), ties=1)
    weights, mask = settled(new)
    # averages: (4*10 + 1*30)/40, 2 and 3 of one client each, 1, 9: the three largest are 9, 3 and 2
    assert weights_of(space, mask) == [0, 1, 1, 0, 0, 1]
    assert weights_of(space, weights) == [0, 2.0, 3.0, 0, 0, 9.0]
    (slot,) = maskable(space)
    bias = 6 if slot.start == 0 else 0
    assert weights[bias] == pytest.approx((10 * 10 + 30 * 30) / 40)
    assert not new.known and new.counts == (3,)


def test_dropping_is_a_vote_against_a_weight():
    """Nine of ten clients drop the first weight: what the tenth makes of it still counts. All drop the second: it
    goes, and what has grown, still 0, takes its place."""
    space = tiny()
    old = Peer(vector(space, *[0.0] * 7), *[vector(space, 1, 1, 1, 0, 0, 0, 1)] * 2, (3,))
    updates = [update(space, (0, 0, 1.0, 0, 0, 0), (0, 0, 1, 1, 1, 0), 5) for _ in range(9)]
    updates.append(update(space, (2.0, 0, 1.0, 0, 0, 0), (1, 0, 1, 1, 0, 0), 5))
    weights, mask = settled(aggregate(old, updates, maskable(space), ties=1))
    assert weights_of(space, weights) == [2.0, 0, 1.0, 0, 0, 0]
    assert weights_of(space, mask)[:3] == [1, 0, 1] and sum(weights_of(space, mask)) == 3


def zeros_of(space, kept):
    """A server's model of zeros only, and one update of zeros for each of these masks of (6,) weights."""
    old = Peer(vector(space, *[0.0] * 7), *[vector(space, 1, 1, 1, 0, 0, 0, 1)] * 2, (kept,))
    return old, lambda masks: [update(space, [0.0] * 6, mask, 5) for mask in masks]


@pytest.mark.parametrize("ties", range(5))
def test_of_equal_averages_those_that_most_have_stay(ties):
    """All 0, as what has just grown: by votes 1, 3, 0, 2, 2 and 1, not by index; what nobody has never comes."""
    space = tiny()
    old, updates = zeros_of(space, 3)
    masks = [(1, 1, 0, 1, 0, 0), (0, 1, 0, 1, 1, 0), (0, 1, 0, 0, 1, 1)]
    _, mask = settled(aggregate(old, updates(masks), maskable(space), ties=ties))
    assert weights_of(space, mask) == [0, 1, 0, 1, 1, 0]


def test_a_larger_average_counts_more_than_votes():
    space = tiny()
    old, updates = zeros_of(space, 1)
    found = [*updates([(1, 1, 0, 0, 0, 0)] * 3), update(space, (0, 0, 0, 0, 0, 0.1), (1, 0, 0, 0, 0, 1), 5)]
    assert weights_of(space, settled(aggregate(old, found, maskable(space), ties=3))[1]) == [0, 0, 0, 0, 0, 1]


def test_of_equal_votes_any_stay():
    """500 of 1,000 zeros that all have: their mean place is that of all within 5 standard deviations of 500 draws
    without replacement, a false alarm in 1.7 million; two draws have about 250 of 500 in common; seeded."""
    space = Space("wide", lambda: torch.nn.Linear(1000, 1, bias=False), (1000,))
    ones, zeros = (Model(space, torch.full((1000,), value)) for value in (1.0, 0.0))
    old = Peer(zeros, ones, ones, (500,))
    masks = [
        torch.tensor(settled(aggregate(old, [Update(zeros, ones, 5)] * 2, maskable(space), ties=k))[1]).bool()
        for k in (1, 1, 2)
    ]
    assert [int(mask.sum()) for mask in masks] == [500] * 3 and torch.equal(masks[0], masks[1])
    assert 200 < int((masks[0] & masks[2]).sum()) < 300
    places = masks[0].nonzero()[:, 0].double() / 999
    assert abs(float(places.mean()) - 0.5) < 5 * math.sqrt(1 / 12 / 500 * 500 / 999)


def test_without_readjustment_it_is_federated_averaging_of_sparse_models():
    space = tiny()
    own = vector(space, 1, 1, 1, 0, 0, 0, 1)
    old = Peer(vector(space, *[0.0] * 7), own, own, (3,), known={0: own})
    updates = [
        update(space, (1.0, 2.0, 3.0, 0, 0, 0), (1, 1, 1, 0, 0, 0), 1),
        update(space, (5.0, 6.0, 7.0, 0, 0, 0), (1, 1, 1, 0, 0, 0), 3),
    ]
    new = aggregate(old, updates, maskable(space), ties=None)
    assert weights_of(space, settled(new)[0]) == [4.0, 5.0, 6.0, 0, 0, 0]
    assert new.mask is own and new.known == {0: own}


# -- rounds ---------------------------------------------------------------------------------------------------------


def learned(monkeypatch, *words):
    """Every round's peer of the server and the clients' updates, as they were learned."""
    found = []

    def watched(peer, updates, slots, ties):
        new = aggregate(peer, updates, slots, ties)
        found.append((peer, list(updates), slots, ties is not None, new))
        return new

    monkeypatch.setattr(feddst, "aggregate", watched)
    settings = ["clients=12", "partition=pathological:2", "feddst.participants=4", "rounds=6", "local.epochs=2"]
    run = make_run(make_settings("feddst", [*settings, *words]))
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None, run.failure
    models = [m for _, updates, _, _, new in found for m in (new.weights, new.mask, *(u.mask for u in updates))]
    Executor(CohortTrainer()).run(models)
    return found, run


@pytest.mark.parametrize("more", [(), ("feddst.before=1",), ("local.momentum=0.9",)])
def test_the_mask_keeps_its_density_and_is_the_same_for_all(monkeypatch, more):
    found, _run = learned(monkeypatch, "feddst.interval=1", "feddst.last=100", "feddst.sparsity=0.7", *more)
    assert len(found) == 6
    for peer, updates, slots, moved, new in found:
        assert moved
        for mask in [new.mask, *(update.mask for update in updates)]:
            assert tuple(counts(mask.value[None], slots)[0].tolist()) == peer.counts == new.counts
        assert not new.weights.value[new.mask.value == 0].any()
        assert len({mask.mask.value.numpy().tobytes() for mask in updates}) == 4  # clients differ before the vote
    for (*_, before), (peer, *_) in pairwise(found):
        assert peer == before  # and all start the next round from the server's one mask
    first, last = found[0][0].mask.value, found[-1][-1].mask.value
    assert (first != last).any()


def test_what_grows_has_no_favourite_rows(monkeypatch):
    """Ties by index would let the mask drift to a layer's last rows: there the mean place of what the server takes up
    was 0.87 of the way. The run is seeded, and the bound is 6 standard deviations of as many independent places."""
    found, _run = learned(monkeypatch, "feddst.interval=1", "feddst.last=100", "model=mlp:32")
    places = []
    for peer, _, slots, _, new in found:
        old, now = (mask.value[slots[0].start : slots[0].stop] for mask in (peer.mask, new.mask))
        places += ((now == 1) & (old == 0)).nonzero()[:, 0].double().div(len(old)).tolist()
    assert len(places) > 100
    assert abs(np.mean(places) - 0.5) < 6 / np.sqrt(12 * len(places))


def test_each_readjustment_draws_its_own_ties_and_each_round_its_clients(monkeypatch):
    """Of 495 fours a round draws one: that two of six rounds draw the same has a chance of 3 %; seeded."""
    drawn, keys = [], []
    gather, add = feddst.draw_clients, aggregate
    monkeypatch.setattr(feddst, "draw_clients", lambda *words: drawn.append(gather(*words)) or drawn[-1])
    monkeypatch.setattr(feddst, "aggregate", lambda *words: keys.append(words[-1]) or add(*words))
    world = world_of([1.0] * 12)
    follow(world, FedDST(rounds=6, participants=4, local=LOCAL, **EVERY))
    assert len({tuple(sorted(some)) for some in drawn}) == 6
    assert len(set(keys)) == 6 and None not in keys


def test_masks_stay_between_readjustments(monkeypatch):
    found, _run = learned(monkeypatch, "feddst.interval=3", "feddst.last=100")
    assert [moved for *_, moved, _ in found] == [False, True, False, False, True, False]
    for peer, updates, _, moved, new in found:
        if not moved:
            assert new.mask is peer.mask and all(update.mask is peer.mask for update in updates)


def test_the_share_that_moves_falls_to_nothing():
    algorithm = FedDST(rounds=40, interval=5, fraction=0.4)
    shares = [algorithm.moved(round) for round in range(40)]
    assert [round for round, share in enumerate(shares) if share] == [1, 6, 11, 16]
    assert shares[11] == pytest.approx(0.2 * (1 + math.cos(math.pi * 11 / 20)))


def test_every_round_is_the_first_too():
    """As in the authors' code, where (round - 1) modulo the interval must be 0."""
    assert FedDST(rounds=40, interval=1, fraction=0.4).moved(0) == 0.4
    assert FedDST(rounds=40, interval=2, fraction=0.4).moved(0) == 0.0


def test_growing_before_the_end_lets_new_weights_be_trained(monkeypatch):
    words = ("feddst.interval=1", "feddst.last=100")
    grown = {}
    for before in ("none", "1"):
        found, _run = learned(monkeypatch, *words, f"feddst.before={before}")
        peer, updates, *_ = found[0]
        Executor(CohortTrainer()).run([update.weights for update in updates])
        new = [(u.weights.value[(u.mask.value == 1) & (peer.mask.value == 0)] != 0).any() for u in updates]
        grown[before] = [bool(one) for one in new]
    assert grown == {"none": [False] * 4, "1": [True] * 4}


# -- costs ----------------------------------------------------------------------------------------------------------


def dry(rounds=4, **words):
    world = world_of([1.0] * 12, FixedLinks(0.5))
    algorithm = FedDST(rounds=rounds, participants=12, local=LOCAL, **words)
    return world, follow(world, algorithm), Swarm(world, density=0.5, same_masks=True)


def test_sparse_models_travel_both_ways_and_masks_when_they_are_news():
    world, times, swarm = dry(interval=2, last=1000, fraction=0.5)
    counts_ = swarm.peers[0].counts
    mask, values = (one.nbytes for one in swarm.parcel(swarm.start, swarm.start, counts_, None))
    plain, told = values, values + mask
    assert plain < told < SPACE.size * 4
    rows = spans(world, "site", "round", "bytes", kinds=("send",))
    down = {round: {size for site, round_, size in rows if site < 0 and round_ == round} for round in range(4)}
    up = {round: {size for site, round_, size in rows if site >= 0 and round_ == round} for round in range(4)}
    assert down == {0: {told}, 1: {plain}, 2: {told}, 3: {plain}}  # the first mask, and the one of round 1's vote
    assert up == {0: {plain}, 1: {told}, 2: {plain}, 3: {told}}
    # one batch of 4 is 4/50 of five epochs over ten samples
    assert np.allclose(np.diff([0.0, *times]), [2.0, 2.08, 2.0, 2.08])


def test_flops_know_density_and_growth_costs_one_dense_batch_more():
    world, _, swarm = dry(rounds=2, **EVERY)
    flops = [flops for (flops,) in spans(world, "flops", kinds=("train",))]
    sparse = 3 * swarm.flops(swarm.peers[0].counts)
    assert flops == [pytest.approx(sparse * LOCAL.samples_for(10) + 3 * SPACE.flops * LOCAL.batch)] * 24
    assert sparse < 3 * SPACE.flops and world.ledger.visits == 24
    both = FedDST(local=LOCAL, before=2)
    assert [part.epochs for part in both.parts(0.5)] == [2, 3] and both.parts(0.0) == (LOCAL, None)


def test_the_server_adds_what_arrives():
    """Dense sums of 12 models, and in the second round of their masks too: 2 FLOPs a number, as FedAvg's."""
    world, _, _ = dry(rounds=3, interval=2, last=1000)
    work = spans(world, "site", "flops", kinds=("work",))
    assert work == [(-1, factor * 2 * 12 * SPACE.size) for factor in (1, 2, 1)]


def test_a_bigger_network_is_halved_on_the_wire():
    """DA-T2: half of ResNet-18's 426 MiB for ten models; by the paper's count exactly half."""
    space = Space("mlp:64", lambda: build("mlp:64", (64,), 10), (64,))
    run = make_run(make_settings("feddst", ["model=mlp:64", "rounds=2", "feddst.accounting=weights"]), dry=True)
    drive([run], make_executor(run.settings.executor))
    assert run.rows[-1]["bytes"] == pytest.approx(2 * 2 * 10 * 4 * space.size / 2, rel=1e-3)


def test_layers_that_stay_dense_cost_what_they_have():
    """DA-E11: first and last layer dense; only the 120 weights between are halved, and their mask is sent."""
    sizes = {}
    for dense in ("none", "1+5"):
        words = ["model=mlp:12,10", "rounds=2", "clients=10", f"feddst.dense={dense}", "feddst.fraction=0"]
        run = make_run(make_settings("feddst", words), dry=True)
        drive([run], make_executor(run.settings.executor))
        sizes[dense] = run.rows[-1]["bytes"]
    space = Space("mlp:12,10", lambda: build("mlp:12,10", (64,), 10), (64,))
    values, mask = 4 * (space.size - 60), 120 // 8
    assert sizes["1+5"] == 2 * 2 * 10 * values + 10 * mask
    assert sizes["none"] < sizes["1+5"]
