"""What ``docs/bits.md`` says is exact has the same bits whoever is beside, on this machine; the rest is bounded."""

import warnings

import pytest
import torch
from benchmarks.bits import ALL, MODEL, apart, by_company, by_probes, by_scores, run_apart, runs_of, trainer
from benchmarks.bits_cases import CASES, make_space, waves
from benchmarks.bits_page import RESULTS, largest, page, read

from paceline.algorithms.registry import ALGORITHMS
from paceline.learn.programs.blocks import BLOCK, aligned_rows, own_blocks, rounded_rows, without_tail

FOUND = read("bits.json")
EXACT = [row["name"] for row in FOUND["networks"] if not largest(row)]
LOOSE = [row["name"] for row in FOUND["networks"] if largest(row)]
QUICK = {"mlp:17,5", "mlp:1", "sigmoid, 33", "GELU and LayerNorm, 32"}
"""One of each cause; the others only on request."""
BOUND = {torch.float32: 1e-5, torch.float64: 1e-13}
"""For what is not exact: some hundred roundings."""
SHORT = ["rounds=2", "local.steps=2"]
OTHERWISE = ["executor.cohort=3", "flush=4", "executor.threads=2"]
HERE = FOUND["torch"] == torch.__version__ and FOUND["vectors"] == torch.backends.cpu.get_cpu_capability()
ELSEWHERE = pytest.mark.skipif(not HERE, reason="measured with another torch, or on another kind of processor")
DTYPES = pytest.mark.parametrize("dtype", BOUND, ids=str)


def named(names):
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


def differences(name, dtype):
    """Cohorts of one and of all, other company, probes and scores; the last recipe has every option."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some go through vmap, and say so
        _, plain, full = waves(name, make_space(name, dtype), clients=5)
        for jobs in (plain, full):
            yield apart(trainer(ALL).train(jobs), trainer(1).train(jobs))
        yield from (by_company(full), by_probes(plain), by_scores(plain))


@ELSEWHERE
@DTYPES
@pytest.mark.parametrize("name", named(EXACT))
def test_exact_networks_have_the_same_bits_in_any_company(name, dtype):
    assert list(differences(name, dtype)) == [0.0] * 5


@DTYPES
@pytest.mark.parametrize("name", named(LOOSE))
def test_other_networks_agree_but_for_rounding(name, dtype):
    assert max(differences(name, dtype)) <= BOUND[dtype]


@pytest.fixture(scope="module")
def together():
    """All algorithms beside one another, in other cohorts, with other stops and threads."""
    return dict(zip(ALGORITHMS, runs_of([*ALGORITHMS], [*OTHERWISE, *SHORT]), strict=True))


@ELSEWHERE
@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_have_the_same_bits_however_they_are_batched(together, name):
    (alone,) = runs_of([name], ["executor.threads=1", *SHORT])
    assert run_apart(together[name], alone) == 0.0


def test_a_difference_would_be_seen():
    """The same comparison tells one seed from another."""
    one, other, *_ = runs_of(["fedavg"], SHORT, seeds=2)
    assert run_apart(other, one) > 1e-3
    first, *_ = waves("mlp:64", make_space("mlp:64", torch.float32), clients=2)
    trained = trainer().train(first)
    assert apart(trained[::-1], trained) > 1e-3


def test_the_page_is_written_from_what_was_measured():
    text = (RESULTS.parents[1] / "docs/bits.md").read_text(encoding="utf-8")
    assert text == page(FOUND, read("bits-before.json"))


def test_every_network_and_algorithm_was_measured():
    assert [row["name"] for row in FOUND["networks"]] == [*CASES]
    assert [row["name"] for row in FOUND["algorithms"]] == [*ALGORITHMS]
    assert FOUND["model"] == MODEL
    assert not [row["name"] for row in FOUND["algorithms"] if largest(row)], "the page says that all are exact"


# -- blocks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("shape", [(3, 5, 7), (4, 2, 8), (3, 3, 1, 1, 3), (5, 3)])
def test_every_matrix_begins_at_a_whole_block(shape, dtype):
    given = torch.arange(torch.Size(shape).numel()).to(dtype).view(shape)
    found = own_blocks(given)
    assert torch.equal(found, given)
    assert found.data_ptr() != given.data_ptr()
    if len(shape) > 2:
        assert all((matrix.data_ptr() - found.data_ptr()) % BLOCK == 0 for matrix in found)
    assert all(matrix.is_contiguous() for matrix in found)


def test_rows_are_enough_and_few_more():
    assert all(n <= rounded_rows(n) <= max(n + 3, 1.25 * n) for n in range(1, 3000))
    assert all(rounded_rows(n) % 4 == 0 for n in range(1, 3000))
    space = make_space("mlp:17,5", torch.float32)
    assert [aligned_rows(space, n) for n in (1, 4, 5, 10)] == [4, 4, 8, 12]
    assert aligned_rows(make_space("mlp:64", torch.float32), 10) == 10  # ten classes, so an even number will do
    assert aligned_rows(make_space("mlp:17,5", torch.float64), 5) == 6


@pytest.mark.parametrize("shape", [(3, 5), (4, 32), (1, 1), (2, 3, 4, 4)])
def test_filling_up_changes_no_number_and_no_derivative(shape):
    x = torch.linspace(-3, 3, torch.Size(shape).numel(), dtype=torch.float64).view(shape).requires_grad_()
    (want,) = torch.autograd.grad(torch.sigmoid(x).square().sum(), x)
    found = without_tail(torch.sigmoid, x)
    assert found.shape == x.shape
    torch.testing.assert_close(found, torch.sigmoid(x), rtol=1e-15, atol=0)
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), x)[0], want, rtol=1e-14, atol=0)
