"""DA-DPFL (DA-1 ... DA-12): who waits for whom, what is averaged, masks, sparsity, bytes and FLOPs."""

import asyncio
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from paceline.algorithms.dadpfl import DADPFL, End, Pruning, Turn
from paceline.algorithms.neighbourhoods import Neighbourhoods, matching
from paceline.algorithms.sparse import Swarm
from paceline.errors import SettingError
from paceline.learn.recipe import LocalSGD
from paceline.learn.sparsity import layer_counts, maskable
from paceline.worlds.driver import drive, make_executor
from paceline.worlds.run import Run
from paceline.worlds.settings import make_settings
from tests.algorithms.test_pfedavg import world_of
from tests.worlds.worlds import SPACE, FixedLinks, follow, play, spans

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
    algorithm = DADPFL(rounds=1, wait=2, pruning=NO_PRUNING, local=LOCAL)

    async def main():
        swarm = Swarm(world, density=0.5)
        turn = Turn(world, 0, Neighbourhoods(graph="complete", degree=4), prunes=False)
        turn.order = [1, 0, 2, 4, 3]
        new = {client: replace(swarm.peers[client], version=7) for client in range(3)}

        async def finish(client, when):
            await asyncio.sleep(when)
            turn.finish(End(client, new[client], new[client].weights, world.now()))

        found, *_ = await asyncio.gather(
            algorithm.hear_first(world, swarm, turn, 4, [0, 1, 2]), finish(2, 1.0), finish(0, 2.0), finish(1, 3.0)
        )
        return [found[client].version for client in range(3)], world.now()

    assert play(world, main()) == ([7, 0, 7], 31.0)


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
    assert swarm.size(counts, changed=False) == weights


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


def test_growth_by_gradient_costs_one_dense_batch():
    world, _, _ = dry(rounds=1, regrow=0.3)
    flops = sorted({flops for (flops,) in spans(world, "flops", kinds=("train",))})
    assert flops[0] == pytest.approx(3 * SPACE.flops * LOCAL.batch)
    assert world.ledger.visits == 12  # a batch is no visit


# -- learning -------------------------------------------------------------------------------------------------------


def run(*words, name="da-dpfl", **options):
    settings = ["clients=12", "partition=pathological:2", "da-dpfl.neighbours.degree=4", "dispfl.neighbours.degree=4"]
    one = Run(
        make_settings(name, [*settings, "rounds=8", "local.epochs=1", "executor.dtype=float64", *words]), **options
    )
    drive([one], make_executor(one.settings.executor))
    assert one.failure is None, one.failure
    return one


def states(*words):
    """After every round: trained models and the peers, as values."""
    one = Run(make_settings("da-dpfl", ["clients=8", "partition=pathological:2", "local.epochs=1", *words]))
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
                world.round += 1
                found.append((list(progress.model), list(swarms[0].peers), dict(progress.info)))
        finally:
            Swarm.__init__ = original
        return swarms[0]

    executor = make_executor(one.settings.executor)
    world.loop.start(main())
    while not world.loop.advance():
        promises, world.promises = world.promises, []
        executor.run([], [promise for promise, _ in promises])
        for promise, hold in promises:
            if hold is not None:
                world.loop.settle(hold, promise.result)
    swarm = world.loop.result()
    executor.run(
        [m for models, peers, _ in found for m in [*models, *[x for p in peers for x in (p.weights, p.mask)]]]
    )
    return swarm, found, world


def test_masks_are_respected_and_counts_are_what_the_schedule_believes():
    words = ["rounds=9", "da-dpfl.pruning.first=2", "da-dpfl.neighbours.degree=3", "local.momentum=0.9"]
    swarm, found, _ = states(*words)
    before, counts_before = None, []
    for models, peers, _info in found:
        for k, peer in enumerate(peers):
            layers = [peer.mask.value[s.start : s.stop] for s in swarm.slots]
            assert tuple(int(layer.sum()) for layer in layers) == peer.counts
            assert not peer.weights.value[peer.mask.value == 0].any()
            if before is not None:
                assert not models[k].value[before[k] == 0].any()
                assert peer.counts <= counts_before[k]
        before = [peer.mask.value for peer in peers]
        counts_before = [peer.counts for peer in peers]
    sparsities = [info["sparsity"] for _, _, info in found]
    assert sparsities[0] == pytest.approx(0.5, abs=1e-3) and sparsities[-1] > 0.6
    assert all(a <= b for a, b in itertools.pairwise(sparsities)) and sparsities[-1] <= 0.8 + 1e-3


def test_nobody_prunes_beyond_the_target():
    swarm, found, _ = states("rounds=12", "da-dpfl.pruning.first=1", "da-dpfl.pruning.target=0.6",
                             "da-dpfl.neighbours.degree=3")  # fmt: skip
    total = sum(s.stop - s.start for s in swarm.slots)
    assert all(abs(swarm.sparsity(p.counts) - 0.6) < 1 / total + 1e-9 for p in found[-1][1])


def test_dispfl_keeps_its_sparsity_and_moves_its_masks():
    _, found, _ = states("rounds=3", "da-dpfl.pruning.target=0", "da-dpfl.neighbours.degree=3")
    first, last = found[0][1], found[-1][1]
    assert all(a.counts == b.counts for a, b in zip(first, last, strict=True))
    assert any(not torch.equal(a.mask.value, b.mask.value) for a, b in zip(first, last, strict=True))


def test_a_vote_starts_pruning():
    one = run("rounds=24", "da-dpfl.pruning.threshold=0.2")
    note = next(note for note in one.world.notes if "vote for pruning" in note.text)
    assert note.figures["rounds"][0] == note.figures["first"] + 1  # DA-E5
    assert one.rows[-1]["sparsity"] > one.rows[0]["sparsity"]


def test_no_pruning_needs_no_learning():
    one = run("da-dpfl.pruning.target=0", dry=True)
    assert one.rows[-1]["sparsity"] == pytest.approx(0.5, abs=1e-3)
    with pytest.raises(SettingError, match="dry run learns nothing"):
        run(dry=True)


def test_clients_that_leave_are_not_waited_for():
    one = run("da-dpfl.pruning.target=0", "fleet.availability=dropout:0.3", "fleet.links=rate:1,4", dry=True)
    assert one.world.round == 8


def test_a_matching_is_a_matching():
    world = world_of([1.0] * 9)
    pairs = matching(world, 3)
    assert len(pairs) == 4 and len({client for pair in pairs for client in pair}) == 8
