"""Sparse models: how compressible a layer is, how much of it goes and when, and what a sparse model costs."""

import functools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import CostError, SettingError
from paceline.learn.flops import TRAINING_PASSES, training_flops
from paceline.learn.models import build
from paceline.learn.space import Slot, Space
from paceline.learn.sparsity import (
    Sap,
    agreed,
    counts,
    detection,
    first_pruning,
    layer_counts,
    mask_bytes,
    maskable,
    pq_index,
    prune,
    pruning,
    pruning_rounds,
    pruning_times,
    random_masks,
    sparse_flops,
    sparsity,
    votes,
    wire_bytes,
)
from paceline.seeds import stream

DTYPES = [torch.float32, torch.float64]
MIB = 1 << 20


def draws(*shape, seed=0, dtype=torch.float64):
    return torch.from_numpy(stream(seed, "pruning").normal(size=shape)).to(dtype)


@functools.cache
def space(name, shape=(3, 32, 32), classes=10, dtype=torch.float32):
    return Space(name, lambda: build(name, shape, classes), shape, dtype)


def half(size):
    """One layer of so many weights, every second one active."""
    return [Slot("a", (1, size), 0, size)], (torch.arange(size) % 2).double()[None]


# -- the PQ index -------------------------------------------------------------------------------------------------

GAUSSIAN = 1 - (2**0.25 * math.gamma(0.75) / math.sqrt(math.pi)) ** 2 / math.sqrt(2 / math.pi)
"""1 - (E√|z|)²/E|z| of a standard normal z: what a wide layer's index comes near."""


def index_by_hand(weight, mask, p, q):
    active = [abs(w) for w, m in zip(weight.tolist(), mask.tolist(), strict=True) if m]
    norm = {e: math.fsum(w**e for w in active) ** (1 / e) for e in (p, q)}
    return 1 - len(active) ** (1 / q - 1 / p) * norm[p] / norm[q]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_index_of_a_gaussian_layer(dtype):
    """DA-E3: 0.153. Seeded; over a million draws the index has σ < 0.0003 (measured below) around 0.1528, so 0.002
    is 6σ away: false alarm below 1e-8.
    """
    slots, mask = half(2_000_000)
    weights = draws(1, 2_000_000, dtype=dtype)
    found = pq_index(weights, mask.to(dtype), slots)
    assert round(GAUSSIAN, 3) == 0.153
    assert found.item() == pytest.approx(0.153, abs=0.002)
    some = pq_index(draws(200, 2000, seed=1), torch.ones(200, 2000).double(), [Slot("a", (1, 2000), 0, 2000)])
    assert some.std().item() / math.sqrt(500) < 0.0003


@pytest.mark.parametrize(("p", "q"), [(0.5, 1), (0.5, 2), (1, 2), (0.3, 0.7), (0.25, 1), (1.5, 3.1), (1 / 3, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_index_is_its_definition(p, q, dtype):
    slots = [Slot("a", (5, 20), 1, 101), Slot("b", (3, 10), 102, 132)]
    weights = draws(3, 133, dtype=dtype)
    mask = (draws(3, 133, seed=3, dtype=dtype) > 0.2).to(dtype)
    found = pq_index(weights, mask, slots, Sap(p=p, q=q))
    for k in range(3):
        for s, value in zip(slots, found[k].tolist(), strict=True):
            cut = slice(s.start, s.stop)
            assert value == pytest.approx(index_by_hand(weights[k, cut], mask[k, cut], p, q), abs=1e-12)


def test_the_index_ignores_scale_and_what_is_masked():
    slots, mask = half(1000)
    weights = draws(1, 1000)
    found = pq_index(weights, mask, slots).item()
    assert pq_index(weights * 37, mask, slots).item() == pytest.approx(found, abs=1e-14)
    assert pq_index(weights * mask, mask, slots).item() == found


def test_the_index_of_extreme_layers():
    slots = [Slot("a", (1, 8), 0, 8)]
    rows = torch.tensor([[1.0] * 8, [1.0] + [0.0] * 7, [0.0] * 8, [1.0] * 8]).double()
    mask = torch.ones(4, 8).double()
    mask[3] = 0
    # Equal weights: 0. One of eight: 1 - 1/8. All zero, or none active: nothing can be told, so 0.
    assert pq_index(rows, mask, slots)[:, 0].tolist() == [0, 1 - 1 / 8, 0, 0]
    assert torch.equal(prune(rows, mask, slots)[2:], mask[2:])


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0, 0.3, 1 / 3, 2.7, 10 / 3])
def test_powers_from_square_roots(exponent):
    x = draws(1000).abs()
    torch.testing.assert_close(pruning._power(x, exponent), x.pow(exponent), rtol=1e-13, atol=0)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"p": 1.0}, "want 0 < p < q"),
        ({"p": 0.0}, "above 0"),
        ({"p": 2.0, "q": 1.0}, "want 0 < p < q"),
        ({"q": math.nan}, "above 0"),
        ({"eta": -1.0}, "0 or more"),
        ({"gamma": -0.1}, "0 or more"),
        ({"beta": 1.1}, "0 to 1"),
    ],
)
def test_impossible_settings_are_refused(setting, complaint):
    with pytest.raises(SettingError, match=complaint):
        Sap(**setting)


# -- SAP ----------------------------------------------------------------------------------------------------------


def test_gaussian_weights_go_the_way_the_specification_says():
    """DA-E3: 0.5 → 0.58 → 0.64 → 0.70 → 0.74, each event on Gaussian weights (training makes them so again).

    Seeded; the expected path is 0.5764, 0.6411, 0.6959, 0.7424 with σ < 0.00016 (a million weights), and the nearest
    edge of rounding is 0.0009 away: false alarm below 1e-7.
    """
    slots, mask = half(2_000_000)
    path = []
    for event in range(4):
        mask = prune(draws(1, 2_000_000, seed=event), mask, slots)
        path.append(round(sparsity(counts(mask, slots), slots).item(), 2))
    assert path == [0.58, 0.64, 0.70, 0.74]


def test_the_garbled_settings_of_the_paper_prune_71_percent_at_once():
    """DA-E3: η_c = 1, γ = 0.9 would reach 0.855 in one event."""
    slots, mask = half(2_000_000)
    pruned = prune(draws(1, 2_000_000), mask, slots, Sap(eta=1, gamma=0.9))
    assert sparsity(counts(pruned, slots), slots).item() == pytest.approx(0.855, abs=0.001)


def prune_by_hand(weight, mask, slots, rule):
    """DA-10 with loops."""
    mask = mask.clone()
    for s in slots:
        active = [i for i in range(s.start, s.stop) if mask[i]]
        if not active or not any(weight[i] for i in active):
            continue
        d = len(active)
        index = index_by_hand(weight[s.start : s.stop], mask[s.start : s.stop], rule.p, rule.q)
        r = d * (1 + rule.eta) ** (-rule.q / (rule.q - rule.p)) * (1 - index) ** (rule.p * rule.q / (rule.q - rule.p))
        count = min(math.floor(d * min(rule.gamma * (1 - r / d), rule.beta) + 1e-9), d - 1)
        for i in sorted(active, key=lambda i: abs(weight[i].item()))[: max(count, 0)]:
            mask[i] = 0
    return mask


@pytest.mark.parametrize("rule", [Sap(), Sap(eta=1, gamma=0.9), Sap(p=1, q=2), Sap(eta=9, beta=1), Sap(p=0.3, q=0.7)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pruning_is_its_definition(rule, dtype):
    slots = [Slot("a", (5, 20), 1, 101), Slot("b", (3, 10), 102, 132), Slot("c", (1, 2), 133, 135)]
    weights = draws(6, 136, dtype=dtype)
    weights[4:] = weights[4:].round()  # ties
    mask = (draws(6, 136, seed=3, dtype=dtype) > -0.3).to(dtype)
    mask[:, [0, 101, 132, 135]] = 1
    before = weights.clone(), mask.clone()
    found = prune(weights, mask, slots, rule)
    for k in range(6):
        assert torch.equal(found[k], prune_by_hand(weights[k], mask[k], slots, rule)), k
    assert torch.equal(weights, before[0]) and torch.equal(mask, before[1])


def test_a_layer_keeps_one_weight():
    slots = [Slot("a", (1, 3), 0, 3), Slot("b", (1, 1), 3, 4)]
    weights, mask = torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.ones(1, 4)
    assert prune(weights, mask, slots, Sap(eta=1e9, beta=1)).tolist() == [[0, 0, 1, 1]]


@given(st.floats(0, 0.99), st.floats(0, 2), st.integers(0, 50))
def test_a_target_is_reached_to_one_weight_and_never_passed(target, eta, seed):
    slots = [Slot("a", (5, 20), 0, 100), Slot("b", (3, 10), 100, 130), Slot("c", (1, 7), 130, 137)]
    weights, mask = draws(3, 137, seed=seed), (draws(3, 137, seed=seed + 1) > -0.5).double()
    free, bound = prune(weights, mask, slots, Sap(eta=eta)), prune(weights, mask, slots, Sap(eta=eta), target)
    zeros, most = 137 - bound.sum(dim=1), math.ceil(target * 137 - 1e-9)
    for k in range(3):
        untouched, without = 137 - int(mask[k].sum()), 137 - int(free[k].sum())
        assert int(zeros[k]) == max(untouched, min(without, most))
    assert torch.all(bound >= free), "the same weights go, but fewer"


def test_an_impossible_target_is_refused():
    slots, mask = half(10)
    with pytest.raises(SettingError, match="target sparsity is 1; want"):
        prune(mask, mask, slots, target=1)


# -- when ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_detection_scores(dtype):
    lenet = space("lenet", dtype=dtype)
    weights, start = draws(4, lenet.size, dtype=dtype), draws(lenet.size, seed=4, dtype=dtype)
    apart = weights.double() - start.double()
    squares = torch.stack([a.flatten(1).square().sum(1) for a in lenet.split(apart)])
    torch.testing.assert_close(detection(weights, start, lenet.slots), squares.sqrt().sum(0), rtol=1e-12, atol=0)
    torch.testing.assert_close(detection(weights, start, lenet.slots, "global"), squares.sum(0), rtol=1e-12, atol=0)
    each = detection(weights, start.expand(4, -1), lenet.slots)
    assert torch.equal(each, detection(weights, start, lenet.slots))
    with pytest.raises(SettingError, match="detection norm is 'both'"):
        detection(weights, start, lenet.slots, "both")


def test_votes_and_the_first_pruning():
    first = torch.tensor([10.0, 10.0, 10.0, 0.0])
    before = torch.tensor([20.0, 20.0, 20.0, 0.0])
    now = torch.tensor([20.1, 19.9, 20.3, 0.0])
    assert votes(now, before, first, 0.02).tolist() == [True, True, False, False]
    assert votes(now, before, first, 0.03 + 1e-9).tolist() == [True, True, True, False]
    rounds = [torch.tensor(row, dtype=torch.bool) for row in ([0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 1], [1, 1, 1, 1])]
    assert first_pruning(rounds, 0.5) == 3, "half is enough (DA-E1)"
    assert first_pruning(rounds, 0.51) == 4
    assert first_pruning(rounds[:2], 0.5) is None
    assert agreed(torch.tensor([True] * 7 + [False] * 3), 0.7)
    assert not agreed(torch.tensor([True] * 6 + [False] * 4), 0.7)


def test_pruning_times_are_those_of_the_specification():
    """DA-E5."""
    assert pruning_times(150, 500) == [150, 266, 355, 424, 477]
    assert pruning_times(200, 500) == [200, 354, 473]
    assert pruning_rounds(200, 500) == [201, 355, 474]
    assert pruning_times(150, 477) == [150, 266, 355, 424], "t_p < T"
    assert pruning_times(10, 40, delay=5, scale=1.0) == [15, 30]
    assert pruning_times(1, 6, scale=3.0) == [1, 2, 3, 4, 5], "a gap is 1 at least"
    with pytest.raises(SettingError, match=r"t\*=0 with"):
        pruning_times(0, 10)
    with pytest.raises(SettingError, match="c above 0"):
        pruning_times(5, 10, scale=0)


# -- batches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [Sap(), Sap(p=0.3, q=0.7)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_does_not_depend_on_its_batch(rule, dtype, threads):
    """30 clients at once and each of some alone, to the bit, whatever the threads."""
    lenet = space("lenet", dtype=dtype)
    slots = maskable(lenet)[-1:] if rule.p == 0.3 else maskable(lenet)  # such powers take 52 square roots
    weights = draws(30, lenet.size, dtype=dtype)
    mask = random_masks(lenet, slots, layer_counts(slots, 0.5), 7, range(30))
    index, score = pq_index(weights, mask, slots, rule), detection(weights, weights[0] * 2, lenet.slots)
    pruned = prune(weights, mask, slots, rule)
    usual = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for k in (0, 11, 29):
            row = slice(k, k + 1)
            assert torch.equal(pq_index(weights[row], mask[row], slots, rule), index[row])
            assert torch.equal(detection(weights[row], weights[0] * 2, lenet.slots), score[row])
            assert torch.equal(prune(weights[row], mask[row], slots, rule), pruned[row])
    finally:
        torch.set_num_threads(usual)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_same():
    from paceline.learn.sparsity import masked_means, random_growth, rigl

    lenet = space("lenet")
    slots = maskable(lenet)
    weights, gradients = (
        draws(10, lenet.size, dtype=torch.float32),
        draws(10, lenet.size, seed=2, dtype=torch.float32),
    )
    mask = random_masks(lenet, slots, layer_counts(slots, 0.5), 7, range(10))
    key, index = torch.arange(10), torch.arange(30).view(10, 3) % 10
    there = [t.cuda() for t in (weights, mask, gradients, key, index)]
    assert torch.equal(random_masks(lenet, slots, layer_counts(slots, 0.5), 7, range(10), "cuda").cpu(), mask)

    def everything(w, m, g, k, i):
        moved = rigl(w, m, g, slots, 0.3), random_growth(w, m, k, slots, 0.3), prune(w, m, slots)
        costs = wire_bytes(lenet, counts(m, slots)), sparse_flops(lenet, counts(m, slots))
        sums = pq_index(w, m, slots), detection(w, w[0], lenet.slots), masked_means(w, m, i, m)
        return (*moved, *costs), sums

    (exact, sums), (exact_there, sums_there) = everything(weights, mask, gradients, key, index), everything(*there)
    for here, far in zip(exact, exact_there, strict=True):
        assert torch.equal(here, far.cpu())
    for here, far in zip(sums, sums_there, strict=True):  # a GPU may round otherwise
        double = here.dtype == torch.float64
        assert torch.allclose(here, far.cpu(), rtol=1e-12 if double else 1e-6, atol=0 if double else 1e-7)


# -- bytes --------------------------------------------------------------------------------------------------------


def dense(model, slots):
    return torch.tensor([[s.stop - s.start for s in slots]])


@pytest.mark.parametrize(
    ("name", "shape", "classes", "parameters", "full", "halved"),
    [
        # DA-T2, derived targets: ten transfers in one direction, in MiB.
        ("resnet18", (3, 32, 32), 10, 11_173_962, 426.25, 213.13),
        ("vgg11", (3, 32, 32), 100, 9_277_284, 353.90, 176.95),
        ("alexnet", (3, 64, 64), 10, 23_272_266, 887.77, 443.88),
    ],
)
def test_the_busiest_nodes_of_da_dpfl(name, shape, classes, parameters, full, halved):
    model = space(name, shape, classes)
    slots = maskable(model)
    assert model.size == parameters
    whole = wire_bytes(model, dense(model, slots), accounting="weights")
    assert round(10 * whole.item() / MIB, 2) == full
    assert wire_bytes(model, dense(model, slots), changed=False).item() == whole.item()
    kept = torch.tensor([layer_counts(slots, 0.5)])
    assert 10 * wire_bytes(model, kept, accounting="weights").item() / MIB == pytest.approx(halved, abs=0.0051)


@pytest.mark.parametrize(
    ("name", "zeros", "paper"),
    [("resnet18", 0.65, 149.1), ("resnet18", 0.73, 115.1), ("alexnet", 0.61, 346.2)],
)
def test_da_dpfl_s_own_rows_are_the_full_size_times_the_share_of_non_zeros(name, zeros, paper):
    """DA-T2; the paper's shares have two digits, so 149.19 stands beside its 149.1."""
    model = space(name, (3, 64, 64) if name == "alexnet" else (3, 32, 32))
    slots = maskable(model)
    kept = torch.tensor([layer_counts(slots, 1 - zeros)])
    found = 10 * wire_bytes(model, kept, accounting="weights").item() / MIB
    assert found == pytest.approx(10 * 4 * model.size * (1 - zeros) / MIB, rel=1e-6)
    assert found == pytest.approx(paper, abs=0.1)


def test_bytes_by_hand():
    model = space("mlp:3", (4,), 2)
    slots = maskable(model)  # 12 + 6 weights, 5 biases
    kept = torch.tensor([[12, 6], [3, 1], [0, 0], [0, 1]])
    always = torch.tensor([4.0 * 23, 4 * 9, 4 * 5, 4 * 6]).double()
    assert wire_bytes(model, kept, changed=False).tolist() == always.tolist()
    assert mask_bytes(kept, slots).tolist() == [3, 3, 0, 3], "18 bits are 3 bytes; an index is 4"
    assert (wire_bytes(model, kept) - always).tolist() == [3, 3, 0, 3]
    one = torch.tensor([True, False, False, True])
    assert (wire_bytes(model, kept, changed=one) - always).tolist() == [3, 0, 0, 3]
    assert wire_bytes(model, kept, accounting="weights").tolist() == pytest.approx([92, 4 * 23 * 4 / 18, 0, 92 / 18])
    # Leaving a layer out makes its weights part of what always travels.
    assert wire_bytes(model, kept[1:2, :1], slots[:1], changed=False).tolist() == [4 * (3 + 11)]
    with pytest.raises(SettingError, match="accounting is 'bits'"):
        wire_bytes(model, kept, accounting="bits")


def test_few_indices_are_shorter_than_a_bitmap():
    slots = [Slot("a", (10, 100), 0, 1000)]
    assert mask_bytes(torch.tensor([[30], [31], [32], [1000]]), slots).tolist() == [120, 124, 125, 125]


# -- operations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "classes", "whole", "sparse", "with_batch"),
    [("resnet18", 10, 8.33, 6.64, 7.06), ("vgg11", 100, 2.29, 1.61, 1.73)],
)
def test_the_training_cost_at_erk_half(name, classes, whole, sparse, with_batch):
    """DA-T2, derived targets: 3 passes, 5 epochs, 500 samples, in 1e12; RigL's gradient is one dense batch of 128."""
    model = space(name, (3, 32, 32), classes)
    slots = maskable(model)
    visit = TRAINING_PASSES * 5 * 500 / 1e12
    batch = TRAINING_PASSES * 128 * model.flops / 1e12
    cost = sparse_flops(model, torch.tensor([layer_counts(slots, 0.5)])).item()
    assert round(visit * sparse_flops(model, dense(model, slots)).item(), 2) == whole
    assert round(visit * cost, 2) == sparse
    assert round(visit * cost + batch, 2) == with_batch


def test_a_layer_left_out_is_dense_and_the_rest_agrees_with_training_flops():
    model = space("resnet18")
    slots = maskable(model, ["shortcut"])
    kept = torch.tensor([layer_counts(slots, 0.3), layer_counts(slots, 0.3, "uniform")])
    for row, cost in zip(kept.tolist(), sparse_flops(model, kept, slots).tolist(), strict=True):
        density = {s.name: k / (s.stop - s.start) for s, k in zip(slots, row, strict=True)}
        assert training_flops(model.module, model.shape, 1, density) == pytest.approx(3 * cost, rel=1e-12)


def test_operations_of_an_unknown_layer_are_an_error():
    with pytest.raises(CostError, match="no such layer in lenet"):
        sparse_flops(space("lenet"), torch.tensor([[1]]), [Slot("nowhere.weight", (1, 1), 0, 1)])
