"""MNIST and Fashion-MNIST: idx files, plain or gzipped, as LeCun published them."""

from __future__ import annotations

import hashlib
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.data.archives import read_packed
from paceline.data.dataset import Dataset, image_dataset
from paceline.data.files import Found, Layout, channels_first
from paceline.errors import DataError

# Some copies write a dot where the original has a dash.
_PATTERNS = tuple(
    f"{part}-{what}[-.]idx{axes}-ubyte*"
    for part in ("train", "t10k")
    for what, axes in (("images", 3), ("labels", 1))
)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array in one idx file of unsigned bytes."""
    blob = read_packed(path)
    if len(blob) < 4 or blob[:3] != b"\0\0\x08":
        raise DataError(f"{path}: not an idx file of unsigned bytes (it starts with {blob[:4]!r})")
    axes = blob[3]
    if len(blob) < 4 + 4 * axes:
        raise DataError(f"{path}: ends within its header")
    shape = struct.unpack(f">{axes}I", blob[4 : 4 + 4 * axes])
    body = np.frombuffer(blob, np.uint8, offset=4 + 4 * axes)
    if body.size != math.prod(shape):
        raise DataError(f"{path}: header says {shape}, but {body.size} bytes follow; fetch it again")
    return body.reshape(shape)


def idx_digest(array: NDArray[Any]) -> str:
    """The MD5 that the unpacked idx file of this array has, whatever layout it was read from."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return hashlib.md5(header + array.astype(np.uint8).tobytes(), usedforsecurity=False).hexdigest()


def idx_layout(name: str, folders: tuple[str, ...]) -> Layout:
    """The four idx files in one of these folders."""

    def read(found: Found, _: tuple[float, ...]) -> Dataset:
        x_train, y_train, x_test, y_test = (read_idx(paths[0]) for paths in found)
        where = found[0][0]
        train = channels_first(x_train, where), y_train
        return image_dataset(name, train, (channels_first(x_test, where), y_test), 10)

    return Layout(folders=folders, patterns=_PATTERNS, read=read)
