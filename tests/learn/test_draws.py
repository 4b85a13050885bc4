"""What a visit draws: batches without replacement, addressed crops and flips, the same in any company."""

import math
from itertools import chain, permutations
from statistics import NormalDist

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from paceline import seeds
from paceline.learn.draws import PAD, Crops, crop_and_flip, draw_batches, draw_crops, dropout_key
from paceline.learn.hashing import integers, mix, signed
from paceline.learn.recipe import LocalSGD
from paceline.learn.reference import crop_and_flip_one_by_one
from paceline.seeds import address

KEYS = st.integers(-(2**63), 2**63 - 1)
CLIENTS = st.lists(st.tuples(KEYS, st.integers(1, 40)), min_size=1, max_size=6)
LENGTHS = st.one_of(
    st.builds(lambda n: {"steps": n}, st.integers(1, 30)),
    st.builds(lambda n: {"epochs": n}, st.integers(1, 4)),
)
RECIPES = st.builds(lambda batch, length: LocalSGD(batch=batch, **length), st.integers(1, 16), LENGTHS)
LIMIT = NormalDist().inv_cdf(1 - 1e-6 / 2)


def keys(count, *path):
    return [signed(address(0, *path, k)) for k in range(count)]


def visit(batches, client):
    """A client's batches as plain lists, without padding."""
    pairs = zip(batches.index_CSB[client], batches.real_CSB[client], strict=True)
    return [index[real].tolist() for index, real in pairs][: batches.steps_C[client]]


def draw(clients, recipe):
    return draw_batches([key for key, _ in clients], [size for _, size in clients], recipe)


# -- batches ------------------------------------------------------------------------------------------------------


@given(CLIENTS, RECIPES)
def test_every_epoch_holds_every_sample_once(clients, recipe):
    batches = draw(clients, recipe)
    for client, (_, size) in enumerate(clients):
        steps = visit(batches, client)
        per_epoch = math.ceil(size / recipe.batch)
        for at in range(0, len(steps), per_epoch):
            epoch = steps[at : at + per_epoch]
            seen = [sample for batch in epoch for sample in batch]
            assert len(set(seen)) == len(seen), "nothing twice, even in an epoch that is cut off"
            assert set(seen) <= set(range(size))
            if len(epoch) == per_epoch:
                assert sorted(seen) == list(range(size))


@given(CLIENTS, RECIPES)
def test_only_the_last_batch_of_an_epoch_is_short(clients, recipe):
    batches = draw(clients, recipe)
    for client, (_, size) in enumerate(clients):
        per_epoch = math.ceil(size / recipe.batch)
        rest = size - (per_epoch - 1) * recipe.batch
        lengths = [len(batch) for batch in visit(batches, client)]
        assert lengths == [rest if (k + 1) % per_epoch == 0 else recipe.batch for k in range(len(lengths))]


@given(CLIENTS, RECIPES)
def test_padding_is_marked_and_harmless(clients, recipe):
    """Padding lies behind the real samples, points at a sample that exists, and fills the steps that are over."""
    batches = draw(clients, recipe)
    assert batches.index_CSB.shape == batches.real_CSB.shape == (len(clients), max(batches.steps_C), recipe.batch)
    for client, (_, size) in enumerate(clients):
        assert batches.index_CSB[client].min() >= 0
        assert batches.index_CSB[client].max() < size
        assert not batches.real_CSB[client, batches.steps_C[client] :].any()
        assert batches.real_CSB[client, : batches.steps_C[client]].any(axis=1).all()
    real = batches.real_CSB.astype(int)
    assert (np.diff(real, axis=2) <= 0).all()


@given(CLIENTS, RECIPES)
def test_company_changes_nothing(clients, recipe):
    together = draw(clients, recipe)
    for client, one in enumerate(clients):
        assert visit(together, client) == visit(draw([one], recipe), 0)


@given(KEYS, st.integers(1, 40), st.integers(1, 16), st.integers(1, 20), st.integers(0, 20))
def test_a_longer_visit_begins_like_a_shorter_one(key, size, batch, steps, more):
    short = draw([(key, size)], LocalSGD(batch=batch, steps=steps))
    long = draw([(key, size)], LocalSGD(batch=batch, steps=steps + more))
    assert visit(short, 0) == visit(long, 0)[:steps]


def test_steps_run_over_the_borders_of_epochs():
    """Five samples in batches of two: 2, 2, 1 and again; seven steps are two epochs and one step."""
    batches = draw([(7, 5)], LocalSGD(batch=2, steps=7))
    steps = visit(batches, 0)
    assert [len(step) for step in steps] == [2, 2, 1, 2, 2, 1, 2]
    for epoch in (steps[0:3], steps[3:6]):
        assert sorted(chain(*epoch)) == [0, 1, 2, 3, 4]


def test_epochs_and_visits_have_orders_of_their_own():
    """Of 30 samples two random orders agree with probability 1/30!."""
    first, second = visit(draw([(1, 30)], LocalSGD(batch=30, epochs=2)), 0)
    (other,) = visit(draw([(2, 30)], LocalSGD(batch=30)), 0)
    assert len({tuple(first), tuple(second), tuple(other)}) == 3


def test_the_batch_size_only_cuts_the_order():
    (whole,) = visit(draw([(3, 17)], LocalSGD(batch=17)), 0)
    assert list(chain(*visit(draw([(3, 17)], LocalSGD(batch=5)), 0))) == whole


def chi_square(counts):
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 / expected for count in counts)


@pytest.mark.parametrize("epoch", [0, 3])
def test_orders_are_uniform(epoch):
    """Chi-square over the 24 orders of four samples, in company of longer clients; false-alarm rate 1e-6."""
    visits = 24 * 200
    clients = [(key, 4) for key in keys(visits, "orders")] + [(1, 9)]
    batches = draw(clients, LocalSGD(batch=4, epochs=4))
    counts = dict.fromkeys(permutations(range(4)), 0)
    for client in range(visits):
        counts[tuple(visit(batches, client)[epoch])] += 1
    assert chi_square(counts.values()) < chi2.isf(1e-6, 23)


def test_orders_of_two_epochs_are_independent():
    """Chi-square over the 36 pairs of orders of three samples; false-alarm rate 1e-6."""
    visits = 36 * 150
    batches = draw([(key, 3) for key in keys(visits, "pairs")], LocalSGD(batch=3, epochs=2))
    orders = list(permutations(range(3)))
    counts = {(a, b): 0 for a in orders for b in orders}
    for client in range(visits):
        counts[tuple(map(tuple, visit(batches, client)))] += 1
    assert chi_square(counts.values()) < chi2.isf(1e-6, 35)


# -- augmentation -------------------------------------------------------------------------------------------------


def test_crops_stay_inside_the_padded_image_and_reach_its_edges():
    """2,000 draws of nine offsets miss one of them with probability below 9 (8/9)^2000, about 1e-101."""
    crops = draw_crops(torch.tensor(keys(40, "crops")), 3, 50)
    for offsets in (crops.dy_CB, crops.dx_CB):
        assert offsets.shape == (40, 50)
        assert offsets.min() == 0
        assert offsets.max() == 2 * PAD


def test_crops_are_even_and_flips_are_fair():
    """Chi-square over the 81 offsets and 2 flips together; false-alarm rate 1e-6."""
    crops = draw_crops(torch.tensor(keys(100, "even")), 0, 162)
    cell = (crops.dy_CB * 9 + crops.dx_CB) * 2 + crops.flip_CB
    counts = torch.bincount(cell.flatten(), minlength=162).tolist()
    assert chi_square(counts) < chi2.isf(1e-6, 161)
    count = crops.flip_CB.numel()
    assert abs(crops.flip_CB.double().mean().item() - 0.5) < LIMIT * 0.5 / math.sqrt(count)


@given(st.lists(KEYS, min_size=1, max_size=4), st.integers(0, 1000), st.integers(1, 8), st.integers(0, 8))
def test_crops_depend_on_key_step_and_place_alone(client_keys, step, batch, more):
    together = draw_crops(torch.tensor(client_keys), step, batch + more)
    for k, key in enumerate(client_keys):
        alone = draw_crops(torch.tensor([key]), torch.tensor(step), batch)
        for name in ("dy_CB", "dx_CB", "flip_CB"):
            assert torch.equal(getattr(alone, name)[0], getattr(together, name)[k, :batch])


def test_steps_have_draws_of_their_own():
    """Forty crops of two steps agree with probability 162^-40."""
    key = torch.tensor(keys(1, "steps"))
    first, second = draw_crops(key, 0, 40), draw_crops(key, 1, 40)
    assert not torch.equal(first.dy_CB * 9 + first.dx_CB, second.dy_CB * 9 + second.dx_CB)
    assert dropout_key(key, 0).item() != dropout_key(key, 1).item()


@given(KEYS, st.integers(1, 6), st.integers(1, 3), st.integers(1, 7), st.integers(1, 7))
def test_all_at_once_is_one_by_one(key, count, channels, height, width):
    x = torch.arange(1.0, 1 + count * channels * height * width).reshape(count, channels, height, width)
    crops = draw_crops(torch.tensor([key]), 0, count)
    assert torch.equal(crop_and_flip(x, crops), crop_and_flip_one_by_one(x, crops))


def test_crops_of_several_clients_in_a_merged_batch():
    x = torch.arange(1.0, 1 + 6 * 2 * 5 * 4).reshape(6, 2, 5, 4)
    crops = draw_crops(torch.tensor(keys(3, "merged")), 2, 2)
    merged = crop_and_flip(x, crops)
    for client in range(3):
        own = Crops(*[part[client : client + 1] for part in (crops.dy_CB, crops.dx_CB, crops.flip_CB)])
        part = slice(2 * client, 2 * client + 2)
        assert torch.equal(merged[part], crop_and_flip_one_by_one(x[part], own))


def test_every_kind_of_draw_has_its_address_for_ever():
    """Another one would draw other samples from the same seed."""
    key, place = torch.tensor([5]), torch.arange(20)
    crops = draw_crops(key, 2, 20)
    for kind, drawn, high in ((3, crops.dy_CB, 9), (4, crops.dx_CB, 9), (5, crops.flip_CB, 2)):
        assert torch.equal(drawn[0].long(), integers(mix(mix(mix(key, (1 << 40) + kind), 2), place), high))
    assert dropout_key(key, 2).tolist() == mix(mix(key, (1 << 40) + 2), 2).tolist()
    ((*order,),) = visit(draw([(5, 20)], LocalSGD(batch=20)), 0)
    by_hash = [seeds.mix(seeds.mix(seeds.mix(5, (1 << 40) + 1), 0), k) for k in range(20)]
    assert order == sorted(range(20), key=by_hash.__getitem__)


def test_what_a_crop_does():
    """In the middle nothing moves; one row down, the last row is zero; a flip mirrors the columns."""
    x = torch.arange(1.0, 10.0).reshape(1, 1, 3, 3)

    def cut(dy, dx, flip):
        return crop_and_flip(x, Crops(torch.tensor([[dy]]), torch.tensor([[dx]]), torch.tensor([[flip]])))[
            0, 0
        ].tolist()

    assert cut(PAD, PAD, False) == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert cut(PAD + 1, PAD, False) == [[4, 5, 6], [7, 8, 9], [0, 0, 0]]
    assert cut(PAD, PAD - 1, False) == [[0, 1, 2], [0, 4, 5], [0, 7, 8]]
    assert cut(PAD, PAD - 1, True) == [[2, 1, 0], [5, 4, 0], [8, 7, 0]]
