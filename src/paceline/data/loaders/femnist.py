"""FEMNIST as LEAF writes it: JSON files of users; the writer of a character is its group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.data.archives import LARGEST
from paceline.data.dataset import Dataset, image_dataset, whole
from paceline.data.files import Found, Layout
from paceline.errors import DataError
from paceline.reading import read_file

Columns = tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]
"""Images, labels, and the writer of each."""


def _read_file(path: Path) -> Columns:
    try:
        content = json.loads(read_file(path, LARGEST))
        users, sizes, data = content["users"], content["num_samples"], content["user_data"]
        images = [_pixels(data[user]["x"], f"{path}, user {user}") for user in users]
        labels = [whole(np.array(data[user]["y"]), f"{path}, user {user}").reshape(-1) for user in users]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a LEAF file: {type(error).__name__}: {error}") from error
    if len(sizes) != len(users):
        raise DataError(f"{path} names {len(users)} users and {len(sizes)} numbers of samples")
    for user, size, x, y in zip(users, sizes, images, labels, strict=True):
        if not size == len(x) == len(y):
            raise DataError(f"{path}, user {user}: says {size} samples, has {len(x)} images, {len(y)} labels")
    writers = [user for user, y in zip(users, labels, strict=True) for _ in range(len(y))]
    empty = np.empty((0, 1, 28, 28), np.uint8), np.empty(0, np.int64)
    return np.concatenate([empty[0], *images]), np.concatenate([empty[1], *labels]), writers


def _pixels(rows: Any, where: str) -> NDArray[np.uint8]:
    x = np.array(rows, np.float64).reshape(-1, 784)
    good = np.isfinite(x) & (x >= 0) & (x <= 1)
    if not good.all():
        raise DataError(f"{where}: image {np.flatnonzero(~good.all(axis=1))[0]} has pixels outside 0..1")
    # LEAF stores byte/255, so this gives the bytes back exactly.
    return np.rint(x * 255).astype(np.uint8).reshape(-1, 1, 28, 28)


def _read_part(paths: tuple[Path, ...]) -> Columns:
    parts = [_read_file(path) for path in paths]
    writers = [writer for _, _, names in parts for writer in names]
    return np.concatenate([x for x, _, _ in parts]), np.concatenate([y for _, y, _ in parts]), writers


def _read(found: Found, _: tuple[float, ...]) -> Dataset:
    x_train, y_train, train_writers = _read_part(found[0])
    x_test, y_test, test_writers = _read_part(found[1])
    # One numbering for both parts, so that a client finds its own writer's test images.
    group = np.unique(np.array(train_writers + test_writers), return_inverse=True)[1]
    cut = len(train_writers)
    return image_dataset("femnist", (x_train, y_train), (x_test, y_test), 62, (group[:cut], group[cut:]))


FEMNIST = (
    Layout(
        folders=("femnist/data", "femnist", "leaf/data/femnist/data"),
        patterns=("train/*.json", "test/*.json"),
        read=_read,
    ),
)
