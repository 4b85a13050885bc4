"""What a codec is, and the header that every message begins with.

Layout, all little-endian: 4 bytes ``PACE``, the format's version, the codec's code, the numbers' dtype, a zero, and
the number of the model's parameters in 8 bytes; then the payload, whose length the codec and the space tell. So no
length is ever taken from a message: whatever came is compared with what was wanted before it is read.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from paceline.errors import WireError
from paceline.learn.space import Space

MAGIC = b"PACE"
VERSION = 1
FLOAT32 = 1
"""The code of the only dtype that travels."""
_LAYOUT = struct.Struct("<4sBBBBQ")
HEADER = _LAYOUT.size
"""Bytes of a message before its payload; simulations do not charge them."""


class Codec(Protocol):
    """A way to write a flat model; ``context`` are tensors known at both ends, such as a mask."""

    code: ClassVar[int]
    """Its number in a header."""

    def size(self, space: Space) -> int:
        """Bytes of the payload, which are charged: a matter of settings, never of values."""
        ...

    def through(self, x: Tensor, *context: Tensor) -> Tensor:
        """What the receiver of this (P,) vector has: ``decode(encode(x))`` to the last bit, in the vector's own
        precision and on its device. Nothing is checked."""
        ...

    def encode(self, space: Space, x: Tensor, *context: Tensor) -> bytes:
        """The message, ``HEADER + size`` bytes; ``WireError`` for what cannot be told just as ``through`` has it."""
        ...

    def decode(self, space: Space, data: bytes, *context: Tensor) -> Tensor:
        """The (P,) vector of a message, on the CPU; ``WireError`` for anything but what ``encode`` writes."""
        ...


def framed(codec: Codec, space: Space, payload: bytes) -> bytes:
    """A message with this payload."""
    assert len(payload) == codec.size(space), f"{codec} promised {codec.size(space)} bytes and wrote {len(payload)}"
    return _LAYOUT.pack(MAGIC, VERSION, codec.code, FLOAT32, 0, space.size) + payload


def payload_of(codec: Codec, space: Space, data: bytes) -> memoryview:
    """A message's payload, once its header and length are what this codec writes for this space."""
    check_precision(space)
    if len(data) < HEADER:
        raise WireError(f"the message has {len(data)} bytes; wanted a header of {HEADER} first")
    magic, *told = _LAYOUT.unpack_from(data)
    if magic != MAGIC:
        raise WireError(f"the message begins with {magic!r}; wanted {MAGIC!r}")
    wanted = (VERSION, codec.code, FLOAT32, 0, space.size)
    names = ("format version", "codec", "dtype", "padding", "number of parameters")
    for name, came, want in zip(names, told, wanted, strict=True):
        if came != want:
            raise WireError(f"the message's {name} is {came}; wanted {want} ({type(codec).__name__}, {space.name})")
    if len(data) != (length := HEADER + codec.size(space)):
        raise WireError(f"the message has {len(data)} bytes; wanted {length} for {codec} of {space.name}")
    return memoryview(data)[HEADER:]


def check_precision(space: Space) -> None:
    """Refuse to write, or to read, what 4 bytes a number cannot tell exactly."""
    if space.dtype != torch.float32:
        raise WireError(
            f"{space.name} computes in {str(space.dtype).removeprefix('torch.')}, but the wire carries 4 bytes a"
            " number; run with executor.dtype=float32"
        )
