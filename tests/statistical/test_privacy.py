"""Clipping and noise of differential privacy, as they reach the server.

All draws are seeded, so a test passes always or never. The false-alarm rates are for the choice of the seed: every
one of the 10 statistical assertions fails by chance with a probability of about ALARM (scalar products are taken to
be normal), so one seed in 100,000 would raise an alarm although nothing is wrong. Two more are controls: a wrong
deviation that a test must reject, to show that it sees what it is for. What is said of clipping holds for every
upload, without chance.
"""

import math

import pytest
import torch
from scipy import stats

from paceline.learn.hashing import signed
from paceline.learn.protecting import PIECE, lengths, normal, protected
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.seeds import address, mix
from paceline.seeds import normal as draw_one
from paceline.worlds.privacy.machines import PrivateMachines

ALARM = 1e-6
CLIP, NOISE, DRAWN, ROUNDS = 0.2, 1.5, 10, 6
WORDS = [
    *("clients=20", f"rounds={ROUNDS}", "partition=iid", "model=logistic", "local.steps=3", "executor.dtype=float64"),
    *("executor.device=cpu", f"fedavg.width={DRAWN}", f"privacy.clip={CLIP}"),
]


def uploads(name, *words, patch):
    """(client, start, trained, sent) of every upload of a run, in the order in which they were made; and the run."""
    found, hidden = [], PrivateMachines._hidden

    def noted(self, trained, client):
        sent = hidden(self, trained, client)
        found.append((client, self._starts[trained], trained, sent))
        return sent

    patch.setattr(PrivateMachines, "_hidden", noted)
    run = make_run(make_settings(name, [*WORDS, *words]))
    drive([run], make_executor(run.settings.executor))
    assert run.failure is None
    done = [(client, *models) for client, *models in found if models[-1].value is not None]  # others came too late
    return [(client, *(model.value for model in models)) for client, *models in done], run


@pytest.fixture(scope="module")
def noised():
    pytest.importorskip("dp_accounting")
    with pytest.MonkeyPatch.context() as patch:
        return uploads("fedavg", f"privacy.noise={NOISE}", patch=patch)[0]


@pytest.fixture(scope="module")
def noises(noised):
    """(uploads, P) what was added to each clipped update."""
    return torch.stack([sent - start - shortened(trained - start) for _, start, trained, sent in noised])


def shortened(update):
    """By the definition: min(1, C / |u|) u."""
    return update * min(1.0, CLIP / float(update.norm()))


def deviates(x, deviation):
    """Whether the mean square of normal numbers is other than a variance, on either side, at the rate ALARM."""
    square, count = float((x / deviation).square().sum()), x.numel()
    return min(stats.chi2.sf(square, count), stats.chi2.cdf(square, count)) < ALARM / 2


def is_correlated(products, count):
    """Whether the largest of some scalar products of ``count`` pairs of standard normal numbers is no chance."""
    bound = stats.norm.isf(ALARM / 2 / products.numel()) * math.sqrt(count)
    return float(products.abs().max()) > bound


# -- noise ----------------------------------------------------------------------------------------------------------


def test_each_upload_has_its_share_of_noise(noises):
    share = NOISE * CLIP / math.sqrt(DRAWN)
    assert noises.shape[0] == DRAWN * ROUNDS
    assert not deviates(noises, share)
    assert deviates(noises, 1.05 * share)  # a control
    mean = float(noises.mean()) / share * math.sqrt(noises.numel())
    assert abs(mean) < stats.norm.isf(ALARM / 2)
    assert stats.kstest(noises.flatten().numpy() / share, "norm").pvalue > ALARM


def test_a_rounds_sum_has_the_noise_that_was_asked_for(noises):
    sums = noises.reshape(ROUNDS, DRAWN, -1).sum(dim=1)
    assert not deviates(sums, NOISE * CLIP)
    assert deviates(sums, 1.1 * NOISE * CLIP)  # a control


def test_noise_is_independent_of_other_clients_and_rounds(noised, noises):
    """All pairs of uploads; among them those of one client in different rounds, and of one round."""
    standard = noises / (NOISE * CLIP / math.sqrt(DRAWN))
    pairs = torch.triu_indices(len(standard), len(standard), 1)
    assert not is_correlated((standard @ standard.T)[*pairs], standard.shape[1])
    clients = [client for client, *_ in noised]
    assert len(set(clients)) < len(clients)


def test_noise_is_independent_of_updates_and_of_its_neighbours(noised, noises):
    standard = noises / (NOISE * CLIP / math.sqrt(DRAWN))
    updates = torch.stack([trained - start for _, start, trained, _ in noised])
    updates /= updates.square().mean().sqrt()
    assert abs(float((standard * updates).sum())) < stats.norm.isf(ALARM / 2) * float(updates.norm())
    for step in (1, 2, 64):
        product = (standard[:, step:] * standard[:, :-step]).sum().reshape(1)
        assert not is_correlated(product, standard[:, step:].numel())


def test_the_tails_of_a_million_numbers():
    """Beyond four deviations: of 2^20 numbers 66 are expected, and their count is binomial."""
    found = normal(torch.tensor([[signed(address(3, "tails"))]]), 0, 1 << 20)
    chance = 2 * stats.norm.sf(4)
    beyond = int((found.abs() > 4).sum())
    low, high = stats.binom.ppf([ALARM / 2, 1 - ALARM / 2], 1 << 20, chance)
    assert low <= beyond <= high


def test_numbers_are_those_of_seeds():
    """The same function of key and place that ``seeds`` evaluates one by one."""
    key = address(5, "some")
    found = normal(torch.tensor([[signed(key)]]), 7, 27)[0]
    assert found.tolist() == pytest.approx([draw_one(key, place) for place in range(7, 27)], rel=1e-9)


# -- clipping -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "slack"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("name", ["fedavg", "spfl", "fedbuff", "ditto"])
def test_no_contribution_is_longer_than_the_clip(name, dtype, slack, monkeypatch):
    """In single precision, a start of length 10 rounds what is added to it by 10 * 6e-8."""
    words = (f"executor.dtype={dtype}", "fedbuff.concurrency=8", "fedbuff.buffer=4", "ditto.participants=5")
    found, _ = uploads(name, *words, "privacy.clip=0.1", patch=monkeypatch)
    before = [float((trained - start).norm()) for _, start, trained, _ in found]
    after = [float((sent - start).norm()) for _, start, _, sent in found]
    assert len(found) > 20 and max(before) > 0.1  # some were longer
    assert max(after) <= 0.1 * (1 + slack)
    for (_, start, trained, sent), old in zip(found, before, strict=True):
        if old <= 0.1 * (1 - slack):
            assert torch.equal(sent, trained)
        else:
            assert torch.allclose(sent - start, (trained - start) * (0.1 / old), rtol=0, atol=slack)


def test_hostile_updates_are_clipped_too(monkeypatch):
    found, run = uploads("fedavg", "hostile=scaled:0.5,1000", patch=monkeypatch)
    assert max(float((trained - start).norm()) for _, start, trained, _ in found) > 100 * CLIP
    assert max(float((sent - start).norm()) for _, start, _, sent in found) <= CLIP * (1 + 1e-12)
    assert run.failure is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_update_that_is_not_finite_counts_as_none(bad, dtype):
    """It has no length to which it could be shortened, and no noise would hide it."""
    start, trained = torch.ones(3, 50, dtype=dtype), torch.full((3, 50), 1.01, dtype=dtype)
    trained[1, 7] = bad
    keys = torch.tensor([[signed(mix(9, row))] for row in range(3)])
    for deviation in (0.0, 0.5):
        found = protected(start.clone(), trained.clone(), keys, clip=1.0, deviation=deviation)
        want = torch.stack([trained[0], start[1], trained[2]])
        noise = (deviation * normal(keys, 0, 50)).to(dtype)
        assert torch.equal(found, want + noise)


def test_attackers_who_overflow_are_clipped_too(monkeypatch):
    words = ("hostile=random:0.5,3e38", "local.lr=50", "executor.dtype=float32", f"privacy.clip={CLIP}")
    found, run = uploads("fedavg", *words, patch=monkeypatch)
    assert not all(trained.isfinite().all() for _, _, trained, _ in found)
    assert max(float((sent - start).norm()) for _, start, _, sent in found) <= CLIP * (1 + 1e-5)
    assert run.failure is None


# -- one row a client -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 2, 77, PIECE, PIECE + 1, 3 * PIECE + 5])
def test_a_row_has_the_same_bits_in_any_company(size, dtype):
    generator = torch.Generator().manual_seed(size)
    start = torch.randn(9, size, generator=generator, dtype=dtype)
    trained = start + torch.randn(9, size, generator=generator, dtype=dtype) * torch.arange(9)[:, None] / 9
    keys = torch.tensor([[signed(mix(17, row))] for row in range(9)])
    options = {"clip": 0.5 * math.sqrt(size), "deviation": 0.1}
    together = protected(start, trained, keys, **options)
    for rows in ([0], [4], [8, 3], [2, 1, 7, 5]):
        alone = protected(start[rows].clone(), trained[rows].clone(), keys[rows], **options)
        assert torch.equal(alone, together[rows])


def test_lengths_are_exact_to_rounding():
    x = torch.randn(3, 100_001, generator=torch.Generator().manual_seed(1))
    exact = [math.sqrt(math.fsum(v * v for v in row)) for row in x.tolist()]
    assert lengths(x).tolist() == pytest.approx(exact, rel=1e-15)
    before = x.double()
    lengths(before)
    assert torch.equal(before, x.double())
