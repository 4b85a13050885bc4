"""Finding and reading dataset files: layouts, archives of arrays, pictures; never code from a file."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.data.archives import read_arrays
from paceline.data.dataset import Dataset, image_dataset
from paceline.errors import DataError
from paceline.reading import expanded

Found = tuple[tuple[Path, ...], ...]
"""For each pattern of a layout, the files that match it."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One way in which a dataset lies on disk."""

    folders: tuple[str, ...]
    """Where to look, relative to the data root (an absolute path stands for itself)."""
    patterns: tuple[str, ...]
    """Glob patterns inside the folder; each must match."""
    read: Callable[[Found, tuple[float, ...]], Dataset]
    """Makes the dataset from what matched and from the numbers after the colon of its name."""

    def find(self, root: Path) -> Found | None:
        """The files of this layout under the root, or None if it is not (all) there."""
        for folder in self.folders:
            found = tuple(tuple(sorted((root / folder).glob(pattern))) for pattern in self.patterns)
            if all(found):
                return found
        return None

    def tried(self, root: Path) -> list[str]:
        """What find looked for, each line marked when a part of it is there."""
        lines = []
        for folder in self.folders:
            there = [any((root / folder).glob(pattern)) for pattern in self.patterns]
            mark = f"   (found {sum(there)} of {len(there)})" if any(there) else ""
            lines.append(f"{root / folder}/{{{', '.join(self.patterns)}}}{mark}")
        return lines


def data_root(root: Path | None = None) -> Path:
    """The given folder, else $PACELINE_DATA, else paceline's folder in the user's cache."""
    if root is not None:
        return Path(root)
    if named := os.environ.get("PACELINE_DATA"):
        return expanded(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "paceline"


def channels_first(images: NDArray[Any], path: Path) -> NDArray[np.uint8]:
    """uint8 (n, h, w) or (n, h, w, c) as contiguous (n, c, h, w)."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] > 4):
        raise DataError(
            f"{path}: images are {images.dtype} {images.shape}; wanted uint8 (n, height, width[, channels])"
        )
    if images.ndim == 3:
        images = images[..., None]
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def sliced(blob: NDArray[np.uint8], offsets: NDArray[Any], path: Path) -> list[bytes]:
    """The byte strings that ``offsets`` cuts out of one long array."""
    if len(offsets) < 2 or offsets[0] < 0 or (np.diff(offsets) < 0).any() or offsets[-1] > len(blob):
        raise DataError(f"{path}: offsets do not rise from 0 to the {len(blob)} bytes that are there")
    return [blob[a:b].tobytes() for a, b in pairwise(offsets)]


def decode_images(sources: Sequence[Path | bytes], size: tuple[int, int] | None, where: str) -> NDArray[np.uint8]:
    """Decode pictures to RGB (n, 3, height, width), resized to (height, width) when a size is given."""
    if not sources:
        raise DataError(f"{where}: no pictures to decode")
    first = _decode((sources[0], size, f"{where}, picture 0"))
    images = np.empty((len(sources), *first.shape), np.uint8)
    jobs = ((source, size, f"{where}, picture {i}") for i, source in enumerate(sources))
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow decodes without the interpreter lock
        for i, image in enumerate(pool.map(_decode, jobs)):
            if image.shape != first.shape:
                raise DataError(f"{where}: picture {i} is {image.shape}, the first is {first.shape}")
            images[i] = image
    return images


def _decode(job: tuple[Path | bytes, tuple[int, int] | None, str]) -> NDArray[np.uint8]:
    source, size, where = job
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(f"{where}: needs Pillow; install the extra `images`; see docs/install.md") from error
    where = str(source) if isinstance(source, Path) else where
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            if size is not None:
                # A JPEG can be decoded at a fraction of its size; twice the target keeps the resampling good.
                image.draft("RGB", (2 * size[1], 2 * size[0]))
            picture = image.convert("RGB")
        if size is not None and picture.size != (size[1], size[0]):
            picture = picture.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    except Exception as error:  # a damaged picture can fail in any way, and one of a gigapixel is refused
        raise DataError(f"{where}: not a readable picture: {error}") from error
    return np.asarray(picture, np.uint8).transpose(2, 0, 1)


def md5(path: Path) -> str:
    """The MD5 of a file: what the publishers print; it tells damage, not malice."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def npz_layout(name: str, classes: int) -> Layout:
    """The layout of ``NAME.npz``: x_train, y_train, x_test, y_test, perhaps group_train, group_test."""

    def read(found: Found, _: tuple[float, ...]) -> Dataset:
        return from_arrays(name, classes, found[0][0])

    return Layout(folders=("", name), patterns=(f"{name}.npz",), read=read)


def from_arrays(name: str, classes: int, path: Path) -> Dataset:
    """Read an image dataset from the common ``.npz`` layout (images with channels last)."""
    z: Mapping[str, NDArray[Any]] = read_arrays(
        path, ("x_train", "y_train", "x_test", "y_test"), ("group_train", "group_test")
    )
    groups = (z["group_train"], z["group_test"]) if {"group_train", "group_test"} <= set(z) else None
    return image_dataset(
        name,
        (channels_first(z["x_train"], path), z["y_train"].reshape(-1)),
        (channels_first(z["x_test"], path), z["y_test"].reshape(-1)),
        classes,
        groups,
    )
