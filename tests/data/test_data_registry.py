"""Datasets by name: what is here, what is missing and where to get it, what is damaged."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.data.files import data_root
from paceline.data.registry import catalogue, load, verify
from paceline.data.specs import SPECS
from paceline.errors import DataError, SettingError

NAMES = [
    "digits",
    "mnist",
    "fashion-mnist",
    "cifar10",
    "cifar100",
    "femnist",
    "ham10000",
    "dermamnist",
    "tiny-imagenet",
    "synthetic",
]


def test_the_names():
    assert sorted(SPECS) == sorted(NAMES)


def test_the_catalogue_of_an_empty_folder_has_only_what_needs_no_file(tmp_path):
    entries = {entry.name: entry for entry in catalogue(tmp_path)}
    # Debian's package would be found wherever the root is.
    assert {n for n, e in entries.items() if e.present} - {"fashion-mnist"} == {"digits", "synthetic"}
    for entry in entries.values():
        assert entry.how_to_get
        assert entry.licence


def test_the_catalogue_names_the_files_it_found(tmp_path):
    (tmp_path / "mnist.npz").touch()
    entry = next(e for e in catalogue(tmp_path) if e.name == "mnist")
    assert entry.present
    assert entry.files == (tmp_path / "mnist.npz",)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("digits", "synthetic", "fashion-mnist")])
def test_missing_data_says_where_it_looked_and_where_to_get_it(tmp_path, name):
    with pytest.raises(DataError) as caught:
        load(name, tmp_path)
    text = str(caught.value)
    assert text.startswith(f"{name} is not here")
    assert str(tmp_path) in text
    assert "https://" in text or "http://" in text
    assert "PACELINE_DATA" in text


def test_a_half_present_layout_is_pointed_out(tmp_path):
    (tmp_path / "cifar-10-batches-bin").mkdir()
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_5", "test_batch"):
        (tmp_path / f"cifar-10-batches-bin/{name}.bin").touch()
    with pytest.raises(DataError, match=r"found 5 of 6"):
        load("cifar10", tmp_path)


def test_the_lossless_pair_is_explained(tmp_path):
    with pytest.raises(DataError, match=r"cifar10_codec\.py unpack DIR DIR/cifar10\.npz"):
        load("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mnits", "did you mean 'mnist'"),
        ("digits:3", "digits takes no numbers"),
        ("ham10000:28,3", "takes only size"),
        ("ham10000:big", "must be numbers"),
        ("ham10000:2.5", "size is 2.5, wanted a whole number"),
        ("synthetic:-1", "alpha is -1, wanted a number of at least 0"),
        ("synthetic:1,1,0", "clients is 0"),
    ],
)
def test_wrong_names(name, says):
    with pytest.raises(SettingError, match=says):
        load(name)


def test_the_root_is_given_then_the_variable_then_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "named"))
    assert data_root(tmp_path) == tmp_path
    assert data_root() == tmp_path / "named"
    monkeypatch.delenv("PACELINE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_root() == tmp_path / "cache/paceline"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root() == tmp_path / ".cache/paceline"


def test_verify_passes_what_is_right():
    report = verify("digits")
    assert report.ok
    assert {check.what for check in report.checks} >= {"readable", "shape", "counts", "labels"}


def test_verify_finds_what_is_wrong(tmp_path):
    x = np.zeros((20, 28, 28), np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=np.zeros(20), x_test=x, y_test=np.zeros(20))
    failed = {check.what: check.detail for check in verify("mnist", tmp_path).checks if not check.ok}
    assert set(failed) == {"counts", "labels", "content"}
    assert failed["counts"] == "20 + 20, published 60000 + 10000"
    (tmp_path / "mnist.npz").write_bytes(b"junk")
    report = verify("mnist", tmp_path)
    assert not report.ok
    assert "not a readable .npz" in report.checks[-1].detail


def test_verify_compares_published_digests(tmp_path):
    arrays = {"x_train": np.zeros((1, 28, 28, 3), np.uint8)}
    np.savez(tmp_path / "dermamnist.npz", **arrays)
    check = verify("dermamnist", tmp_path).checks[0]
    assert not check.ok
    assert check.what == "digest of dermamnist.npz"
    assert "published 0744692d530f8e62ec473284d019b0c7" in check.detail


def test_verify_of_what_is_missing_is_a_failed_report(tmp_path):
    report = verify("cifar100", tmp_path)
    assert not report.ok
    assert "is not here" in report.checks[0].detail
