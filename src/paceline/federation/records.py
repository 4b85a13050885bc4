"""Frames as Flower's records: words as one text, byte strings as named arrays of bytes; never pickles or code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from paceline.errors import WireError
from paceline.reading import MIB, cleaned, parse_object
from paceline.worlds.local.frames import Frame

WORDS, BLOBS = "words", "blobs"
MOST_WORDS = 16 * MIB
"""Most characters of a message's words; most messages have some thousands."""


def to_records(words: dict[str, Any], blobs: Sequence[bytes] = ()) -> RecordDict:
    """A frame, ready to be sent."""
    arrays = {f"{k:06}": Array(np.frombuffer(blob, np.uint8)) for k, blob in enumerate(blobs)}
    return RecordDict({WORDS: ConfigRecord({"json": json.dumps(words)}), BLOBS: ArrayRecord(arrays)})


def from_records(content: RecordDict, most: int) -> Frame:
    """The frame that came; ``WireError`` for whatever is none, or has more than ``most`` bytes."""
    words, arrays = content.get(WORDS), content.get(BLOBS)
    if not isinstance(words, ConfigRecord) or not isinstance(arrays, ArrayRecord) or len(content) != 2:
        raise WireError(f"a message holds {[name[:20] for name in sorted(content)[:8]]}, not {WORDS} and {BLOBS}")
    text = words.get("json")
    if not isinstance(text, str) or len(text) > MOST_WORDS or len(words) != 1:
        raise WireError(f"a message lacks its words, a JSON text of at most {MOST_WORDS:,} letters")
    size = len(text.encode(errors="replace")) + sum(len(name) + len(array.data) for name, array in arrays.items())
    if size > most:
        raise WireError(f"a message has {size:,} bytes; at most {most:,} are read")
    blobs = tuple(_blob(name, array) for name, array in sorted(arrays.items()))
    return Frame(parse_object(text, "a message's text", WireError), blobs)


def _blob(name: str, array: Array) -> bytes:
    try:
        found = array.numpy()
        if found.dtype != np.uint8 or found.ndim != 1:
            raise TypeError(f"it is {found.dtype} {found.shape}")
        return found.tobytes()
    except Exception as problem:  # NumPy fails in any way at a header that is none, or that begins an archive
        raise WireError(f"array {name[:20]!r} of a message holds no bytes: {cleaned(str(problem), 200)}") from None
