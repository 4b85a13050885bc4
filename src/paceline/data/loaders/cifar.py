"""CIFAR-10 and CIFAR-100: binary batches, pickled batches, and the JPEG mosaics of a small transfer copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.data.archives import read_arrays, read_packed
from paceline.data.dataset import Dataset, image_dataset
from paceline.data.files import Found, Layout, decode_images, sliced
from paceline.data.loaders.pickles import read_batch
from paceline.errors import DataError

Pair = tuple[NDArray[np.uint8], NDArray[Any]]


def read_binary(path: Path, labels: int) -> Pair:
    """Images and (last) labels of a binary batch: per image ``labels`` label bytes, then 3072 pixels."""
    blob = np.frombuffer(read_packed(path), np.uint8)
    record = labels + 3072
    if not blob.size or blob.size % record:
        raise DataError(f"{path}: {blob.size} bytes is not a whole number of {record}-byte records")
    rows = blob.reshape(-1, record)
    return np.ascontiguousarray(rows[:, labels:]).reshape(-1, 3, 32, 32), rows[:, labels - 1].copy()


def _joined(batches: list[Pair]) -> Pair:
    return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


def _binary(name: str, classes: int, labels: int, folder: str, files: tuple[str, ...]) -> Layout:
    def read(found: Found, _: tuple[float, ...]) -> Dataset:
        *train, test = (read_binary(paths[0], labels) for paths in found)
        return image_dataset(name, _joined(train), test, classes)

    return Layout(folders=(folder, f"{name}/{folder}"), patterns=files, read=read)


def _pickled(name: str, classes: int, key: str, folder: str, files: tuple[str, ...]) -> Layout:
    def read(found: Found, _: tuple[float, ...]) -> Dataset:
        *train, test = (read_batch(paths[0], key) for paths in found)
        return image_dataset(name, _joined(train), test, classes)

    return Layout(folders=(folder, f"{name}/{folder}"), patterns=files, read=read)


def _read_mosaics(found: Found, _: tuple[float, ...]) -> Dataset:
    """Mosaics of 50x50 images at JPEG quality 95: close to CIFAR-10 but not it, so the name says so."""
    path = found[0][0]
    z = read_arrays(path, ("jpeg", "off", "y"))
    sheets = decode_images(sliced(z["jpeg"], z["off"], path), None, str(path))
    if sheets.shape[1:] != (3, 1600, 1600) or len(z["y"]) != 2500 * len(sheets):
        raise DataError(f"{path}: {sheets.shape} is not mosaics of 50x50 images for {len(z['y'])} labels")
    tiles = sheets.reshape(-1, 3, 50, 32, 50, 32).transpose(0, 2, 4, 1, 3, 5).reshape(-1, 3, 32, 32)
    cut = len(tiles) * 5 // 6  # 50,000 of 60,000
    return image_dataset("cifar10-jpeg95", (tiles[:cut], z["y"][:cut]), (tiles[cut:], z["y"][cut:]), 10)


# Named one by one: a pattern would be content with four of the five.
_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")

CIFAR10 = (
    _binary("cifar10", 10, 1, "cifar-10-batches-bin", tuple(f"{batch}.bin" for batch in _BATCHES)),
    _pickled("cifar10", 10, "labels", "cifar-10-batches-py", _BATCHES),
    Layout(folders=("", "cifar10"), patterns=("cifar10_jpeg95.npz",), read=_read_mosaics),
)

CIFAR100 = (
    _binary("cifar100", 100, 2, "cifar-100-binary", ("train.bin", "test.bin")),
    _pickled("cifar100", 100, "fine_labels", "cifar-100-python", ("train", "test")),
)
