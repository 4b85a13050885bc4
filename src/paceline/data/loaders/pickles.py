"""Reading the pickled CIFAR batches without running what is in them.

A pickle is a program. This reader admits the few names that NumPy arrays need and gives none of them its real
meaning: each stands for an inert object that only remembers its arguments, and the array is then made here,
from the remembered bytes, after its type and size have been checked.

What runs such programs makes room for as many memories as one says it has, and tuples that hold one another, each
twice, take ages to be looked up by. So the program is read first: it may say what picklers write for numbers, texts,
lists and arrays, and remember no more than it has bytes.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.data.archives import read_packed
from paceline.errors import DataError
from paceline.reading import shown


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


MOST_TUPLES = 100
"""Besides those of arguments: an array has four, and one inside of the other a million deep ends the process."""
_TUPLES = {"EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}
_REMEMBER = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}
_RECALL = {"GET", "BINGET", "LONG_BINGET"}
_STRUCTURE = {
    "PROTO", "FRAME", "STOP", "MARK", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD",
    "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "LIST", "APPEND", "APPENDS",
}  # fmt: skip
_VALUES = {
    "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
    "SHORT_BINBYTES", "BINBYTES", "BINBYTES8",
}  # fmt: skip
_SHARED = {"EMPTY_DICT", "DICT", "EMPTY_LIST", "LIST", "GLOBAL", "STACK_GLOBAL", "REDUCE", *_VALUES}
"""What makes something that is no tuple, and so may be recalled as often as a pickler likes."""
_WRITTEN = _STRUCTURE | _VALUES | _TUPLES | _REMEMBER | _RECALL


def _require_plain(program: bytes) -> None:
    """Refuse a pickle that says what none of an array and its labels does, before any of it is carried out."""
    before, made = "", 0
    shared: dict[int, bool] = {}  # by the place of what is remembered
    for operation, argument, _ in pickletools.genops(program):
        name = operation.name
        if name not in _WRITTEN:
            raise _Refused(name)
        if name in _REMEMBER:
            place = len(shared) if name == "MEMOIZE" else int(str(argument))
            if place > len(program):
                raise _Refused(f"{name} {place}")
            shared[place] = before in _SHARED
        elif name != "FRAME":  # what is on top stays the same while it is remembered, or a frame begins
            made += before in _TUPLES and name != "REDUCE"
            if made > MOST_TUPLES or (name in _RECALL and not shared.get(int(str(argument)))):
                raise _Refused(f"{name} of a tuple")
            before = name


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise _Refused(f"{module}.{name}") from None


def read_batch(path: Path, label_key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 3, 32, 32) and labels of one pickled CIFAR batch."""
    try:
        program = read_packed(path)
        _require_plain(program)
        content = _Reader(io.BytesIO(program), encoding="bytes").load()
    except _Refused as refused:
        raise DataError(
            f"{path} is no CIFAR batch: it asks to run {str(refused)[:200]}. Refused; delete it and fetch the"
            " official file"
        ) from None
    except DataError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(
            f"{path} is not a readable CIFAR batch: {type(error).__name__}: {str(error)[:200]}"
        ) from error
    if not isinstance(content, dict):
        raise DataError(f"{path} holds a {type(content).__name__}, not the dictionary of a CIFAR batch")
    named = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in content.items()}
    if "data" not in named or label_key not in named:
        raise DataError(f"{path} lacks 'data' or {label_key!r}; it holds {sorted(map(shown, named))[:10]}")
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
