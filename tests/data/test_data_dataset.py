"""What a dataset checks about itself, and how it normalises."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from paceline.data.dataset import Dataset, channel_statistics, image_dataset
from paceline.data.registry import load
from paceline.errors import DataError
from paceline.seeds import stream


def features_dataset(**changes):
    given = {
        "name": "toy",
        "x_train": np.arange(8, dtype=np.float32).reshape(4, 2),
        "y_train": np.array([0, 1, 2, 0]),
        "x_test": np.ones((1, 2), np.float32),
        "y_test": np.array([2]),
        "classes": 3,
        "mean": (0.0,),
        "std": (1.0,),
    }
    return Dataset(**(given | changes))


def with_nan():
    x = np.zeros((4, 2), np.float32)
    x[2, 1] = np.nan
    return x


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"x_train": with_nan()}, "toy, train: sample 2 holds NaN or infinity"),
        ({"x_test": np.full((1, 2), np.inf, np.float32)}, "toy, test: sample 0"),
        ({"y_train": np.array([0, 1, 3, 0])}, r"toy, train: label 3 at index 2 is outside 0\.\.2"),
        ({"y_test": np.array([-1])}, "toy, test: label -1 at index 0"),
        ({"y_train": np.array([0, 1])}, "4 samples but labels of shape"),
        ({"group_train": np.array([0])}, "4 samples but groups of shape"),
        ({"y_train": np.zeros(4, np.int32)}, "labels are int32"),
        ({"x_train": np.zeros((4, 2))}, "samples are float64 with 2 axes"),
        ({"x_test": np.ones((1, 3), np.float32)}, "they must agree"),
        ({"x_test": np.ones((0, 2), np.float32), "y_test": np.zeros(0, np.int64)}, "toy, test: no samples"),
        ({"mean": (0.0, 0.0, 0.0)}, "3 means and 1 deviations"),
        ({"std": (0.0,)}, "std above 0"),
    ],
)
def test_a_wrong_dataset_is_refused(changes, says):
    with pytest.raises(DataError, match=says):
        features_dataset(**changes)


def test_features_of_images_are_normalised_per_channel():
    images = stream(0, "img").integers(0, 256, (40, 3, 5, 4)).astype(np.uint8)
    before = images.copy()
    data = image_dataset("toy", (images, np.zeros(40)), (images[:3], np.zeros(3)), 1)
    x = data.features("train")
    assert x.dtype == np.float32
    assert x.shape == (40, 3, 5, 4)
    assert np.allclose(x.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    assert np.allclose(x.std(axis=(0, 2, 3)), 1, atol=1e-5)
    wanted = (images[7, 1, 2, 3] / 255 - data.mean[1]) / data.std[1]
    assert x[7, 1, 2, 3] == pytest.approx(wanted, abs=1e-5)
    assert np.allclose(data.features("test"), x[:3])
    assert (images == before).all()
    assert data.shape == (3, 5, 4)


def test_features_of_columns_are_normalised_per_column():
    data = features_dataset(mean=(1.0, 2.0), std=(2.0, 4.0))
    assert np.allclose(data.features("train"), (data.x_train - [1, 2]) / [2, 4])


def test_statistics_are_exact_across_blocks_and_survive_a_constant_channel():
    images = stream(0, "stat").integers(0, 256, (4500, 2, 2, 2)).astype(np.uint8)
    images[:, 1] = 9
    mean, std = channel_statistics(images)
    assert mean[0] == pytest.approx((images[:, 0] / 255).mean())
    assert std[0] == pytest.approx((images[:, 0] / 255).std())
    assert (mean[1], std[1]) == (pytest.approx(9 / 255), 1.0)


def test_digits_keep_every_level_of_every_pixel():
    from sklearn.datasets import load_digits

    data = load("digits")
    assert data.shape == (1, 8, 8)
    assert (len(data.y_train), len(data.y_test)) == (1437, 360)
    ours = np.concatenate([data.x_train, data.x_test]).reshape(1797, 64)
    back = np.rint(ours / (255 / 16)).astype(int)
    theirs = load_digits().data.astype(int)
    assert sorted(map(tuple, back)) == sorted(map(tuple, theirs))
    assert (load("digits").x_train == data.x_train).all()
    assert np.bincount(data.y_test).min() > 25


def test_digits_do_not_import_the_package_that_carries_them():
    code = "import sys; from paceline.data.loaders.digits import digits; digits(); print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False", "it takes a second and 100 MB"
