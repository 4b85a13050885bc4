"""Sparse models: which weights are masked, how many of each layer, where; choosing, moving and averaging them."""

import functools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from paceline.errors import SettingError
from paceline.learn import hashing as noise
from paceline.learn.models import build
from paceline.learn.space import Slot, Space
from paceline.learn.sparsity import (
    bisecting,
    choosing,
    cosine_fraction,
    counts,
    erk,
    layer_counts,
    layout,
    maskable,
    masked_mean,
    masked_means,
    random_growth,
    random_masks,
    rigl,
    sparsity,
)
from paceline.seeds import address, mix, stream

DTYPES = [torch.float32, torch.float64]


@functools.cache
def space(name="lenet", shape=(3, 32, 32), classes=10, dtype=torch.float32):
    return Space(name, lambda: build(name, shape, classes), shape, dtype)


def layers(*shapes):
    """Slots of these shapes with one parameter between them that is never masked."""
    slots, at = [], 1
    for i, shape in enumerate(shapes):
        slots.append(Slot(str(i), shape, at, at + math.prod(shape)))
        at += math.prod(shape) + 1
    return slots, at


def draws(*shape, seed=0, dtype=torch.float64):
    return torch.from_numpy(stream(seed, "sparsity").normal(size=shape)).to(dtype)


def masks_like(weights, slots, density=0.5, seed=1):
    mask = torch.ones_like(weights)
    for s in slots:
        mask[:, s.start : s.stop] = draws(len(weights), s.stop - s.start, seed=seed) < math.sqrt(2) * (density - 0.5)
    return mask


# -- which weights ------------------------------------------------------------------------------------------------


def test_convolutions_and_linear_layers_are_masked_and_nothing_else():
    resnet = space("resnet18")
    slots = maskable(resnet)
    assert [s.name for s in slots] == [s.name for s in resnet.slots if len(s.shape) >= 2]
    assert len(slots) == 21
    assert len(maskable(resnet, ["shortcut"])) == 18


def test_a_word_that_names_no_layer_is_refused():
    with pytest.raises(
        SettingError, match=r"no layer of .* has 'shortcut' in its name, .*; wanted .* among 0, 11, 3"
    ):
        maskable(space(), ["0", "shortcut"])


def test_a_matrix_in_another_module_is_not_masked():
    table = Space("table", lambda: nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm((3, 4)), nn.Linear(4, 2)), (3,))
    assert [s.name for s in maskable(table)] == ["2.weight"]
    assert [s.name for s in maskable(Space("bare", lambda: nn.Linear(4, 2), (4,)))] == ["weight"]


def test_a_model_with_nothing_to_mask_is_refused():
    with pytest.raises(SettingError, match=r"has no layer to make sparse \(leaving out 0, 3, 7"):
        maskable(space(), ["0", "3", "7", "9", "11"])


# -- how many -----------------------------------------------------------------------------------------------------


def shapes_up_to(side):
    return st.lists(st.lists(st.integers(1, side), min_size=2, max_size=4).map(tuple), min_size=1, max_size=8)


@given(shapes_up_to(600), st.floats(0.01, 1.0), st.sampled_from(["erk", "uniform"]))
def test_the_total_density_is_the_target_to_one_weight(shapes, density, spread):
    slots, _ = layers(*shapes)
    total = sum(layout.sizes(slots))
    if round(density * total) < len(slots):
        with pytest.raises(SettingError, match="want one each at least"):
            layer_counts(slots, density, spread)
        return
    kept = layer_counts(slots, density, spread)
    assert abs(sum(kept) - density * total) <= 0.5
    assert all(1 <= k <= n for k, n in zip(kept, layout.sizes(slots), strict=True))


@given(shapes_up_to(600), st.floats(0.01, 1.0))
def test_erk_is_its_definition(shapes, density):
    """Layers below 1 share one ε; a dense layer would exceed 1 at it; the total is the target."""
    found = erk(shapes, density)
    weights = [math.prod(s) for s in shapes]
    assert sum(d * n for d, n in zip(found, weights, strict=True)) == pytest.approx(density * sum(weights))
    epsilons = [d * n / sum(s) for d, n, s in zip(found, weights, shapes, strict=True) if d < 1]
    assert epsilons == pytest.approx([max(epsilons, default=0)] * len(epsilons))
    for d, n, s in zip(found, weights, shapes, strict=True):
        assert d <= 1 + 1e-12
        assert d < 1 or not epsilons or max(epsilons) * sum(s) / n >= 1 - 1e-9


def test_erk_by_hand():
    # Alone, (2, 2) would have the density ε = 4/3 x 4/4; dense, it leaves 4 of 8 weights to the 16.
    slots, _ = layers((2, 2), (4, 4))
    assert erk([(2, 2), (4, 4)], 0.4) == [pytest.approx(8 / 12), pytest.approx(8 / 12 / 2)]
    assert erk([(2, 2), (4, 4)], 0.8) == [1.0, pytest.approx(12 / 16)]
    assert layer_counts(slots, 0.8) == [4, 12]
    assert layer_counts(slots, 0.4, "uniform") == [2, 6]


@pytest.mark.parametrize("density", [0, 1.01, math.nan, -1])
def test_impossible_densities_are_refused(density):
    with pytest.raises(SettingError, match="want a share of weights above 0"):
        erk([(2, 2)], density)
    with pytest.raises(SettingError, match="want a share"):
        layer_counts(maskable(space()), density)


def test_an_unknown_spread_is_refused():
    with pytest.raises(SettingError, match="spread is 'even'; want 'erk' or 'uniform'"):
        layer_counts(maskable(space()), 0.5, "even")


# -- random masks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_have_their_counts_and_depend_on_key_and_client_only(dtype):
    lenet = space(dtype=dtype)
    slots, key = maskable(lenet), address(3, "mask")
    kept = layer_counts(slots, 0.5)
    masks = random_masks(lenet, slots, kept, key, range(20))
    assert masks.dtype == dtype and set(masks.unique().tolist()) == {0.0, 1.0}
    assert counts(masks, slots).tolist() == [kept] * 20
    assert masks.sum().item() == 20 * (sum(kept) + lenet.size - sum(layout.sizes(slots))), "the rest is ones"
    assert torch.equal(random_masks(lenet, slots, kept, key, [17, 4])[0], masks[17])
    assert torch.equal(random_masks(lenet, slots, kept, key, [4])[0], masks[4])
    assert not torch.equal(masks[0], masks[1])
    assert not torch.equal(random_masks(lenet, slots, kept, key + 1, [0])[0], masks[0])
    # Another choice of layers leaves this layer's mask alone.
    assert torch.equal(
        random_masks(lenet, slots[2:], kept[2:], key, [0])[0, slots[2].start :], masks[0, slots[2].start :]
    )


def test_masks_are_the_lowest_hashes_as_seeds_makes_them():
    tiny = Space("tiny", lambda: nn.Linear(15, 1), (15,))
    slot = Slot("weight", (1, 15), 0, 15)
    found = random_masks(tiny, [slot], [6], key := address(1, "mask"), [9])[0, :15]
    hashes = [mix(key, 9, place) & (2**31 - 1) for place in range(15)]
    assert found.tolist() == [float(h <= sorted(hashes)[5]) for h in hashes]


def test_every_place_is_equally_likely():
    """4000 masks of 6 in 15: the χ² of 15 places has, with a covariance of -1/14, 14 degrees of freedom.

    Seeded; false alarm 1e-6 (χ² above 54.2).
    """
    tiny = Space("tiny", lambda: nn.Linear(15, 1), (15,))
    found = random_masks(tiny, [Slot("weight", (1, 15), 0, 15)], [6], address(5, "mask"), range(4000))[:, :15]
    hits, expected = found.sum(dim=0), 4000 * 0.4
    variance = expected * 0.6 * 15 / 14
    assert ((hits - expected).square().sum() / variance).item() < 54.2


# -- choosing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@given(st.data())
def test_the_smallest_are_a_stable_sort_s(dtype, data):
    """Few different keys, so that most choices tear a tie; the largest key is never chosen."""
    never = torch.iinfo(dtype).max
    wide = data.draw(st.integers(1, 30))
    pool = st.sampled_from([0, 1, 2047, 2048, 1 << 22, (1 << 22) + 1, never - 1, never])
    rows = data.draw(st.lists(st.lists(pool, min_size=wide, max_size=wide), min_size=1, max_size=4))
    wanted = data.draw(st.lists(st.integers(0, wide), min_size=len(rows), max_size=len(rows)))
    keys = torch.tensor(rows, dtype=dtype)
    found = choosing.smallest(keys, torch.tensor(wanted))
    for row, count, chosen in zip(rows, wanted, found.tolist(), strict=True):
        order = [i for i in sorted(range(wide), key=row.__getitem__) if row[i] != never]
        assert [i for i, c in enumerate(chosen) if c] == sorted(order[:count])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@given(st.data())
def test_a_gpu_s_way_chooses_the_same(dtype, data):
    """On a CPU without its kernel; layers may leave gaps between them."""
    never = torch.iinfo(dtype).max
    wide = data.draw(st.integers(1, 40))
    pool = st.sampled_from([0, 1, 2047, 2048, 1 << 22, never - 1, never])
    rows = data.draw(st.lists(st.lists(pool, min_size=wide, max_size=wide), min_size=1, max_size=4))
    cuts = sorted(data.draw(st.sets(st.integers(0, wide), min_size=2, max_size=6)))
    slots = [Slot(f"{at}", (stop - at,), at, stop) for at, stop in zip(cuts[::2], cuts[1::2], strict=False)]
    wanted = torch.tensor([[data.draw(st.integers(0, s.stop - s.start)) for s in slots] for _ in rows])
    keys = torch.tensor(rows, dtype=dtype)
    found = bisecting.smallest_of_layers(keys, slots, wanted)
    for slot, count, chosen in zip(slots, wanted.unbind(1), found, strict=True):
        assert torch.equal(chosen, choosing.smallest(keys[:, slot.start : slot.stop], count))


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_pieces_change_nothing(piece, monkeypatch):
    weights = draws(3, 50, dtype=torch.float32)
    slots = [Slot("a", (5, 9), 2, 47)]
    mask = masks_like(weights, slots)
    whole = rigl(weights, mask, weights.flip(1), slots, 0.4)
    monkeypatch.setattr(layout, "PIECE_CPU", piece)
    assert torch.equal(rigl(weights, mask, weights.flip(1), slots, 0.4), whole)
    assert (
        masked_mean(list(weights), list(mask), mask[0]).tolist()
        == masked_means(weights, mask, torch.tensor([[0, 1, 2]]), mask[:1])[0].tolist()
    )


@pytest.mark.parametrize("piece", [1, 1 << 16, 1 << 20])
def test_row_sums_are_sums_that_no_other_row_changes(piece, monkeypatch):
    monkeypatch.setattr(layout, "PIECE_CPU", piece)
    values = draws(5, 3 * layout.LANES + 17)
    sums = layout.row_sums(lambda columns: values[:, columns], values, 3, values.shape[1])
    assert sums.tolist() == pytest.approx([math.fsum(row[3:]) for row in values.tolist()], rel=1e-13, abs=1e-9)
    for k in range(5):
        one = values[k : k + 1]
        assert layout.row_sums(lambda columns, one=one: one[:, columns], one, 3, one.shape[1])[0] == sums[k]
    monkeypatch.undo()
    assert layout.row_sums(lambda columns: values[:, columns], values, 3, values.shape[1]).equal(sums)


# -- RigL ---------------------------------------------------------------------------------------------------------


def rigl_by_hand(weight, mask, score, slots, fraction):
    """The definition, one client, with loops."""
    mask = mask.clone()
    for s in slots:
        active = [i for i in range(s.start, s.stop) if mask[i]]
        count = math.ceil(fraction * len(active) - 1e-9)
        for i in sorted(active, key=lambda i: abs(weight[i].item()))[:count]:
            mask[i] = 0
        zeros = [i for i in range(s.start, s.stop) if not mask[i]]
        for i in sorted(zeros, key=lambda i: -abs(score[i].item()))[:count]:
            mask[i] = 1
    return mask


@given(shapes_up_to(6), st.floats(0, 1), st.floats(0, 1), st.integers(0, 99), st.sampled_from(DTYPES), st.booleans())
def test_moving_keeps_every_layer_s_count(shapes, fraction, density, seed, dtype, ties):
    slots, size = layers(*shapes)
    weights, gradients = draws(3, size, seed=seed, dtype=dtype), draws(3, size, seed=seed + 1, dtype=dtype)
    if ties:
        weights, gradients = weights.round(), gradients.round()
    mask = masks_like(weights, slots, density, seed)
    weights = weights * mask
    before = weights.clone(), mask.clone(), gradients.clone()
    key = torch.arange(3) + seed
    for moved in (
        rigl(weights, mask, gradients, slots, fraction),
        random_growth(weights, mask, key, slots, fraction),
    ):
        assert torch.equal(counts(moved, slots), counts(mask, slots))
        assert set(moved.unique().tolist()) <= {0.0, 1.0}
        inside = torch.zeros(size, dtype=torch.bool)
        for s in slots:
            inside[s.start : s.stop] = True
        assert (moved[:, ~inside] == 1).all(), "what is never masked stays"
    assert all(torch.equal(a, b) for a, b in zip(before, (weights, mask, gradients), strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("ties", [False, True])
def test_rigl_is_its_definition(dtype, fraction, ties):
    slots, size = layers((4, 3, 3, 3), (10, 30), (1, 1), (7, 1))
    weights, gradients = draws(5, size, dtype=dtype), draws(5, size, seed=7, dtype=dtype)
    if ties:
        weights, gradients = weights.round(), gradients.round()
    mask = masks_like(weights, slots)
    found = rigl(weights, mask, gradients, slots, fraction)
    for k in range(5):
        assert torch.equal(found[k], rigl_by_hand(weights[k], mask[k], gradients[k], slots, fraction))


def test_rigl_by_hand():
    """Four active weights, α = 0.5: the two smallest go; one of them has the greatest gradient and comes back."""
    slots = [Slot("a", (1, 6), 0, 6)]
    weights = torch.tensor([[0.1, -3.0, 0.2, 4.0, 0.0, 0.0, 9.0]])
    mask = torch.tensor([[1.0, 1, 1, 1, 0, 0, 1]])
    gradient = torch.tensor([[5.0, 9.0, 0.0, 9.0, -2.0, 1.0, 0.0]])
    assert rigl(weights, mask, gradient, slots, 0.5).tolist() == [[1, 1, 0, 1, 1, 0, 1]]
    assert rigl(weights, mask, gradient * 0, slots, 0.5).tolist() == [[1, 1, 1, 1, 0, 0, 1]], "ties: lowest index"


def test_fractions_may_differ_between_clients():
    slots = [Slot("a", (10, 20), 0, 200)]
    weights, gradients = draws(3, 200), draws(3, 200, seed=2)
    mask = masks_like(weights, slots)
    each = rigl(weights, mask, gradients, slots, torch.tensor([0.0, 0.2, 0.6], dtype=torch.float64))
    assert torch.equal(each[0], mask[0])
    for k, fraction in enumerate([0.0, 0.2, 0.6]):
        assert torch.equal(each[k], rigl(weights, mask, gradients, slots, fraction)[k])


def test_a_rounding_error_moves_no_weight_more():
    slots = [Slot("a", (1, 200), 0, 200)]
    mask = (torch.arange(200) < 100).double()[None]
    weights = torch.arange(1.0, 201.0).double()[None]
    moved = rigl(weights, mask, weights, slots, 0.07)
    assert 0.07 * 100 > 7, "in floating point"
    assert (mask - moved).clamp(min=0).sum() == 7


def test_random_growth_is_random_and_addressed():
    slots = [Slot("a", (10, 20), 0, 200)]
    weights = draws(4, 200)
    mask = masks_like(weights, slots)
    key = torch.tensor([noise.signed(address(1, "grow", k)) for k in range(4)])
    found = random_growth(weights, mask, key, slots, 0.3)
    assert torch.equal(random_growth(weights[2:3], mask[2:3], key[2:3], slots, 0.3), found[2:3])
    assert not torch.equal(random_growth(weights, mask, key + 1, slots, 0.3), found)
    for k in range(4):
        active = mask[k].bool()
        count = math.ceil(0.3 * int(active.sum()) - 1e-9)
        dropped = weights[k].abs().masked_fill(~active, math.inf).argsort()[:count]
        half = mask[k].clone()
        half[dropped] = 0
        assert torch.all(found[k] >= half), "the greatest weights stay"


def test_the_cosine_fraction():
    assert cosine_fraction(0.3, 0, 500) == 0.3
    assert cosine_fraction(0.3, 250, 500) == pytest.approx(0.15)
    assert cosine_fraction(0.3, 500, 500) == 0
    assert cosine_fraction(0.5, 100, 300) == pytest.approx(0.25 * 1.5)
    with pytest.raises(SettingError, match=r"share of moved weights is 1\.5"):
        cosine_fraction(1.5, 0, 10)
    with pytest.raises(SettingError, match="round 11 of 10"):
        cosine_fraction(0.5, 11, 10)


# -- the mean -----------------------------------------------------------------------------------------------------


def mean_by_hand(models, masks, own):
    """DA-6, number by number."""
    result = []
    for i in range(len(own)):
        count = sum(m[i].item() for m in masks)
        total = sum(w[i].item() * m[i].item() for w, m in zip(models, masks, strict=True))
        result.append(total / count * own[i].item() if count else 0.0)
    return result


@pytest.mark.parametrize("count", [1, 2, 11])
def test_the_masked_mean_is_a_naive_loop_s(count):
    slots, size = layers((4, 5), (3, 2, 3, 3))
    models = draws(count, size)
    masks = masks_like(models, slots, 0.3)
    own = masks_like(models[:1], slots, 0.6, seed=5)[0]
    found = masked_mean(list(models), list(masks), own)
    assert found.tolist() == pytest.approx(mean_by_hand(models, masks, own), rel=1e-14)
    nobody = (masks.sum(dim=0) == 0) & (own == 1)
    assert count > 2 or nobody.any(), "the case is there"
    assert (found[nobody] == 0).all()
    assert found[0] == pytest.approx(models[:, 0].mean().item()), "never masked: the plain mean"


@pytest.mark.parametrize("dtype", DTYPES)
def test_means_of_many_clients_are_those_of_each(dtype):
    slots, size = layers((4, 5), (3, 2, 3, 3))
    models = draws(7, size, dtype=dtype)
    masks, own = masks_like(models, slots), masks_like(models[:4], slots, seed=9)
    index = torch.tensor([[0, 3, 5, 6], [2, -1, -1, -1], [1, 0, -1, -1], [6, 5, 4, -1]])
    found = masked_means(models, masks, index, own)
    for k, row in enumerate(index.tolist()):
        rows = [j for j in row if j >= 0]
        assert torch.equal(found[k], masked_mean([models[j] for j in rows], [masks[j] for j in rows], own[k]))


# -- batches ------------------------------------------------------------------------------------------------------


def test_sparsity_is_the_share_of_zeros():
    slots = [Slot("a", (2, 5), 1, 11), Slot("b", (3, 10), 12, 42)]
    mask = torch.ones(2, 43)
    mask[0, 1:5] = 0
    mask[1, 12:42] = 0
    found = counts(mask, slots)
    assert found.tolist() == [[6, 30], [10, 0]] and found.dtype == torch.int64
    assert sparsity(found, slots).tolist() == [0.1, 0.75]


def test_counts_are_exact_beyond_what_float32_can_count(monkeypatch):
    monkeypatch.setattr(layout, "WHOLE", 10)
    assert counts(torch.ones(2, 35), [Slot("a", (5, 7), 0, 35)]).tolist() == [[35], [35]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_does_not_depend_on_its_batch(dtype):
    """30 clients at once and each of some alone, to the bit."""
    lenet = space(dtype=dtype)
    slots = maskable(lenet)
    weights, gradients = draws(30, lenet.size, dtype=dtype), draws(30, lenet.size, seed=2, dtype=dtype)
    mask = random_masks(lenet, slots, layer_counts(slots, 0.5), 7, range(30))
    key = torch.arange(30)
    moved, grown = rigl(weights, mask, gradients, slots, 0.3), random_growth(weights, mask, key, slots, 0.3)
    for k in (0, 11, 29):
        row = slice(k, k + 1)
        assert torch.equal(rigl(weights[row], mask[row], gradients[row], slots, 0.3), moved[row])
        assert torch.equal(random_growth(weights[row], mask[row], key[row], slots, 0.3), grown[row])
