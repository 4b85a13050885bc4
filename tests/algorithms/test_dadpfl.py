"""DA-DPFL (DA-1 ... DA-12): who waits for whom, what is averaged, masks, sparsity, bytes and FLOPs."""

import asyncio
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from paceline.algorithms.dadpfl import DADPFL, Pruning
from paceline.algorithms.neighbourhoods import Neighbourhoods, matching
from paceline.algorithms.reuse import End, Turn
from paceline.algorithms.sparse import Swarm
from paceline.errors import SettingError
from paceline.learn import sparsity
from paceline.learn.recipe import LocalSGD
from paceline.learn.sparsity import layer_counts, maskable
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.system.availability import Leave
from tests.algorithms.test_pfedavg import world_of
from tests.worlds.worlds import SPACE, FixedLinks, dry_world, follow, play, spans

LOCAL = LocalSGD(lr=0.1, batch=4, steps=3)
NO_PRUNING = Pruning(target=0.0)


def dry(clients=12, graph="random", degree=4, wait=10, rounds=3, links=None, times=None, **more):
    world = world_of(times or [1.0] * clients, links)
    algorithm = DADPFL(
        rounds=rounds,
        neighbours=Neighbourhoods(graph=graph, degree=degree),
        wait=wait,
        pruning=NO_PRUNING,
        regrow=more.pop("regrow", 0.0),
        local=LOCAL,
        **more,
    )
    algorithm.check(clients)
    return world, algorithm, follow(world, algorithm)


def begins(world, round=0):
    """When each client began to train."""
    rows = spans(world, "site", "start", "round", kinds=("train",))
    return {site: start for site, start, r in rows if r == round}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"wait": -1}, "wait is -1"),
        ({"sparsity": 1.0}, "sparsity is 1.0"),
        ({"neighbours": Neighbourhoods(degree=12)}, "wanted 1 to 11"),
        ({"neighbours": Neighbourhoods(graph="torus:3x3")}, "9 nodes for 12 clients"),
        ({"regrow": 1.5}, "regrow is 1.5"),
        ({"pruning": Pruning(target=1.0)}, "target is 1.0"),
        ({"pruning": Pruning(threshold=-1.0)}, "threshold is -1.0"),
        ({"pruning": Pruning(share=5.0)}, "share is 5.0"),
        ({"pruning": Pruning(delay=math.inf)}, "delay is inf"),
        ({"pruning": Pruning(scale=0.0)}, "scale is 0.0"),
        ({"pruning": Pruning(first=0)}, "first is 0"),
    ],
)
def test_impossible_settings_are_refused(overrides, said):
    with pytest.raises(SettingError, match=said):
        DADPFL(**overrides).check(12)


# -- who waits for whom ---------------------------------------------------------------------------------------------


def test_no_waiting_is_parallel():
    world, _, times = dry(wait=0)
    assert set(begins(world).values()) == {0.0} and times == [1.0, 2.0, 3.0]


def test_everybody_waiting_for_all_before_is_sequential():
    """N = M = K - 1 (DA-3)."""
    world, _, times = dry(graph="complete", wait=11)
    order = world.stream("reuse order", 0).permutation(12)
    assert begins(world) == {client: float(order[client]) for client in range(12)}
    assert times == [12.0, 24.0, 36.0]


@pytest.mark.parametrize("rule", ["fastest", "lowest"])
@pytest.mark.parametrize("wait", [1, 2, 5])
def test_starts_are_those_of_the_definition(rule, wait):
    """DA-4, by a loop over clients in their order: the N-th earliest finish of the prior set, or the latest of its N
    lowest indices."""
    times = [1.0 + 0.37 * k for k in range(12)]
    world, algorithm, _ = dry(wait=wait, rule=rule, times=times, degree=7)
    near = algorithm.neighbours.draw(world, 0)
    order = [int(place) for place in world.stream("reuse order", 0).permutation(12)]
    finish = {}
    for client in sorted(range(12), key=lambda k: order[k]):
        prior = [j for j in near[client] if order[j] < order[client]]
        if rule == "lowest":
            waited = sorted(prior, key=lambda j: order[j])[:wait]
        else:
            waited = sorted(prior, key=lambda j: finish[j])[:wait]
        start = max((finish[j] for j in waited), default=0.0)
        assert begins(world)[client] == pytest.approx(start)
        finish[client] = start + times[client]


def test_the_share_that_starts_at_once():
    """1/(M+1) of the clients have nobody before them (DA-T5): 300 rounds of 40 clients, 5 standard errors of a
    binomial (clients of one round are not independent, but nearly): a false alarm in a million or so."""
    world, _, times = dry(clients=40, degree=4, wait=10, rounds=300)
    begun = [0.0, *times[:-1]]
    rows = spans(world, "start", "round", kinds=("train",))
    share = np.mean([start == begun[r] for start, r in rows])
    assert abs(share - 1 / 5) < 5 * math.sqrt(0.2 * 0.8 / len(rows)) * 1.5


def test_the_cap_may_fall_to_nothing():
    _world, _, times = dry(graph="complete", wait=3, decay=True, rounds=8)
    lengths = np.diff([0.0, *times])
    assert lengths[-1] == 1.0 and lengths[0] > lengths[-1]


def test_waits_name_who_was_waited_for():
    world, _, _ = dry(graph="complete", wait=11, rounds=1)
    order = [int(place) for place in world.stream("reuse order", 0).permutation(12)]
    by_place = {place: client for client, place in enumerate(order)}
    waits = spans(world, "site", "peer", "end", kinds=("wait",))
    for place in range(1, 12):
        assert (by_place[place], by_place[place - 1], float(place)) in waits


def test_models_of_the_round_s_start_come_while_a_client_waits():
    """All hear all and wait for all before: who is last has everything but the last model when that is trained."""
    world, _, _ = dry(clients=5, graph="complete", wait=4, rounds=1, times=[10.0] * 5, links=FixedLinks(1.0))
    order = [int(place) for place in world.stream("reuse order", 0).permutation(5)]
    by_place = {place: client for client, place in enumerate(order)}
    begun = dict(spans(world, "site", "start", kinds=("train",)))
    first, second, last = by_place[0], by_place[1], by_place[4]
    came = {(site, peer): start for site, peer, start in spans(world, "site", "peer", "start", kinds=("receive",))}
    for place in (2, 3, 4):
        assert came[second, by_place[place]] < begun[first] + 10.0, "old ones meanwhile"
    assert 0 <= came[second, first] - begun[first] - 10.0 <= 3, "a fresh one when it is there; four want it"
    assert came[last, by_place[3]] == begun[by_place[3]] + 10.0
    assert begun[last] == came[last, by_place[3]] + 1.0


def test_of_those_who_finish_during_a_fetch_the_first_ones_count():
    """2, 0 and 1 finish at 1, 2 and 3 s, a transfer takes 10 s: with N = 2 the first two count, not the order."""
    world = world_of([1.0] * 5, FixedLinks(10.0))

    async def main():
        swarm = Swarm(world, density=0.5)
        turn = Turn(world, 0, Neighbourhoods(graph="complete", degree=4).draw(world, 0), cap=2)
        turn.order = [1, 0, 2, 4, 3]
        old = swarm.peers[0].counts
        new = {client: replace(swarm.peers[client], counts=(1,) * len(old)) for client in range(3)}

        async def finish(client, when):
            await asyncio.sleep(when)
            turn.finish(End(client, new[client], new[client].weights, world.now()))

        found, *_ = await asyncio.gather(
            turn.hear_first(world, swarm, 4, [0, 1, 2]), finish(2, 1.0), finish(0, 2.0), finish(1, 3.0)
        )
        heavy, light = swarm.wires(old).charge, swarm.wires((1,) * len(old)).charge
        assert heavy > light
        return [found[client][0].nbytes == light for client in range(3)], world.now()

    assert play(world, main()) == ([True, False, True], 31.0)


def test_a_client_that_receives_does_not_wait_at_the_same_time():
    words = [
        "clients=8",
        "da-dpfl.wait=2",
        "da-dpfl.neighbours.graph=complete",
        "da-dpfl.pruning.target=0",
        "rounds=2",
    ]
    network = ["fleet.links=rate:0.03,0.1", "fleet.sharing=fair", "fleet.times=constant:5"]
    ledger = run(*words, *network, dry=True).world.ledger
    rows = ledger.table().to_pylist()
    waits = [row for row in rows if row["kind"] == "wait"]
    assert waits
    for wait in waits:
        for row in rows:
            if row["kind"] == "receive" and row["site"] == wait["site"]:
                assert row["end"] <= wait["start"] + 1e-9 or wait["end"] <= row["start"] + 1e-9


def test_nobody_stands_in_line_for_the_same_few():
    """All fetch at once, and every link carries one model at a time: complete, in as many turns as there are others;
    at random, hardly more turns than the busiest has listeners."""
    _, _, times = dry(clients=30, graph="complete", wait=0, rounds=1, links=FixedLinks(1.0))
    assert times == [29.0 + 1.0]
    world, _, times = dry(clients=60, degree=8, wait=0, rounds=1, links=FixedLinks(1.0))
    near = Neighbourhoods(graph="random", degree=8).draw(world, 0)
    busiest = np.bincount(np.concatenate(near)).max()
    assert busiest <= times[0] - 1.0 <= 1.5 * busiest


# -- bytes and FLOPs ------------------------------------------------------------------------------------------------


def test_a_sparse_model_is_smaller_and_its_mask_travels_once():
    """A ring, masks that stay: 4 bytes a non-zero weight; the bitmap only in the first round."""
    world, _, _ = dry(graph="ring", rounds=3, links=FixedLinks(0.1))
    swarm = Swarm(world, density=0.5)
    counts = swarm.peers[0].counts
    weights = 4.0 * (SPACE.size - sum(s.stop - s.start for s in swarm.slots) + sum(counts))
    bitmap = math.ceil(sum(s.stop - s.start for s in swarm.slots) / 8)
    sizes = [size for size, r in spans(world, "bytes", "round", kinds=("send",))]
    assert sizes == [weights + bitmap] * 24 + [weights] * 48
    mask, values = swarm.parcel(swarm.start, swarm.start, counts, None)
    assert (values.nbytes, mask.nbytes) == (weights, bitmap)


def test_the_papers_accounting_is_weights_only():
    world, _, _ = dry(graph="ring", rounds=2, links=FixedLinks(0.1), accounting="weights")
    kept = sum(layer_counts(maskable(SPACE), 0.5)) / sum(s.stop - s.start for s in maskable(SPACE))
    assert {size for (size,) in spans(world, "bytes", kinds=("send",))} == {4.0 * kept * SPACE.size}


def test_flops_know_density():
    world, _, _ = dry(rounds=1)
    swarm = Swarm(world, density=0.5)
    expected = 3 * swarm.flops(swarm.peers[0].counts) * LOCAL.samples_for(10)
    assert {flops for (flops,) in spans(world, "flops", kinds=("train",))} == {expected}
    assert swarm.flops(swarm.peers[0].counts) < SPACE.flops


def test_growth_by_gradient_costs_one_dense_batch_more():
    """Four samples after ten, in the same visit; a gradient knows no mask."""
    world, _, times = dry(rounds=2, wait=0, regrow=0.3)  # of two rounds the last one moves nothing (DA-11)
    swarm = Swarm(world, density=0.5)
    samples = LOCAL.samples_for(10) + LOCAL.batch
    sparse, dense = swarm.flops(swarm.peers[0].counts) * LOCAL.samples_for(10), SPACE.flops * LOCAL.batch
    expected = pytest.approx(3 * (sparse + dense))
    assert [flops for (flops,) in spans(world, "flops", kinds=("train",))][:12] == [expected] * 12
    assert times[0] == pytest.approx(samples / LOCAL.samples_for(10)) and world.ledger.visits == 24


def test_a_batch_is_no_larger_than_its_client():
    """Ten samples of a batch of twenty: the gradient costs one epoch after five."""
    world = dry_world([1.0] * 3)

    async def main():
        recipe = LocalSGD(lr=0.1, batch=20, epochs=5)
        await world.learning.train_then_gradient(0, world.initial_model(), recipe, at=lambda trained: trained)

    play(world, main())
    assert world.samples(0) == 10
    ((end, flops),) = spans(world, "end", "flops", kinds=("train",))
    assert (end, flops) == (pytest.approx(1.2), pytest.approx(3 * 60 * SPACE.flops))


# -- learning -------------------------------------------------------------------------------------------------------


def run(*words, name="da-dpfl", **options):
    settings = ["clients=12", "partition=pathological:2", "da-dpfl.neighbours.degree=4", "dispfl.neighbours.degree=4"]
    one = make_run(
        make_settings(name, [*settings, "rounds=8", "local.epochs=1", "executor.dtype=float64", *words]), **options
    )
    drive([one], make_executor(one.settings.executor))
    assert one.failure is None, one.failure
    return one


def states(*words):
    """After every round: trained models and the peers, as values."""
    one = make_run(make_settings("da-dpfl", ["clients=8", "partition=pathological:2", "local.epochs=1", *words]))
    world, algorithm, found = one.world, one.settings.algorithm, []

    async def main():
        swarms = []
        original = Swarm.__init__

        def remember(self, *arguments, **options):
            original(self, *arguments, **options)
            swarms.append(self)

        Swarm.__init__ = remember
        try:
            stream = algorithm.run(world)
            async for progress in stream:
                world.progress += 1
                found.append((list(progress.model), list(swarms[0].peers), dict(progress.info)))
        finally:
            Swarm.__init__ = original
        return swarms[0]

    executor = make_executor(one.settings.executor)
    world.loop.start(main())
    while not world.loop.advance():
        promises, world.learner.promises = world.learner.promises, []
        executor.run([], [promise for promise, _ in promises])
        for promise, hold in promises:
            if hold is not None:
                world.loop.settle(hold, promise.result)
    swarm = world.loop.result()
    executor.run(
        [
            m
            for models, peers, _ in found
            for m in [*models, *[x for p in peers for x in (p.weights, p.mask, p.support)]]
        ]
    )
    return swarm, found, world


def test_a_layer_that_stays_dense_is_never_masked_pruned_or_told():
    """DA-E11: through masks, RigL, pruning, averages, bytes and FLOPs; the sparsity is that of the other layers."""
    words = ["model=mlp:12,10", "rounds=6", "da-dpfl.neighbours.degree=3", "da-dpfl.pruning.first=2"]
    swarm, found, world = states(*words, "da-dpfl.dense=3")
    every = maskable(swarm.space)
    (dense,) = set(every).difference(swarm.slots)
    assert (len(every), dense.name) == (3, "3.weight")
    for models, peers, _ in found:
        for model, peer in zip(models, peers, strict=True):
            for promise in (peer.mask, peer.support, model):
                assert promise.value[dense.start : dense.stop].all()
    assert found[-1][2]["sparsity"] > found[0][2]["sparsity"] == pytest.approx(0.5, abs=0.01)
    maskable_size, counts = sum(slot.stop - slot.start for slot in swarm.slots), swarm.peers[0].counts
    wires = swarm.wires(counts)
    assert wires.charge == 4.0 * (swarm.space.size - maskable_size + sum(counts))
    assert wires.mask_charge == math.ceil(maskable_size / 8)
    assert {size for (size,) in spans(world, "bytes", kinds=("send",))}.isdisjoint({4.0 * swarm.space.size})
    all_kept = tuple(slot.stop - slot.start for slot in swarm.slots)
    lost = [size - kept for size, kept in zip(all_kept, counts, strict=True)]
    assert swarm.flops(all_kept) == swarm.space.flops > swarm.flops(counts) > swarm.space.flops - 3 * sum(lost)


@pytest.mark.parametrize("name", ["da-dpfl", "dispfl", "feddst"])
def test_which_layers_stay_dense_is_a_setting(name):
    """Known before work starts; a word that is in no layer's name is a slip, and named with what there is."""
    words = ["model=mlp:12,10", "clients=12", f"{name}.rounds=1"]
    with pytest.raises(SettingError, match=r"dense is 'a\+'; wanted none, or parts of layers' names joined by \+"):
        make_run(make_settings(name, [*words, f"{name}.dense=a+"]), dry=True)
    one = make_run(make_settings(name, [*words, f"{name}.dense=shortcut"]), dry=True)
    drive([one], make_executor(one.settings.executor))
    assert "no layer of mlp:12,10 has 'shortcut' in its name" in str(one.failure)


def test_masks_are_respected_and_counts_are_what_the_schedule_believes():
    words = ["rounds=9", "da-dpfl.pruning.first=2", "da-dpfl.neighbours.degree=3", "local.momentum=0.9"]
    swarm, found, _ = states(*words)
    before, counts_before = None, []
    for models, peers, _info in found:
        for k, peer in enumerate(peers):
            for which in (peer.mask, peer.support):
                layers = [which.value[s.start : s.stop] for s in swarm.slots]
                assert tuple(int(layer.sum()) for layer in layers) == peer.counts
            assert peer.weights.value.equal(models[k].value * peer.support.value), (
                "DA-12: trained, less what is pruned"
            )
            if before is not None:
                assert not models[k].value[before[k] == 0].any()
                assert (peer.support.value <= before[k]).all(), "nothing has grown in what others average"
                assert peer.counts <= counts_before[k]
        before = [peer.mask.value for peer in peers]
        counts_before = [peer.counts for peer in peers]
    sparsities = [info["sparsity"] for _, _, info in found]
    assert sparsities[0] == pytest.approx(0.5, abs=1e-3) and sparsities[-1] > 0.6
    assert all(a <= b for a, b in itertools.pairwise(sparsities)) and sparsities[-1] <= 0.8 + 1e-3


def test_a_round_starts_from_the_average_of_what_was_trained():
    """DA-12: moved masks decide who takes a weight in the next average, not who gives one."""
    words = ["rounds=2", "da-dpfl.pruning.target=0", "da-dpfl.neighbours.graph=complete", "da-dpfl.wait=0"]
    # In its second round nothing moves any more: what is trained is what it started from.
    _, ((_, peers, _), (models, *_)), _ = states(*words, "local.schedule=exponential:1e-9", "local.weight_decay=0")
    total, count = sum(p.weights.value for p in peers), sum(p.support.value for p in peers)
    assert (count == 0).any() and all((p.mask.value != p.support.value).any() for p in peers)
    for own, trained in zip(peers, models, strict=True):
        assert torch.allclose(trained.value, total / count.clamp(min=1) * own.mask.value, atol=1e-6)


@pytest.mark.parametrize("at_once", [20, 3])
def test_distances_are_measured_from_the_own_sparse_start(at_once, monkeypatch):
    """DA-8: from w_k^0, not from the dense model that all masks were taken from; in portions, if there are many."""
    monkeypatch.setattr("paceline.algorithms.sparser.SCORED", at_once)
    asked = []

    def watched(models, starts, slots, norm):
        asked.append((starts, models))
        return sparsity.detection(models, starts, slots, norm)

    monkeypatch.setattr("paceline.algorithms.sparser.detection", watched)
    words = ["rounds=1", "da-dpfl.neighbours.degree=3", "da-dpfl.wait=0"]
    _, ((models, peers, _),), world = states(*words)
    starts, trained = map(torch.cat, zip(*asked, strict=True))
    assert max(len(models) for _, models in asked) == min(at_once, 8)
    dense, masks = world.initial_model().value, torch.stack([peer.support.value for peer in peers])
    assert starts.equal(dense * masks) and trained.equal(torch.stack([model.value for model in models]))


def test_nobody_votes_in_the_first_round():
    """DA-8: t >= 2, whatever the threshold."""
    one = run("da-dpfl.pruning.threshold=1.5", "rounds=6")
    assert next(note for note in one.world.chronicle.events if "vote" in note.text).figures["first"] == 2


def test_who_is_away_does_not_vote():
    """A client that has not trained has not moved either, but nobody asks it whether learning has settled."""
    calm = ["da-dpfl.pruning.threshold=1e-6", "rounds=4"]
    assert not run(*calm, "fleet.availability=dropout:0.9").world.chronicle.events
    assert run("da-dpfl.pruning.threshold=1e6", "rounds=4", "fleet.availability=dropout:0.5").world.chronicle.events


def test_nobody_prunes_beyond_the_target():
    swarm, found, _ = states("rounds=12", "da-dpfl.pruning.first=1", "da-dpfl.pruning.target=0.6",
                             "da-dpfl.neighbours.degree=3")  # fmt: skip
    total = sum(s.stop - s.start for s in swarm.slots)
    assert all(abs(swarm.sparsity(p.counts) - 0.6) < 1 / total + 1e-9 for p in found[-1][1])


@pytest.mark.parametrize("growth", ["gradient", "random"])
def test_dispfl_keeps_its_sparsity_and_moves_its_masks(growth):
    words = ["rounds=3", "da-dpfl.pruning.target=0", "da-dpfl.neighbours.degree=3", f"da-dpfl.growth={growth}"]
    _, found, _ = states(*words)
    first, last = found[0][1], found[-1][1]
    assert all(torch.equal(a.mask.value.sum(), b.mask.value.sum()) for a, b in zip(first, last, strict=True))
    assert all(a.counts == b.counts for a, b in zip(first, last, strict=True))
    assert any(not torch.equal(a.mask.value, b.mask.value) for a, b in zip(first, last, strict=True))


def test_a_vote_starts_pruning():
    one = run("rounds=24", "da-dpfl.pruning.threshold=0.2")
    note = next(note for note in one.world.chronicle.events if "vote for pruning" in note.text)
    assert note.figures["rounds"][0] == note.figures["first"] + 1  # DA-E5
    assert one.rows[-1]["sparsity"] > one.rows[0]["sparsity"]


def test_one_client_is_told_what_to_do():
    with pytest.raises(SettingError, match="graph=complete"):
        DADPFL().check(1)
    DADPFL(neighbours=Neighbourhoods(graph="complete")).check(1)


def test_no_pruning_needs_no_learning():
    one = run("da-dpfl.pruning.target=0", dry=True)
    assert one.rows[-1]["sparsity"] == pytest.approx(0.5, abs=1e-3)
    assumed = run(dry=True)
    assert assumed.rows == one.rows
    (note,) = assumed.summary()["notes"]
    assert "dry run learns nothing" in note["text"]
    assert "pruning.target=0" in note["text"]


class Leaving:
    """One client leaves in the middle of its first visit."""

    def __init__(self, who):
        self.who = who

    def next_online(self, client, now):
        return now

    def online_until(self, client, now):
        return math.inf

    def leaves(self, client, visit, start, seconds):
        return Leave(start + 0.1, start + seconds) if client == self.who and visit == 0 else None


class Later:
    """Some clients come late; none leaves."""

    def __init__(self, since):
        self.since = since

    def next_online(self, client, now):
        return max(now, self.since.get(client, 0.0))

    def online_until(self, client, now):
        return math.inf

    def leaves(self, client, visit, start, seconds):
        return None


def test_who_goes_away_takes_nobody_s_place():
    """N = 1 of two neighbours before: the first leaves, so the other's fresh model is waited for (DA-3)."""
    order = [int(place) for place in dry_world([1.0] * 3).stream("reuse order", 0).permutation(3)]
    first, second, third = (order.index(place) for place in range(3))
    world = dry_world([1.0] * 3, availability=Leaving(first))
    algorithm = DADPFL(
        rounds=1, neighbours=Neighbourhoods(graph="complete"), wait=1, pruning=NO_PRUNING, regrow=0.0, local=LOCAL
    )
    follow(world, algorithm)
    began = begins(world)
    assert began[first] == 0.0 and began[second] == pytest.approx(0.1)
    assert began[third] == pytest.approx(1.1), "when the second has finished"


def test_who_is_away_is_not_heard():
    """Client 1 is away until t = 1000: the others do not sit and wait for its model, nor the round for it."""
    world = dry_world([1.0] * 3, availability=Later({1: 1000.0}))
    algorithm = DADPFL(
        rounds=1, neighbours=Neighbourhoods(graph="complete"), wait=2, pruning=NO_PRUNING, regrow=0.0, local=LOCAL
    )
    assert follow(world, algorithm) == [2.0]
    began = begins(world)
    assert sorted(began) == [0, 2] and sorted(began.values()) == [0.0, 1.0]
    waits = spans(world, "site", "start", "end", kinds=("wait",))
    assert not [row for row in waits if row[0] == 1], "being away is nobody's waiting"


def test_the_wait_cap_falls_as_in_the_reference_code():
    """DA-E7: T div (N+1) rounds for each cap, what is left over with none."""
    caps = [DADPFL(rounds=30, wait=10, decay=True).cap(round) for round in range(30)]
    assert caps == [10 - round // 2 for round in range(20)] + [0] * 10
    assert [DADPFL(rounds=3, wait=10, decay=True).cap(round) for round in range(3)] == [10, 9, 8]


def test_a_mask_of_ones_needs_no_bytes():
    world, _, _ = dry(graph="complete", wait=0, sparsity=0.0, regrow=0.3, links=FixedLinks(1.0))
    sizes = {size for (size,) in spans(world, "bytes", kinds=("send",)) if size}
    assert sizes == {SPACE.nbytes}


def test_clients_that_leave_are_not_waited_for():
    one = run("da-dpfl.pruning.target=0", "fleet.availability=dropout:0.3", "fleet.links=rate:1,4", dry=True)
    assert one.world.round == 8


def test_a_matching_is_a_matching():
    world = world_of([1.0] * 9)
    pairs = matching(world, 3)
    assert len(pairs) == 4 and len({client for pair in pairs for client in pair}) == 8
