"""Frames as Flower's records: words as one text, byte strings as named arrays of bytes; never pickles or code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from paceline.errors import WireError
from paceline.worlds.local.frames import MOST_WORDS, Frame

WORDS, BLOBS = "words", "blobs"


def to_records(words: dict[str, Any], blobs: Sequence[bytes] = ()) -> RecordDict:
    """A frame, ready to be sent."""
    arrays = {f"{k:06}": Array(np.frombuffer(blob, np.uint8)) for k, blob in enumerate(blobs)}
    return RecordDict({WORDS: ConfigRecord({"json": json.dumps(words)}), BLOBS: ArrayRecord(arrays)})


def from_records(content: RecordDict, most: int) -> Frame:
    """The frame that came; ``WireError`` for whatever is none, or has more than ``most`` bytes."""
    words, arrays = content.get(WORDS), content.get(BLOBS)
    if not isinstance(words, ConfigRecord) or not isinstance(arrays, ArrayRecord) or len(content) != 2:
        raise WireError(f"a message holds {sorted(content)[:8]}; wanted {WORDS} and {BLOBS}")
    size = sum(len(array.data) for array in arrays.values())
    if size > most:
        raise WireError(f"a message has {size:,} bytes; at most {most:,} are read")
    return Frame(_words(words.get("json")), tuple(_blob(name, array) for name, array in sorted(arrays.items())))


def _words(text: object) -> dict[str, Any]:
    if not isinstance(text, str) or len(text) > MOST_WORDS:
        raise WireError("a message has no words; wanted a JSON text")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError(f"a message's words are no JSON: {text[:80]!r}") from None
    if not isinstance(found, dict):
        raise WireError(f"a message's words are {type(found).__name__}; wanted an object")
    return found


def _blob(name: str, array: Array) -> bytes:
    try:
        found = array.numpy()
    except Exception as problem:  # NumPy fails in any way at a header that is none, or that begins an archive
        raise WireError(f"array {name[:20]!r} of a message cannot be read: {str(problem)[:200]}") from None
    if not isinstance(found, np.ndarray):  # an archive of arrays
        raise WireError(f"array {name[:20]!r} of a message is a {type(found).__name__}; wanted bytes in a row")
    if found.dtype != np.uint8 or found.ndim != 1:
        raise WireError(f"array {name[:20]!r} of a message is {found.dtype} {found.shape}; wanted bytes in a row")
    return found.tobytes()
