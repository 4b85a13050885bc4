"""Private runs keep the contract: cohorts, company and a resumed process change nothing."""

import pytest
import torch

from paceline.algorithms.base import Sums
from paceline.algorithms.registry import ALGORITHMS
from paceline.learn.hashing import signed
from paceline.learn.protecting import lengths, protected
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.performing import read_resumption, resume
from paceline.runs.settings import make_settings
from paceline.seeds import mix
from tests.contract.test_batching import SMALL as WORDS
from tests.contract.test_batching import run_alone, scores, timeline, traits
from tests.contract.test_resume import SMALL, cut_off, kept_files, uninterrupted

pytest.importorskip("dp_accounting")
DP = ["privacy.clip=0.3", "privacy.noise=0.5"]
NAMES = [name for name in ALGORITHMS if isinstance(traits(name).private, Sums)]


@pytest.mark.parametrize("name", NAMES)
def test_cohort_size_changes_nothing(name):
    want = run_alone(name, *DP, "executor.name=reference", "executor.dtype=float64")
    run = run_alone(name, *DP, "executor.cohort=7", "executor.dtype=float64")
    assert timeline(run) == timeline(want)
    assert scores(run) == pytest.approx(scores(want), rel=1e-9)
    assert scores(run, "epsilon").tolist() == scores(want, "epsilon").tolist()


def test_company_changes_nothing():
    """Runs of other seeds and algorithms beside it, whose uploads are clipped in the same calls; private or not."""
    alone = [run_alone(name, *DP) for name in ("fedavg", "fedbuff")]
    words = [*WORDS, *DP]
    runs = [make_run(make_settings(name, words)) for name in ("fedavg", "fedbuff")]
    others = [make_run(make_settings("fedavg", [*words, f"seed={seed}"])) for seed in (1, 2)]
    others.append(make_run(make_settings("fedavg", WORDS)))
    drive([*runs, *others], make_executor(runs[0].settings.executor))
    for run, want in zip(runs, alone, strict=True):
        assert run.failure is None and timeline(run) == timeline(want)
        assert scores(run) == pytest.approx(scores(want), rel=1e-6)
    assert (scores(others[0]) != scores(runs[0])).all() and (scores(others[2]) != scores(runs[0])).all()


@pytest.mark.parametrize("name", NAMES)
def test_cut_off_and_resumed(name, tmp_path, monkeypatch):
    """Noise, and what was spent, are those of the run that was not cut off."""
    words = [*SMALL, *DP, "flush=5", "every=1"]
    _, stops = uninterrupted(monkeypatch, [name], tmp_path / "whole", words)
    kept = max(1, stops // 2)
    directory = cut_off(monkeypatch, [name], tmp_path, kept, max(kept, stops - 1), words)
    assert resume(read_resumption(directory)).failures == []
    assert kept_files(directory) == kept_files(tmp_path / "whole")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_same_on_cuda():
    """Lengths have the same bits; noise differs by the rounding of the inverse normal distribution."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(20, 70_001, generator=generator)
    trained = start + torch.randn(20, 70_001, generator=generator) * torch.arange(20)[:, None] / 20
    keys = torch.tensor([[signed(mix(3, row))] for row in range(20)])
    assert torch.equal(lengths(trained.cuda() - start.cuda()).cpu(), lengths(trained - start))
    options = {"clip": 100.0, "deviation": 0.0}
    assert torch.equal(protected(start.cuda(), trained.cuda(), **options).cpu(), protected(start, trained, **options))
    options = {"clip": 100.0, "deviation": 0.3}
    there = protected(start.cuda(), trained.cuda(), keys.cuda(), **options)
    here = protected(start, trained, keys, **options)
    assert torch.allclose(there.cpu(), here, rtol=0, atol=1e-6)
    for rows in ([3], [7, 1]):
        alone = protected(start[rows].cuda(), trained[rows].cuda(), keys[rows].cuda(), **options)
        assert torch.equal(alone, there[rows])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_private_runs_on_cuda(name):
    want = run_alone(name, *DP, "executor.name=reference", "executor.dtype=float64", "executor.device=cpu")
    run = run_alone(name, *DP, "executor.dtype=float64", "executor.device=cuda")
    assert timeline(run) == timeline(want)
    assert scores(run) == pytest.approx(scores(want), rel=1e-9)
