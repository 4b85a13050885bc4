"""Reading the pickled CIFAR batches without running what is in them.

A pickle is a program. This reader admits the few names that NumPy arrays need and gives none of them its real
meaning: each stands for an inert object that only remembers its arguments, and the array is then made here,
from the remembered bytes, after its type and size have been checked.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.data.archives import read_packed
from paceline.errors import DataError


class _Refused(Exception):
    """The pickle asks for a name that no array needs."""


class _Recorded:
    """Stands for an array or its type while the pickle is read."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Maker:
    """Stands for ``_reconstruct``, ``dtype``, ``ndarray``; no attributes, so nothing can be hung on it."""

    __slots__ = ()

    def __call__(self, *arguments: Any) -> _Recorded:
        return _Recorded(*arguments)


class _Encode:
    """Stands for ``_codecs.encode``, by which Python 3 writes bytes into old pickle formats."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if not isinstance(text, str) or encoding != "latin1":
            raise _Refused(f"encode with {encoding!r}")
        return text.encode("latin1")


_ADMITTED = {
    ("numpy", "ndarray"): _Maker(),
    ("numpy", "dtype"): _Maker(),
    ("numpy.core.multiarray", "_reconstruct"): _Maker(),
    ("numpy._core.multiarray", "_reconstruct"): _Maker(),
    ("_codecs", "encode"): _Encode(),
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise _Refused(f"{module}.{name}") from None


def read_batch(path: Path, label_key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 3, 32, 32) and labels of one pickled CIFAR batch."""
    try:
        content = _Reader(io.BytesIO(read_packed(path)), encoding="bytes").load()
    except _Refused as refused:
        raise DataError(
            f"{path} is no CIFAR batch: it asks to run {refused}. Refused; delete it and fetch the official file"
        ) from None
    except DataError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(f"{path} is not a readable CIFAR batch: {type(error).__name__}: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} holds a {type(content).__name__}, not the dictionary of a CIFAR batch")
    named = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in content.items()}
    if "data" not in named or label_key not in named:
        raise DataError(f"{path} lacks 'data' or {label_key!r}; it holds {sorted(map(str, named))}")
    return _images(named["data"], path), _labels(named[label_key], path)


def _images(recorded: Any, path: Path) -> NDArray[np.uint8]:
    match recorded:
        case _Recorded(state=(_, (int(n), 3072), _Recorded(arguments=(b"u1" | "u1", *_)), False | 0, bytes(raw))):
            if len(raw) == n * 3072:
                return np.frombuffer(raw, np.uint8).reshape(n, 3, 32, 32)
    raise DataError(f"{path}: 'data' is not a uint8 array of shape (n, 3072)")


def _labels(values: Any, path: Path) -> NDArray[np.int64]:
    if not isinstance(values, list) or not all(type(v) is int and 0 <= v < 256 for v in values):
        raise DataError(f"{path}: labels are not a list of small integers")
    return np.array(values, np.int64)
