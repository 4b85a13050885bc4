"""What every loader returns: arrays that have been checked once, so that nobody downstream has to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError

Part = Literal["train", "test"]
LOOKED_AT = 1024
"""Samples that are looked through for NaN at a time: what comes of it is no copy of all data."""
MOST_CLASSES = 100_000
"""Each has an output of every network, and an entry for every client."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """A labelled dataset with its train and test parts."""

    name: str
    x_train: NDArray[Any]
    """uint8 images (n, channels, height, width), or float32 features (n, ...)."""
    y_train: NDArray[np.int64]
    x_test: NDArray[Any]
    y_test: NDArray[np.int64]
    classes: int
    mean: tuple[float, ...]
    """Per channel, of x/255 for images; for plain features one number, or one per column."""
    std: tuple[float, ...]
    group_train: NDArray[np.int64] | None = None
    """Who or where a sample comes from (writer, site): what the natural partition splits by."""
    group_test: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        self._check_part("train", self.x_train, self.y_train, self.group_train)
        self._check_part("test", self.x_test, self.y_test, self.group_test)
        if self.x_train.shape[1:] != self.x_test.shape[1:] or self.x_train.dtype != self.x_test.dtype:
            raise DataError(
                f"{self.name}: train samples are {self.x_train.dtype} {self.x_train.shape[1:]}, "
                f"test samples {self.x_test.dtype} {self.x_test.shape[1:]}; they must agree"
            )
        self._check_scale()

    def features(self, part: Part) -> NDArray[np.float32]:
        """The samples as the networks want them: float32, normalised by mean and std; nobody writes into them."""
        raw = {"train": self.x_train, "test": self.x_test}[part]
        if raw.dtype == np.float32 and raw.flags.writeable and not any(self.mean) and set(self.std) == {1.0}:
            return raw  # nothing to do, and a copy of all data would double them
        unit = 255.0 if raw.dtype == np.uint8 else 1.0
        column = (-1,) + (1,) * (raw.ndim - 2)
        x: NDArray[np.float32] = raw.astype(np.float32)  # a copy: the next lines write into it
        x -= (np.array(self.mean) * unit).astype(np.float32).reshape(column)
        x *= (1.0 / (np.array(self.std) * unit)).astype(np.float32).reshape(column)
        return x

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample: (1, 8, 8), (3, 32, 32), (60,)."""
        return tuple(self.x_train.shape[1:])

    def _check_part(self, part: str, x: NDArray[Any], y: NDArray[np.int64], group: NDArray[np.int64] | None) -> None:
        where = f"{self.name}, {part}"
        if not ((x.dtype == np.uint8 and x.ndim == 4) or (x.dtype == np.float32 and x.ndim >= 2)):
            raise DataError(
                f"{where}: samples are {x.dtype} with {x.ndim} axes; "
                "wanted uint8 images (n, channels, height, width) or float32 features (n, ...)"
            )
        if y.dtype != np.int64 or y.ndim != 1:
            raise DataError(f"{where}: labels are {y.dtype} of shape {y.shape}; wanted int64 (n,)")
        for what, array in (("labels", y), ("groups", group)):
            if array is not None and array.shape != (len(x),):
                raise DataError(f"{where}: {len(x)} samples but {what} of shape {array.shape}")
        if not x.size:
            raise DataError(f"{where}: no samples at all, or none with anything in it: their shape is {x.shape}")
        if not 1 <= self.classes <= MOST_CLASSES:
            raise DataError(f"{where}: {self.classes:,} classes; wanted 1 to {MOST_CLASSES:,}: number them from 0 on")
        bad = np.flatnonzero((y < 0) | (y >= self.classes))
        if len(bad):
            raise DataError(
                f"{where}: label {y[bad[0]]} at index {bad[0]} is outside 0..{self.classes - 1} "
                f"({len(bad)} such labels)"
            )
        if x.dtype == np.float32:
            _check_finite(where, x)

    def _check_scale(self) -> None:
        wanted = {self.shape[0]} if self.x_train.dtype == np.uint8 else {1, self.shape[0]}
        if len(self.mean) not in wanted or len(self.std) not in wanted:
            raise DataError(
                f"{self.name}: {len(self.mean)} means and {len(self.std)} deviations for samples of shape "
                f"{self.shape}; wanted {' or '.join(map(str, sorted(wanted)))} of each"
            )
        if not (np.isfinite(self.mean).all() and np.isfinite(self.std).all() and min(self.std) > 0):
            raise DataError(f"{self.name}: mean {self.mean} and std {self.std} must be finite, std above 0")


def _check_finite(where: str, x: NDArray[np.float32]) -> None:
    flat = x.reshape(len(x), -1)
    fine = [np.isfinite(flat[at : at + LOOKED_AT]).all(axis=1) for at in range(0, len(flat), LOOKED_AT)]
    rows = np.flatnonzero(~np.concatenate(fine))
    if len(rows):
        raise DataError(
            f"{where}: sample {rows[0]} holds NaN or infinity ({len(rows)} such samples); "
            "remove or repair them before training"
        )


def image_dataset(
    name: str,
    train: tuple[NDArray[np.uint8], NDArray[Any]],
    test: tuple[NDArray[np.uint8], NDArray[Any]],
    classes: int,
    groups: tuple[NDArray[Any], NDArray[Any]] | None = None,
) -> Dataset:
    """A dataset of (images, labels) pairs, normalised by the statistics of its own training images."""
    mean, std = channel_statistics(train[0])
    return Dataset(
        name=name,
        x_train=train[0],
        y_train=whole(train[1], f"{name}, train"),
        x_test=test[0],
        y_test=whole(test[1], f"{name}, test"),
        classes=classes,
        mean=mean,
        std=std,
        group_train=None if groups is None else whole(groups[0], f"{name}, train groups"),
        group_test=None if groups is None else whole(groups[1], f"{name}, test groups"),
    )


def whole(labels: NDArray[Any], where: str) -> NDArray[np.int64]:
    """Labels as int64, which must be whole numbers: a half would be cut off in silence."""
    if labels.dtype.kind not in "iufb":
        raise DataError(f"{where}: labels are {labels.dtype}; wanted whole numbers")
    if labels.dtype.kind == "f":
        wrong = labels[~((np.abs(labels) < 2.0**53) & (labels == np.round(labels)))]
        if wrong.size:
            raise DataError(f"{where}: a label is {wrong[0]}; wanted whole numbers from 0 on")
    return labels.astype(np.int64)


def channel_statistics(images: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of x/255 in each channel, exact; a constant channel gets deviation 1."""
    level = np.arange(256) / 255.0
    mean, std = [], []
    for channel in range(images.shape[1]):
        counts = np.zeros(256, np.int64)
        # In blocks: bincount turns bytes into 8-byte integers, too much for a whole large set at once.
        for start in range(0, len(images), 2000):
            counts += np.bincount(images[start : start + 2000, channel].reshape(-1), minlength=256)
        share = counts / counts.sum()
        centre = float(share @ level)
        spread = float(np.sqrt(share @ (level - centre) ** 2))
        mean.append(centre)
        std.append(spread if spread > 1e-9 else 1.0)
    return tuple(mean), tuple(std)


def save_npz(dataset: Dataset, path: Path) -> None:
    """Write the ``.npz`` layout that ``load`` reads back for any image dataset.

    Worth doing once where the published files are slow to parse (FEMNIST's JSON, folders of JPEGs).
    """
    if len(dataset.shape) != 3:
        raise DataError(f"{dataset.name} holds features of shape {dataset.shape}; only images can be written")
    arrays: dict[str, Any] = {
        "x_train": dataset.x_train.transpose(0, 2, 3, 1),
        "y_train": dataset.y_train,
        "x_test": dataset.x_test.transpose(0, 2, 3, 1),
        "y_test": dataset.y_test,
    }
    if dataset.group_train is not None and dataset.group_test is not None:
        arrays |= {"group_train": dataset.group_train, "group_test": dataset.group_test}
    np.savez_compressed(path, **arrays)
