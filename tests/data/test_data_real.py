"""The published files themselves, where PACELINE_DATA points to them; each test skips, saying so, if not."""

from __future__ import annotations

import os

import numpy as np
import pytest

from paceline.data.registry import catalogue, load, verify

pytestmark = pytest.mark.data


def require(name):
    if not os.environ.get("PACELINE_DATA"):
        pytest.skip("PACELINE_DATA is not set")
    if not next(entry.present for entry in catalogue() if entry.name == name):
        pytest.skip(f"{name} is not under PACELINE_DATA")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "cifar100", "tiny-imagenet"])
def test_verified(name):
    require(name)
    report = verify(name)
    assert report.ok, [check for check in report.checks if not check.ok]


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        # The constants that every tutorial normalises by.
        ("mnist", (0.1307,), (0.3081,)),
        ("fashion-mnist", (0.2860,), (0.3530,)),
        ("cifar10", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
        ("cifar100", (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    ],
)
def test_statistics_are_the_well_known_ones(name, mean, std):
    require(name)
    data = load(name)
    assert data.mean == pytest.approx(mean, abs=3e-4)
    assert data.std == pytest.approx(std, abs=3e-4)


def test_cifar10_is_balanced():
    require("cifar10")
    data = load("cifar10")
    assert (np.bincount(data.y_train) == 5000).all()
    assert (np.bincount(data.y_test) == 1000).all()


def test_ham10000_has_its_published_classes_and_sites():
    """Tschandl et al. 2018: akiec 327, bcc 514, bkl 1099, df 115, mel 1113, nv 6705, vasc 142."""
    require("ham10000")
    data = load("ham10000:16")
    y = np.concatenate([data.y_train, data.y_test])
    assert np.bincount(y).tolist() == [327, 514, 1099, 115, 1113, 6705, 142]
    assert abs(len(data.y_test) / len(y) - 0.2) < 0.02
    if data.group_train is not None:
        assert len(np.unique(data.group_train)) == 4


def test_dermamnist_has_the_published_counts():
    require("dermamnist")
    checks = {check.what: check for check in verify("dermamnist").checks}
    # The digest is not asked for: a rebuilt file has the same counts and other bytes.
    assert checks["counts"].ok
    assert checks["shape"].ok
    assert checks["labels"].ok
