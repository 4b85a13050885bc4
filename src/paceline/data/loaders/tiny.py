"""Tiny-ImageNet: 200 classes of 64x64 pictures, as the Stanford course's archive unpacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.data.dataset import Dataset, image_dataset
from paceline.data.files import Found, Layout, decode_images
from paceline.errors import DataError
from paceline.reading import read_text


def _train(folder: Path, wnids: list[str]) -> tuple[list[Path], list[int]]:
    pictures: list[Path] = []
    labels: list[int] = []
    for label, wnid in enumerate(wnids):
        own = sorted((folder / "train" / wnid / "images").glob("*.JPEG"))
        if not own:
            raise DataError(f"{folder / 'train' / wnid / 'images'} has no .JPEG pictures; unpack the archive again")
        pictures += own
        labels += [label] * len(own)
    return pictures, labels


def _validation(table: Path, wnids: list[str]) -> tuple[list[Path], list[int]]:
    number = {wnid: label for label, wnid in enumerate(wnids)}
    try:
        rows = [line.split("\t")[:2] for line in read_text(table).splitlines() if line]
        pairs = [(table.parent / "images" / file, number[wnid]) for file, wnid in rows]
    except (KeyError, ValueError) as error:
        raise DataError(f"{table}: not 'file<TAB>wnid' lines of known classes: {error}") from error
    return [path for path, _ in pairs], [label for _, label in pairs]


def _load(part: tuple[list[Path], list[int]], size: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    pictures, labels = part
    return decode_images(pictures, (size, size), "tiny-imagenet"), np.array(labels, np.int64)


def _read(found: Found, options: tuple[float, ...]) -> Dataset:
    """Train on ``train``, test on ``val``: the archive's own test part has no labels."""
    wnids = sorted(read_text(found[0][0]).split())
    size = int(options[0]) if options else 64
    train = _load(_train(found[0][0].parent, wnids), size)
    test = _load(_validation(found[1][0], wnids), size)
    name = "tiny-imagenet" if size == 64 else f"tiny-imagenet:{size}"
    return image_dataset(name, train, test, len(wnids))


TINY_IMAGENET = (
    Layout(
        folders=("tiny-imagenet-200", "tiny-imagenet/tiny-imagenet-200", "tiny-imagenet"),
        patterns=("wnids.txt", "val/val_annotations.txt"),
        read=_read,
    ),
)
