"""Several streams of one GPU, for cohorts that cannot share a program and leave it room.

A step of one ResNet-18 is some hundreds of kernels of 2 to 30 microseconds, and few of them fill a large GPU. Steps
of several clients in streams of their own overlap. Every cohort runs the same kernels on the same numbers as it
would alone: only their times change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")

STREAMS = 4
PLENTY = 32 << 30
"""Bytes of memory from which a GPU is lent to several clients at once: each holds the images of a step."""


def streams_of(device: torch.device) -> int:
    """How many streams pay on a device."""
    plenty = device.type == "cuda" and torch.cuda.get_device_properties(device).total_memory >= PLENTY
    return STREAMS if plenty else 1


class Streams:
    """Streams that begin when all work given before is done, and that all later work waits for.

    What a stream allocates is freed for that stream alone, so nothing that the others or the main one still read is
    written over: they have met in between.
    """

    def __init__(self, device: torch.device, count: int) -> None:
        self.device = device
        self.streams: list[Any] = [torch.cuda.Stream(device) for _ in range(count)]  # type: ignore[no-untyped-call]

    def map(self, function: Callable[[int, T], R], items: list[T]) -> list[R]:
        """``function(stream's number, item)`` of every item, the streams taking turns; numbers begin with 1."""
        main = torch.cuda.current_stream(self.device)
        for stream in self.streams:
            stream.wait_stream(main)
        results = []
        try:
            for k, item in enumerate(items):
                place = k % len(self.streams)
                with torch.cuda.stream(self.streams[place]):
                    results.append(function(place + 1, item))
        finally:
            for stream in self.streams:
                main.wait_stream(stream)
        return results
