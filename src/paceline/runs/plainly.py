"""What a run has learned as plain JSON, exactly: floats by digits that give them back, arrays by their bytes."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import torch

from paceline.errors import DataError
from paceline.learn.job import Score, Spread


class Unkeepable(Exception):
    """A result of a kind that cannot be written down."""


def to_plain(value: Any) -> Any:
    """A value that was learned as JSON has it; ``Unkeepable`` if there is no way to write it.

    >>> to_plain((0.1, [1, None]))
    {'tuple': [0.1, {'list': [1, None]}]}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value if type(value) in (bool, int, float, str, type(None)) else to_plain(_unboxed(value))
    if isinstance(value, Score):
        return {"score": [value.accuracy, value.loss, value.samples]}
    if isinstance(value, Spread):
        return {"spread": [list(value.variance), list(value.distance)]}
    if isinstance(value, tuple) and type(value) is tuple:
        return {"tuple": [to_plain(one) for one in value]}
    if isinstance(value, list):
        return {"list": [to_plain(one) for one in value]}
    if isinstance(value, dict):
        return {"dict": [[to_plain(key), to_plain(one)] for key, one in value.items()]}
    if isinstance(value, torch.Tensor):
        return {"tensor": _array(value.detach().cpu().numpy()), "device": str(value.device)}
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return {"array": _array(np.asarray(value)), "scalar": isinstance(value, np.generic)}
    raise Unkeepable(f"a {type(value).__module__}.{type(value).__name__}")


def from_plain(words: Any) -> Any:
    """The value again.

    >>> from_plain(to_plain({"a": (0.1, 2)}))
    {'a': (0.1, 2)}
    """
    if not isinstance(words, dict):
        return words
    kind = next(iter(words), "")
    given = words.get(kind)
    try:
        match kind:
            case "score":
                accuracy, loss, samples = given  # type: ignore[misc]
                return Score(float(accuracy), float(loss), int(samples))
            case "spread":
                variance, distance = given  # type: ignore[misc]
                return Spread(tuple(map(float, variance)), tuple(map(float, distance)))
            case "tuple":
                return tuple(from_plain(one) for one in given)  # type: ignore[union-attr]
            case "list":
                return [from_plain(one) for one in given]  # type: ignore[union-attr]
            case "dict":
                return {from_plain(key): from_plain(one) for key, one in given}  # type: ignore[union-attr]
            case "tensor":
                return torch.from_numpy(_read_array(given)).to(str(words["device"]))
            case "array":
                array = _read_array(given)
                return array[()] if words["scalar"] else array
    except (TypeError, ValueError, KeyError, OverflowError, RuntimeError, SyntaxError) as problem:
        # SyntaxError: NumPy reads a type with commas in it as Python.
        raise DataError(f"a result that was kept cannot be read ({problem}): {str(words)[:80]}") from None
    raise DataError(f"a result that was kept is of an unknown kind: {str(words)[:80]}")


def _unboxed(value: Any) -> Any:
    """A subclass of a number or a text, such as an enumeration's member, is not the same value as its base."""
    raise Unkeepable(f"a {type(value).__module__}.{type(value).__name__}")


def _array(array: np.ndarray[Any, Any]) -> list[Any]:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return [str(array.dtype), list(array.shape), data]


def _read_array(words: Any) -> np.ndarray[Any, Any]:
    dtype, shape, data = words
    return np.frombuffer(bytearray(base64.b64decode(data, validate=True)), dtype=np.dtype(dtype)).reshape(shape)
