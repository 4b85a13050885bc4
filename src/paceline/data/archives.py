"""Archives of arrays (``.npz``) and packed files (``.gz``), which may claim to hold anything.

What an array is to be (its type, its shape, and so its bytes) is read from its header and compared with what the
archive holds before memory is asked for. A file may grow when it is unpacked, but not a thousandfold.
"""

from __future__ import annotations

import gzip
import math
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError
from paceline.reading import MIB, read_file, require_file

LARGEST = 64 * 1024 * MIB
"""Bytes of a file of data."""
HARMLESS, GROWTH = 256 * MIB, 100
"""Unpacked, a file may have so many bytes in any case, and so many times its own."""
ARRAYS = 1000
"""Entries of an archive: those that are read are few, and all are listed."""


def read_arrays(path: Path, wanted: Sequence[str], also: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """The wanted arrays of an ``.npz`` file, which must be there, and others if they are; the rest is not read."""
    most = unpacked_limit(require_file(path, LARGEST))
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            names = _named(path, archive)
            missing = [name for name in wanted if name not in names]
            if missing:
                held = ", ".join(sorted(names))[:200]
                raise DataError(f"{path} lacks {', '.join(missing)}; it holds {held}")
            entries = {name: names[name] for name in (*wanted, *also) if name in names}
            _check_sizes(path, entries, most)
            return {name: _read_array(path, archive, entry) for name, entry in entries.items()}
    except DataError:
        raise
    except Exception as problem:  # a damaged archive can fail in any way
        raise DataError(f"{path} is not a readable .npz of plain arrays: {problem}") from problem


def read_packed(path: Path) -> bytes:
    """The contents of a file, unpacked when its name ends in .gz."""
    try:
        size = require_file(path, LARGEST)
        if path.suffix != ".gz":
            return read_file(path, LARGEST)
        most = unpacked_limit(size)
        with gzip.open(path) as file:
            found = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as problem:
        raise DataError(f"{path} cannot be read: {problem}") from problem
    if len(found) > most:
        raise DataError(f"{path} unpacks to more than {most:,} bytes; it is damaged, or made to fill the memory")
    return found


def unpacked_limit(size: int) -> int:
    """The most bytes that a packed file of this size may unpack to."""
    return max(HARMLESS, GROWTH * size)


def _named(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    entries = archive.infolist()
    if len(entries) > ARRAYS:
        raise DataError(f"{path} holds {len(entries):,} arrays; wanted {ARRAYS:,} at most")
    return {entry.filename.removesuffix(".npy"): entry for entry in entries}


def _check_sizes(path: Path, entries: dict[str, zipfile.ZipInfo], most: int) -> None:
    total = sum(entry.file_size for entry in entries.values())
    if total > most:
        raise DataError(
            f"{path} claims to unpack to {total:,} bytes, of which at most {most:,} are read; it is damaged, or made"
            " to fill the memory"
        )


def _read_array(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(entry) as file:
        shape, columns_first, kind = _header(file)
        size = math.prod(shape) * kind.itemsize
        if kind.hasobject or kind.itemsize == 0 or size > entry.file_size:
            raise DataError(
                f"{path}: {entry.filename} says {kind} of shape {shape}, {size:,} bytes, and has {entry.file_size:,};"
                " wanted plain arrays of numbers or texts"
            )
        flat = np.frombuffer(_exactly(file, size), kind)
    return flat.reshape(shape, order="F" if columns_first else "C").copy()


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"an array in format {version}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # about headers that only old versions wrote
        return read[version](file)


def _exactly(file: IO[bytes], size: int) -> bytes:
    found = file.read(size)
    if len(found) != size:
        raise ValueError(f"it ends after {len(found):,} of {size:,} bytes")
    return found
