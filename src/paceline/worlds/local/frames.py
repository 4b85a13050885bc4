"""What travels between the orchestrator and its workers: a JSON object and byte strings, never pickles or code."""

from __future__ import annotations

import io
import json
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from paceline.errors import WireError

_HEAD = struct.Struct("<4sIQ")
MAGIC = b"PLF1"
MOST_WORDS = 1 << 28
MOST_BYTES = 1 << 36
"""Lengths above these are not believed."""


class Frame(NamedTuple):
    """One message: words and the byte strings that they speak of."""

    words: dict[str, Any]
    blobs: tuple[bytes, ...] = ()


class Source(Protocol):
    """Where bytes come from, as a socket gives them: at most so many at once, and none at the end."""

    def recv(self, count: int, /) -> bytes:
        """Some of the next bytes."""
        ...


class _Kept:
    """A byte string as a source."""

    def __init__(self, data: bytes) -> None:
        self.recv = io.BytesIO(data).read


def write(connection: socket.socket, words: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Send one frame as a whole: its words and its blobs."""
    for part in _parts(words, blobs):
        connection.sendall(part)


def packed(frame: Frame) -> bytes:
    """One frame as bytes, for a file."""
    return b"".join(_parts(frame.words, frame.blobs))


def unpacked(data: bytes) -> Frame | None:
    """The frame that a file holds; None if it was not written to its end."""
    return read(_Kept(data))


def _parts(words: dict[str, Any], blobs: Sequence[bytes]) -> Iterator[bytes]:
    text = json.dumps({**words, "blobs": [len(blob) for blob in blobs]}).encode()
    yield _HEAD.pack(MAGIC, len(text), sum(map(len, blobs))) + text
    yield from blobs


def read(connection: Source) -> Frame | None:
    """The next frame; None where the other end has closed."""
    head = _exactly(connection, _HEAD.size)
    if head is None:
        return None
    magic, words, total = _HEAD.unpack(head)
    if magic != MAGIC or words > MOST_WORDS or total > MOST_BYTES:
        raise WireError(f"a frame begins with {head[:8]!r}; wanted {MAGIC!r} and lengths within bounds")
    text = _exactly(connection, words)
    if text is None:
        return None
    told, lengths = _told(text)
    if sum(lengths) != total:
        raise WireError(f"a frame announces {total} bytes and lists {sum(lengths)}")
    blobs = []
    for length in lengths:
        blob = _exactly(connection, length)
        if blob is None:
            return None
        blobs.append(blob)
    return Frame(told, tuple(blobs))


def _told(text: bytes) -> tuple[dict[str, Any], list[int]]:
    """Words, and the lengths of the byte strings that follow them."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError(f"a frame's words are no JSON: {text[:80]!r}") from None
    lengths = told.pop("blobs", None) if isinstance(told, dict) else None
    if not isinstance(lengths, list) or not all(type(one) is int and one >= 0 for one in lengths):
        raise WireError(f"a frame's words are {text[:80]!r}; wanted an object with the lengths of its blobs")
    return told, lengths


def _exactly(connection: Source, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        try:
            part = connection.recv(min(count - len(parts), 1 << 20))
        except OSError:
            return None
        if not part:
            return None
        parts += part
    return bytes(parts)
